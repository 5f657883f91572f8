/* What a group offers beside its layers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/group.h"
#include "ops/checks.h"

tpcl_status tpcl_group_shard(const tpcl_group *g, int64_t total, int64_t granule, int rotate,
                             tpcl_range *ranges)
{
    if (!g) return tpi_fail(TPCL_ERR_ARG, "shard: group is NULL");
    return tpcl_shard_split(total, granule, g->size, g->weights, rotate, ranges);
}

tpcl_status tpcl_group_shard_heads(const tpcl_group *g, int heads, int kv_heads, int q_granule,
                                   int rotate, tpcl_head_range *ranges)
{
    if (!g) return tpi_fail(TPCL_ERR_ARG, "shard: group is NULL");
    return tpcl_shard_heads(heads, kv_heads, q_granule, g->size, g->weights, rotate, ranges);
}

tpcl_status tpcl_group_agree(tpcl_group *g, tpcl_status local, const char *phase)
{
    if (!g) return tpi_fail(TPCL_ERR_ARG, "agree: group is NULL");
    return tpcl_comm_agree(g->comm, local, phase);
}

static tpcl_status check_sum(const tpcl_group *g, const tpcl_tensor *t, size_t elements)
{
    tpcl_status status = TPCL_OK;
    const int64_t most = elements < INT64_MAX ? (int64_t)elements : INT64_MAX;
    const tpi_operand operand = {"all-reduce tensor", t, 1, most, TPI_WRITTEN};
    TPI_TRY(tpi_need_all(&operand, 1));
    TPI_REQUIRE(t->dev == g->dev, TPCL_ERR_ARG,
                "all-reduce tensor is a tensor of another device than the group's");
done:
    return status;
}

tpcl_status tpcl_group_allreduce(tpcl_group *g, tpcl_status local, tpcl_tensor *tensor,
                                 size_t elements)
{
    if (!g) return tpi_fail(TPCL_ERR_ARG, "all-reduce: group is NULL");
    if (local == TPCL_OK) local = check_sum(g, tensor, elements);
    if (local != TPCL_OK || elements == 0) return tpi_meet(g, local, "all-reduce");
    return tpi_reduce(g, local, tensor, elements);
}

tpcl_status tpcl_group_finish(tpcl_group *g)
{
    if (!g) return tpi_fail(TPCL_ERR_ARG, "finish: group is NULL");
    return TPI_CL(clFinish(g->dev->queue));
}

bool tpcl_group_failed(const tpcl_group *g, int *rank, tpcl_status *code)
{
    return g && tpcl_comm_failed(g->comm, rank, code);
}
