/* The q, k, v projection: order of its rows, replicated kv heads, three ways to store it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "layers_test.h"

enum { IN = 32, MOST_ROWS = 512 };

struct qkv_case {
    const char *name;
    int heads, kv_heads, head_dim, v_head_dim;
};
static const struct qkv_case cases[] = {
    {"c05_4_q_2_kv", 4, 2, 2, 0},
    {"c04_8_q_2_kv", 8, 2, 4, 0}, /* at 4 ranks each kv head twice, at 3 one of them */
    {"c04_8_q_1_kv", 8, 1, 4, 0}, /* every rank stores it */
    {"c04_9_q_3_kv", 9, 3, 8, 0}, /* SmolLM2: 5 and 4 q heads at 2 ranks */
    {"fewer_heads_than_ranks", 2, 2, 3, 0},
    {"one_head", 1, 1, 5, 0},
    {"narrow_v", 6, 3, 8, 3},
    {"wide_v", 4, 4, 3, 7},
    {"long_heads", 3, 1, 80, 0},
};

/* How the tensor lies in the checkpoint. */
enum storage { SEPARATE, STACKED, BY_KV_HEAD, STORAGES };

struct shape {
    int v_dim, q, k, v, rows; /* rows of each, and of all */
};

static struct shape shape_of(const struct qkv_case *c)
{
    struct shape s = {.v_dim = c->v_head_dim ? c->v_head_dim : c->head_dim};
    s.q = c->heads * c->head_dim;
    s.k = c->kv_heads * c->head_dim;
    s.v = c->kv_heads * s.v_dim;
    s.rows = s.q + s.k + s.v;
    return s;
}

/* Where row i of [q | k | v] lies in a tensor by kv head, by counting its pieces off. */
static void order_by_kv_head(const struct qkv_case *c, int *place)
{
    const struct shape s = shape_of(c);
    const int group_rows = c->heads / c->kv_heads * c->head_dim;
    int at = 0;
    for (int g = 0; g < c->kv_heads; g++) {
        for (int i = 0; i < group_rows; i++) place[g * group_rows + i] = at++;
        for (int i = 0; i < c->head_dim; i++) place[s.q + g * c->head_dim + i] = at++;
        for (int i = 0; i < s.v_dim; i++) place[s.q + s.k + g * s.v_dim + i] = at++;
    }
    assert_int_equal(at, s.rows);
}

/* The rows of [q | k | v] that a rank must have, in order. Returns how many. */
static int rows_of(const struct qkv_case *c, tpcl_head_range mine, int *rows)
{
    const struct shape s = shape_of(c);
    int n = 0;
    for (int64_t i = mine.q.begin * c->head_dim; i < mine.q.end * c->head_dim; i++)
        rows[n++] = (int)i;
    for (int64_t i = mine.kv.begin * c->head_dim; i < mine.kv.end * c->head_dim; i++)
        rows[n++] = s.q + (int)i;
    for (int64_t i = mine.kv.begin * s.v_dim; i < mine.kv.end * s.v_dim; i++)
        rows[n++] = s.q + s.k + (int)i;
    return n;
}

/* Stored rows [q | k | v] in another order: row i goes to place[i]. */
static uint8_t *reorder(const uint8_t *stored, size_t row_bytes, int rows, const int *place)
{
    uint8_t *out = malloc((size_t)rows * row_bytes);
    for (int i = 0; i < rows; i++)
        memcpy(out + (size_t)place[i] * row_bytes, stored + (size_t)i * row_bytes, row_bytes);
    return out;
}

/* The layer's answer for two tokens against the whole product's, row by row. */
static void check_layer(tpcl_linear *l, const table *t, const float *bias, const int *rows, int n)
{
    enum { TOKENS = 2 };
    const int all = (int)t->host.shape[0];
    float *x = random_floats(TOKENS * IN, 5), *got = malloc((size_t)n * TOKENS * sizeof *got + 1);
    float *want = malloc((size_t)all * TOKENS * sizeof *want);
    tpcl_ref_linear(x, t->wide, bias, want, TOKENS, all, IN);
    assert_int_equal(tpcl_linear_out(l), n);
    assert_int_equal(tpcl_linear_out_total(l), all);
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, TOKENS * IN),
                *dy = tensor_of(NULL, TPCL_F32, TOKENS * (int64_t)n);
    assert_ok(tpcl_linear_forward(l, dx, dy, TOKENS));
    assert_ok(tpcl_tensor_read(dy, got, (size_t)n * TOKENS));
    for (int token = 0; token < TOKENS; token++)
        for (int i = 0; i < n; i++)
            assert_close(got + token * n + i, want + (size_t)token * (size_t)all + rows[i], 1, 1e-5,
                         3e-5);
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
    free(x);
    free(got);
    free(want);
}

/* All of it in one storage order, read through a callback that counts. */
static void check_storage(const struct qkv_case *c, const table *t, const float *bias,
                          enum storage how, tpcl_head_range mine)
{
    const struct shape s = shape_of(c);
    const size_t row = tpi_dtype_bytes(t->host.dtype, IN);
    int place[MOST_ROWS], rows[MOST_ROWS];
    float fused_bias[MOST_ROWS];
    for (int i = 0; i < s.rows; i++) place[i] = i;
    if (how == BY_KV_HEAD) order_by_kv_head(c, place);
    for (int i = 0; i < s.rows; i++) fused_bias[place[i]] = bias[i];
    uint8_t *stored = reorder(t->stored, row, s.rows, place);

    tpcl_host_tensor part[3] = {t->host, t->host, t->host}, whole = t->host;
    const int first[3] = {0, s.q, s.q + s.k}, count[3] = {s.q, s.k, s.v};
    source sources[4];
    whole.data = stored;
    whole = through(&whole, &sources[3]);
    for (int i = 0; i < 3; i++) {
        part[i].shape[0] = count[i];
        part[i].data = stored + (size_t)first[i] * row;
        part[i] = through(&part[i], &sources[i]);
    }
    const tpcl_host_tensor b[4] = {
        vector("qb", fused_bias, s.q), vector("kb", fused_bias + s.q, s.k),
        vector("vb", fused_bias + s.q + s.k, s.v), vector("qkvb", fused_bias, s.rows)};
    tpcl_qkv_linear_desc d = {.heads = c->heads,
                              .kv_heads = c->kv_heads,
                              .head_dim = c->head_dim,
                              .v_head_dim = c->v_head_dim,
                              .layout = how == BY_KV_HEAD ? TPCL_QKV_BY_KV_HEAD : TPCL_QKV_STACKED};
    if (how == SEPARATE) {
        d.q = &part[0], d.k = &part[1], d.v = &part[2];
        d.q_bias = &b[0], d.k_bias = &b[1], d.v_bias = &b[2];
    } else {
        d.fused = &whole, d.fused_bias = &b[3];
    }
    tpcl_linear *l = NULL;
    assert_ok(tpcl_qkv_linear_create(group, &d, &l));
    const int n = rows_of(c, mine, rows);
    check_layer(l, t, bias, rows, n);
    uint64_t read = 0;
    for (int i = 0; i < 4; i++) read += sources[i].read;
    assert_int_equal(read, (size_t)n * row);
    tpcl_linear_destroy(&l);
    free(stored);
}

static void equals_one_rank(void **state)
{
    const struct qkv_case *c = *state;
    const struct shape s = shape_of(c);
    tpcl_head_range heads[MAX_RANKS];
    assert_ok(tpcl_shard_heads(c->heads, c->kv_heads, 1, size, test_weights(), 0, heads));
    for (size_t d = 0; d < COUNT(all_dtypes); d++) {
        table t = make_table(c->name, all_dtypes[d], s.rows, IN, 13);
        float *bias = random_floats((size_t)s.rows, 17);
        for (int how = 0; how < STORAGES; how++)
            check_storage(c, &t, bias, (enum storage)how, heads[rank]);
        free(bias);
        free_table(&t);
    }
}

/* CASES C05: row i of the fused weight is the constant i. Order, not sets. */
static void c05_order_of_the_rows(void **state)
{
    (void)state;
    float w[16 * 4], got[16], ones[4] = {0.25f, 0.25f, 0.25f, 0.25f};
    for (int i = 0; i < 64; i++) w[i] = (float)(i / 4);
    const tpcl_host_tensor t = matrix("qkv", w, 16, 4);
    const tpcl_qkv_linear_desc d = {.heads = 4, .kv_heads = 2, .head_dim = 2, .fused = &t};
    static const float two[2][8] = {{0, 1, 2, 3, 8, 9, 12, 13}, {4, 5, 6, 7, 10, 11, 14, 15}};
    tpcl_linear *l = NULL;
    assert_ok(tpcl_qkv_linear_create(group, &d, &l));
    const int n = tpcl_linear_out(l);
    tpcl_tensor *x = tensor_of(ones, TPCL_F32, 4), *y = tensor_of(NULL, TPCL_F32, n);
    assert_ok(tpcl_linear_forward(l, x, y, 1));
    assert_ok(tpcl_tensor_read(y, got, (size_t)n));
    if (size == 2 && weight_set == 0) assert_memory_equal(got, two[rank], sizeof two[0]);
    for (int i = 0; i < n && size == 1; i++) assert_true(got[i] == (float)i);
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&y);
    tpcl_linear_destroy(&l);
}

/* Head ranges of the caller's: as a model cuts them, the remainder on another rank. */
static void takes_given_ranges(void **state)
{
    (void)state;
    static const struct qkv_case c = {"given", 9, 3, 4, 0};
    const struct shape s = shape_of(&c);
    table t = make_table("qkv", TPCL_F32, s.rows, IN, 19);
    tpcl_head_range heads[MAX_RANKS];
    int rows[MOST_ROWS];
    assert_ok(tpcl_shard_heads(9, 3, 1, size, NULL, 1, heads));
    const tpcl_qkv_linear_desc d = {
        .heads = 9, .kv_heads = 3, .head_dim = 4, .fused = &t.host, .ranges = heads};
    tpcl_linear *l = NULL;
    assert_ok(tpcl_qkv_linear_create(group, &d, &l));
    check_layer(l, &t, NULL, rows, rows_of(&c, heads[rank], rows));
    tpcl_linear_destroy(&l);
    free_table(&t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(c05_order_of_the_rows),
        cmocka_unit_test(takes_given_ranges),
    };
    struct CMUnitTest tests[COUNT(plain) + COUNT(cases)];
    int failed = layers_main_begin(&argc, &argv);
    memcpy(tests, plain, sizeof plain);
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[COUNT(plain) + i] = (struct CMUnitTest){.name = cases[i].name,
                                                      .test_func = equals_one_rank,
                                                      .initial_state = (void *)&cases[i]};
    run_layer_tests("layers/qkv", tests);
    return layers_main_end(failed);
}
