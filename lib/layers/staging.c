/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/group.h"
#include "ops/ops.h"

/* One chunk: device -> the window's slot -> sum -> device. The write need not be waited for: the
 * queue is in order, and `staging` is next written after the next blocking read. */
static tpcl_status reduce_chunk(tpcl_group *g, tpcl_status local, tpcl_tensor *y, size_t at,
                                size_t bytes)
{
    tpcl_status status = local;
    float *slot = tpcl_comm_stage(g->comm);
    if (status == TPCL_OK)
        status = TPI_CL(
            clEnqueueReadBuffer(g->dev->queue, y->mem, CL_TRUE, at, bytes, slot, 0, NULL, NULL));
    TPI_TRY(tpcl_comm_allreduce_sum(g->comm, status, slot, g->staging, bytes / sizeof *slot));
    g->staged = true;
    TPI_TRY(TPI_CL(clEnqueueWriteBuffer(g->dev->queue, y->mem, CL_FALSE, at, bytes, g->staging, 0,
                                        NULL, NULL)));
done:
    return status;
}

tpcl_status tpi_reduce(tpcl_group *g, tpcl_status local, tpcl_tensor *y, size_t elements)
{
    tpcl_status status = TPCL_OK;
    const size_t total = elements * sizeof(float), chunk = tpcl_comm_chunk(g->comm);
    if (g->size == 1 || elements == 0) return local;
    if (g->queued.possible && g->queued.wanted && local == TPCL_OK)
        return tpi_queue_sum(g, y, elements);
    TPI_TRY(tpi_queue_settle(g, &local));
    for (size_t at = 0; at < total; at += chunk) {
        const size_t bytes = total - at < chunk ? total - at : chunk;
        TPI_TRY(reduce_chunk(g, local, y, at, bytes));
    }
done:
    return status;
}

tpcl_status tpi_meet(tpcl_group *g, tpcl_status local, const char *what)
{
    return g->size == 1 ? local : tpcl_comm_agree(g->comm, local, what);
}

tpcl_status tpi_vector_create(tpcl_group *g, const tpcl_host_tensor *tensor, int64_t begin,
                              int64_t end, tpcl_tensor **out)
{
    *out = NULL;
    return tpi_vector_range(g->dev, tensor, begin, end, out);
}
