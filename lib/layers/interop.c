/* A group on the caller's context, device and queue. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <tpcl/opencl.h>

#include "layers/group.h"

typedef struct handles {
    cl_context context;
    cl_device_id id;
    cl_command_queue queue;
} handles;

static tpcl_status open_theirs(tpcl_group *g, const tpcl_group_options *o, const void *context)
{
    const handles *h = context;
    const tpcl_device_options d = {.select = o->device,
                                   .cache_dir = o->cache_dir,
                                   .gemm = o->gemm,
                                   .profile = o->profile,
                                   .log = o->log};
    const tpcl_status status = tpcl_device_open_from_cl(h->context, h->id, h->queue, &d, &g->dev);
    return tpcl_comm_agree(g->comm, status, "opening devices");
}

tpcl_status tpcl_group_create_from_cl(MPI_Comm comm, cl_context context, cl_device_id id,
                                      cl_command_queue queue, const tpcl_group_options *options,
                                      tpcl_group **out)
{
    const handles h = {context, id, queue};
    return tpi_group_create_mpi(comm, options, open_theirs, &h, out);
}

tpcl_status tpcl_group_event(tpcl_group *group, cl_event *out)
{
    if (out) *out = NULL;
    if (!group) return tpi_fail(TPCL_ERR_ARG, "event: group is NULL");
    return tpcl_device_event(group->dev, out);
}

tpcl_status tpcl_group_wait_for(tpcl_group *group, int n, const cl_event *events)
{
    if (!group) return tpi_fail(TPCL_ERR_ARG, "wait: group is NULL");
    return tpcl_device_wait_for(group->dev, n, events);
}
