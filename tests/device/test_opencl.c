/* The caller's context, device, queue, buffers and events: used as they are, and given back. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tpcl_test.h"

#include <dirent.h>
#include <string.h>
#include <tpcl/opencl.h>
#include <tpcl/ops.h>
#include <unistd.h>

#include "device/child.h"
#include "device/device.h"

#define refused(expr, code, text)                                                                  \
    do {                                                                                           \
        const tpcl_status r_ = (expr);                                                             \
        if (r_ != (code)) fail_msg("%s: %s (%s)", #expr, tpcl_status_text(r_), tpcl_last_error()); \
        if (!strstr(tpcl_last_error(), text))                                                      \
            fail_msg("%s: \"%s\" lacks \"%s\"", #expr, tpcl_last_error(), text);                   \
    } while (0)

#define cl_ok(expr) assert_int_equal((expr), CL_SUCCESS)

enum { N = 256 }; /* elements of the shared buffer */
static cl_device_id id;
static cl_context context;
static cl_command_queue queue;
static size_t align; /* bytes */
static const tpcl_device_options no_cache = {.cache_dir = ""};

static cl_context context_of(const cl_device_id *ids, cl_uint n)
{
    cl_int err = CL_SUCCESS;
    cl_context c = clCreateContext(NULL, n, ids, NULL, NULL, &err);
    cl_ok(err);
    return c;
}

static cl_command_queue queue_of(cl_context c, cl_device_id d, cl_command_queue_properties flags)
{
    cl_int err = CL_SUCCESS;
    cl_command_queue q = clCreateCommandQueue(c, d, flags, &err);
    cl_ok(err);
    return q;
}

static cl_mem buffer_of(cl_context c, cl_mem_flags flags, size_t bytes)
{
    cl_int err = CL_SUCCESS;
    cl_mem mem = clCreateBuffer(c, flags, bytes, NULL, &err);
    cl_ok(err);
    return mem;
}

static cl_mem part_of(cl_mem mem, size_t origin, size_t bytes)
{
    cl_int err = CL_SUCCESS;
    const cl_buffer_region region = {origin, bytes};
    cl_mem part =
        clCreateSubBuffer(mem, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
    cl_ok(err);
    return part;
}

static cl_uint context_refs(cl_context c)
{
    cl_uint n = 0;
    cl_ok(clGetContextInfo(c, CL_CONTEXT_REFERENCE_COUNT, sizeof n, &n, NULL));
    return n;
}

static cl_uint queue_refs(cl_command_queue q)
{
    cl_uint n = 0;
    cl_ok(clGetCommandQueueInfo(q, CL_QUEUE_REFERENCE_COUNT, sizeof n, &n, NULL));
    return n;
}

static cl_uint mem_refs(cl_mem mem)
{
    cl_uint n = 0;
    cl_ok(clGetMemObjectInfo(mem, CL_MEM_REFERENCE_COUNT, sizeof n, &n, NULL));
    return n;
}

/* Drivers let go of finished commands on threads of their own, a little later. */
#define assert_comes_to(count, want)                                                 \
    do {                                                                             \
        for (int turn_ = 0; turn_ < 400 && (count) != (want); turn_++) usleep(5000); \
        assert_int_equal((count), (want));                                           \
    } while (0)

static int open_all(void **state)
{
    (void)state;
    const tpcl_device_options options = {.select = getenv("TPCL_TEST_DEVICE"), .cache_dir = ""};
    tpcl_device *dev = NULL;
    cl_uint bits = 0;
    if (tpcl_device_open(&options, &dev) != TPCL_OK) {
        print_error("%s\n", tpcl_last_error());
        return -1;
    }
    id = tpcl_device_id(dev); /* no sub-device: it outlives dev */
    tpcl_device_close(&dev);
    clGetDeviceInfo(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL);
    align = bits / 8;
    context = context_of(&id, 1);
    queue = queue_of(context, id, 0);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}

static tpcl_device *open_theirs(void)
{
    tpcl_device *dev = NULL;
    assert_ok(tpcl_device_open_from_cl(context, id, queue, &no_cache, &dev));
    return dev;
}

static tpcl_tensor *wrap(tpcl_device *dev, cl_mem mem, size_t offset, int64_t n)
{
    tpcl_tensor *t = NULL;
    assert_ok(tpcl_tensor_wrap(dev, mem, offset, TPCL_F32, 1, &n, &t));
    return t;
}

/* y = silu(x) on the device: one of our kernels, and the same number wherever it runs. */
static void assert_computes(tpcl_device *dev)
{
    const int64_t n = 19;
    float x[19], y[19];
    tpcl_tensor *t = NULL;
    fill(x, 19, 3);
    assert_ok(tpcl_tensor_create(dev, TPCL_F32, 1, &n, &t));
    assert_ok(tpcl_tensor_write(t, x, 19));
    assert_ok(tpcl_silu(t, t, 19));
    assert_ok(tpcl_tensor_read(t, y, 19));
    for (int i = 0; i < 19; i++) x[i] /= 1.0f + expf(-x[i]);
    assert_close(y, x, 19, 1e-5, 1e-6);
    tpcl_tensor_destroy(&t);
}

static void uses_what_it_is_given(void **state)
{
    (void)state;
    const cl_uint contexts = context_refs(context), queues = queue_refs(queue);
    for (int own = 0; own < 2; own++) {
        tpcl_device *dev = NULL;
        assert_ok(tpcl_device_open_from_cl(context, id, own ? NULL : queue, &no_cache, &dev));
        assert_ptr_equal(tpcl_device_context(dev), context);
        assert_ptr_equal(tpcl_device_id(dev), id);
        if (own)
            assert_ptr_not_equal(tpcl_device_queue(dev), queue);
        else
            assert_ptr_equal(tpcl_device_queue(dev), queue);
        const tpcl_device_info *info = tpcl_device_get_info(dev);
        assert_int_equal(info->index, -1);
        assert_true(info->usable && info->name[0] && info->platform[0] && info->compute_units > 0);
        assert_true(context_refs(context) > contexts);
        assert_computes(dev);
        tpcl_device_close(&dev);
        assert_comes_to(queue_refs(queue), queues);
        assert_comes_to(context_refs(context), contexts);
    }
    assert_null(tpcl_device_context(NULL));
    assert_null(tpcl_device_id(NULL));
    assert_null(tpcl_device_queue(NULL));
    assert_null(tpcl_device_get_info(NULL));
    assert_null(tpcl_tensor_mem(NULL));
}

/* The caller may let go of its handles at once. */
static void keeps_what_the_caller_drops(void **state)
{
    (void)state;
    cl_context c = context_of(&id, 1);
    cl_command_queue q = queue_of(c, id, 0);
    cl_mem mem = buffer_of(c, CL_MEM_READ_WRITE, N * 4);
    tpcl_device *dev = NULL;
    float in[N], out[N];
    assert_ok(tpcl_device_open_from_cl(c, id, q, &no_cache, &dev));
    tpcl_tensor *t = wrap(dev, mem, 0, N);
    cl_ok(clReleaseMemObject(mem));
    cl_ok(clReleaseCommandQueue(q));
    cl_ok(clReleaseContext(c));
    fill(in, N, 1);
    assert_ok(tpcl_tensor_write(t, in, N));
    tpcl_device *first = dev;
    tpcl_device_close(&dev); /* the tensor holds it */
    assert_ok(tpcl_tensor_read(t, out, N));
    assert_memory_equal(in, out, sizeof in);
    assert_ptr_equal(tpcl_device_context(first), c);
    tpcl_tensor_destroy(&t);
}

static void refuses_strangers(void **state)
{
    (void)state;
    const cl_uint contexts = context_refs(context), queues = queue_refs(queue);
    cl_context other = context_of(&id, 1);
    cl_command_queue foreign = queue_of(other, id, 0);
    const tpcl_device_options profile = {.cache_dir = "", .profile = true},
                              select = {.select = "gpu"}, units = {.units = 2};
    tpcl_device *dev = NULL;
#define opens(c, i, q, o) tpcl_device_open_from_cl((c), (i), (q), (o), &dev)
    refused(opens(NULL, id, queue, NULL), TPCL_ERR_ARG, "context is NULL");
    refused(opens(context, NULL, queue, NULL), TPCL_ERR_ARG, "id is NULL");
    refused(opens(context, id, foreign, NULL), TPCL_ERR_ARG, "queue is of another context");
    refused(opens(context, id, queue, &profile), TPCL_ERR_ARG, "CL_QUEUE_PROFILING_ENABLE");
    refused(opens(context, id, queue, &select), TPCL_ERR_ARG, "device 'gpu'");
    refused(opens(context, id, queue, &units), TPCL_ERR_ARG, "2 units");
    refused(tpcl_device_open_from_cl(context, id, queue, NULL, NULL), TPCL_ERR_ARG, "out is NULL");
    cl_int err = CL_SUCCESS;
    cl_command_queue wild =
        clCreateCommandQueue(context, id, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &err);
    if (err == CL_SUCCESS) { /* a device need not have such queues */
        refused(opens(context, id, wild, NULL), TPCL_ERR_UNSUPPORTED, "out of order");
        cl_ok(clReleaseCommandQueue(wild));
    } else {
        assert_int_equal(err, CL_INVALID_QUEUE_PROPERTIES);
    }
    assert_null(dev);
    cl_ok(clReleaseCommandQueue(foreign));
    cl_ok(clReleaseContext(other));
    assert_int_equal(queue_refs(queue), queues);
    assert_comes_to(context_refs(context), contexts);

    cl_command_queue timed = queue_of(context, id, CL_QUEUE_PROFILING_ENABLE);
    assert_ok(opens(context, id, timed, &profile));
    tpcl_device_close(&dev);
    assert_ok(opens(context, id, NULL, &profile));
    cl_command_queue_properties kind = 0;
    cl_ok(clGetCommandQueueInfo(tpcl_device_queue(dev), CL_QUEUE_PROPERTIES, sizeof kind, &kind,
                                NULL));
    assert_true(kind & CL_QUEUE_PROFILING_ENABLE);
    tpcl_device_close(&dev);
    cl_ok(clReleaseCommandQueue(timed));
}

/* Two devices of one driver: those that PoCL was told to have. */
static void two_devices(cl_device_id out[2])
{
    cl_platform_id platforms[16];
    cl_uint n = 0, found = 0;
    cl_ok(clGetPlatformIDs(COUNT(platforms), platforms, &n));
    for (cl_uint i = 0; i < n && found < 2; i++) {
        char name[128] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL);
        if (strcmp(name, "Portable Computing Language") == 0)
            clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 2, out, &found);
    }
    assert_int_equal(found, 2);
}

static int files_in(const char *folder, bool remove)
{
    int n = 0;
    char path[512];
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.')) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (remove) unlink(path);
        n++;
    }
    closedir(dir);
    return n;
}

/* Each computes, its own binary reaches the cache, and a stranger is told apart. */
static void several_devices(void **state)
{
    (void)state;
    cl_device_id ids[2];
    char folder[] = "/tmp/tpcl-opencl-XXXXXX";
    tpcl_device *dev = NULL;
    two_devices(ids);
    assert_non_null(mkdtemp(folder));
    const tpcl_device_options options = {.cache_dir = folder};
    cl_context both = context_of(ids, 2), one = context_of(ids, 1);
    cl_command_queue first = queue_of(both, ids[0], 0);
    refused(tpcl_device_open_from_cl(one, ids[1], NULL, NULL, &dev), TPCL_ERR_ARG,
            "none of the 1 of the context");
    refused(tpcl_device_open_from_cl(both, ids[1], first, NULL, &dev), TPCL_ERR_ARG,
            "command queue is of device");
    assert_null(dev);
    for (int i = 1; i >= 0; i--) { /* the last one first: its binary is not the program's first */
        for (int again = 0; again < 2; again++) {
            assert_ok(tpcl_device_open_from_cl(both, ids[i], i ? NULL : first, &options, &dev));
            assert_computes(dev);
            tpcl_device_close(&dev);
            assert_int_equal(files_in(folder, false), 1);
        }
        files_in(folder, true);
    }
    cl_ok(clReleaseCommandQueue(first));
    cl_ok(clReleaseContext(both));
    cl_ok(clReleaseContext(one));
    rmdir(folder);
}

static void context_of_several_devices(void **state)
{
    (void)state;
    static const char *const environment[] = {"POCL_DEVICES", "pthread basic", NULL};
    assert_int_equal(run_child("several", environment), 0);
}

/* Half of the device, in a context and in a queue of its own; released by the caller at once. */
static void sub_device(void **state)
{
    (void)state;
    cl_device_id parts[2] = {NULL, NULL};
    cl_uint units = 0, most = 0, n = 0;
    cl_ok(clGetDeviceInfo(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    cl_ok(clGetDeviceInfo(id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof most, &most, NULL));
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY, (int)units / 2, 0};
    if (units < 2 || most < 2 || clCreateSubDevices(id, how, 2, parts, &n) != CL_SUCCESS) {
        print_message("this device cannot be divided\n");
        return;
    }
    tpcl_device *dev = NULL;
    cl_context c = context_of(parts, 1);
    cl_command_queue q = queue_of(c, parts[0], 0), whole = queue_of(context, id, 0);
    refused(tpcl_device_open_from_cl(context, parts[0], whole, NULL, &dev), TPCL_ERR_ARG,
            "a part of it");
    assert_ok(tpcl_device_open_from_cl(c, parts[0], q, &no_cache, &dev));
    assert_int_equal(tpcl_device_get_info(dev)->compute_units, units / 2);
    cl_ok(clReleaseCommandQueue(q));
    cl_ok(clReleaseCommandQueue(whole));
    cl_ok(clReleaseContext(c));
    cl_ok(clReleaseDevice(parts[0]));
    cl_ok(clReleaseDevice(parts[1]));
    assert_computes(dev);
    tpcl_device_close(&dev);
}

static void wraps_buffers(void **state)
{
    (void)state;
    const size_t at = align, bytes = 4 * align;
    const int64_t n = (int64_t)(align / 4);
    tpcl_device *dev = open_theirs();
    cl_mem mem = buffer_of(context, CL_MEM_READ_WRITE, bytes), part = part_of(mem, at, 2 * align);
    const cl_uint refs = mem_refs(mem), part_refs = mem_refs(part);
    float *in = malloc(bytes), *out = malloc(bytes);
    fill(in, bytes / 4, 7);
    cl_ok(clEnqueueWriteBuffer(queue, mem, CL_TRUE, 0, bytes, in, 0, NULL, NULL));
    struct {
        cl_mem mem;
        size_t offset, begins; /* in mem, and in the whole buffer */
    } cases[] = {{mem, 0, 0}, {mem, at, at}, {part, 0, at}, {part, at, 2 * at}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        tpcl_tensor *t = wrap(dev, cases[i].mem, cases[i].offset, n);
        assert_ok(tpcl_tensor_read(t, out, (size_t)n));
        assert_memory_equal(out, in + cases[i].begins / 4, (size_t)n * 4);
        /* What tpcl writes is where the caller looks, and nowhere else. */
        assert_ok(tpcl_silu(t, t, (size_t)n));
        for (size_t e = cases[i].begins / 4; e < cases[i].begins / 4 + (size_t)n; e++)
            in[e] /= 1.0f + expf(-in[e]);
        cl_ok(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, bytes, out, 0, NULL, NULL));
        assert_close(out, in, bytes / 4, 1e-5, 1e-6);
        memcpy(in, out, bytes);
        if (cases[i].offset == 0) assert_ptr_equal(tpcl_tensor_mem(t), cases[i].mem);
        cl_ok(clEnqueueReadBuffer(queue, tpcl_tensor_mem(t), CL_TRUE, 0, 4, out, 0, NULL, NULL));
        assert_memory_equal(out, in + cases[i].begins / 4, 4);
        tpcl_tensor_destroy(&t);
    }
    tpcl_tensor *none = wrap(dev, mem, bytes, 0); /* no elements: at the very end */
    assert_null(tpcl_tensor_mem(none));
    tpcl_tensor_destroy(&none);
    tpcl_device_close(&dev); /* Mesa's kernels hold their last arguments until then */
    assert_comes_to(mem_refs(mem), refs);
    assert_comes_to(mem_refs(part), part_refs);
    cl_ok(clReleaseMemObject(part));
    cl_ok(clReleaseMemObject(mem));
    free(in);
    free(out);
}

static void refuses_buffers(void **state)
{
    (void)state;
    tpcl_device *dev = open_theirs();
    const cl_uint contexts = context_refs(context);
    cl_context other = context_of(&id, 1);
    cl_mem mem = buffer_of(context, CL_MEM_READ_WRITE, N * 4),
           foreign = buffer_of(other, CL_MEM_READ_WRITE, N * 4),
           fixed = buffer_of(context, CL_MEM_READ_ONLY, N * 4),
           closed = buffer_of(context, CL_MEM_HOST_NO_ACCESS, N * 4);
    const cl_uint refs = mem_refs(mem);
    const int64_t all = N, more = N + 1, half = N / 2, negative[2] = {3, -1};
    tpcl_tensor *t = NULL;
#define wraps(m, offset, n) tpcl_tensor_wrap(dev, (m), (offset), TPCL_F32, 1, (n), &t)
    refused(tpcl_tensor_wrap(NULL, mem, 0, TPCL_F32, 1, &all, &t), TPCL_ERR_ARG, "device is NULL");
    refused(wraps(NULL, 0, &all), TPCL_ERR_ARG, "mem is NULL");
    refused(wraps(mem, 0, NULL), TPCL_ERR_ARG, "shape is NULL");
    refused(wraps(foreign, 0, &all), TPCL_ERR_ARG, "another context");
    refused(wraps(fixed, 0, &all), TPCL_ERR_ARG, "CL_MEM_READ_ONLY");
    refused(wraps(closed, 0, &all), TPCL_ERR_ARG, "CL_MEM_HOST_NO_ACCESS");
    refused(wraps(mem, 0, &more), TPCL_ERR_SHAPE, "1028 bytes from byte 0 on, the buffer has 1024");
    refused(wraps(mem, 1020, &half), TPCL_ERR_SHAPE, "512 bytes from byte 1020 on");
    refused(wraps(mem, SIZE_MAX - 3, &half), TPCL_ERR_SHAPE, "the buffer has 1024");
    refused(wraps(mem, 4, &half), TPCL_ERR_ARG, "offset_bytes 4 is byte 4 of the whole buffer");
    refused(wraps(mem, 2, &half), TPCL_ERR_ARG, "offset_bytes 2");
    refused(tpcl_tensor_wrap(dev, mem, 0, TPCL_F16, 1, &all, &t), TPCL_ERR_ARG, "dtype F16");
    refused(tpcl_tensor_wrap(dev, mem, 0, TPCL_F32, 5, &all, &t), TPCL_ERR_ARG, "5 dimensions");
    refused(tpcl_tensor_wrap(dev, mem, 0, TPCL_F32, 2, negative, &t), TPCL_ERR_ARG, "is -1");
    refused(tpcl_tensor_wrap(dev, mem, 0, TPCL_F32, 1, &all, NULL), TPCL_ERR_ARG, "out is NULL");
    assert_null(t);
    assert_int_equal(mem_refs(mem), refs);
    cl_ok(clReleaseMemObject(mem));
    cl_ok(clReleaseMemObject(foreign));
    cl_ok(clReleaseMemObject(fixed));
    cl_ok(clReleaseMemObject(closed));
    cl_ok(clReleaseContext(other));
    assert_comes_to(context_refs(context), contexts);
    tpcl_device_close(&dev);
}

static void finds_overlap(void **state)
{
    (void)state;
    const size_t a = align / 4; /* elements to the next place where a part may begin */
    tpcl_device *dev = open_theirs();
    cl_mem mem = buffer_of(context, CL_MEM_READ_WRITE, 8 * align),
           part = part_of(mem, 2 * align, 4 * align);
    const int64_t n = (int64_t)a;
    tpcl_tensor *whole = wrap(dev, mem, 0, 8 * n), *second = wrap(dev, mem, 2 * align, 2 * n),
                *theirs = wrap(dev, part, 0, 4 * n), *inner = wrap(dev, part, align, n),
                *none = wrap(dev, mem, 0, 0), *other = NULL;
    assert_ok(tpcl_tensor_create(dev, TPCL_F32, 1, &n, &other));
    const struct {
        const tpcl_tensor *x, *y;
        size_t nx, ny;
        bool want, same;
    } cases[] = {
        {whole, whole, 1, 1, true, true},
        {whole, second, 2 * a, 1, false, false}, /* ends where the other begins */
        {whole, second, 2 * a + 1, 1, true, false},
        {whole, second, 8 * a, 0, false, false},
        {second, theirs, 1, 1, true, true}, /* two ways to one byte */
        {second, inner, a, 1, false, false},
        {second, inner, a + 1, 1, true, false},
        {whole, inner, 3 * a, a, false, false},
        {whole, inner, 3 * a + 1, a, true, false},
        {whole, other, 8 * a, a, false, false},
        {whole, none, 8 * a, 0, false, false},
        {none, none, 0, 0, false, true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (tpi_tensor_overlap(cases[i].x, cases[i].nx, cases[i].y, cases[i].ny) != cases[i].want ||
            tpi_tensor_overlap(cases[i].y, cases[i].ny, cases[i].x, cases[i].nx) != cases[i].want ||
            tpi_tensor_same(cases[i].x, cases[i].y) != cases[i].same)
            fail_msg("case %zu", i);
    }
    tpcl_tensor **all[] = {&whole, &second, &theirs, &inner, &none, &other};
    for (size_t i = 0; i < COUNT(all); i++) tpcl_tensor_destroy(all[i]);
    cl_ok(clReleaseMemObject(part));
    cl_ok(clReleaseMemObject(mem));
    tpcl_device_close(&dev);
}

static cl_int state_of(cl_event event)
{
    cl_int s = CL_QUEUED;
    cl_ok(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof s, &s, NULL));
    return s;
}

/* The caller's queue writes once `gate` is open; tpcl computes after it; the caller reads after
 * that. Nothing may have run before the gate opens, everything after. */
static void events_order_two_queues(void **state)
{
    (void)state;
    tpcl_device *dev = open_theirs();
    cl_command_queue theirs = queue_of(context, id, 0);
    cl_mem mem = buffer_of(context, CL_MEM_READ_WRITE, N * 4);
    tpcl_tensor *t = wrap(dev, mem, 0, N);
    float zero[N] = {0}, in[N], out[N];
    cl_int err = CL_SUCCESS;
    cl_event gate = clCreateUserEvent(context, &err), written = NULL, done = NULL, seen = NULL;
    cl_ok(err);
    fill(in, N, 9);
    assert_ok(tpcl_tensor_write(t, zero, N));
    cl_ok(clEnqueueWriteBuffer(theirs, mem, CL_FALSE, 0, sizeof in, in, 1, &gate, &written));
    assert_ok(tpcl_device_wait_for(dev, 1, &written));
    assert_ok(tpcl_silu(t, t, N));
    assert_ok(tpcl_device_event(dev, &done));
    cl_ok(clEnqueueReadBuffer(theirs, mem, CL_FALSE, 0, sizeof out, out, 1, &done, &seen));
    cl_ok(clFlush(theirs));
    usleep(30000);
    assert_true(state_of(done) > CL_COMPLETE && state_of(seen) > CL_COMPLETE);
    cl_ok(clSetUserEventStatus(gate, CL_COMPLETE));
    cl_ok(clWaitForEvents(1, &seen));
    assert_int_equal(state_of(done), CL_COMPLETE);
    for (int i = 0; i < N; i++) in[i] /= 1.0f + expf(-in[i]);
    assert_close(out, in, N, 1e-5, 1e-6);
    cl_event *events[] = {&gate, &written, &done, &seen};
    for (size_t i = 0; i < COUNT(events); i++) cl_ok(clReleaseEvent(*events[i]));
    tpcl_tensor_destroy(&t);
    cl_ok(clReleaseMemObject(mem));
    cl_ok(clReleaseCommandQueue(theirs));
    tpcl_device_close(&dev);
}

static void refuses_events(void **state)
{
    (void)state;
    tpcl_device *dev = open_theirs();
    cl_context other = context_of(&id, 1);
    cl_int err = CL_SUCCESS;
    cl_event good = clCreateUserEvent(context, &err), foreign = clCreateUserEvent(other, &err),
             failed = clCreateUserEvent(context, &err), event = NULL;
    cl_ok(err);
    cl_ok(clSetUserEventStatus(failed, CL_OUT_OF_RESOURCES));
    const cl_event strange[2] = {good, foreign}, bad[2] = {good, failed}, null[2] = {good, NULL};
    refused(tpcl_device_event(NULL, &event), TPCL_ERR_ARG, "device is NULL");
    refused(tpcl_device_event(dev, NULL), TPCL_ERR_ARG, "out is NULL");
    refused(tpcl_device_wait_for(NULL, 0, NULL), TPCL_ERR_ARG, "device is NULL");
    refused(tpcl_device_wait_for(dev, -1, strange), TPCL_ERR_ARG, "-1 events");
    refused(tpcl_device_wait_for(dev, 2, NULL), TPCL_ERR_ARG, "events is NULL, and n is 2");
    refused(tpcl_device_wait_for(dev, 2, null), TPCL_ERR_ARG, "event 1 is NULL");
    refused(tpcl_device_wait_for(dev, 2, strange), TPCL_ERR_ARG, "event 1 is of another context");
    refused(tpcl_device_wait_for(dev, 2, bad), TPCL_ERR_DEVICE, "CL_OUT_OF_RESOURCES");
    /* None of them waits for `good`, which is never set before this. */
    assert_ok(tpcl_device_wait_for(dev, 0, NULL));
    assert_computes(dev);
    assert_ok(tpcl_device_event(dev, &event));
    cl_ok(clWaitForEvents(1, &event));
    cl_ok(clReleaseEvent(event));
    cl_ok(clSetUserEventStatus(good, CL_COMPLETE));
    cl_ok(clSetUserEventStatus(foreign, CL_COMPLETE));
    cl_ok(clReleaseEvent(good));
    cl_ok(clReleaseEvent(foreign));
    cl_ok(clReleaseEvent(failed));
    cl_ok(clReleaseContext(other));
    tpcl_device_close(&dev);
}

/* All references that the tests' objects took are back. */
static void nothing_is_left(void **state)
{
    (void)state;
    assert_comes_to(queue_refs(queue), 1);
    assert_comes_to(context_refs(context), 2); /* the caller's, and its queue's */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest child[] = {cmocka_unit_test(several_devices)};
    if (argc > 1 && strcmp(argv[1], "several") == 0)
        return cmocka_run_group_tests_name("device/opencl, two devices", child, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uses_what_it_is_given),
        cmocka_unit_test(keeps_what_the_caller_drops),
        cmocka_unit_test(refuses_strangers),
        cmocka_unit_test(context_of_several_devices),
        cmocka_unit_test(sub_device),
        cmocka_unit_test(wraps_buffers),
        cmocka_unit_test(refuses_buffers),
        cmocka_unit_test(finds_overlap),
        cmocka_unit_test(events_order_two_queues),
        cmocka_unit_test(refuses_events),
        cmocka_unit_test(nothing_is_left),
    };
    return cmocka_run_group_tests_name("device/opencl", tests, open_all, close_all);
}
