/* What every op test needs: the device under test, tensors from arrays, random stored weights. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OPS_TEST_H
#define OPS_TEST_H

#include <string.h>

#include "ops/ops.h"
#include "stored.h"

/* TPCL_TEST_DEVICE selects the device, as --device does. No device is a failure, never a skip,
 * except where TPCL_TEST_OPTIONAL says that this machine need not have it: then the exit code is
 * 77, which ctest shows as skipped. TPCL_TEST_SMALL keeps to small shapes, for devices that
 * interpret. TPCL_TEST_LANES runs the variants for GPUs on whatever device there is,
 * TPCL_TEST_CLBLAST the products of many rows through CLBlast. */
enum { EXIT_SKIPPED = 77 };
static tpcl_device *test_device;
static int cases_run;

static inline int open_device(void **state)
{
    (void)state;
    const char *select = getenv("TPCL_TEST_DEVICE");
    const bool blas = getenv("TPCL_TEST_CLBLAST") != NULL;
    const tpcl_device_options options = {
        .select = select, .cache_dir = "", .gemm = blas ? TPCL_GEMM_CLBLAST : TPCL_GEMM_AUTO};
    const tpcl_status status = tpcl_device_open(&options, &test_device);
    if (status != TPCL_OK) print_error("no device: %s\n", tpcl_last_error());
    if (status == TPCL_ERR_NO_DEVICE && getenv("TPCL_TEST_OPTIONAL")) exit(EXIT_SKIPPED);
    if (status == TPCL_OK && getenv("TPCL_TEST_LANES")) test_device->info.type = TPCL_DEVICE_GPU;
    return status == TPCL_OK ? 0 : -1;
}

static inline int close_device(void **state)
{
    (void)state;
    tpcl_device_close(&test_device);
    return 0;
}

static inline bool small_only(void)
{
    return getenv("TPCL_TEST_SMALL") != NULL;
}

/* `work` is about the multiplications of one call. */
static inline bool too_slow(double work)
{
    return small_only() && work > 5e4;
}

/* Every test starts with this, with the work that it cannot do without. */
static inline void begin_case(double work)
{
    if (too_slow(work)) skip();
    cases_run++;
}

/* A filter or an early skip that leaves nothing to run is a failure. */
#define run_ops_tests(group, tests) \
    (cmocka_run_group_tests_name(group, tests, open_device, close_device) != 0 || cases_run == 0)

/* A device tensor of n elements holding `values`, or NaN where values is NULL: an op that reads an
 * element it should not, or leaves one unwritten, then shows. */
static inline tpcl_tensor *tensor_of(const void *values, tpcl_dtype dtype, size_t n)
{
    tpcl_tensor *t = NULL;
    const int64_t shape[1] = {(int64_t)n};
    assert_ok(tpcl_tensor_create(test_device, dtype, 1, shape, &t));
    if (values) {
        assert_ok(tpcl_tensor_write(t, values, n));
    } else {
        float *nan = malloc(n * sizeof *nan + 1);
        for (size_t i = 0; i < n; i++) nan[i] = NAN;
        assert_ok(tpcl_tensor_write(t, nan, n));
        free(nan);
    }
    return t;
}

/* A device buffer holding `bytes` of values, for what is no tensor. */
static inline cl_mem buffer_of(const void *values, size_t bytes)
{
    cl_mem mem = NULL;
    assert_ok(tpi_buffer_create(test_device, bytes, "test buffer", &mem));
    assert_int_equal(
        clEnqueueWriteBuffer(test_device->queue, mem, CL_TRUE, 0, bytes, values, 0, NULL, NULL), 0);
    return mem;
}

static inline void read_buffer(cl_mem mem, void *values, size_t bytes)
{
    assert_int_equal(
        clEnqueueReadBuffer(test_device->queue, mem, CL_TRUE, 0, bytes, values, 0, NULL, NULL), 0);
}

/* Elements past an op's last one, which it must leave alone. */
enum { GUARD = 20 };

/* An output of n elements and a guard, all NaN; and the n elements after the op, guard checked. */
static inline tpcl_tensor *guarded_output(size_t n)
{
    return tensor_of(NULL, TPCL_F32, n + GUARD);
}

static inline float *read_guarded(const tpcl_tensor *t, size_t n)
{
    float *got = malloc((n + GUARD) * sizeof *got);
    assert_ok(tpcl_tensor_read(t, got, n + GUARD));
    for (size_t i = n; i < n + GUARD; i++)
        if (!isnan(got[i])) fail_msg("element %zu past the end was written: %g", i - n, got[i]);
    return got;
}

#endif
