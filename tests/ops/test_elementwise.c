/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_test.h"

static const int widths[] = {1, 15, 16, 17, 31, 33, 576, 577}; /* a work-item does 16 elements */
static const int token_counts[] = {0, 1, 3};

static void check_swiglu(int tokens, int inter)
{
    const size_t n = (size_t)tokens * (size_t)inter;
    float *x = random_floats(2 * n, 3), *want = malloc(n * sizeof *want + 1);
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, 2 * n), *dy = guarded_output(n);
    tpcl_ref_swiglu(x, want, tokens, inter);
    assert_ok(tpi_swiglu(dx, dy, tokens, inter));
    float *got = read_guarded(dy, n);
    assert_close(got, want, n, 2e-6, 1e-9); /* exp within 3 ulp, then three roundings */
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
    free(x);
    free(want);
    free(got);
}

static void swiglu_matches_reference(void **state)
{
    (void)state;
    begin_case(577);
    for (size_t t = 0; t < COUNT(token_counts); t++)
        for (size_t w = 0; w < COUNT(widths); w++) check_swiglu(token_counts[t], widths[w]);
}

/* exp(-g) overflows to infinity from g = -89 on; the quotient is then 0, never NaN. */
static void swiglu_survives_large_values(void **state)
{
    (void)state;
    begin_case(0);
    enum { N = 21 }; /* one whole vector and a tail */
    float x[2 * N], want[N], got[N];
    for (int i = 0; i < N; i++) {
        const float large = 100.0f - 12.0f * (float)(i / 2 % 8); /* 100 again in the tail */
        x[i] = i % 2 ? large : -large;
        x[N + i] = i % 3 ? 100.0f : -100.0f;
    }
    tpcl_ref_swiglu(x, want, 1, N);
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, 2 * N), *dy = tensor_of(NULL, TPCL_F32, N);
    assert_ok(tpi_swiglu(dx, dy, 1, N));
    assert_ok(tpcl_tensor_read(dy, got, N));
    assert_close(got, want, N, 4e-6, 1e-30);
    assert_true(got[1] == 1e4f && got[17] == 1e4f); /* the sigmoid of 100 is 1 */
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
}

/* The last position of each sequence, in any order and more than once. */
static void check_add_bias(int tokens, int dim)
{
    const size_t n = (size_t)tokens * (size_t)dim;
    float *y = random_floats(n + GUARD, 7), *bias = random_floats((size_t)dim, 11);
    float *got = malloc((n + GUARD) * sizeof *got);
    tpcl_tensor *dy = tensor_of(y, TPCL_F32, n + GUARD);
    tpcl_tensor *db = tensor_of(bias, TPCL_F32, (size_t)dim);
    for (size_t i = 0; i < n; i++) y[i] += bias[i % (size_t)dim];
    assert_ok(tpi_add_bias(dy, db, tokens, dim));
    assert_ok(tpcl_tensor_read(dy, got, n + GUARD));
    assert_memory_equal(got, y, (n + GUARD) * sizeof *got); /* one addition: exact */
    tpcl_tensor_destroy(&dy);
    tpcl_tensor_destroy(&db);
    free(y);
    free(bias);
    free(got);
}

static void add_bias_adds_once_to_each_row(void **state)
{
    (void)state;
    begin_case(577);
    for (size_t t = 0; t < COUNT(token_counts); t++)
        for (size_t w = 0; w < COUNT(widths); w++) check_add_bias(token_counts[t], widths[w]);
}

static void fill_zero_stops_at_the_count(void **state)
{
    (void)state;
    begin_case(1000);
    static const uint64_t counts[] = {0, 1, 15, 16, 17, 31, 32, 33, 999};
    float *got = malloc((999 + GUARD) * sizeof *got);
    for (size_t c = 0; c < COUNT(counts); c++) {
        const size_t n = (size_t)counts[c];
        tpcl_tensor *t = guarded_output(n);
        assert_ok(tpi_fill_zero(test_device, t->mem, counts[c]));
        assert_ok(tpcl_tensor_read(t, got, n + GUARD));
        for (size_t i = 0; i < n; i++) assert_true(got[i] == 0.0f && !signbit(got[i]));
        for (size_t i = n; i < n + GUARD; i++) assert_true(isnan(got[i]));
        tpcl_tensor_destroy(&t);
    }
    assert_ok(tpi_fill_zero(test_device, NULL, 5)); /* what an empty shard has for a buffer */
    free(got);
}

static void rejects_what_does_not_fit(void **state)
{
    (void)state;
    begin_case(0);
    tpcl_tensor *x = tensor_of(NULL, TPCL_F32, 64), *less = tensor_of(NULL, TPCL_F32, 31);
    assert_int_equal(tpi_swiglu(less, x, 1, 16), TPCL_ERR_SHAPE);
    assert_int_equal(tpi_swiglu(x, less, 1, 32), TPCL_ERR_SHAPE);
    assert_int_equal(tpi_add_bias(less, x, 2, 16), TPCL_ERR_SHAPE);
    assert_int_equal(tpi_add_bias(x, less, 2, 32), TPCL_ERR_SHAPE);
    assert_int_equal(tpi_swiglu(x, x, -1, 16), TPCL_ERR_ARG);
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&less);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swiglu_matches_reference),
        cmocka_unit_test(swiglu_survives_large_values),
        cmocka_unit_test(add_bias_adds_once_to_each_row),
        cmocka_unit_test(fill_zero_stops_at_the_count),
        cmocka_unit_test(rejects_what_does_not_fit),
    };
    return run_ops_tests("ops/elementwise", tests);
}
