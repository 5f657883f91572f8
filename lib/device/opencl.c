/* The caller's context, device, queue, buffers and events. All is checked before it is retained. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <tpcl/opencl.h>

#include <stdlib.h>
#include <string.h>

#include "device/cache.h"
#include "device/device.h"
#include "device/list.h"
#include "device/query.h"

static tpcl_status check_device(cl_context context, cl_device_id id)
{
    tpcl_status status = TPCL_OK;
    size_t bytes = 0;
    char name[128];
    cl_device_id *ids = NULL;
    TPI_TRY(TPI_CL(clGetContextInfo(context, CL_CONTEXT_DEVICES, 0, NULL, &bytes)));
    ids = malloc(bytes + 1);
    TPI_REQUIRE(ids, TPCL_ERR_NOMEM, "devices of the context");
    TPI_TRY(TPI_CL(clGetContextInfo(context, CL_CONTEXT_DEVICES, bytes, ids, NULL)));
    const size_t n = bytes / sizeof *ids;
    tpi_query_text(id, CL_DEVICE_NAME, name, sizeof name);
    TPI_REQUIRE(tpi_query_place(id, ids, n) < n, TPCL_ERR_ARG,
                "device '%s' is none of the %zu of the context: make the context with it", name, n);
done:
    free(ids);
    return status;
}

static tpcl_status check_queue_place(cl_context context, cl_device_id id, cl_command_queue queue)
{
    tpcl_status status = TPCL_OK;
    cl_context its_context = NULL;
    cl_device_id its_device = NULL;
    char mine[128], its[128];
    TPI_TRY(TPI_CL(
        clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof its_context, &its_context, NULL)));
    TPI_REQUIRE(its_context == context, TPCL_ERR_ARG,
                "the command queue is of another context: make it in the one that is given, or "
                "give NULL for a queue of tpcl's own");
    TPI_TRY(TPI_CL(
        clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof its_device, &its_device, NULL)));
    tpi_query_text(id, CL_DEVICE_NAME, mine, sizeof mine);
    tpi_query_text(its_device, CL_DEVICE_NAME, its, sizeof its);
    TPI_REQUIRE(its_device == id, TPCL_ERR_ARG,
                "the command queue is of device '%s', not of the given '%s'%s", its, mine,
                strcmp(its, mine) == 0 ? " (another of that name, or a part of it)" : "");
done:
    return status;
}

static tpcl_status check_queue_kind(cl_command_queue queue, bool profile)
{
    tpcl_status status = TPCL_OK;
    cl_command_queue_properties kind = 0;
    TPI_TRY(TPI_CL(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof kind, &kind, NULL)));
    TPI_REQUIRE(!(kind & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE), TPCL_ERR_UNSUPPORTED,
                "the command queue is out of order (CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE), need "
                "one in order: make a second queue, or give NULL for one of tpcl's own");
    TPI_REQUIRE(!profile || (kind & CL_QUEUE_PROFILING_ENABLE), TPCL_ERR_ARG,
                "profile is set, but the command queue is without CL_QUEUE_PROFILING_ENABLE");
done:
    return status;
}

static tpcl_status check_options(const tpcl_device_options *o)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(!o->select || !o->select[0], TPCL_ERR_ARG,
                "device '%s' is asked for beside a cl_device_id: leave it unset", o->select);
    TPI_REQUIRE(o->units == 0, TPCL_ERR_ARG,
                "%d units are asked for of a cl_device_id: leave it 0, and give a sub-device",
                o->units);
done:
    return status;
}

/* Asks the one device only: a look at all of them would load every driver of the machine. */
static tpcl_status describe(tpcl_device *dev, cl_device_id id)
{
    tpcl_status status = TPCL_OK;
    tpi_device_entry entry = {.id = id};
    TPI_TRY(TPI_CL(
        clGetDeviceInfo(id, CL_DEVICE_PLATFORM, sizeof entry.platform, &entry.platform, NULL)));
    tpi_device_query(&entry);
    TPI_REQUIRE(entry.info.usable, TPCL_ERR_NO_DEVICE,
                "device '%s' is not available, or has no compiler for OpenCL C", entry.info.name);
    dev->info = entry.info;
    dev->info.index = dev->info.same_as = -1;
    dev->platform = entry.platform;
done:
    return status;
}

/* On failure the object holds what it has retained so far. */
static tpcl_status take(tpcl_device *dev, cl_context context, cl_device_id id,
                        cl_command_queue queue, bool profile)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    TPI_TRY(TPI_CL(clRetainContext(context)));
    dev->context = context;
    TPI_TRY(TPI_CL(clRetainDevice(id))); /* changes nothing where it is no sub-device */
    dev->id = id;
    dev->is_sub_device = true;
    if (queue) {
        TPI_TRY(TPI_CL(clRetainCommandQueue(queue)));
        dev->queue = queue;
        goto done;
    }
    dev->queue = clCreateCommandQueue(context, id, profile ? CL_QUEUE_PROFILING_ENABLE : 0, &err);
    TPI_TRY(tpi_cl_check(err, "clCreateCommandQueue"));
done:
    return status;
}

tpcl_status tpcl_device_open_from_cl(cl_context context, cl_device_id id, cl_command_queue queue,
                                     const tpcl_device_options *options, tpcl_device **out)
{
    static const tpcl_device_options defaults;
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = NULL;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "tpcl_device_open_from_cl: out is NULL");
    *out = NULL;
    TPI_REQUIRE(context, TPCL_ERR_ARG, "tpcl_device_open_from_cl: context is NULL");
    TPI_REQUIRE(id, TPCL_ERR_ARG, "tpcl_device_open_from_cl: id is NULL");
    if (!options) options = &defaults;
    TPI_TRY(check_options(options));
    TPI_TRY(check_device(context, id));
    if (queue) TPI_TRY(check_queue_place(context, id, queue));
    if (queue) TPI_TRY(check_queue_kind(queue, options->profile));
    TPI_TRY(tpi_device_alloc(options, &dev));
    TPI_TRY(describe(dev, id));
    TPI_TRY(take(dev, context, id, queue, options->profile));
    tpi_device_ready(dev, options);
    *out = dev;
    dev = NULL;
done:
    tpcl_device_close(&dev);
    return status;
}

cl_context tpcl_device_context(const tpcl_device *device)
{
    return device ? device->context : NULL;
}

cl_device_id tpcl_device_id(const tpcl_device *device)
{
    return device ? device->id : NULL;
}

cl_command_queue tpcl_device_queue(const tpcl_device *device)
{
    return device ? device->queue : NULL;
}

/* Where a buffer's bytes are. */
typedef struct place {
    cl_mem root;
    size_t at, bytes;
} place;

static tpcl_status check_flags(cl_mem mem)
{
    tpcl_status status = TPCL_OK;
    cl_mem_flags flags = 0;
    TPI_TRY(TPI_CL(clGetMemObjectInfo(mem, CL_MEM_FLAGS, sizeof flags, &flags, NULL)));
    TPI_REQUIRE(!(flags & (CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY)), TPCL_ERR_ARG,
                "wrap: the buffer is %s, need CL_MEM_READ_WRITE",
                flags & CL_MEM_READ_ONLY ? "CL_MEM_READ_ONLY" : "CL_MEM_WRITE_ONLY");
    TPI_REQUIRE(
        !(flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS)),
        TPCL_ERR_ARG,
        "wrap: the buffer is closed to the host (%s), and sums over the ranks go through it",
        flags & CL_MEM_HOST_READ_ONLY    ? "CL_MEM_HOST_READ_ONLY"
        : flags & CL_MEM_HOST_WRITE_ONLY ? "CL_MEM_HOST_WRITE_ONLY"
                                         : "CL_MEM_HOST_NO_ACCESS");
done:
    return status;
}

static tpcl_status locate(const tpcl_device *dev, cl_mem mem, place *p)
{
    tpcl_status status = TPCL_OK;
    cl_mem_object_type type = 0;
    cl_context context = NULL;
    cl_mem parent = NULL;
    TPI_TRY(TPI_CL(clGetMemObjectInfo(mem, CL_MEM_TYPE, sizeof type, &type, NULL)));
    TPI_REQUIRE(type == CL_MEM_OBJECT_BUFFER, TPCL_ERR_ARG,
                "wrap: the memory object is of type 0x%x, need a buffer (0x%x)", (unsigned)type,
                (unsigned)CL_MEM_OBJECT_BUFFER);
    TPI_TRY(TPI_CL(clGetMemObjectInfo(mem, CL_MEM_CONTEXT, sizeof context, &context, NULL)));
    TPI_REQUIRE(context == dev->context, TPCL_ERR_ARG,
                "wrap: the buffer is of another context than the device: make the group from the "
                "buffer's context, tpcl_group_create_from_cl()");
    TPI_TRY(check_flags(mem));
    TPI_TRY(TPI_CL(clGetMemObjectInfo(mem, CL_MEM_SIZE, sizeof p->bytes, &p->bytes, NULL)));
    TPI_TRY(
        TPI_CL(clGetMemObjectInfo(mem, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof parent, &parent, NULL)));
    p->root = parent ? parent : mem;
    p->at = 0;
    if (parent) TPI_TRY(TPI_CL(clGetMemObjectInfo(mem, CL_MEM_OFFSET, sizeof p->at, &p->at, NULL)));
done:
    return status;
}

static tpcl_status check_place(const tpcl_device *dev, const place *p, size_t offset, size_t bytes)
{
    tpcl_status status = TPCL_OK;
    const size_t bits = tpi_query_uint(dev->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN);
    const size_t align = bits / 8 > sizeof(float) ? bits / 8 : sizeof(float);
    TPI_REQUIRE(offset <= p->bytes && bytes <= p->bytes - offset, TPCL_ERR_SHAPE,
                "wrap: %zu bytes from byte %zu on, the buffer has %zu", bytes, offset, p->bytes);
    TPI_REQUIRE((p->at + offset) % align == 0, TPCL_ERR_ARG,
                "wrap: offset_bytes %zu is byte %zu of the whole buffer, '%.80s' needs a multiple "
                "of %zu: choose another, or copy",
                offset, p->at + offset, dev->info.name, align);
done:
    return status;
}

/* With an offset as a sub-buffer: kernels, copies and CLBlast then all begin at byte 0. */
static tpcl_status attach(tpcl_tensor *t, cl_mem mem, size_t offset, const place *p)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    if (offset == 0) {
        TPI_TRY(TPI_CL(clRetainMemObject(mem)));
        t->mem = mem;
    } else {
        const cl_buffer_region region = {p->at + offset, t->bytes};
        t->mem = clCreateSubBuffer(p->root, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &err);
        TPI_TRY(tpi_cl_check(err, "clCreateSubBuffer"));
    }
    t->root = p->root;
    t->at = p->at + offset;
done:
    return status;
}

tpcl_status tpcl_tensor_wrap(tpcl_device *device, cl_mem mem, size_t offset_bytes, tpcl_dtype dtype,
                             int ndim, const int64_t *shape, tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_tensor *t = NULL;
    place p = {0};

    TPI_REQUIRE(out, TPCL_ERR_ARG, "wrap: out is NULL");
    *out = NULL;
    TPI_REQUIRE(mem, TPCL_ERR_ARG, "wrap: mem is NULL");
    TPI_TRY(tpi_tensor_alloc(device, dtype, ndim, shape, &t));
    TPI_TRY(locate(device, mem, &p));
    TPI_TRY(check_place(device, &p, offset_bytes, t->bytes));
    if (t->bytes > 0) TPI_TRY(attach(t, mem, offset_bytes, &p));
    *out = t;
    t = NULL;
done:
    tpcl_tensor_destroy(&t);
    return status;
}

cl_mem tpcl_tensor_mem(const tpcl_tensor *tensor)
{
    return tensor ? tensor->mem : NULL;
}

tpcl_status tpcl_device_event(tpcl_device *device, cl_event *out)
{
    tpcl_status status = TPCL_OK;
    cl_event event = NULL;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "event: out is NULL");
    *out = NULL;
    TPI_REQUIRE(device, TPCL_ERR_ARG, "event: device is NULL");
    TPI_TRY(TPI_CL(clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &event)));
    TPI_TRY(TPI_CL(clFlush(device->queue)));
    *out = event;
    event = NULL;
done:
    if (event) clReleaseEvent(event);
    return status;
}

static tpcl_status check_event(const tpcl_device *dev, int i, cl_event event)
{
    tpcl_status status = TPCL_OK;
    cl_context context = NULL;
    cl_int state = CL_QUEUED;
    TPI_REQUIRE(event, TPCL_ERR_ARG, "wait: event %d is NULL", i);
    TPI_TRY(TPI_CL(clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof context, &context, NULL)));
    TPI_REQUIRE(context == dev->context, TPCL_ERR_ARG,
                "wait: event %d is of another context than the device", i);
    TPI_TRY(TPI_CL(
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL)));
    TPI_REQUIRE(state >= 0, TPCL_ERR_DEVICE, "wait: what event %d stands for failed: %s (%d)", i,
                tpi_cl_name(state), (int)state);
done:
    return status;
}

tpcl_status tpcl_device_wait_for(tpcl_device *device, int n, const cl_event *events)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(device, TPCL_ERR_ARG, "wait: device is NULL");
    TPI_REQUIRE(n >= 0, TPCL_ERR_ARG, "wait: %d events, need 0 or more", n);
    TPI_REQUIRE(events || n == 0, TPCL_ERR_ARG, "wait: events is NULL, and n is %d", n);
    for (int i = 0; i < n; i++) TPI_TRY(check_event(device, i, events[i]));
    for (int i = 0; i < n; i++) { /* what was never flushed need never begin */
        cl_command_queue queue = NULL;
        TPI_TRY(
            TPI_CL(clGetEventInfo(events[i], CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL)));
        if (queue && queue != device->queue) TPI_TRY(TPI_CL(clFlush(queue)));
    }
    if (n > 0)
        TPI_TRY(TPI_CL(clEnqueueBarrierWithWaitList(device->queue, (cl_uint)n, events, NULL)));
done:
    return status;
}
