/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_test.h"

static const tpcl_dtype dtypes[] = {TPCL_F32, TPCL_F16, TPCL_BF16, TPCL_Q8_0, TPCL_Q4_0, TPCL_Q4_1};

struct norm_case {
    const char *name;
    int n, k;
    bool add, bias, swiglu;
};
static const struct norm_case cases[] = {
    {"one_element", 1, 1, false, false, false},
    {"one_panel_less_one", 15, 33, true, true, false}, /* idle lane, norm with a tail */
    {"one_panel", 16, 16, true, false, false},
    {"panel_and_one", 17, 64, false, true, false},
    {"three_panels", 48, 101, true, true, false}, /* the last panel has no partner */
    {"prime", 131, 37, true, true, false},        /* more pairs than one work-group takes */
    {"many_groups", 640, 32, true, false, false}, /* every work-group several pairs */
    {"swiglu_one_panel", 32, 33, true, true, true},
    {"swiglu_no_add", 64, 15, false, false, true},
    {"swiglu_prime", 2 * 16 * 13, 96, true, true, true},
    {"smollm2_gate_up", 3072, 576, true, false, true},
};

/* What a case works on, and the plain reference of it: the same three steps one after the other. */
struct norm_run {
    int k, outputs;
    float *h, *add, *norm, *bias, *sum, *want;
    tpcl_tensor *th, *tadd, *tnorm, *tbias;
    tpi_weight *w;
};

static void reference(const struct norm_case *c, const float *wide, struct norm_run *r)
{
    float *x = malloc((size_t)r->k * sizeof *x), *y = malloc((size_t)c->n * sizeof *y);
    memcpy(r->sum, r->h, (size_t)r->k * sizeof *x);
    tpcl_ref_rmsnorm(r->sum, c->add ? r->add : NULL, r->norm, x, 1, r->k, 1e-5f);
    tpcl_ref_linear(x, wide, c->bias ? r->bias : NULL, y, 1, c->n, r->k);
    if (c->swiglu)
        tpcl_ref_swiglu(y, r->want, 1, r->outputs);
    else
        memcpy(r->want, y, (size_t)c->n * sizeof *y);
    free(x);
    free(y);
}

static void begin(const struct norm_case *c, tpcl_dtype dtype, struct norm_run *r)
{
    r->k = tpcl_dtype_block(dtype) > 1 ? (c->k + 31) / 32 * 32 : c->k;
    r->outputs = c->swiglu ? c->n / 2 : c->n;
    const size_t k = (size_t)r->k, n = (size_t)c->n, weights = n * k;
    uint8_t *stored = random_stored(dtype, weights, 3);
    float *wide = malloc(weights * sizeof *wide);
    r->h = random_floats(k, 5);
    r->add = random_floats(k, 7);
    r->norm = random_floats(k, 11);
    r->bias = random_floats(n, 13);
    r->sum = malloc(k * sizeof *r->sum);
    r->want = malloc(n * sizeof *r->want);
    tpi_widen(dtype, stored, weights, wide);
    reference(c, wide, r);
    const tpcl_host_tensor host = {
        .name = "w", .dtype = dtype, .ndim = 2, .shape = {c->n, r->k}, .data = stored};
    const tpi_part part = {&host, 0, c->n, 0, r->k};
    assert_ok(tpi_weight_create(test_device, &part, 1, &r->w));
    r->th = tensor_of(r->h, TPCL_F32, k);
    r->tadd = tensor_of(r->add, TPCL_F32, k);
    r->tnorm = tensor_of(r->norm, TPCL_F32, k);
    r->tbias = tensor_of(r->bias, TPCL_F32, n);
    free(stored);
    free(wide);
}

static void end(struct norm_run *r)
{
    tpcl_tensor **tensors[] = {&r->th, &r->tadd, &r->tnorm, &r->tbias};
    float *arrays[] = {r->h, r->add, r->norm, r->bias, r->sum, r->want};
    for (size_t i = 0; i < COUNT(tensors); i++) tpcl_tensor_destroy(tensors[i]);
    for (size_t i = 0; i < COUNT(arrays); i++) free(arrays[i]);
    tpi_weight_destroy(&r->w);
}

static void check(const struct norm_case *c, tpcl_dtype dtype)
{
    struct norm_run r;
    begin(c, dtype, &r);
    const size_t outputs = (size_t)r.outputs, k = (size_t)r.k;
    tpcl_tensor *y = guarded_output(outputs), *sum = guarded_output(k);
    const tpi_norm_args in = {
        .h = r.th, .add = c->add ? r.tadd : NULL, .norm = r.tnorm, .sum = sum, .eps = 1e-5f};
    assert_ok(tpi_norm_linear(r.w, &in, c->bias ? r.tbias : NULL, y, c->swiglu));
    float *got = read_guarded(y, outputs), *got_sum = malloc((k + GUARD) * sizeof *got_sum);
    assert_close(got, r.want, outputs, 2e-5, 3e-6 * (r.k + 1) / 8 + 4e-5);
    free(got_sum);
    if (c->add) {
        got_sum = read_guarded(sum, k);
        assert_close(got_sum, r.sum, k, 1e-6, 1e-6);
        free(got_sum);
    } else {
        read_buffer(sum->mem, r.sum, k * sizeof(float));
        for (size_t i = 0; i < k; i++) assert_true(isnan(r.sum[i])); /* nothing to store */
    }
    free(got);
    tpcl_tensor_destroy(&y);
    tpcl_tensor_destroy(&sum);
    end(&r);
}

static void matches_reference(void **state)
{
    const struct norm_case *c = *state;
    begin_case((double)c->n * c->k);
    for (size_t d = 0; d < COUNT(dtypes);
         d++) /* a plain and a block type where compiling is slow */
        if (!small_only() || dtypes[d] == TPCL_F32 || dtypes[d] == TPCL_Q4_1) check(c, dtypes[d]);
}

/* One launch or three: a token's result does not depend on it, where one work-item makes a row. */
static void is_bitwise_what_three_launches_give(void **state)
{
    (void)state;
    const struct norm_case c = {"", 3 * 32, 160, true, true, true};
    begin_case((double)c.n * c.k);
    if (test_device->info.type != TPCL_DEVICE_CPU) skip();
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        if (small_only() && dtypes[d] != TPCL_F32 && dtypes[d] != TPCL_Q4_1) continue;
        struct norm_run r;
        float one[48], three[48], one_sum[160], three_sum[160];
        begin(&c, dtypes[d], &r);
        tpcl_tensor *sum = tensor_of(NULL, TPCL_F32, 160), *x = tensor_of(NULL, TPCL_F32, 160);
        tpcl_tensor *wide = tensor_of(NULL, TPCL_F32, 96), *y = tensor_of(NULL, TPCL_F32, 48);
        const tpi_norm_args in = {
            .h = r.th, .add = r.tadd, .norm = r.tnorm, .sum = sum, .eps = 1e-5f};
        assert_ok(tpi_norm_linear(r.w, &in, r.tbias, y, true));
        assert_ok(tpcl_tensor_read(y, one, 48));
        assert_ok(tpcl_tensor_read(sum, one_sum, 160));
        assert_ok(tpcl_rmsnorm(r.th, r.tadd, r.tnorm, x, 1, 160, 1e-5f));
        assert_ok(tpi_linear(r.w, x, r.tbias, wide, 1));
        assert_ok(tpcl_swiglu(wide, y, 1, 48));
        assert_ok(tpcl_tensor_read(y, three, 48));
        assert_ok(tpcl_tensor_read(r.th, three_sum, 160));
        assert_memory_equal(one, three, sizeof one);
        assert_memory_equal(one_sum, three_sum, sizeof one_sum);
        tpcl_tensor_destroy(&sum);
        tpcl_tensor_destroy(&x);
        tpcl_tensor_destroy(&wide);
        tpcl_tensor_destroy(&y);
        end(&r);
    }
}

/* What decides between the ways, and arguments that have no right answer. */
static void chooses_and_refuses(void **state)
{
    (void)state;
    const struct norm_case c = {"", 48, 32, true, false, false};
    begin_case((double)c.n * c.k);
    struct norm_run r;
    begin(&c, TPCL_F32, &r);
    tpcl_tensor *sum = tensor_of(NULL, TPCL_F32, 32), *y = tensor_of(NULL, TPCL_F32, 48);
    const bool cpu = test_device->info.type == TPCL_DEVICE_CPU;
    assert_int_equal(tpi_norm_linear_fits(r.w, 1, false), cpu);
    assert_false(tpi_norm_linear_fits(r.w, 2, false)); /* two rows share the weight's traffic */
    assert_false(tpi_norm_linear_fits(r.w, 1, true));  /* 24 + 24 outputs: no whole panels */

    tpi_norm_args in = {.h = r.th, .add = r.tadd, .norm = r.tnorm, .sum = r.th, .eps = 1e-5f};
    assert_int_equal(tpi_norm_linear(r.w, &in, NULL, y, false),
                     TPCL_ERR_ARG); /* h is read by all */
    assert_non_null(strstr(tpcl_last_error(), "linear sum overlaps linear h"));
    in.sum = r.tadd;
    assert_int_equal(tpi_norm_linear(r.w, &in, NULL, y, false), TPCL_ERR_ARG);
    in.sum = y;
    assert_int_equal(tpi_norm_linear(r.w, &in, NULL, y, false), TPCL_ERR_ARG);
    in.sum = sum;
    assert_int_equal(tpi_norm_linear(r.w, &in, NULL, sum, false), TPCL_ERR_SHAPE); /* 32 < 48 */
    tpcl_tensor_destroy(&sum);
    tpcl_tensor_destroy(&y);
    end(&r);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(cases) + 2];
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = matches_reference,
                                       .initial_state = (void *)&cases[i]};
    tests[COUNT(cases)] = (struct CMUnitTest)cmocka_unit_test(is_bitwise_what_three_launches_give);
    tests[COUNT(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(chooses_and_refuses);
    return run_ops_tests("ops/norm_linear", tests);
}
