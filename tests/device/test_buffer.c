/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and their budget, launches, OpenCL's error codes. */
#include "tpcl_test.h"

#include <string.h>

#include "device/device.h"

static int open_device(void **state)
{
    const tpcl_device_options options = {.select = getenv("TPCL_TEST_DEVICE"), .cache_dir = ""};
    if (tpcl_device_open(&options, (tpcl_device **)state) == TPCL_OK) return 0;
    fprintf(stderr, "%s\n", tpcl_last_error());
    return 1;
}

static int close_device(void **state)
{
    tpcl_device_close((tpcl_device **)state);
    return 0;
}

static void message_has(const char *words)
{
    if (!strstr(tpcl_last_error(), words)) fail_msg("'%s' is not in: %s", words, tpcl_last_error());
}

static void empty_buffer(void **state)
{
    cl_mem mem = (cl_mem)state;
    assert_ok(tpi_buffer_create(*state, 0, "nothing", &mem));
    assert_null(mem);
    tpi_buffer_release(&mem);
}

static void over_the_limit_of_one(void **state)
{
    tpcl_device *dev = *state;
    cl_mem mem = (cl_mem)state;
    const uint64_t limit = dev->info.max_alloc_bytes;
    char number[32];
    assert_int_equal(tpi_buffer_create(dev, (size_t)limit + 1, "blk.0.ffn_up.weight", &mem),
                     TPCL_ERR_SHAPE);
    assert_null(mem);
    message_has("blk.0.ffn_up.weight: ");
    message_has("use more ranks");
    snprintf(number, sizeof number, "%llu", (unsigned long long)limit);
    message_has(number);
    snprintf(number, sizeof number, "%llu", (unsigned long long)limit + 1);
    message_has(number);
}

static void over_the_budget(void **state)
{
    tpcl_device *dev = *state;
    const uint64_t budget = dev->budget_bytes;
    cl_mem a = NULL, b = NULL;
    assert_int_equal(tpi_device_used_bytes(dev), 0);
    dev->budget_bytes = 1000;
    assert_ok(tpi_buffer_create(dev, 600, "a", &a));
    assert_int_equal(tpi_device_used_bytes(dev), 600);
    assert_int_equal(tpi_buffer_create(dev, 401, "kv cache of layer 3", &b), TPCL_ERR_DEVICE_MEM);
    assert_null(b);
    message_has("kv cache of layer 3: 401 bytes");
    message_has("use more ranks");
    assert_ok(tpi_buffer_create(dev, 400, "b", &b)); /* exactly full */
    assert_int_equal(tpi_device_used_bytes(dev), 1000);
    tpi_buffer_release(&a);
    assert_null(a);
    assert_int_equal(tpi_device_used_bytes(dev), 400);
    tpi_buffer_release(&b);
    tpi_buffer_release(&b);
    assert_int_equal(tpi_device_used_bytes(dev), 0);
    dev->budget_bytes = budget;
}

static void over_the_hosts_memory(void **state)
{
    tpcl_device *dev = *state;
    const tpcl_device saved = *dev;
    cl_mem mem = NULL;
    if (dev->info.type != TPCL_DEVICE_CPU) skip();
    dev->info.max_alloc_bytes = dev->budget_bytes = UINT64_MAX;
    assert_int_equal(tpi_buffer_create(dev, SIZE_MAX / 2, "head", &mem), TPCL_ERR_DEVICE_MEM);
    message_has("head: ");
    message_has("this host has");
    dev->info = saved.info;
    dev->budget_bytes = saved.budget_bytes;
}

static void budget_is_what_exists(void **state)
{
    const tpcl_device *dev = *state;
    const uint64_t host = tpi_host_available_bytes();
    assert_true(host > 1u << 20);
    assert_true(dev->budget_bytes > 1u << 20);
    assert_true(dev->budget_bytes <= dev->info.global_bytes);
}

/* The path of devices with memory of their own, taken on whatever is here. */
static void touched_at_once(void **state)
{
    tpcl_device *dev = *state;
    const tpcl_device_type type = dev->info.type;
    const float in[3] = {1, 2, 3};
    float out[3] = {0};
    cl_mem mem = NULL;
    dev->info.type = TPCL_DEVICE_GPU;
    assert_ok(tpi_buffer_create(dev, 2u << 20, "weights", &mem));
    dev->info.type = type;
    assert_ok(
        TPI_CL(clEnqueueWriteBuffer(dev->queue, mem, CL_TRUE, 64, sizeof in, in, 0, NULL, NULL)));
    assert_ok(
        TPI_CL(clEnqueueReadBuffer(dev->queue, mem, CL_TRUE, 64, sizeof out, out, 0, NULL, NULL)));
    assert_memory_equal(in, out, sizeof in);
    tpi_buffer_release(&mem);
}

static void tensors(void **state)
{
    tpcl_device *dev = *state;
    const int64_t shape[] = {3, 5}, none[] = {0, 5}, huge[] = {1ll << 62, 8}, negative[] = {-1};
    const float in[15] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    float out[15] = {0};
    tpcl_tensor *t = NULL;
    assert_ok(tpcl_tensor_create(dev, TPCL_F32, 2, shape, &t));
    assert_ok(tpcl_tensor_write(t, in, 15));
    assert_ok(tpcl_tensor_read(t, out, 15));
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(tpcl_tensor_write(t, in, 16), TPCL_ERR_SHAPE);
    assert_int_equal(tpcl_tensor_read(t, out, 16), TPCL_ERR_SHAPE);
    assert_int_equal(tpcl_tensor_write(t, NULL, 1), TPCL_ERR_ARG);
    tpcl_tensor_destroy(&t);
    assert_ok(tpcl_tensor_create(dev, TPCL_I32, 2, none, &t));
    assert_ok(tpcl_tensor_write(t, NULL, 0));
    assert_ok(tpcl_tensor_read(t, NULL, 0));
    assert_int_equal(tpcl_tensor_read(t, out, 1), TPCL_ERR_SHAPE);
    tpcl_tensor_destroy(&t);
    assert_int_equal(tpcl_tensor_create(dev, TPCL_F32, 2, huge, &t), TPCL_ERR_SHAPE);
    assert_int_equal(tpcl_tensor_create(dev, TPCL_F32, 1, negative, &t), TPCL_ERR_ARG);
    assert_int_equal(tpcl_tensor_create(dev, TPCL_F32, 0, shape, &t), TPCL_ERR_ARG);
    assert_int_equal(tpcl_tensor_create(dev, TPCL_F32, 5, shape, &t), TPCL_ERR_ARG);
    assert_int_equal(tpcl_tensor_create(dev, TPCL_F16, 1, shape, &t), TPCL_ERR_ARG);
    assert_null(t);
    tpcl_tensor_destroy(&t);
    tpcl_tensor_destroy(NULL);
}

static void error_texts(void **state)
{
    (void)state;
    static const struct {
        cl_int err;
        const char *what;
        tpcl_status status;
        const char *message;
    } rows[] = {
        {-5, "clEnqueueWriteBuffer(dev->queue, mem, CL_TRUE)", TPCL_ERR_DEVICE_MEM,
         "clEnqueueWriteBuffer: CL_OUT_OF_RESOURCES (-5)"},
        {-4, "attention", TPCL_ERR_DEVICE_MEM, "attention: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"},
        {-6, "clCreateContext", TPCL_ERR_NOMEM, "clCreateContext: CL_OUT_OF_HOST_MEMORY (-6)"},
        {-54, "rows (norm)", TPCL_ERR_DEVICE, "rows (norm): CL_INVALID_WORK_GROUP_SIZE (-54)"},
        {-68, "x", TPCL_ERR_DEVICE, "x: CL_INVALID_DEVICE_PARTITION_COUNT (-68)"},
        {-1001, "clGetPlatformIDs", TPCL_ERR_DEVICE,
         "clGetPlatformIDs: CL_PLATFORM_NOT_FOUND_KHR (-1001)"},
        {-9999, "x", TPCL_ERR_DEVICE, "x: OpenCL error (-9999)"},
    };
    assert_int_equal(tpi_cl_check(CL_SUCCESS, "x"), TPCL_OK);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(tpi_cl_check(rows[i].err, rows[i].what), rows[i].status);
        assert_string_equal(tpcl_last_error(), rows[i].message);
    }
}

static const char *const add_source =
    "__kernel __attribute__((reqd_work_group_size(4, 1, 1))) void "
    "add(__global float *y, int n, float a) {"
    "    if ((int)get_global_id(0) < n) y[get_global_id(0)] += a; }";

/* Wrong launches are errors with the op's name; an empty one is none and does nothing. */
static void launches(void **state)
{
    tpcl_device *dev = *state;
    cl_int err = CL_SUCCESS;
    cl_mem mem = NULL;
    const char *source = add_source;
    float y[8] = {0};
    cl_program program = clCreateProgramWithSource(dev->context, 1, &source, NULL, &err);
    assert_ok(TPI_CL(clBuildProgram(program, 1, &dev->id, "", NULL, NULL)));
    cl_kernel kernel = clCreateKernel(program, "add", &err);
    assert_ok(tpi_buffer_create(dev, sizeof y, "y", &mem));
    assert_ok(
        TPI_CL(clEnqueueWriteBuffer(dev->queue, mem, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL)));

    const size_t eight = 8, four = 4, three = 3, zero[2] = {8, 0};
    tpi_launch l = {.dev = dev, .kernel = kernel};
    assert_int_equal(tpi_launch_run(&l, 1, &eight, &four, "add_bias"), TPCL_ERR_DEVICE);
    message_has("add_bias: CL_INVALID_KERNEL_ARGS (-52)");
    tpi_arg_mem(&l, mem);
    tpi_arg_int(&l, 7);
    tpi_arg_float(&l, 2.5f);
    assert_int_equal(tpi_launch_run(&l, 1, &eight, &three, "add_bias"), TPCL_ERR_DEVICE);
    message_has("add_bias: CL_INVALID_WORK_GROUP_SIZE (-54)");
    assert_ok(tpi_launch_run(&l, 2, zero, NULL, "add_bias"));
    assert_ok(tpi_launch_run(&l, 1, &eight, &four, "add_bias"));
    tpi_arg_int(&l, 1);
    assert_int_equal(tpi_launch_run(&l, 1, &eight, &four, "add_bias"), TPCL_ERR_DEVICE);
    message_has("add_bias: CL_INVALID_ARG_INDEX (-49)");

    assert_ok(TPI_CL(clEnqueueReadBuffer(dev->queue, mem, CL_TRUE, 0, sizeof y, y, 0, NULL, NULL)));
    for (int i = 0; i < 8; i++) assert_true(y[i] == (i < 7 ? 2.5f : 0.0f));
    tpi_buffer_release(&mem);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_buffer),
        cmocka_unit_test(over_the_limit_of_one),
        cmocka_unit_test(over_the_budget),
        cmocka_unit_test(over_the_hosts_memory),
        cmocka_unit_test(budget_is_what_exists),
        cmocka_unit_test(touched_at_once),
        cmocka_unit_test(tensors),
        cmocka_unit_test(error_texts),
        cmocka_unit_test(launches),
    };
    return cmocka_run_group_tests_name("device/buffer", tests, open_device, close_device);
}
