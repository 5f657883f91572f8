/* SPDX-License-Identifier: Apache-2.0 */
/* Building programs: once per device, from the cache on disk at the second start, and told clearly
 * when it cannot be done. */
#include "tpcl_test.h"

#include <dirent.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "device/child.h"
#include "device/program.h"

enum { N = 64 };

static const char *const sources[2] = {
    "#define STEP 3\n", "__kernel void ramp(__global int *y) { y[get_global_id(0)] = STEP * "
                        "(int)get_global_id(0) + BASE; }\n"
                        "__kernel void flat(__global int *y) { y[get_global_id(0)] = BASE; }\n"};

typedef struct fixture {
    char folder[64], line[600], log[2000];
    int warnings;
} fixture;

static void take_line(void *context, tpcl_log_level level, const char *line)
{
    fixture *f = context;
    f->warnings += level == TPCL_LOG_WARN;
    snprintf(f->line, sizeof f->line, "%s", line);
    if (strlen(f->log) + strlen(line) + 2 < sizeof f->log) strcat(strcat(f->log, line), "\n");
}

static int make_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f) return 1;
    strcpy(f->folder, "/tmp/tpcl-test-XXXXXX");
    *state = f;
    return mkdtemp(f->folder) ? 0 : 1;
}

static int remove_fixture(void **state)
{
    fixture *f = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", f->folder);
    const int rc = system(command);
    free(f);
    return rc;
}

static tpcl_status open_cached(fixture *f, const char *folder, int units, tpcl_device **dev)
{
    const tpcl_device_options options = {.select = getenv("TPCL_TEST_DEVICE"),
                                         .units = units,
                                         .cache_dir = folder,
                                         .log = {f ? take_line : NULL, f}};
    return tpcl_device_open(&options, dev);
}

/* Runs one kernel of a built program; 0 when its numbers are right. */
static int run_kernel(tpcl_device *dev, cl_program program, const char *name, int step, int base)
{
    cl_int err = CL_SUCCESS;
    cl_mem mem = NULL;
    int got[N] = {0};
    const size_t global = N, local = 4;
    tpi_launch l = {.dev = dev, .kernel = clCreateKernel(program, name, &err)};
    CHECK(err == CL_SUCCESS, "%s: %d", name, err);
    CHECK(tpi_buffer_create(dev, sizeof got, name, &mem) == TPCL_OK, "%s", tpcl_last_error());
    tpi_arg_mem(&l, mem);
    CHECK(tpi_launch_run(&l, 1, &global, &local, name) == TPCL_OK, "%s", tpcl_last_error());
    err = clEnqueueReadBuffer(dev->queue, mem, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL);
    CHECK(err == CL_SUCCESS, "read: %d", err);
    for (int i = 0; i < N; i++) CHECK(got[i] == step * i + base, "%s[%d] is %d", name, i, got[i]);
    tpi_buffer_release(&mem);
    clReleaseKernel(l.kernel);
    return 0;
}

/* One start of a program that uses the cache; 0 when all is well. */
static int start(fixture *f, const char *folder, int units, bool *from_source)
{
    tpcl_device *dev = NULL;
    cl_program program = NULL;
    CHECK(open_cached(f, folder, units, &dev) == TPCL_OK, "%s", tpcl_last_error());
    const tpi_cache_key key = tpi_build_key(dev, sources, "-DBASE=7");
    CHECK(tpi_build(dev, "ramp", sources, "-DBASE=7", &key, &program, from_source) == TPCL_OK, "%s",
          tpcl_last_error());
    if (run_kernel(dev, program, "ramp", 3, 7) || run_kernel(dev, program, "flat", 0, 7)) return 1;
    if (*from_source) tpi_build_store(dev, &key, program);
    clReleaseProgram(program);
    tpcl_device_close(&dev);
    return 0;
}

static int count_files(const char *path, const char *suffix, char *last)
{
    int n = 0;
    DIR *dir = opendir(path);
    if (!dir) return -1;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        const char *dot = strrchr(e->d_name, '.');
        if (e->d_name[0] == '.' || !dot || strcmp(dot, suffix) != 0) continue;
        if (last) sprintf(last, "%s/%.60s", path, e->d_name);
        n++;
    }
    closedir(dir);
    return n;
}

static void second_start_is_warm(void **state)
{
    fixture *f = *state;
    bool from_source = false;
    assert_int_equal(start(f, f->folder, 0, &from_source), 0);
    assert_true(from_source);
    assert_int_equal(count_files(f->folder, ".bin", NULL), 1);
    assert_int_equal(start(f, f->folder, 0, &from_source), 0);
    assert_false(from_source);
    assert_int_equal(count_files(f->folder, ".bin", NULL), 1);
    assert_int_equal(f->warnings, 0);
}

static void sub_devices_too(void **state)
{
    fixture *f = *state;
    bool from_source = false;
    tpcl_device *part = NULL;
    assert_ok(open_cached(f, "", 1, &part));
    const bool divided = part->is_sub_device;
    tpcl_device_close(&part);
    if (!divided) skip();
    assert_int_equal(start(f, f->folder, 1, &from_source), 0);
    assert_true(from_source);
    assert_int_equal(start(f, f->folder, 1, &from_source), 0);
    assert_false(from_source);
}

static void without_a_cache(void **state)
{
    fixture *f = *state;
    bool from_source = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(start(f, "", 0, &from_source), 0);
        assert_true(from_source);
    }
    assert_int_equal(f->warnings, 0);
}

static void damaged_entry_is_rebuilt(void **state)
{
    fixture *f = *state;
    char path[160];
    bool from_source = false;
    assert_int_equal(start(f, f->folder, 0, &from_source), 0);
    assert_int_equal(count_files(f->folder, ".bin", path), 1);
    assert_int_equal(truncate(path, 1000), 0); /* PoCL 3.1 would crash on its part of this */
    assert_int_equal(start(f, f->folder, 0, &from_source), 0);
    assert_true(from_source);
    assert_int_equal(f->warnings, 1);
    assert_int_equal(start(f, f->folder, 0, &from_source), 0);
    assert_false(from_source);
}

/* Sound for us, but nothing that the driver knows: from another version, say. */
static void rejected_by_the_driver(void **state)
{
    fixture *f = *state;
    tpcl_device *dev = NULL;
    bool from_source = false;
    assert_ok(open_cached(f, f->folder, 0, &dev));
    if (strcmp(dev->info.platform, "rusticl") == 0) { /* Mesa 22.3 ends the process here */
        tpcl_device_close(&dev);
        skip();
    }
    const tpi_cache_key key = tpi_build_key(dev, sources, "-DBASE=7");
    tpi_cache_store(dev, &key, tpi_cache_claim(dev, &key), "not a binary", 13);
    tpcl_device_close(&dev);
    assert_int_equal(count_files(f->folder, ".bin", NULL), 1);
    assert_int_equal(start(f, f->folder, 0, &from_source), 0);
    assert_true(from_source);
    assert_int_equal(start(f, f->folder, 0, &from_source), 0);
    assert_false(from_source);
}

static void key_has_all_parts(void **state)
{
    fixture *f = *state;
    static const char *const other[2] = {"#define STEP 4\n", "__kernel void ramp() {}"};
    tpcl_device *dev = NULL;
    assert_ok(open_cached(f, "", 0, &dev));
    tpi_cache_key keys[9];
    size_t n = 0;
    keys[n++] = tpi_build_key(dev, sources, "-DBASE=7");
    keys[n++] = tpi_build_key(dev, sources, "-DBASE=8");
    keys[n++] = tpi_build_key(dev, other, "-DBASE=7");
    dev->info.compute_units++;
    keys[n++] = tpi_build_key(dev, sources, "-DBASE=7");
    char *const texts[] = {dev->info.name, dev->info.vendor, dev->info.platform, dev->info.driver};
    for (size_t i = 0; i < COUNT(texts); i++) {
        texts[i][0] ^= 1;
        keys[n++] = tpi_build_key(dev, sources, "-DBASE=7");
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(&keys[i], &keys[j], sizeof keys[0]);
    tpcl_device_close(&dev);
}

/* Through the interface of the ops: one build per file and options, one kernel per name. */
static void kernels_are_shared(void **state)
{
    fixture *f = *state;
    tpcl_device *dev = NULL;
    cl_kernel a = NULL, b = NULL, c = NULL;
    for (int round = 0; round < 2; round++) { /* cold, then from the binary */
        assert_ok(open_cached(f, f->folder, 0, &dev));
        assert_ok(tpi_kernel_get(dev, "elementwise", "-cl-std=CL1.2", "swiglu", &a));
        assert_ok(tpi_kernel_get(dev, "elementwise", "-cl-std=CL1.2", "swiglu", &b));
        assert_ptr_equal(a, b);
        assert_ok(tpi_kernel_get(dev, "elementwise", "-cl-std=CL1.2", "add_bias", &b));
        assert_ptr_not_equal(a, b);
        assert_ok(tpi_kernel_get(dev, "elementwise", "-cl-std=CL1.2 -DX", "swiglu", &c));
        assert_ptr_not_equal(a, c);
        assert_int_equal(tpi_kernel_get(dev, "no_such_file", "", "x", &c), TPCL_ERR_ARG);
        assert_null(c);
        assert_int_equal(tpi_kernel_get(dev, "elementwise", "-cl-std=CL1.2", "nope", &c),
                         TPCL_ERR_DEVICE);
        assert_non_null(strstr(tpcl_last_error(), "nope: CL_INVALID_KERNEL_NAME (-46)"));
        tpcl_device_close(&dev); /* stores */
        assert_int_equal(count_files(f->folder, ".bin", NULL), 2);
    }
    assert_int_equal(f->warnings, 0);
}

static void build_errors_are_told(void **state)
{
    fixture *f = *state;
    static const char *const broken[2] = {
        "", "__kernel void k(__global int *y)\n{\n    y[0] = oops;\n}\n"};
    tpcl_device *dev = NULL;
    cl_program program = NULL;
    bool from_source = false;
    assert_ok(open_cached(f, f->folder, 0, &dev));
    const tpi_cache_key key = tpi_build_key(dev, broken, "-DA=1");
    assert_int_equal(tpi_build(dev, "broken", broken, "-DA=1", &key, &program, &from_source),
                     TPCL_ERR_DEVICE);
    static const char *const words[] = {"broken", "-DA=1", "CL_BUILD_PROGRAM_FAILURE (-11): "};
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strstr(tpcl_last_error(), words[i])) fail_msg("'%s': %s", words[i], tpcl_last_error());
    assert_non_null(strstr(tpcl_last_error(), dev->info.name));
    assert_null(strchr(tpcl_last_error(), '\n'));
    assert_non_null(strstr(f->log, "oops")); /* the compiler's own words */
    assert_in_range(f->warnings, 2, 21);
    if (program) clReleaseProgram(program);
    tpcl_device_close(&dev);
    assert_int_equal(count_files(f->folder, ".bin", NULL), 0);
}

/* CASES C46: four processes, both caches cold. */
static void four_cold_starts_at_once(void **state)
{
    fixture *f = *state;
    char ours[96], pocl[96];
    pid_t pids[4];
    snprintf(ours, sizeof ours, "%s/ours", f->folder);
    snprintf(pocl, sizeof pocl, "%s/pocl", f->folder);
    const char *const environment[] = {"TPCL_CACHE_DIR", ours, "POCL_CACHE_DIR", pocl, NULL};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++) pids[i] = start_child(round ? "warm" : "any", environment);
        int codes = 0;
        for (int i = 0; i < 4; i++) codes |= end_child(pids[i]);
        assert_int_equal(codes, 0);
        assert_int_equal(count_files(ours, ".bin", NULL), 1);
        assert_int_equal(count_files(ours, ".tmp", NULL), 0);
    }
}

static int child_start(bool must_be_warm)
{
    bool from_source = false;
    if (start(NULL, NULL, 0, &from_source) != 0) return 1;
    CHECK(!must_be_warm || !from_source, "built from source");
    return 0;
}

/* PoCL's folder lies on a disk of 1 MiB, or a read-only one: an error, where PoCL itself would end
 * the process or give no reason. */
static int child_bad_disk(bool read_only)
{
    char folder[] = "/tmp/tpcl-test-XXXXXX";
    tpcl_device *dev = NULL;
    cl_program program = NULL;
    bool from_source = false;
    CHECK(mkdtemp(folder), "mkdtemp");
    const int flags = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;
    if (unshare(flags) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, read_only ? "size=100m" : "size=1m") != 0) {
        rmdir(folder);
        return 77; /* not allowed here */
    }
    if (read_only) CHECK(mount("none", folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0, "remount");
    setenv("POCL_CACHE_DIR", folder, 1);
    CHECK(open_cached(NULL, "", 0, &dev) == TPCL_OK, "%s", tpcl_last_error());
    const tpi_cache_key key = tpi_build_key(dev, sources, "-DBASE=1");
    CHECK(tpi_build(dev, "ramp", sources, "-DBASE=1", &key, &program, &from_source) ==
              TPCL_ERR_DEVICE,
          "built");
    CHECK(strstr(tpcl_last_error(), folder) && strstr(tpcl_last_error(), "POCL_CACHE_DIR") &&
              strstr(tpcl_last_error(), read_only ? "Read-only" : "only 1 MiB"),
          "%s", tpcl_last_error());
    tpcl_device_close(&dev);
    umount(folder);
    rmdir(folder);
    return 0;
}

static void need_pocl(void)
{
    tpcl_device *dev = NULL;
    assert_ok(open_cached(NULL, "", 0, &dev));
    const bool pocl = strstr(dev->info.platform, "Portable Computing Language") != NULL;
    tpcl_device_close(&dev);
    if (!pocl) skip();
}

static void bad_disk_of_pocl(void **state)
{
    static const char *const none[] = {NULL};
    need_pocl();
    const int code = run_child(*state, none);
    if (code == 77) skip();
    assert_int_equal(code, 0);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_fixture, remove_fixture)

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    unsetenv("TPCL_CACHE");
    if (strcmp(mode, "any") == 0 || strcmp(mode, "warm") == 0) return child_start(mode[0] == 'w');
    if (strcmp(mode, "full_disk") == 0) return child_bad_disk(false);
    if (strcmp(mode, "read_only_disk") == 0) return child_bad_disk(true);
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(second_start_is_warm),
        WITH_FOLDER(sub_devices_too),
        WITH_FOLDER(without_a_cache),
        WITH_FOLDER(damaged_entry_is_rebuilt),
        WITH_FOLDER(rejected_by_the_driver),
        WITH_FOLDER(key_has_all_parts),
        WITH_FOLDER(kernels_are_shared),
        WITH_FOLDER(build_errors_are_told),
        WITH_FOLDER(four_cold_starts_at_once),
        cmocka_unit_test_prestate(bad_disk_of_pocl, "full_disk"),
        cmocka_unit_test_prestate(bad_disk_of_pocl, "read_only_disk"),
    };
    return cmocka_run_group_tests_name("device/program", tests, NULL, NULL);
}
