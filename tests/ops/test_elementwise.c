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
    assert_ok(tpcl_swiglu(dx, dy, tokens, inter));
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
    assert_ok(tpcl_swiglu(dx, dy, 1, N));
    assert_ok(tpcl_tensor_read(dy, got, N));
    assert_close(got, want, N, 4e-6, 1e-30);
    assert_true(got[1] == 1e4f && got[17] == 1e4f); /* the sigmoid of 100 is 1 */
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
}

static void check_add_bias(int tokens, int dim)
{
    const size_t n = (size_t)tokens * (size_t)dim;
    float *y = random_floats(n + GUARD, 7), *bias = random_floats((size_t)dim, 11);
    float *got = malloc((n + GUARD) * sizeof *got);
    tpcl_tensor *dy = tensor_of(y, TPCL_F32, n + GUARD);
    tpcl_tensor *db = tensor_of(bias, TPCL_F32, (size_t)dim);
    tpcl_ref_add_bias(y, bias, tokens, dim);
    assert_ok(tpcl_add_bias(dy, db, tokens, dim));
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

static const size_t counts[] = {0, 1, 15, 16, 17, 31, 32, 33, 999};

static void add_adds_each_element_once(void **state)
{
    (void)state;
    begin_case(1000);
    for (size_t c = 0; c < COUNT(counts); c++) {
        const size_t n = counts[c];
        float *y = random_floats(n + GUARD, 3), *x = random_floats(n + GUARD, 5);
        float *got = malloc((n + GUARD) * sizeof *got);
        tpcl_tensor *dy = tensor_of(y, TPCL_F32, n + GUARD), *dx = tensor_of(x, TPCL_F32, n);
        tpcl_ref_add(y, x, n);
        assert_ok(tpcl_add(dy, dx, n));
        assert_ok(tpcl_tensor_read(dy, got, n + GUARD));
        assert_memory_equal(got, y, (n + GUARD) * sizeof *got); /* one addition: exact */
        tpcl_tensor_destroy(&dy);
        tpcl_tensor_destroy(&dx);
        free(y);
        free(x);
        free(got);
    }
}

struct activation {
    tpcl_status (*op)(const tpcl_tensor *x, tpcl_tensor *y, size_t elements);
    void (*ref)(const float *x, float *y, size_t n);
};
static const struct activation activations[] = {{tpcl_silu, tpcl_ref_silu},
                                                {tpcl_gelu, tpcl_ref_gelu}};

/* exp within 3 ulp of an argument that carries a few roundings itself: |argument| * 2^-22. */
static void check_activation(const struct activation *a, const float *x, size_t n, double rtol)
{
    float *want = malloc(n * sizeof *want + 1), *got;
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, n), *dy = guarded_output(n);
    a->ref(x, want, n);
    assert_ok(a->op(dx, dy, n));
    got = read_guarded(dy, n);
    assert_close(got, want, n, rtol, 1e-30);
    assert_ok(a->op(dx, dx, n)); /* in place: the same, bit for bit */
    float *again = malloc(n * sizeof *again + 1);
    assert_ok(tpcl_tensor_read(dx, again, n));
    assert_memory_equal(again, got, n * sizeof *got);
    tpcl_tensor_destroy(&dx);
    tpcl_tensor_destroy(&dy);
    free(want);
    free(got);
    free(again);
}

static void activations_match_references(void **state)
{
    (void)state;
    begin_case(1000);
    static const float large[] = {0,   -0.0f, 9,     -9,     88,    -88,
                                  200, -200,  1e10f, -1e10f, 3e38f, -3e38f};
    for (size_t k = 0; k < COUNT(activations); k++) {
        for (size_t c = 0; c < COUNT(counts); c++) {
            float *x = random_floats(counts[c], 7);
            for (size_t i = 0; i < counts[c]; i++) x[i] *= 4.0f;
            check_activation(&activations[k], x, counts[c], 1e-5);
            free(x);
        }
        /* exp() overflows to infinity and the quotient is 0, never NaN */
        check_activation(&activations[k], large, COUNT(large), 4e-5);
    }
}

static void fill_zero_stops_at_the_count(void **state)
{
    (void)state;
    begin_case(1000);
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

static void refuses(tpcl_status want, const char *message, tpcl_status got)
{
    assert_int_equal(got, want);
    if (!strstr(tpcl_last_error(), message))
        fail_msg("'%s' does not say '%s'", tpcl_last_error(), message);
}

static void rejects_what_does_not_fit(void **state)
{
    (void)state;
    begin_case(0);
    tpcl_tensor *x = tensor_of(NULL, TPCL_F32, 64), *less = tensor_of(NULL, TPCL_F32, 31);
    tpcl_tensor *y = tensor_of(NULL, TPCL_F32, 64), *whole = tensor_of(NULL, TPCL_I32, 64);
    refuses(TPCL_ERR_SHAPE, "swiglu x: 1 x 32 elements needed, the tensor has 31",
            tpcl_swiglu(less, y, 1, 16));
    refuses(TPCL_ERR_SHAPE, "swiglu y: 1 x 32", tpcl_swiglu(x, less, 1, 32));
    refuses(TPCL_ERR_ARG, "-1", tpcl_swiglu(x, y, -1, 16));
    refuses(TPCL_ERR_ARG, "-32", tpcl_swiglu(x, y, 1, -16));
    refuses(TPCL_ERR_ARG, "swiglu x is NULL", tpcl_swiglu(NULL, y, 1, 16));
    refuses(TPCL_ERR_ARG, "swiglu y is NULL", tpcl_swiglu(x, NULL, 1, 16));
    refuses(TPCL_ERR_ARG, "y overlaps swiglu x", tpcl_swiglu(x, x, 1, 16));
    refuses(TPCL_ERR_ARG, "swiglu y: dtype I32", tpcl_swiglu(x, whole, 1, 16));
    refuses(TPCL_ERR_SHAPE, "add_bias y: 2 x 16", tpcl_add_bias(less, x, 2, 16));
    refuses(TPCL_ERR_SHAPE, "add_bias bias: 1 x 32", tpcl_add_bias(x, less, 2, 32));
    refuses(TPCL_ERR_ARG, "add_bias bias is NULL", tpcl_add_bias(x, NULL, 2, 32));
    refuses(TPCL_ERR_ARG, "bias overlaps add_bias y", tpcl_add_bias(x, x, 2, 16));
    refuses(TPCL_ERR_SHAPE, "add x: 1 x 32 elements needed, the tensor has 31",
            tpcl_add(y, less, 32));
    refuses(TPCL_ERR_SHAPE, "add y: 1 x 9223372036854775807", tpcl_add(y, x, SIZE_MAX));
    refuses(TPCL_ERR_ARG, "add y is NULL", tpcl_add(NULL, x, 1));
    refuses(TPCL_ERR_ARG, "add x overlaps add y", tpcl_add(x, x, 64));
    refuses(TPCL_ERR_SHAPE, "silu y: 1 x 64", tpcl_silu(x, less, 64));
    refuses(TPCL_ERR_ARG, "silu x is NULL", tpcl_silu(NULL, y, 64));
    refuses(TPCL_ERR_ARG, "gelu y is NULL", tpcl_gelu(x, NULL, 64));
    refuses(TPCL_ERR_ARG, "gelu x: dtype I32", tpcl_gelu(whole, y, 64));
    tpcl_tensor *all[] = {x, y, less, whole};
    for (size_t i = 0; i < COUNT(all); i++) tpcl_tensor_destroy(&all[i]);
}

/* A vector of every dtype is what the reference widens it to. */
static void vectors_are_widened(void **state)
{
    (void)state;
    begin_case(0);
    static const tpcl_dtype dtypes[] = {TPCL_F32,  TPCL_F16,  TPCL_BF16,
                                        TPCL_Q8_0, TPCL_Q4_0, TPCL_Q4_1};
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        const int n = tpcl_dtype_block(dtypes[d]) == 1 ? 37 : 64;
        uint8_t *stored = random_stored(dtypes[d], (size_t)n, 3);
        const tpcl_host_tensor t = {
            .name = "norm", .dtype = dtypes[d], .ndim = 1, .shape = {n}, .data = stored};
        tpcl_tensor *v = NULL;
        float want[64], got[64];
        assert_ok(tpcl_ref_widen(dtypes[d], stored, (size_t)n, want));
        assert_ok(tpcl_vector_create(test_device, &t, &v));
        assert_ok(tpcl_tensor_read(v, got, (size_t)n));
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
        tpcl_tensor_destroy(&v);
        free(stored);
    }
}

static void rejects_what_is_no_vector(void **state)
{
    (void)state;
    begin_case(0);
    static const float data[4] = {1, 2, 3, 4};
    const tpcl_host_tensor good = {
        .name = "norm", .dtype = TPCL_F32, .ndim = 1, .shape = {4}, .data = data};
    tpcl_host_tensor matrix = good, ids = good, cut = good, empty = good, nameless = good;
    tpcl_tensor *v = (tpcl_tensor *)&v; /* a failure must set it to NULL */
    matrix.ndim = 2;
    ids.dtype = TPCL_I32;
    cut.dtype = TPCL_Q8_0;
    empty.data = NULL;
    nameless.name = NULL;
    refuses(TPCL_ERR_SHAPE, "norm: 2 dimensions, need 1",
            tpcl_vector_create(test_device, &matrix, &v));
    assert_null(v);
    refuses(TPCL_ERR_UNSUPPORTED, "norm: stored as I32", tpcl_vector_create(test_device, &ids, &v));
    refuses(TPCL_ERR_SHAPE, "4 elements are not whole Q8_0 blocks of 32",
            tpcl_vector_create(test_device, &cut, &v));
    refuses(TPCL_ERR_ARG, "neither data nor read", tpcl_vector_create(test_device, &empty, &v));
    refuses(TPCL_ERR_ARG, "name is NULL", tpcl_vector_create(test_device, &nameless, &v));
    refuses(TPCL_ERR_ARG, "tensor or its name", tpcl_vector_create(test_device, NULL, &v));
    refuses(TPCL_ERR_ARG, "device is NULL", tpcl_vector_create(NULL, &good, &v));
    refuses(TPCL_ERR_ARG, "out is NULL", tpcl_vector_create(test_device, &good, NULL));
    assert_null(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swiglu_matches_reference),
        cmocka_unit_test(swiglu_survives_large_values),
        cmocka_unit_test(add_bias_adds_once_to_each_row),
        cmocka_unit_test(fill_zero_stops_at_the_count),
        cmocka_unit_test(add_adds_each_element_once),
        cmocka_unit_test(activations_match_references),
        cmocka_unit_test(vectors_are_widened),
        cmocka_unit_test(rejects_what_does_not_fit),
        cmocka_unit_test(rejects_what_is_no_vector),
    };
    return run_ops_tests("ops/elementwise", tests);
}
