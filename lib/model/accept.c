/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "model/model.h"

static bool is_refusal(tpcl_status status)
{
    return status == TPCL_ERR_ARG || status == TPCL_ERR_SHAPE || status == TPCL_ERR_UNSUPPORTED;
}

/* A refusal travels as data: a status that a rank brings to a collective may fail the group. */
tpcl_status tpi_model_accept(tpcl_group *g, tpcl_status local)
{
    tpcl_status status = TPCL_OK;
    struct {
        int32_t code;
        char message[TPI_MESSAGE_MAX];
    } words = {.code = (int32_t)local};
    int64_t who = is_refusal(local) ? g->rank : g->size;
    snprintf(words.message, sizeof words.message, "%s", tpcl_last_error());
    TPI_TRY(tpcl_comm_allreduce_min(g->comm, is_refusal(local) ? TPCL_OK : local, &who, 1));
    if (who == g->size) goto done;
    TPI_TRY(tpcl_comm_broadcast(g->comm, TPCL_OK, &words, sizeof words, (int)who));
    status = local; /* whoever refuses keeps its own code and message */
    if (local == TPCL_OK) TPI_FAIL(TPCL_ERR_PEER, "rank %d: %.480s", (int)who, words.message);
    tpi_blame((int)who, (tpcl_status)words.code);
done:
    return status;
}
