/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and opening what this machine has, and what drivers can be made to show. */
#include "tpcl_test.h"

#include <string.h>
#include <unistd.h>

#include "device/child.h"
#include "device/device.h"

static void lists_what_exists(void **state)
{
    (void)state;
    tpcl_device_info *list = NULL;
    int n = 0;
    assert_ok(tpcl_device_list(&list, &n));
    if (n == 0) fail_msg("no OpenCL device: the tests need one, for example pocl-opencl-icd");
    for (int i = 0; i < n; i++) {
        assert_int_equal(list[i].index, i);
        assert_true(strlen(list[i].name) > 0 && strlen(list[i].platform) > 0);
        assert_true(list[i].compute_units > 0 && list[i].max_workgroup > 0);
        assert_true(list[i].global_bytes > 0 && list[i].max_alloc_bytes > 0);
        assert_in_range(list[i].same_as + 1, 0, i); /* an earlier one, or -1 */
        if (i > 0) assert_true(list[i - 1].type <= list[i].type);
    }
    tpcl_device_list_free(&list);
    assert_null(list);
    tpcl_device_list_free(&list);
    tpcl_device_list_free(NULL);
}

static void list_is_stable(void **state)
{
    (void)state;
    tpcl_device_info *a = NULL, *b = NULL;
    int n = 0, m = 0;
    assert_ok(tpcl_device_list(&a, &n));
    assert_ok(tpcl_device_list(&b, &m));
    assert_int_equal(n, m);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    tpcl_device_list_free(&a);
    tpcl_device_list_free(&b);
}

static tpcl_device *open_units(int units, tpcl_log log)
{
    const tpcl_device_options options = {
        .select = getenv("TPCL_TEST_DEVICE"), .units = units, .cache_dir = "", .log = log};
    tpcl_device *dev = NULL;
    assert_ok(tpcl_device_open(&options, &dev));
    return dev;
}

static void opens_by_default(void **state)
{
    (void)state;
    tpcl_device *dev = NULL;
    assert_ok(tpcl_device_open(NULL, &dev));
    assert_true(tpcl_device_get_info(dev)->usable);
    tpcl_device_close(&dev);
    assert_null(dev);
    tpcl_device_close(&dev);
    tpcl_device_close(NULL);
}

static void refuses_what_is_not_there(void **state)
{
    (void)state;
    const tpcl_device_options options = {.select = "no such device"};
    tpcl_device *dev = (tpcl_device *)&options;
    assert_int_equal(tpcl_device_open(&options, &dev), TPCL_ERR_NO_DEVICE);
    assert_null(dev);
    assert_non_null(strstr(tpcl_last_error(), "'no such device'"));
    assert_non_null(strstr(tpcl_last_error(), "0: "));
    assert_int_equal(tpcl_device_open(NULL, NULL), TPCL_ERR_ARG);
}

static void children_keep_it_open(void **state)
{
    (void)state;
    const int64_t shape[] = {4};
    const float in[4] = {1, 2, 3, 4};
    float out[4] = {0};
    tpcl_device *dev = open_units(0, (tpcl_log){0});
    tpcl_tensor *tensor = NULL;
    assert_ok(tpcl_tensor_create(dev, TPCL_F32, 1, shape, &tensor));
    tpcl_device_close(&dev);
    assert_ok(tpcl_tensor_write(tensor, in, 4));
    assert_ok(tpcl_tensor_read(tensor, out, 4));
    assert_memory_equal(in, out, sizeof in);
    tpcl_tensor_destroy(&tensor);
    assert_null(tensor);
}

static void count_warnings(void *context, tpcl_log_level level, const char *line)
{
    *(int *)context += level == TPCL_LOG_WARN && strstr(line, "cannot be divided");
}

/* Writes its number: enough to see that a part of a device works. */
static void run_iota(tpcl_device *dev)
{
    static const char *source = "__kernel void iota(__global int *y) {"
                                "    y[get_global_id(0)] = (int)get_global_id(0); }";
    cl_int err = CL_SUCCESS;
    cl_program program = clCreateProgramWithSource(dev->context, 1, &source, NULL, &err);
    assert_ok(TPI_CL(clBuildProgram(program, 1, &dev->id, "", NULL, NULL)));
    tpi_launch launch = {.dev = dev, .kernel = clCreateKernel(program, "iota", &err)};
    assert_int_equal(err, CL_SUCCESS);
    cl_mem mem = NULL;
    int got[100] = {0};
    const size_t global = 100;
    assert_ok(tpi_buffer_create(dev, sizeof got, "iota", &mem));
    tpi_arg_mem(&launch, mem);
    assert_ok(tpi_launch_run(&launch, 1, &global, NULL, "iota"));
    assert_ok(
        TPI_CL(clEnqueueReadBuffer(dev->queue, mem, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL)));
    for (int i = 0; i < 100; i++) assert_int_equal(got[i], i);
    tpi_buffer_release(&mem);
    clReleaseKernel(launch.kernel);
    clReleaseProgram(program);
}

static void opens_a_part(void **state)
{
    (void)state;
    int warnings = 0;
    const tpcl_log log = {count_warnings, &warnings};
    tpcl_device *whole = open_units(0, log);
    const tpcl_device_info info = *tpcl_device_get_info(whole);
    const bool divides =
        info.type == TPCL_DEVICE_CPU && info.compute_units > 1 && info.partitionable;
    tpcl_device *part = open_units(1, log);
    assert_int_equal(tpcl_device_get_info(part)->compute_units, divides ? 1 : info.compute_units);
    assert_int_equal(part->is_sub_device, divides);
    assert_int_equal(warnings, !divides && info.type == TPCL_DEVICE_CPU && info.compute_units > 1);
    run_iota(whole);
    run_iota(part); /* both at once in one process */
    tpcl_device_close(&whole);
    run_iota(part);
    tpcl_device_close(&part);
}

static void more_units_than_there_are(void **state)
{
    (void)state;
    int warnings = 0;
    tpcl_device *dev = open_units(100000, (tpcl_log){count_warnings, &warnings});
    assert_false(dev->is_sub_device);
    assert_int_equal(warnings, 0);
    run_iota(dev);
    tpcl_device_close(&dev);
}

static int child_no_driver(void)
{
    tpcl_device_info *list = (tpcl_device_info *)&list;
    tpcl_device *dev = NULL;
    int n = 7;
    CHECK(tpcl_device_list(&list, &n) == TPCL_OK, "%s", tpcl_last_error());
    CHECK(n == 0 && list == NULL, "n is %d", n);
    CHECK(tpcl_device_open(NULL, &dev) == TPCL_ERR_NO_DEVICE, "%s", tpcl_last_error());
    CHECK(strstr(tpcl_last_error(), "no OpenCL device"), "%s", tpcl_last_error());
    CHECK(dev == NULL, "a device without a driver");
    return 0;
}

/* PoCL then offers nothing, without a word; ours must say where to look. */
static int child_unwritable(void)
{
    tpcl_device *dev = NULL;
    const tpcl_status status = tpcl_device_open(NULL, &dev);
    tpcl_device_close(&dev);
    if (status == TPCL_OK) return 0; /* another driver */
    CHECK(status == TPCL_ERR_NO_DEVICE, "%s", tpcl_last_error());
    CHECK(strstr(tpcl_last_error(), "POCL_CACHE_DIR"), "%s", tpcl_last_error());
    return 0;
}

static int child_three_pocl(void)
{
    tpcl_device_info *list = NULL;
    int n = 0;
    CHECK(tpcl_device_list(&list, &n) == TPCL_OK, "%s", tpcl_last_error());
    CHECK(n >= 3, "%d devices", n);
    int basic = 0, pthread = 0;
    for (int i = 0; i < n; i++) {
        if (strstr(list[i].platform, "Portable"))
            CHECK(list[i].same_as < 0, "%d is %d", i, list[i].same_as);
        basic += strncmp(list[i].name, "basic", 5) == 0;
        pthread += strncmp(list[i].name, "pthread", 7) == 0;
    }
    CHECK(basic == 1 && pthread == 2, "%d basic, %d pthread", basic, pthread);
    for (int rank = 0; rank < 4; rank++) {
        const tpcl_device_options options = {
            .select = "pthread", .local_rank = rank, .cache_dir = ""};
        tpcl_device *dev = NULL;
        CHECK(tpcl_device_open(&options, &dev) == TPCL_OK, "%s", tpcl_last_error());
        static int first;
        const int index = tpcl_device_get_info(dev)->index;
        if (rank == 0) first = index;
        CHECK(index == first + rank % 2, "rank %d has device %d", rank, index);
        tpcl_device_close(&dev);
    }
    const tpcl_device_options basic_part = {.select = "basic-", .units = 1, .cache_dir = ""};
    tpcl_device *dev = NULL; /* one unit: cannot be divided and need not be */
    CHECK(tpcl_device_open(&basic_part, &dev) == TPCL_OK, "%s", tpcl_last_error());
    CHECK(!dev->is_sub_device, "a part of one unit");
    tpcl_device_close(&dev);
    tpcl_device_list_free(&list);
    return 0;
}

/* CASES C39: a 1 GiB device takes no 311 MB buffer. */
static int child_small_pocl(void)
{
    const tpcl_device_options options = {.select = "pocl", .cache_dir = ""};
    const int64_t shape[] = {151936, 512};
    tpcl_device *dev = NULL;
    tpcl_tensor *tensor = NULL;
    CHECK(tpcl_device_open(&options, &dev) == TPCL_OK, "%s", tpcl_last_error());
    CHECK(tpcl_tensor_create(dev, TPCL_F32, 2, shape, &tensor) == TPCL_ERR_SHAPE, "%s",
          tpcl_last_error());
    CHECK(strstr(tpcl_last_error(), "311164928") && strstr(tpcl_last_error(), "268435456") &&
              strstr(tpcl_last_error(), "use more ranks"),
          "%s", tpcl_last_error());
    CHECK(tensor == NULL, "a tensor");
    tpcl_device_close(&dev);
    return 0;
}

static void no_driver(void **state)
{
    (void)state;
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, "oclgrind")) skip(); /* it is there whatever the loader finds */
    char folder[] = "/tmp/tpcl-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *const environment[] = {"OCL_ICD_VENDORS", folder, NULL};
    assert_int_equal(run_child("no_driver", environment), 0);
    rmdir(folder);
}

/* Faked devices need PoCL itself; elsewhere (Oclgrind takes the loader's place) there is nothing to
 * see. */
static void need_pocl(void)
{
    tpcl_device_info *list = NULL;
    int n = 0, pocl = 0;
    assert_ok(tpcl_device_list(&list, &n));
    for (int i = 0; i < n; i++) pocl += strstr(list[i].platform, "Portable") != NULL;
    tpcl_device_list_free(&list);
    if (!pocl) skip();
}

static void unwritable_pocl_folder(void **state)
{
    (void)state;
    need_pocl();
    static const char *const environment[] = {"POCL_CACHE_DIR", "/proc/nope", NULL};
    assert_int_equal(run_child("unwritable", environment), 0);
}

static void three_pocl_devices(void **state)
{
    (void)state;
    need_pocl();
    static const char *const environment[] = {"POCL_DEVICES", "pthread pthread basic", NULL};
    assert_int_equal(run_child("three_pocl", environment), 0);
}

static void small_pocl_device(void **state)
{
    (void)state;
    need_pocl();
    static const char *const environment[] = {"POCL_MEMORY_LIMIT", "1", NULL};
    assert_int_equal(run_child("small_pocl", environment), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "no_driver") == 0) return child_no_driver();
    if (argc > 1 && strcmp(argv[1], "unwritable") == 0) return child_unwritable();
    if (argc > 1 && strcmp(argv[1], "three_pocl") == 0) return child_three_pocl();
    if (argc > 1 && strcmp(argv[1], "small_pocl") == 0) return child_small_pocl();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_what_exists),         cmocka_unit_test(list_is_stable),
        cmocka_unit_test(opens_by_default),          cmocka_unit_test(refuses_what_is_not_there),
        cmocka_unit_test(children_keep_it_open),     cmocka_unit_test(opens_a_part),
        cmocka_unit_test(more_units_than_there_are), cmocka_unit_test(no_driver),
        cmocka_unit_test(unwritable_pocl_folder),    cmocka_unit_test(three_pocl_devices),
        cmocka_unit_test(small_pocl_device),
    };
    return cmocka_run_group_tests_name("device/device", tests, NULL, NULL);
}
