/* Sums inside of a device's queue.
 *
 * A blocking read, a sum and a write make the host wait for the worker and the worker for the host,
 * once per sum. On a CPU device both are threads of one process, so the worker can meet the other
 * ranks itself: the host queues a whole pass and waits once. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "comm/comm.h"
#include "layers/group.h"

bool tpi_can_queue(const tpcl_group *g)
{
    cl_device_exec_capabilities can = 0;
    clGetDeviceInfo(g->dev->id, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, NULL);
    return g->size > 1 && g->dev->info.type == TPCL_DEVICE_CPU && (can & CL_EXEC_NATIVE_KERNEL) &&
           g->comm->transport->any_thread;
}

/* The driver puts the buffer's address in place of `values`. */
typedef struct job {
    tpcl_group *group;
    float *values;
    size_t elements;
} job;

/* The worker's side. The calls are those of reduce_chunk (staging.c), since another rank may come
 * from there. After a failure the rest of the queue runs through, on numbers that nobody will see;
 * the ranks stay in step, because a failed call has ended on all of them. */
static void CL_CALLBACK sum(void *args)
{
    const job *j = args;
    tpi_queued *q = &j->group->queued;
    const size_t chunk = tpcl_comm_chunk(j->group->comm) / sizeof(float);
    if (q->status != TPCL_OK) return;
    for (size_t at = 0; at < j->elements && q->status == TPCL_OK; at += chunk) {
        const size_t n = j->elements - at < chunk ? j->elements - at : chunk;
        q->status = tpi_comm_sum_queued(j->group->comm, j->values + at, n);
    }
    if (q->status == TPCL_OK) return;
    snprintf(q->message, sizeof q->message, "%s", tpcl_last_error());
    tpcl_last_failure(&q->rank, &q->code);
}

static tpcl_status settle(void *owner, tpcl_status *local)
{
    return tpi_queue_settle(owner, local);
}

tpcl_status tpi_queue_settle(tpcl_group *g, tpcl_status *local)
{
    tpi_queued *q = &g->queued;
    if (!g->comm->settle) return TPCL_OK;
    const tpcl_status finish = TPI_CL(clFinish(g->dev->queue));
    const tpcl_status status = q->status;
    g->comm->settle = NULL;
    if (status == TPCL_OK) {
        if (*local == TPCL_OK) *local = finish;
        return TPCL_OK;
    }
    tpi_fail(status, "%s", q->message);
    tpi_blame(q->rank, q->code);
    q->status = TPCL_OK;
    return status;
}

tpcl_status tpi_queue_sum(tpcl_group *g, tpcl_tensor *y, size_t elements)
{
    job j = {.group = g, .elements = elements};
    const void *where = &j.values;
    g->comm->owner = g;
    g->comm->settle = settle;
    return TPI_CL(
        clEnqueueNativeKernel(g->dev->queue, sum, &j, sizeof j, 1, &y->mem, &where, 0, NULL, NULL));
}
