/* Column, row and replicated layers at this number of ranks against one rank's plain arithmetic. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "layers_test.h"

/* Outputs of a layer whose row i is the constant i, for x = 1: the numbers of its rows. */
static void row_numbers(tpcl_linear *l, int outputs, float *got)
{
    const int in = tpcl_linear_in(l);
    float ones[8];
    for (int i = 0; i < in; i++) ones[i] = 1.0f / (float)in;
    tpcl_tensor *x = tensor_of(ones, TPCL_F32, in), *y = tensor_of(NULL, TPCL_F32, outputs);
    assert_ok(tpcl_linear_forward(l, x, y, 1));
    assert_ok(tpcl_tensor_read(y, got, (size_t)outputs));
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&y);
}

static void constant_rows(float *w, int first, int rows, int in)
{
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < in; i++) w[r * in + i] = (float)(first + r);
}

/* CASES C05. gate rows 0-5, up rows 6-11: at 2 equal ranks {0,1,2,6,7,8} and {3,4,5,9,10,11}; and
 * gathered 0, 1, ... 11, on every rank. The same from one tensor that holds both, with a stranger
 * before and behind. */
static void c05_merged_column_order(void **state)
{
    (void)state;
    enum { IN = 4 };
    float gate[6 * IN], up[6 * IN], both[15 * IN], got[12];
    constant_rows(gate, 0, 6, IN);
    constant_rows(up, 6, 6, IN);
    constant_rows(both, -2, 15, IN);
    const tpcl_host_tensor tg = matrix("gate", gate, 6, IN), tu = matrix("up", up, 6, IN),
                           tb = matrix("both", both, 15, IN);
    const tpcl_linear_part separate[2] = {{.weight = &tg}, {.weight = &tu}};
    const tpcl_linear_part fused[2] = {{.weight = &tb, .first = 2, .out = 6},
                                       {.weight = &tb, .first = 8, .out = 6}};
    tpcl_range rows[MAX_RANKS];
    assert_ok(tpcl_shard_split(6, 1, size, test_weights(), 0, rows));
    const int n = (int)tpcl_range_size(rows[rank]);
    for (int f = 0; f < 4; f++) {
        const tpcl_column_linear_options options = {.gather_output = f >= 2};
        tpcl_linear *l = NULL;
        assert_ok(tpcl_column_linear_create(group, f % 2 ? fused : separate, 2, &options, &l));
        assert_int_equal(tpcl_linear_out(l), 2 * n);
        assert_int_equal(tpcl_linear_out_total(l), 12);
        row_numbers(l, f >= 2 ? 12 : 2 * n, got);
        for (int i = 0; i < n && f < 2; i++) {
            assert_true(got[i] == (float)(rows[rank].begin + i));
            assert_true(got[n + i] == (float)(6 + rows[rank].begin + i));
        }
        for (int i = 0; i < 12 && f >= 2; i++) assert_true(got[i] == (float)i);
        static const float two[2][6] = {{0, 1, 2, 6, 7, 8}, {3, 4, 5, 9, 10, 11}};
        if (size == 2 && weight_set == 0 && f < 2)
            assert_memory_equal(got, two[rank], sizeof two[0]);
        tpcl_linear_destroy(&l);
    }
}

/* The rest of a tensor: out 0. */
static void column_takes_the_rest(void **state)
{
    (void)state;
    float w[5 * 2], got[2];
    constant_rows(w, 0, 5, 2);
    const tpcl_host_tensor t = matrix("w", w, 5, 2);
    const tpcl_linear_part part = {.weight = &t, .first = 3};
    const tpcl_column_linear_options options = {.gather_output = true};
    tpcl_linear *l = NULL;
    assert_ok(tpcl_column_linear_create(group, &part, 1, &options, &l));
    row_numbers(l, 2, got);
    assert_true(got[0] == 3.0f && got[1] == 4.0f);
    tpcl_linear_destroy(&l);
}

/* CASES C07. W = [[1,2],[3,4]], x = [1,1], b = [10,20]: [13,27]; [23,47] is the bias added by both
 * ranks. Then four columns, for four ranks. */
static void c07_row_bias_is_added_once(void **state)
{
    (void)state;
    static const float w2[4] = {1, 2, 3, 4}, w4[8] = {1, 0, 2, 0, 0, 3, 0, 4}, b[2] = {10, 20},
                       want[2] = {13, 27}, ones[4] = {1, 1, 1, 1};
    for (int in = 2; in <= 4; in += 2) {
        const tpcl_host_tensor tw = matrix("w", in == 2 ? w2 : w4, 2, in), tb = vector("b", b, 2);
        const tpcl_row_linear_options options = {.whole_input = true};
        float got[2];
        for (int whole = 0; whole < 2; whole++) {
            tpcl_linear *l = NULL;
            assert_ok(tpcl_row_linear_create(group, &tw, &tb, whole ? &options : NULL, &l));
            tpcl_tensor *x = tensor_of(ones, TPCL_F32, in), *y = tensor_of(NULL, TPCL_F32, 2);
            assert_ok(tpcl_linear_forward(l, x, y, 1));
            assert_ok(tpcl_tensor_read(y, got, 2));
            assert_memory_equal(got, want, sizeof got);
            tpcl_tensor_destroy(&x);
            tpcl_tensor_destroy(&y);
            tpcl_linear_destroy(&l);
        }
    }
}

/* CASES C09. Three blocks on two ranks are 64 + 32 columns, never 48 + 48; on four, one has none;
 * K = 128 on four ranks one block each; rows of 172 are refused with the numbers. */
static void c09_cuts_fall_between_blocks(void **state)
{
    (void)state;
    static const int widths[] = {96, 128};
    for (size_t i = 0; i < COUNT(widths); i++) {
        table t = make_table("w", i ? TPCL_Q4_1 : TPCL_Q8_0, 3, widths[i], 5);
        tpcl_range blocks[MAX_RANKS];
        tpcl_linear *l = NULL;
        assert_ok(tpcl_row_linear_create(group, &t.host, NULL, NULL, &l));
        assert_ok(tpcl_shard_split(widths[i], 32, size, test_weights(), 0, blocks));
        assert_int_equal(tpcl_linear_in(l), tpcl_range_size(blocks[rank]));
        assert_int_equal(tpcl_linear_in(l) % 32, 0);
        if (size == 2 && i == 0 && weight_set == 0)
            assert_int_equal(tpcl_linear_in(l), rank ? 32 : 64);
        assert_int_equal(tpcl_linear_in_total(l), widths[i]);
        tpcl_linear_destroy(&l);
        free_table(&t);
    }
    uint8_t data[172 * 4] = {0};
    tpcl_host_tensor odd = matrix("odd", data, 1, 172);
    tpcl_linear *l = NULL;
    for (int d = 3; d < 6; d++) {
        odd.dtype = all_dtypes[d];
        const tpcl_linear_part part = {.weight = &odd};
        assert_refused(tpcl_row_linear_create(group, &odd, NULL, NULL, &l), TPCL_ERR_SHAPE, "172");
        assert_refused(tpcl_column_linear_create(group, &part, 1, NULL, &l), TPCL_ERR_SHAPE,
                       "blocks of 32");
        assert_null(l);
    }
}

struct product_case {
    const char *name;
    int tokens, out, in;
    bool bias;
};
static const struct product_case product_cases[] = {
    {"one_output_one_input", 1, 1, 32, true}, /* ranks without a row, without a column */
    {"fewer_than_ranks", 2, 3, 64, false},
    {"prime", 3, 17, 96, true},
    {"several_panels", 5, 70, 128, false},
    {"more_rows_than_a_turn", 131, 19, 160, true}, /* gathered, or of a whole input: 128 + 3 */
    {"no_tokens", 0, 5, 32, true},
};

/* What one rank has: x [tokens, in], y [tokens, out]. */
struct product {
    const struct product_case *c;
    table w;
    float *x, *bias, *want;
    tpcl_host_tensor bias_host;
};

static struct product make_product(const struct product_case *c, tpcl_dtype dtype)
{
    struct product p = {.c = c, .w = make_table(c->name, dtype, c->out, c->in, 3)};
    p.x = random_floats((size_t)c->tokens * (size_t)c->in, 9);
    p.bias = random_floats((size_t)c->out, 11);
    p.want = malloc((size_t)c->tokens * (size_t)c->out * sizeof(float) + 1);
    p.bias_host = vector("bias", p.bias, c->out);
    tpcl_ref_linear(p.x, p.w.wide, c->bias ? p.bias : NULL, p.want, c->tokens, c->out, c->in);
    return p;
}

static void free_product(struct product *p)
{
    free_table(&p->w);
    free(p->x);
    free(p->bias);
    free(p->want);
}

/* Columns [cut.begin, cut.end) of rows of `width`. */
static float *columns_of(const float *x, int tokens, int width, tpcl_range cut)
{
    const size_t n = (size_t)tpcl_range_size(cut);
    float *mine = malloc((size_t)tokens * n * sizeof *mine + 1);
    for (int t = 0; t < tokens; t++)
        memcpy(mine + (size_t)t * n, x + (int64_t)t * width + cut.begin, n * sizeof *mine);
    return mine;
}

/* y [tokens, n] must be `want`; f32 sums of about `in` terms. Returns it. */
static float *forward(tpcl_linear *l, const float *x, int in, int tokens, int out)
{
    const size_t outputs = (size_t)tokens * (size_t)out;
    float *got = malloc(outputs * sizeof *got + 1);
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, (int64_t)tokens * in),
                *dy = tensor_of(NULL, TPCL_F32, (int64_t)outputs);
    assert_ok(tpcl_linear_forward(l, dx, dy, tokens));
    assert_ok(tpcl_tensor_read(dy, got, outputs));
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
    return got;
}

static void same_on_every_rank(const float *got, size_t n)
{
    float *first = malloc(n * sizeof *first + 1);
    memcpy(first, got, n * sizeof *first);
    assert_int_equal(MPI_Bcast(first, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD), MPI_SUCCESS);
    assert_memory_equal(first, got, n * sizeof *first);
    free(first);
}

static void check_column(const struct product *p, bool gather)
{
    const struct product_case *c = p->c;
    const tpcl_linear_part part = {.weight = &p->w.host, .bias = c->bias ? &p->bias_host : NULL};
    const tpcl_column_linear_options options = {.gather_output = gather};
    tpcl_range rows[MAX_RANKS];
    tpcl_linear *l = NULL;
    assert_ok(tpcl_shard_split(c->out, 1, size, test_weights(), 0, rows));
    assert_ok(tpcl_column_linear_create(group, &part, 1, &options, &l));
    const tpcl_range mine = gather ? (tpcl_range){0, c->out} : rows[rank];
    const size_t n = (size_t)c->tokens * (size_t)tpcl_range_size(mine);
    float *want = columns_of(p->want, c->tokens, c->out, mine);
    float *got = forward(l, p->x, c->in, c->tokens, (int)tpcl_range_size(mine));
    assert_close(got, want, n, 1e-5, 1e-4);
    if (gather) same_on_every_rank(got, n);
    free(want);
    free(got);
    tpcl_linear_destroy(&l);
}

static void check_row(const struct product *p, bool whole)
{
    const struct product_case *c = p->c;
    const tpcl_row_linear_options options = {.whole_input = whole};
    tpcl_range columns[MAX_RANKS];
    tpcl_linear *l = NULL;
    const int block = tpcl_dtype_block(p->w.host.dtype);
    assert_ok(tpcl_shard_split(c->in, block, size, test_weights(), 0, columns));
    assert_ok(
        tpcl_row_linear_create(group, &p->w.host, c->bias ? &p->bias_host : NULL, &options, &l));
    const tpcl_range mine = whole ? (tpcl_range){0, c->in} : columns[rank];
    float *x = columns_of(p->x, c->tokens, c->in, mine);
    float *got = forward(l, x, (int)tpcl_range_size(mine), c->tokens, c->out);
    assert_close(got, p->want, (size_t)c->tokens * (size_t)c->out, 1e-5, 1e-4);
    same_on_every_rank(got, (size_t)c->tokens * (size_t)c->out);
    free(x);
    free(got);
    tpcl_linear_destroy(&l);
}

/* The terms of the sum, added here, are the product. */
static void check_partial(const struct product *p, bool whole)
{
    const struct product_case *c = p->c;
    const tpcl_row_linear_options options = {.whole_input = whole, .partial = true};
    const size_t n = (size_t)c->tokens * (size_t)c->out;
    tpcl_range columns[MAX_RANKS];
    tpcl_linear *l = NULL;
    const int block = tpcl_dtype_block(p->w.host.dtype);
    assert_ok(tpcl_shard_split(c->in, block, size, test_weights(), 0, columns));
    assert_ok(tpcl_row_linear_create(group, &p->w.host, NULL, &options, &l));
    const tpcl_range mine = whole ? (tpcl_range){0, c->in} : columns[rank];
    float *x = columns_of(p->x, c->tokens, c->in, mine), *sum = malloc(n * sizeof *sum + 1);
    float *got = forward(l, x, (int)tpcl_range_size(mine), c->tokens, c->out);
    MPI_Allreduce(got, sum, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < n && c->bias; i++) sum[i] += p->bias[i % (size_t)c->out];
    assert_close(sum, p->want, n, 1e-5, 1e-4);
    free(x);
    free(sum);
    free(got);
    tpcl_linear_destroy(&l);
}

static void equals_one_rank(void **state)
{
    for (size_t d = 0; d < COUNT(all_dtypes); d++) {
        struct product p = make_product(*state, all_dtypes[d]);
        for (int option = 0; option < 2; option++) {
            check_column(&p, option);
            check_row(&p, option);
            check_partial(&p, option);
        }
        free_product(&p);
    }
}

/* Cuts of the caller's, one inside a block, which widens to f32; then parts of unlike types. */
static void widens_where_it_must(void **state)
{
    (void)state;
    static const struct product_case c = {"cut_in_a_block", 2, 20, 128, false};
    struct product p = make_product(&c, TPCL_Q4_1);
    tpcl_range columns[MAX_RANKS] = {{0, 40}};
    for (int r = 1; r < size; r++) columns[r] = (tpcl_range){r == 1 ? 40 : 128, 128};
    if (size == 1) columns[0].end = 128;
    const tpcl_row_linear_options options = {.columns = columns};
    tpcl_linear *l = NULL;
    assert_ok(tpcl_row_linear_create(group, &p.w.host, NULL, &options, &l));
    const int64_t k = tpcl_range_size(columns[rank]);
    if (size > 1) assert_int_equal(tpcl_linear_bytes(l), 32 * (uint64_t)k * 4); /* 2 panels */
    float *x = columns_of(p.x, c.tokens, c.in, columns[rank]);
    float *got = forward(l, x, (int)k, c.tokens, c.out);
    assert_close(got, p.want, 40, 1e-5, 1e-4);
    free(x);
    free(got);
    tpcl_linear_destroy(&l);

    table other = make_table("other", TPCL_F16, 7, 128, 21);
    const tpcl_linear_part parts[2] = {{.weight = &p.w.host}, {.weight = &other.host}};
    const tpcl_column_linear_options gather = {.gather_output = true};
    float want[2 * 7];
    tpcl_ref_linear(p.x, other.wide, NULL, want, 2, 7, 128);
    assert_ok(tpcl_column_linear_create(group, parts, 2, &gather, &l));
    got = forward(l, p.x, 128, 2, 27);
    for (int t = 0; t < 2; t++) {
        assert_close(got + t * 27, p.want + (size_t)t * 20, 20, 1e-5, 1e-4);
        assert_close(got + t * 27 + 20, want + (size_t)t * 7, 7, 1e-5, 1e-4);
    }
    free(got);
    tpcl_linear_destroy(&l);
    free_table(&other);
    free_product(&p);
}

static void replicated_holds_everything(void **state)
{
    (void)state;
    static const struct product_case c = {"replicated", 3, 19, 64, true};
    for (size_t d = 0; d < COUNT(all_dtypes); d++) {
        struct product p = make_product(&c, all_dtypes[d]);
        tpcl_linear *l = NULL;
        assert_ok(tpcl_replicated_linear_create(group, &p.w.host, &p.bias_host, &l));
        assert_int_equal(tpcl_linear_out(l), tpcl_linear_out_total(l));
        float *got = forward(l, p.x, c.in, c.tokens, c.out);
        assert_close(got, p.want, 57, 1e-5, 1e-4);
        free(got);
        tpcl_linear_destroy(&l);
        free_product(&p);
    }
}

/* A rank reads its slice and not a byte more; where a cut widens, whole blocks. */
static void reads_its_own_slice(void **state)
{
    (void)state;
    enum { OUT = 37, IN = 96 };
    tpcl_range rows[MAX_RANKS], columns[MAX_RANKS];
    assert_ok(tpcl_shard_split(OUT, 1, size, test_weights(), 0, rows));
    for (size_t d = 0; d < COUNT(all_dtypes); d++) {
        table t = make_table("w", all_dtypes[d], OUT, IN, 7);
        source s;
        const tpcl_host_tensor w = through(&t.host, &s);
        const tpcl_linear_part part = {.weight = &w};
        const int block = tpcl_dtype_block(w.dtype);
        tpcl_linear *l = NULL;
        assert_ok(tpcl_column_linear_create(group, &part, 1, NULL, &l));
        const size_t row = tpi_dtype_bytes(w.dtype, IN);
        assert_int_equal(s.read, (size_t)tpcl_range_size(rows[rank]) * row);
        if (s.read) assert_int_equal(s.end, (size_t)rows[rank].end * row);
        tpcl_linear_destroy(&l);

        s.read = 0;
        assert_ok(tpcl_shard_split(IN, block, size, test_weights(), 0, columns));
        assert_ok(tpcl_row_linear_create(group, &w, NULL, NULL, &l));
        assert_int_equal(s.read,
                         OUT * tpi_dtype_bytes(w.dtype, (size_t)tpcl_range_size(columns[rank])));
        tpcl_linear_destroy(&l);

        s.read = 0;
        assert_ok(tpcl_shard_split(IN, 5, size, test_weights(), 0, columns)); /* inside blocks */
        const tpcl_row_linear_options cut = {.columns = columns};
        const int64_t first = columns[rank].begin / block * block;
        const bool any = tpcl_range_size(columns[rank]) > 0;
        const int64_t end = any ? (columns[rank].end + block - 1) / block * block : first;
        assert_ok(tpcl_row_linear_create(group, &w, NULL, &cut, &l));
        assert_int_equal(s.read, OUT * tpi_dtype_bytes(w.dtype, (size_t)(end - first)));
        tpcl_linear_destroy(&l);
        free_table(&t);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(c05_merged_column_order),
        cmocka_unit_test(column_takes_the_rest),
        cmocka_unit_test(c07_row_bias_is_added_once),
        cmocka_unit_test(c09_cuts_fall_between_blocks),
        cmocka_unit_test(widens_where_it_must),
        cmocka_unit_test(replicated_holds_everything),
        cmocka_unit_test(reads_its_own_slice),
    };
    struct CMUnitTest tests[COUNT(plain) + COUNT(product_cases)];
    int failed = layers_main_begin(&argc, &argv);
    memcpy(tests, plain, sizeof plain);
    for (size_t i = 0; i < COUNT(product_cases); i++)
        tests[COUNT(plain) + i] = (struct CMUnitTest){.name = product_cases[i].name,
                                                      .test_func = equals_one_rank,
                                                      .initial_state = (void *)&product_cases[i]};
    run_layer_tests("layers/linear", tests);
    return layers_main_end(failed);
}
