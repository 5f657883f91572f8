/* The look-up: every stored type, two ranges of words, ids of any value. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_test.h"

enum { K = 64 };

struct embed_case {
    const char *name;
    tpcl_range base, added;
    int vocab; /* 0 = ids outside are zeros */
};
static const struct embed_case cases[] = {
    {"one_word", {0, 1}, {0, 0}, 1},
    {"first_rows_of_a_panel", {0, 15}, {0, 0}, 200},
    {"several_panels", {100, 137}, {0, 0}, 0},
    {"added_words", {100, 137}, {150, 161}, 200}, /* row 37 of the weight is word 150 */
    {"only_added_words", {100, 100}, {150, 161}, 0},
    {"no_words", {100, 100}, {150, 150}, 200}, /* no buffer: zeros, and NaN still */
    {"no_words_no_poison", {100, 100}, {150, 150}, 0},
};

/* Around each edge, and what only damage brings. */
static const int32_t ids[] = {0,   1,   14,  15,        99,  100,       101,
                              115, 116, 136, 137,       149, 150,       160,
                              161, 199, 200, INT32_MAX, -1,  INT32_MIN, INT32_MIN + 99};

static void check(const struct embed_case *c, tpcl_dtype dtype)
{
    enum { TOKENS = COUNT(ids) };
    const int rows = (int)(tpcl_range_size(c->base) + tpcl_range_size(c->added));
    uint8_t *stored = random_stored(dtype, (size_t)rows * K, 31);
    float *wide = malloc((size_t)rows * K * sizeof *wide + 1), want[TOKENS * K];
    tpi_widen(dtype, stored, (size_t)rows * K, wide);
    tpcl_ref_embed_added(ids, wide, want, TOKENS, K, c->base, c->added);
    const tpcl_host_tensor host = {
        .name = "e", .dtype = dtype, .ndim = 2, .shape = {rows, K}, .data = stored};
    const tpi_part part = {&host, 0, rows, 0, K};
    tpi_weight *w = NULL;
    assert_ok(tpi_weight_create(test_device, &part, 1, &w));
    tpcl_tensor *di = tensor_of(ids, TPCL_I32, TOKENS), *dy = guarded_output(TOKENS * K);
    const tpi_embed_args args = {w, di, dy, TOKENS, c->base, c->added, c->vocab};
    assert_ok(tpi_embed(&args));
    float *got = read_guarded(dy, TOKENS * K);
    for (int t = 0; t < TOKENS; t++) {
        if (c->vocab == 0 || (ids[t] >= 0 && ids[t] < c->vocab)) {
            /* q*d + m may be one fused operation on either side */
            assert_close(got + t * K, want + t * K, K, 3e-7, 3e-7);
            continue;
        }
        for (int i = 0; i < K; i++)
            if (!isnan(got[t * K + i])) fail_msg("id %d gave %g", (int)ids[t], got[t * K + i]);
    }
    tpcl_tensor_destroy(&di);
    tpcl_tensor_destroy(&dy);
    tpi_weight_destroy(&w);
    free(stored);
    free(wide);
    free(got);
}

static void matches_reference(void **state)
{
    static const tpcl_dtype dtypes[] = {TPCL_F32,  TPCL_F16,  TPCL_BF16,
                                        TPCL_Q8_0, TPCL_Q4_0, TPCL_Q4_1};
    begin_case(0);
    for (size_t d = 0; d < COUNT(dtypes); d++) check(*state, dtypes[d]);
}

/* 33 columns: the second work-item of a row has one. */
static void any_width(void **state)
{
    (void)state;
    begin_case(0);
    enum { ROWS = 3, WIDTH = 33 };
    static const int32_t two[2] = {2, 0};
    float table[ROWS * WIDTH], want[2 * WIDTH];
    fill(table, ROWS * WIDTH, 5);
    tpcl_ref_embed(two, table, want, 2, WIDTH, 0, ROWS);
    const tpcl_host_tensor host = {
        .name = "e", .dtype = TPCL_F32, .ndim = 2, .shape = {ROWS, WIDTH}, .data = table};
    const tpi_part part = {&host, 0, ROWS, 0, WIDTH};
    tpi_weight *w = NULL;
    assert_ok(tpi_weight_create(test_device, &part, 1, &w));
    tpcl_tensor *di = tensor_of(two, TPCL_I32, 2), *dy = guarded_output(2 * WIDTH);
    tpi_embed_args args = {w, di, dy, 2, {0, ROWS}, {ROWS, ROWS}, ROWS};
    assert_ok(tpi_embed(&args));
    float *got = read_guarded(dy, 2 * WIDTH);
    assert_memory_equal(got, want, sizeof want);
    args.tokens = 0;
    assert_ok(tpi_embed(&args));
    args.base.end = ROWS - 1;
    assert_int_equal(tpi_embed(&args), TPCL_ERR_ARG);
    assert_non_null(strstr(tpcl_last_error(), "3 rows"));
    args.base.end = ROWS;
    args.tokens = 3;
    assert_int_equal(tpi_embed(&args), TPCL_ERR_SHAPE);
    tpcl_tensor_destroy(&di);
    tpcl_tensor_destroy(&dy);
    tpi_weight_destroy(&w);
    free(got);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(cases) + 1];
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = matches_reference,
                                       .initial_state = (void *)&cases[i]};
    tests[COUNT(cases)] = (struct CMUnitTest)cmocka_unit_test(any_width);
    return run_ops_tests("ops/embed", tests);
}
