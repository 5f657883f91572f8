/* Sharded layers at this number of ranks against one rank's plain arithmetic. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <string.h>
#include <tpcl/linear.h>
#include <tpcl/vocab.h>

#include "base/dtype.h"
#include "ops/ops.h"
#include "tpcl_test.h"

static tpcl_group *group;
static int rank, size;

static int open_group(void **state)
{
    (void)state;
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 30};
    const tpcl_status status = tpcl_group_create(MPI_COMM_WORLD, &options, &group);
    if (status != TPCL_OK) {
        print_error("group: %s\n", tpcl_last_error());
        return -1;
    }
    rank = tpcl_group_rank(group);
    size = tpcl_group_size(group);
    return 0;
}

static int close_group(void **state)
{
    (void)state;
    tpcl_group_destroy(&group);
    return 0;
}

static tpcl_tensor *tensor_of(const void *values, tpcl_dtype dtype, int64_t n)
{
    tpcl_tensor *t = NULL;
    assert_ok(tpcl_tensor_create(tpcl_group_device(group), dtype, 1, &n, &t));
    float *nan = malloc((size_t)n * sizeof *nan + 1);
    for (int64_t i = 0; i < n; i++) nan[i] = NAN;
    assert_ok(tpcl_tensor_write(t, values ? values : nan, (size_t)n));
    free(nan);
    return t;
}

static tpcl_host_tensor matrix(const char *name, const float *data, int64_t out, int64_t in)
{
    return (tpcl_host_tensor){
        .name = name, .dtype = TPCL_F32, .ndim = 2, .shape = {out, in}, .data = data};
}

static tpcl_host_tensor vector(const char *name, const float *data, int64_t n)
{
    return (tpcl_host_tensor){
        .name = name, .dtype = TPCL_F32, .ndim = 1, .shape = {n}, .data = data};
}

/* DESIGN's worked numbers: vocabulary 4 x 2 filled 1..8, tokens [1, 3]; at 2 ranks rank 0
 * contributes [[3,4],[0,0]], rank 1 [[0,0],[7,8]]. */
static void embedding_worked_numbers(void **state)
{
    (void)state;
    static const float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t tokens[2] = {1, 3};
    static const float sum[4] = {3, 4, 7, 8}, part[2][4] = {{3, 4, 0, 0}, {0, 0, 7, 8}};
    const tpcl_host_tensor w = matrix("embed", table, 4, 2);
    float got[4];
    tpcl_embedding *e = NULL;
    assert_ok(tpcl_embedding_create(group, &w, NULL, &e));
    tpcl_tensor *ids = tensor_of(tokens, TPCL_I32, 2), *y = tensor_of(NULL, TPCL_F32, 4);
    assert_ok(tpcl_embedding_partial(e, ids, y, 2));
    assert_ok(tpcl_tensor_read(y, got, 4));
    if (size == 2) assert_memory_equal(got, part[rank], sizeof got);
    assert_ok(tpcl_embedding_forward(e, ids, y, 2));
    assert_ok(tpcl_tensor_read(y, got, 4));
    assert_memory_equal(got, sum, sizeof got);
    tpcl_tensor_destroy(&ids);
    tpcl_tensor_destroy(&y);
    tpcl_embedding_destroy(&e);
}

/* Vocabularies that nothing divides, some smaller than the group: every id, exactly; and the head
 * tied to the same rows, its logits in the one-device order. */
static void vocabulary_of_any_size(void **state)
{
    (void)state;
    static const int vocabs[] = {1, 3, 5, 10, 37, 151};
    enum { DIM = 33, ROWS = 18 }; /* more rows than the head's batch of 16 */
    for (size_t v = 0; v < COUNT(vocabs); v++) {
        const int vocab = vocabs[v];
        float *table = malloc((size_t)vocab * DIM * sizeof *table),
              *x = malloc(ROWS * DIM * sizeof *x);
        float *want = malloc((size_t)vocab * ROWS * sizeof *want);
        float *got = malloc((size_t)(vocab > ROWS ? vocab : ROWS) * ROWS * DIM * sizeof *got);
        int32_t *all = malloc((size_t)vocab * sizeof *all);
        fill(table, (size_t)vocab * DIM, 5);
        fill(x, ROWS * DIM, 7);
        for (int i = 0; i < vocab; i++) all[i] = vocab - 1 - i;
        const tpcl_host_tensor w = matrix("embed", table, vocab, DIM);
        tpcl_embedding *e = NULL;
        tpcl_lm_head *head = NULL;
        assert_ok(tpcl_embedding_create(group, &w, NULL, &e));
        assert_ok(tpcl_lm_head_create(group, NULL, e, NULL, &head));
        tpcl_tensor *ids = tensor_of(all, TPCL_I32, vocab),
                    *y = tensor_of(NULL, TPCL_F32, (int64_t)vocab * DIM);
        assert_ok(tpcl_embedding_forward(e, ids, y, vocab));
        assert_ok(tpcl_tensor_read(y, got, (size_t)vocab * DIM));
        for (int i = 0; i < vocab; i++)
            assert_memory_equal(got + i * DIM, table + (vocab - 1 - i) * DIM, DIM * sizeof *got);

        tpcl_tensor *dx = tensor_of(x, TPCL_F32, ROWS * DIM);
        tpcl_ref_linear(x, table, NULL, want, ROWS, vocab, DIM);
        assert_ok(tpcl_lm_head_forward(head, dx, 0, ROWS, got));
        if (rank == 0) assert_close(got, want, (size_t)vocab * ROWS, 1e-5, 1e-5);
        assert_ok(tpcl_lm_head_forward(head, dx, ROWS - 1, 1, got)); /* the last position alone */
        if (rank == 0) assert_close(got, want + (ROWS - 1) * vocab, (size_t)vocab, 1e-5, 1e-5);
        tpcl_tensor_destroy(&ids);
        tpcl_tensor_destroy(&y);
        tpcl_tensor_destroy(&dx);
        tpcl_lm_head_destroy(&head);
        tpcl_embedding_destroy(&e);
        free(table);
        free(x);
        free(want);
        free(got);
        free(all);
    }
}

/* The rows of a layer whose row i is the constant i, as its outputs for x = 1 show them. */
static void row_numbers(tpcl_linear *l, int in, float *got)
{
    float ones[8];
    for (int i = 0; i < in; i++) ones[i] = 1.0f / (float)in;
    const int n = tpcl_linear_out(l);
    tpcl_tensor *x = tensor_of(ones, TPCL_F32, in), *y = tensor_of(NULL, TPCL_F32, n);
    assert_ok(tpcl_linear_forward(l, x, y, 1));
    assert_ok(tpcl_tensor_read(y, got, (size_t)n));
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&y);
}

static void constant_rows(float *w, int first, int rows, int in)
{
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < in; i++) w[r * in + i] = (float)(first + r);
}

/* heads 4, kv 2, head_dim 2: q rows 0-7, k 8-11, v 12-15. Order, not sets: [q | k | v]. */
static void qkv_keeps_the_order_of_its_parts(void **state)
{
    (void)state;
    enum { IN = 4 };
    float q[8 * IN], k[4 * IN], v[4 * IN], got[16];
    constant_rows(q, 0, 8, IN);
    constant_rows(k, 8, 4, IN);
    constant_rows(v, 12, 4, IN);
    const tpcl_host_tensor tq = matrix("q", q, 8, IN), tk = matrix("k", k, 4, IN),
                           tv = matrix("v", v, 4, IN);
    tpcl_head_range heads[16];
    tpcl_range q_rows[16], kv_rows[16];
    assert_ok(tpcl_shard_heads(4, 2, 1, size, NULL, 0, heads));
    for (int r = 0; r < size; r++) {
        q_rows[r] = (tpcl_range){heads[r].q.begin * 2, heads[r].q.end * 2};
        kv_rows[r] = (tpcl_range){heads[r].kv.begin * 2, heads[r].kv.end * 2};
    }
    const tpcl_linear_part parts[3] = {
        {&tq, NULL, q_rows}, {&tk, NULL, kv_rows}, {&tv, NULL, kv_rows}};
    tpcl_linear *l = NULL;
    assert_ok(tpcl_column_linear_create(group, parts, 3, &l));
    row_numbers(l, IN, got);
    int at = 0;
    for (int64_t i = q_rows[rank].begin; i < q_rows[rank].end; i++)
        assert_true(got[at++] == (float)i);
    for (int64_t i = kv_rows[rank].begin; i < kv_rows[rank].end; i++)
        assert_true(got[at++] == (float)(8 + i));
    for (int64_t i = kv_rows[rank].begin; i < kv_rows[rank].end; i++)
        assert_true(got[at++] == (float)(12 + i));
    assert_int_equal(at, tpcl_linear_out(l));
    static const float two[2][8] = {{0, 1, 2, 3, 8, 9, 12, 13}, {4, 5, 6, 7, 10, 11, 14, 15}};
    if (size == 2) assert_memory_equal(got, two[rank], sizeof two[0]);
    tpcl_linear_destroy(&l);
}

/* gate rows 0-5, up rows 6-11: at 2 ranks {0,1,2,6,7,8} and {3,4,5,9,10,11}. */
static void merged_column_takes_the_same_rows_of_each(void **state)
{
    (void)state;
    enum { IN = 4 };
    float gate[6 * IN], up[6 * IN], got[12];
    constant_rows(gate, 0, 6, IN);
    constant_rows(up, 6, 6, IN);
    const tpcl_host_tensor tg = matrix("gate", gate, 6, IN), tu = matrix("up", up, 6, IN);
    const tpcl_linear_part parts[2] = {{&tg, NULL, NULL}, {&tu, NULL, NULL}};
    tpcl_range rows[16];
    tpcl_linear *l = NULL;
    assert_ok(tpcl_column_linear_create(group, parts, 2, &l));
    assert_ok(tpcl_shard_split(6, 1, size, NULL, 0, rows));
    row_numbers(l, IN, got);
    const int64_t n = tpcl_range_size(rows[rank]);
    for (int64_t i = 0; i < n; i++) {
        assert_true(got[i] == (float)(rows[rank].begin + i));
        assert_true(got[n + i] == (float)(6 + rows[rank].begin + i));
    }
    static const float two[2][6] = {{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}};
    if (size == 2) assert_memory_equal(got, two[rank], sizeof two[0]);
    tpcl_linear_destroy(&l);
}

/* W = [[1,2],[3,4]], x = [1,1], b = [10,20]: [13,27]; [23,47] is the bias added by both ranks. */
static void row_bias_is_added_once(void **state)
{
    (void)state;
    static const float w[4] = {1, 2, 3, 4}, b[2] = {10, 20}, want[2] = {13, 27}, ones[2] = {1, 1};
    const tpcl_host_tensor tw = matrix("w", w, 2, 2), tb = vector("b", b, 2);
    float got[2];
    tpcl_linear *l = NULL;
    assert_ok(tpcl_row_linear_create(group, &tw, &tb, NULL, &l));
    tpcl_tensor *x = tensor_of(ones, TPCL_F32, 2), *y = tensor_of(NULL, TPCL_F32, 2);
    assert_ok(tpcl_linear_forward(l, x, y, 1));
    assert_ok(tpcl_tensor_read(y, got, 2));
    assert_memory_equal(got, want, sizeof got);
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&y);
    tpcl_linear_destroy(&l);
}

struct row_case {
    const char *name;
    tpcl_dtype dtype;
    int tokens, out, in;
    tpcl_range first_cut; /* rank 0's columns; empty = the default split */
};
static const struct row_case row_cases[] = {
    {"row_f32_prime", TPCL_F32, 3, 17, 101, {0, 0}},
    {"row_fewer_columns_than_ranks", TPCL_F32, 2, 5, 2, {0, 0}},
    {"row_q8_three_blocks", TPCL_Q8_0, 2, 19, 96, {0, 0}}, /* 64 + 32 at 2 ranks, one idle at 4 */
    {"row_q4_blocks", TPCL_Q4_1, 33, 20, 128, {0, 0}},
    {"row_q4_cut_in_a_block", TPCL_Q4_1, 2, 20, 128, {0, 40}}, /* widened to f32 */
};

/* Each rank gets its columns of x; the sum must be the whole product, the same bits everywhere. */
static void row_matches_one_rank(void **state)
{
    const struct row_case *c = *state;
    const size_t weights = (size_t)c->out * (size_t)c->in,
                 outputs = (size_t)c->tokens * (size_t)c->out;
    float *values = malloc(weights * sizeof *values), *wide = malloc(weights * sizeof *wide);
    uint8_t *stored = malloc(weights * 4);
    float *x = malloc((size_t)c->tokens * (size_t)c->in * sizeof *x),
          *mine = malloc((size_t)c->tokens * (size_t)c->in * sizeof *x);
    float *want = malloc(outputs * sizeof *want), *got = malloc(outputs * sizeof *got);
    fill(values, weights, 3);
    fill(x, (size_t)c->tokens * (size_t)c->in, 9);
    memcpy(stored, values, weights * 4);
    const size_t step = (size_t)tpcl_dtype_block_bytes(c->dtype);
    for (size_t b = 0; c->dtype != TPCL_F32 && b < weights / 32; b++) {
        const uint16_t d = tpi_float_to_half(0.02f), m = tpi_float_to_half(-0.15f);
        memcpy(stored + b * step, &d, 2);
        if (c->dtype == TPCL_Q4_1) memcpy(stored + b * step + 2, &m, 2);
    }
    tpi_widen(c->dtype, stored, weights, wide);
    tpcl_ref_linear(x, wide, NULL, want, c->tokens, c->out, c->in);

    tpcl_host_tensor w = matrix(c->name, values, c->out, c->in);
    w.dtype = c->dtype;
    w.data = stored;
    tpcl_range columns[16];
    assert_ok(tpcl_shard_split(c->in, tpcl_dtype_block(c->dtype), size, NULL, 0, columns));
    const bool own_cut = c->first_cut.end > 0 && size > 1;
    if (own_cut) {
        columns[0] = c->first_cut;
        columns[1] = (tpcl_range){c->first_cut.end, c->in};
        for (int r = 2; r < size; r++) columns[r] = (tpcl_range){c->in, c->in};
    }
    tpcl_linear *l = NULL;
    assert_ok(tpcl_row_linear_create(group, &w, NULL, own_cut ? columns : NULL, &l));
    const int64_t k = tpcl_range_size(columns[rank]);
    assert_int_equal(tpcl_linear_in(l), k);
    for (int t = 0; t < c->tokens; t++)
        memcpy(mine + t * k, x + (int64_t)t * c->in + columns[rank].begin, (size_t)k * sizeof *x);
    tpcl_tensor *dx = tensor_of(mine, TPCL_F32, k * c->tokens),
                *dy = tensor_of(NULL, TPCL_F32, (int64_t)outputs);
    assert_ok(tpcl_linear_forward(l, dx, dy, c->tokens));
    assert_ok(tpcl_tensor_read(dy, got, outputs));
    assert_close(got, want, outputs, 1e-5, 4e-5);
    float *first = malloc(outputs * sizeof *first);
    memcpy(first, got, outputs * sizeof *first);
    assert_int_equal(MPI_Bcast(first, (int)outputs, MPI_FLOAT, 0, MPI_COMM_WORLD), MPI_SUCCESS);
    assert_memory_equal(first, got, outputs * sizeof *first);
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
    tpcl_linear_destroy(&l);
    free(values);
    free(wide);
    free(stored);
    free(x);
    free(mine);
    free(want);
    free(got);
    free(first);
}

static void replicated_holds_everything(void **state)
{
    (void)state;
    enum { OUT = 7, IN = 13 };
    float w[OUT * IN], b[OUT], x[IN], want[OUT], got[OUT];
    fill(w, OUT * IN, 1);
    fill(b, OUT, 2);
    fill(x, IN, 3);
    tpcl_ref_linear(x, w, b, want, 1, OUT, IN);
    const tpcl_host_tensor tw = matrix("w", w, OUT, IN), tb = vector("b", b, OUT);
    tpcl_linear *l = NULL;
    assert_ok(tpcl_replicated_linear_create(group, &tw, &tb, &l));
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, IN), *dy = tensor_of(NULL, TPCL_F32, OUT);
    assert_ok(tpcl_linear_forward(l, dx, dy, 1));
    assert_ok(tpcl_tensor_read(dy, got, OUT));
    assert_close(got, want, OUT, 1e-5, 1e-5);
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
    tpcl_linear_destroy(&l);
}

static void column_bias_follows_its_rows(void **state)
{
    (void)state;
    enum { OUT = 11, IN = 4 };
    float w[OUT * IN] = {0}, b[OUT], got[OUT];
    for (int i = 0; i < OUT; i++) b[i] = (float)i + 0.5f;
    const tpcl_host_tensor tw = matrix("w", w, OUT, IN), tb = vector("b", b, OUT);
    const tpcl_linear_part part = {&tw, &tb, NULL};
    tpcl_range rows[16];
    tpcl_linear *l = NULL;
    assert_ok(tpcl_column_linear_create(group, &part, 1, &l));
    assert_ok(tpcl_shard_split(OUT, 1, size, NULL, 0, rows));
    row_numbers(l, IN, got);
    for (int64_t i = rows[rank].begin; i < rows[rank].end; i++)
        assert_true(got[i - rows[rank].begin] == b[i]);
    tpcl_linear_destroy(&l);
}

/* Last in the list: afterwards the group has failed. Rank size-1 brings a tensor that is too small;
 * all ranks must return from the collective with an error that names it, and at once. */
static void one_rank_failing_ends_the_call_on_all(void **state)
{
    (void)state;
    static const float w[4] = {1, 2, 3, 4}, ones[2] = {1, 1};
    const tpcl_host_tensor tw = matrix("w", w, 2, 2);
    tpcl_linear *l = NULL;
    assert_ok(tpcl_row_linear_create(group, &tw, NULL, NULL, &l));
    tpcl_tensor *x = tensor_of(ones, TPCL_F32, 2), *y = tensor_of(NULL, TPCL_F32, 2);
    tpcl_tensor *small = tensor_of(ones, TPCL_F32, 1);
    const bool bad = rank == size - 1;
    const tpcl_status status = tpcl_linear_forward(l, x, bad ? small : y, 1);
    assert_int_equal(status, bad ? TPCL_ERR_SHAPE : TPCL_ERR_PEER);
    assert_non_null(strstr(tpcl_last_error(), "linear y"));
    if (size > 1) {
        int who = -1;
        tpcl_status code = TPCL_OK;
        assert_true(tpcl_comm_failed(tpcl_group_comm(group), &who, &code));
        assert_int_equal(who, size - 1);
        assert_int_equal(code, TPCL_ERR_SHAPE);
        assert_int_equal(tpcl_linear_forward(l, x, y, 1), TPCL_ERR_GROUP_FAILED);
    }
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&y);
    tpcl_tensor_destroy(&small);
    tpcl_linear_destroy(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(embedding_worked_numbers),
        cmocka_unit_test(vocabulary_of_any_size),
        cmocka_unit_test(qkv_keeps_the_order_of_its_parts),
        cmocka_unit_test(merged_column_takes_the_same_rows_of_each),
        cmocka_unit_test(row_bias_is_added_once),
        cmocka_unit_test(replicated_holds_everything),
        cmocka_unit_test(column_bias_follows_its_rows),
    };
    struct CMUnitTest tests[COUNT(plain) + COUNT(row_cases) + 1];
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    memcpy(tests, plain, sizeof plain);
    for (size_t i = 0; i < COUNT(row_cases); i++)
        tests[COUNT(plain) + i] = (struct CMUnitTest){.name = row_cases[i].name,
                                                      .test_func = row_matches_one_rank,
                                                      .initial_state = (void *)&row_cases[i]};
    tests[COUNT(tests) - 1] =
        (struct CMUnitTest)cmocka_unit_test(one_rank_failing_ends_the_call_on_all);
    int failed = cmocka_run_group_tests_name("layers/layers", tests, open_group, close_group),
        any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
