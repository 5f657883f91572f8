/* SPDX-License-Identifier: Apache-2.0 */
/* vload_half and the bf16 shift on the device against the host's conversions: every 16-bit pattern,
 * bit for bit (CASES C28). Only a NaN's payload may differ: hardware sets its quiet bit. */
#include "tpcl_test.h"

#include <string.h>

#include "base/dtype.h"
#include "device/device.h"

enum { PATTERNS = 65536 };

static const char *const source =
    "__kernel void widen_f16(__global const half *x, __global float *y)"
    "{ y[get_global_id(0)] = vload_half(get_global_id(0), x); }"
    "__kernel void widen_f16x16(__global const half *x, __global float *y)"
    "{ vstore16(vload_half16(get_global_id(0), x), get_global_id(0), y); }"
    "__kernel void widen_bf16(__global const ushort *x, __global float *y)"
    "{ y[get_global_id(0)] = as_float((uint)x[get_global_id(0)] << 16); }";

typedef struct fixture {
    tpcl_device *dev;
    cl_program program;
    cl_mem x, y;
} fixture;

static fixture f;

static int open_device(void **state)
{
    (void)state;
    const tpcl_device_options options = {.select = getenv("TPCL_TEST_DEVICE"), .cache_dir = ""};
    static uint16_t patterns[PATTERNS];
    cl_int err = CL_SUCCESS;
    const char *text = source;
    for (int i = 0; i < PATTERNS; i++) patterns[i] = (uint16_t)i;
    if (tpcl_device_open(&options, &f.dev) != TPCL_OK) goto failed;
    f.program = clCreateProgramWithSource(f.dev->context, 1, &text, NULL, &err);
    if (TPI_CL(clBuildProgram(f.program, 1, &f.dev->id, "-cl-std=CL1.2", NULL, NULL)) != TPCL_OK)
        goto failed;
    if (tpi_buffer_create(f.dev, sizeof patterns, "x", &f.x) != TPCL_OK) goto failed;
    if (tpi_buffer_create(f.dev, PATTERNS * sizeof(float), "y", &f.y) != TPCL_OK) goto failed;
    if (TPI_CL(clEnqueueWriteBuffer(f.dev->queue, f.x, CL_TRUE, 0, sizeof patterns, patterns, 0,
                                    NULL, NULL)) == TPCL_OK)
        return 0;
failed:
    fprintf(stderr, "%s\n", tpcl_last_error());
    return 1;
}

static int close_device(void **state)
{
    (void)state;
    tpi_buffer_release(&f.x);
    tpi_buffer_release(&f.y);
    if (f.program) clReleaseProgram(f.program);
    tpcl_device_close(&f.dev);
    return 0;
}

static void compare(const char *name, size_t per_item, float (*host)(uint16_t))
{
    static float got[PATTERNS];
    cl_int err = CL_SUCCESS;
    const size_t global = PATTERNS / per_item;
    tpi_launch l = {.dev = f.dev, .kernel = clCreateKernel(f.program, name, &err)};
    assert_int_equal(err, CL_SUCCESS);
    tpi_arg_mem(&l, f.x);
    tpi_arg_mem(&l, f.y);
    assert_ok(tpi_launch_run(&l, 1, &global, NULL, name));
    assert_ok(
        TPI_CL(clEnqueueReadBuffer(f.dev->queue, f.y, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL)));
    for (int i = 0; i < PATTERNS; i++) {
        const float want = host((uint16_t)i);
        if (isnan(want) && isnan(got[i])) continue;
        if (memcmp(&want, &got[i], sizeof want) != 0)
            fail_msg("%s: %04x gives %.9g, the host has %.9g", name, i, (double)got[i],
                     (double)want);
    }
    clReleaseKernel(l.kernel);
}

static void f16_one_by_one(void **state)
{
    (void)state;
    compare("widen_f16", 1, tpi_half_to_float);
}

static void f16_by_sixteen(void **state)
{
    (void)state;
    compare("widen_f16x16", 16, tpi_half_to_float);
}

static void bf16(void **state)
{
    (void)state;
    compare("widen_bf16", 1, tpi_bf16_to_float);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_one_by_one),
        cmocka_unit_test(f16_by_sixteen),
        cmocka_unit_test(bf16),
    };
    return cmocka_run_group_tests_name("device/half", tests, open_device, close_device);
}
