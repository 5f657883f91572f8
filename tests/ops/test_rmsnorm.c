/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_test.h"

struct rmsnorm_case {
    const char *name;
    int dim;
};
static const struct rmsnorm_case cases[] = {
    {"one_element", 1},       /* smallest legal row, all of it tail */
    {"vector_less_one", 15},  /* no whole vector */
    {"vector", 16},           /* no tail */
    {"vector_and_one", 17},   /* both */
    {"dim_63", 63},           /* a tail of 15 */
    {"dim_64", 64},           /* fewer vectors than work-items of a group of 64 */
    {"dim_65", 65},           /* and a tail of one */
    {"smollm2", 576},         /* what the model uses */
    {"smollm2_and_one", 577}, /* many vectors and a tail */
    {"wide", 1600},           /* a work-item of a group of 64 does a second vector */
};
static const int token_counts[] = {0, 1, 3};

/* The three ways the op is launched: alone on a row as on CPUs, in groups of 64 as on GPUs, and in
 * the largest group of a device that allows 16. */
static const struct way {
    tpcl_device_type type;
    size_t max_workgroup;
} ways[] = {{TPCL_DEVICE_CPU, 64}, {TPCL_DEVICE_GPU, 64}, {TPCL_DEVICE_GPU, 16}};

/* f32 sums of dim/16 squares a lane, then a square root and three products */
static const double RTOL = 3e-6, ATOL = 1e-7;

static void check(int tokens, int dim, bool residual)
{
    const size_t n = (size_t)tokens * (size_t)dim;
    float *h = random_floats(n, 3), *add = random_floats(n, 5);
    float *w = random_floats((size_t)dim, 7), *want = malloc(n * sizeof *want + 1);
    tpcl_tensor *dh = tensor_of(h, TPCL_F32, n), *da = tensor_of(add, TPCL_F32, n);
    tpcl_tensor *dw = tensor_of(w, TPCL_F32, (size_t)dim), *dy = guarded_output(n);

    tpcl_ref_rmsnorm(h, residual ? add : NULL, w, want, tokens, dim, 1e-5f);
    assert_ok(tpcl_rmsnorm(dh, residual ? da : NULL, dw, dy, tokens, dim, 1e-5f));
    float *got = read_guarded(dy, n), *sum = malloc(n * sizeof *sum + 1);
    assert_close(got, want, n, RTOL, ATOL);
    assert_ok(tpcl_tensor_read(dh, sum, n));
    assert_memory_equal(sum, h, n * sizeof *sum); /* one f32 addition, or untouched: exact */

    tpcl_tensor_destroy(&dh);
    tpcl_tensor_destroy(&da);
    tpcl_tensor_destroy(&dw);
    tpcl_tensor_destroy(&dy);
    free(h);
    free(add);
    free(w);
    free(want);
    free(got);
    free(sum);
}

static void matches_reference(void **state)
{
    const struct rmsnorm_case *c = *state;
    begin_case(c->dim);
    const tpcl_device_info real = test_device->info;
    for (size_t i = 0; i < COUNT(ways); i++) {
        test_device->info.type = ways[i].type;
        if (ways[i].max_workgroup < real.max_workgroup)
            test_device->info.max_workgroup = ways[i].max_workgroup;
        for (size_t t = 0; t < COUNT(token_counts); t++) {
            check(token_counts[t], c->dim, false);
            check(token_counts[t], c->dim, true);
        }
        test_device->info = real;
    }
}

/* Without a residual the result may replace its input, and a row of zeros must not divide by 0. */
static void works_in_place_on_zeros(void **state)
{
    (void)state;
    begin_case(0);
    enum { DIM = 33 };
    float h[2 * DIM] = {0}, w[DIM], want[2 * DIM], got[2 * DIM];
    fill(h + DIM, DIM, 11);
    fill(w, DIM, 13);
    tpcl_ref_rmsnorm(h, NULL, w, want, 2, DIM, 1e-6f);
    for (int i = 0; i < DIM; i++) assert_true(want[i] == 0.0f);
    tpcl_tensor *dh = tensor_of(h, TPCL_F32, 2 * DIM), *dw = tensor_of(w, TPCL_F32, DIM);
    assert_ok(tpcl_rmsnorm(dh, NULL, dw, dh, 2, DIM, 1e-6f));
    assert_ok(tpcl_tensor_read(dh, got, 2 * DIM));
    assert_close(got, want, 2 * DIM, RTOL, ATOL);
    tpcl_tensor_destroy(&dh);
    tpcl_tensor_destroy(&dw);
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
    tpcl_tensor *full = tensor_of(NULL, TPCL_F32, 32), *less = tensor_of(NULL, TPCL_F32, 31);
    tpcl_tensor *w = tensor_of(NULL, TPCL_F32, 16), *w_less = tensor_of(NULL, TPCL_F32, 15);
    tpcl_tensor *y = tensor_of(NULL, TPCL_F32, 32), *whole = tensor_of(NULL, TPCL_I32, 32);
    const float eps = 1e-5f;
    refuses(TPCL_ERR_SHAPE, "rmsnorm h: 2 x 16 elements needed, the tensor has 31",
            tpcl_rmsnorm(less, NULL, w, y, 2, 16, eps));
    refuses(TPCL_ERR_SHAPE, "rmsnorm add: 2 x 16", tpcl_rmsnorm(full, less, w, y, 2, 16, eps));
    refuses(TPCL_ERR_SHAPE, "rmsnorm w: 1 x 16 elements needed, the tensor has 15",
            tpcl_rmsnorm(full, NULL, w_less, y, 2, 16, eps));
    refuses(TPCL_ERR_SHAPE, "rmsnorm y: 2 x 16", tpcl_rmsnorm(full, NULL, w, less, 2, 16, eps));
    refuses(TPCL_ERR_ARG, "dim 0", tpcl_rmsnorm(full, NULL, w, y, 2, 0, eps));
    refuses(TPCL_ERR_ARG, "-1", tpcl_rmsnorm(full, NULL, w, y, -1, 16, eps));
    refuses(TPCL_ERR_ARG, "eps -1e-05", tpcl_rmsnorm(full, NULL, w, y, 2, 16, -eps));
    refuses(TPCL_ERR_ARG, "eps nan", tpcl_rmsnorm(full, NULL, w, y, 2, 16, NAN));
    refuses(TPCL_ERR_ARG, "eps inf", tpcl_rmsnorm(full, NULL, w, y, 2, 16, INFINITY));
    refuses(TPCL_ERR_ARG, "rmsnorm h is NULL", tpcl_rmsnorm(NULL, NULL, w, y, 2, 16, eps));
    refuses(TPCL_ERR_ARG, "rmsnorm w is NULL", tpcl_rmsnorm(full, NULL, NULL, y, 2, 16, eps));
    refuses(TPCL_ERR_ARG, "rmsnorm y is NULL", tpcl_rmsnorm(full, NULL, w, NULL, 2, 16, eps));
    refuses(TPCL_ERR_ARG, "rmsnorm add: dtype I32", tpcl_rmsnorm(full, whole, w, y, 2, 16, eps));
    refuses(TPCL_ERR_ARG, "y overlaps rmsnorm h", tpcl_rmsnorm(full, y, w, full, 2, 16, eps));
    refuses(TPCL_ERR_ARG, "add overlaps rmsnorm h", tpcl_rmsnorm(full, full, w, y, 2, 16, eps));
    refuses(TPCL_ERR_ARG, "add overlaps rmsnorm y", tpcl_rmsnorm(full, y, w, y, 2, 16, eps));
    refuses(TPCL_ERR_ARG, "y overlaps rmsnorm w", tpcl_rmsnorm(full, NULL, w, w, 1, 16, eps));
    tpcl_tensor *all[] = {full, less, w, w_less, y, whole};
    for (size_t i = 0; i < COUNT(all); i++) tpcl_tensor_destroy(&all[i]);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(cases) + 2];
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = matches_reference,
                                       .initial_state = (void *)&cases[i]};
    tests[COUNT(cases)] = (struct CMUnitTest)cmocka_unit_test(works_in_place_on_zeros);
    tests[COUNT(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(rejects_what_does_not_fit);
    return run_ops_tests("ops/rmsnorm", tests);
}
