/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_test.h"

static const tpcl_dtype dtypes[] = {TPCL_F32, TPCL_F16, TPCL_BF16, TPCL_Q8_0, TPCL_Q4_0, TPCL_Q4_1};

struct linear_case {
    const char *name;
    int tokens, n, k;
    bool bias;
};
static const struct linear_case cases[] = {
    {"one_element", 1, 1, 1, false},         /* smallest legal product */
    {"one_panel_less_one", 1, 15, 32, true}, /* a panel with an idle lane */
    {"one_panel", 2, 16, 33, false},         /* k is no multiple of anything */
    {"panel_and_one", 3, 17, 64, true},      /* second panel nearly empty */
    {"prime", 5, 37, 101, true},             /* nothing divides */
    {"rows_8", 8, 31, 96, false},            /* the register block, full */
    {"rows_9", 9, 48, 96, true},             /* and one more */
    {"below_tile", 23, 33, 128, true},       /* largest for linear_rows */
    {"tile", 24, 33, 128, true},             /* smallest for linear_tile, exactly KC columns */
    {"tile_one_column", 24, 3, 33, true},    /* linear_tile small enough for interpreters */
    {"tile_two_chunks", 25, 2, 129, false},  /* and with a second chunk */
    {"tile_kc_less_one", 25, 20, 127, true}, /* partial column chunk only */
    {"tile_kc_and_one", 31, 20, 129, true},  /* second chunk has one column */
    {"tile_rows_less_one", 127, 16, 160, false},
    {"tile_rows_and_one", 129, 18, 288, true}, /* second row tile has one row, chunks 128+128+32 */
    {"smollm2_decode", 1, 576, 1536, false},   /* the shape the model uses */
    {"row_panels_odd", 1, 17 * 16, 65, true},  /* two panels a work-item, the last alone */
    {"tile_panels_partly", 130, 275, 160, true}, /* four panels a work-item, the last has two */
    {"tile_panels_columns", 128, 64 * 16, 63, false}, /* one column below a chunk */
    {"no_tokens", 0, 16, 32, false},
    {"no_outputs", 3, 0, 32, false}, /* an empty shard of a column-parallel layer */
    {"no_inputs", 3, 19, 0, true},   /* an empty shard of a row-parallel layer: zeros */
};

static void check(const struct linear_case *c, tpcl_dtype dtype)
{
    const int k = tpcl_dtype_block(dtype) > 1 ? (c->k + 31) / 32 * 32 : c->k;
    const size_t weights = (size_t)c->n * (size_t)k, outputs = (size_t)c->tokens * (size_t)c->n;
    uint8_t *stored = random_stored(dtype, weights, 3);
    float *wide = malloc(weights * sizeof *wide + 1), *want = malloc(outputs * sizeof *want + 1);
    float *got = malloc(outputs * sizeof *got + 1);
    float *x = random_floats((size_t)c->tokens * (size_t)k, 5), *b = random_floats((size_t)c->n, 7);
    tpi_widen(dtype, stored, weights, wide);
    tpcl_ref_linear(x, wide, c->bias ? b : NULL, want, c->tokens, c->n, k);

    const tpcl_host_tensor host = {
        .name = "w", .dtype = dtype, .ndim = 2, .shape = {c->n, k}, .data = stored};
    const tpi_part part = {&host, 0, c->n, 0, k};
    tpi_weight *w = NULL;
    assert_ok(tpi_weight_create(test_device, &part, 1, &w));
    assert_int_equal(w->dtype, dtype);
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, (size_t)c->tokens * (size_t)k);
    tpcl_tensor *db = tensor_of(b, TPCL_F32, (size_t)c->n),
                *dy = tensor_of(NULL, TPCL_F32, outputs);
    assert_ok(tpi_linear(w, dx, c->bias ? db : NULL, dy, c->tokens));
    assert_ok(tpcl_tensor_read(dy, got, outputs));
    /* f32 sums of k terms of about 1: the error grows with sqrt(k) roundings of the sum */
    assert_close(got, want, outputs, 1e-5, 3e-6 * (k + 1) / 16 + 2e-5);

    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&db);
    tpcl_tensor_destroy(&dy);
    tpi_weight_destroy(&w);
    free(stored);
    free(wide);
    free(want);
    free(got);
    free(x);
    free(b);
}

static void matches_reference(void **state)
{
    const struct linear_case *c = *state;
    begin_case((double)c->tokens * c->n * c->k);
    for (size_t d = 0; d < COUNT(dtypes); d++) check(c, dtypes[d]);
}

/* Rows 2..5 of one tensor and 0..3 of another, columns 32..96: a rank's slice of a merged layer. */
static void packs_slices_of_several_tensors(void **state)
{
    (void)state;
    begin_case(0);
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        const tpcl_dtype dtype = dtypes[d];
        uint8_t *a = random_stored(dtype, 6 * 128, 11), *b = random_stored(dtype, 4 * 96, 13);
        const tpcl_host_tensor ha = {
            .name = "a", .dtype = dtype, .ndim = 2, .shape = {6, 128}, .data = a};
        const tpcl_host_tensor hb = {
            .name = "b", .dtype = dtype, .ndim = 2, .shape = {4, 96}, .data = b};
        const tpi_part parts[2] = {{&ha, 2, 5, 32, 96}, {&hb, 0, 3, 32, 96}};
        float wide_a[6 * 128], wide_b[4 * 96], slice[6 * 64], want[12], got[12];
        tpi_widen(dtype, a, 6 * 128, wide_a);
        tpi_widen(dtype, b, 4 * 96, wide_b);
        for (int r = 0; r < 3; r++) {
            memcpy(slice + r * 64, wide_a + (r + 2) * 128 + 32, 64 * sizeof *slice);
            memcpy(slice + (r + 3) * 64, wide_b + r * 96 + 32, 64 * sizeof *slice);
        }
        float *x = random_floats(128, 17);
        tpcl_ref_linear(x, slice, NULL, want, 2, 6, 64);
        tpi_weight *w = NULL;
        assert_ok(tpi_weight_create(test_device, parts, 2, &w));
        tpcl_tensor *dx = tensor_of(x, TPCL_F32, 128), *dy = tensor_of(NULL, TPCL_F32, 12);
        assert_ok(tpi_linear(w, dx, NULL, dy, 2));
        assert_ok(tpcl_tensor_read(dy, got, 12));
        assert_close(got, want, 12, 1e-5, 3e-5);
        tpcl_tensor_destroy(&dx);
        tpcl_tensor_destroy(&dy);
        tpi_weight_destroy(&w);
        free(a);
        free(b);
        free(x);
    }
}

/* A cut inside a block, and two dtypes in one weight: widened to f32, exactly. */
static void widens_what_cannot_stay(void **state)
{
    (void)state;
    begin_case(0);
    uint8_t *a = random_stored(TPCL_Q4_1, 3 * 96, 19), *b = random_stored(TPCL_F16, 2 * 96, 23);
    const tpcl_host_tensor ha = {
        .name = "a", .dtype = TPCL_Q4_1, .ndim = 2, .shape = {3, 96}, .data = a};
    const tpcl_host_tensor hb = {
        .name = "b", .dtype = TPCL_F16, .ndim = 2, .shape = {2, 96}, .data = b};
    const tpi_part parts[2] = {{&ha, 0, 3, 20, 60}, {&hb, 0, 2, 20, 60}};
    float wide[5 * 96], slice[5 * 40], want[5], got[5];
    tpi_widen(TPCL_Q4_1, a, 3 * 96, wide);
    tpi_widen(TPCL_F16, b, 2 * 96, wide + 3 * 96);
    for (int r = 0; r < 5; r++) memcpy(slice + r * 40, wide + r * 96 + 20, 40 * sizeof *slice);
    float *x = random_floats(40, 29);
    tpcl_ref_linear(x, slice, NULL, want, 1, 5, 40);
    tpi_weight *w = NULL;
    assert_ok(tpi_weight_create(test_device, parts, 2, &w));
    assert_int_equal(w->dtype, TPCL_F32);
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, 40), *dy = tensor_of(NULL, TPCL_F32, 5);
    assert_ok(tpi_linear(w, dx, NULL, dy, 1));
    assert_ok(tpcl_tensor_read(dy, got, 5));
    assert_close(got, want, 5, 1e-5, 2e-5);
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
    tpi_weight_destroy(&w);
    free(a);
    free(b);
    free(x);
}

static void rejects_what_does_not_fit(void **state)
{
    (void)state;
    begin_case(0);
    float data[64] = {0};
    const tpcl_host_tensor host = {
        .name = "blk.0.w", .dtype = TPCL_F32, .ndim = 2, .shape = {2, 32}, .data = data};
    const tpi_part over = {&host, 0, 3, 0, 32}, fits = {&host, 0, 2, 0, 32};
    tpi_weight *w = NULL;
    assert_int_equal(tpi_weight_create(test_device, &over, 1, &w), TPCL_ERR_SHAPE);
    assert_non_null(strstr(tpcl_last_error(), "blk.0.w"));
    assert_null(w);
    assert_ok(tpi_weight_create(test_device, &fits, 1, &w));
    tpcl_tensor *small = tensor_of(data, TPCL_F32, 31), *y = tensor_of(data, TPCL_F32, 2);
    assert_int_equal(tpi_linear(w, small, NULL, y, 1), TPCL_ERR_SHAPE);
    assert_int_equal(tpi_linear(w, y, NULL, small, 1), TPCL_ERR_SHAPE);
    tpcl_tensor_destroy(&small);
    tpcl_tensor_destroy(&y);
    tpi_weight_destroy(&w);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(cases) + 3];
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = matches_reference,
                                       .initial_state = (void *)&cases[i]};
    tests[COUNT(cases)] = (struct CMUnitTest)cmocka_unit_test(packs_slices_of_several_tensors);
    tests[COUNT(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(widens_what_cannot_stay);
    tests[COUNT(cases) + 2] = (struct CMUnitTest)cmocka_unit_test(rejects_what_does_not_fit);
    return run_ops_tests("ops/linear", tests);
}
