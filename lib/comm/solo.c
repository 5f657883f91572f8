/* One rank: ordinary memory and nothing to wait for. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

struct solo {
    struct tpi_line line[2];
    struct tpi_words words;
};

static tpcl_status solo_open(struct tpcl_comm *comm)
{
    tpcl_status status = TPCL_OK;
    struct solo *solo = NULL;
    unsigned char *data = aligned_alloc(TPI_CACHE_LINE, sizeof *solo + 2 * comm->chunk);
    TPI_REQUIRE(data, TPCL_ERR_NOMEM, "communicator: %zu bytes of staging memory", 2 * comm->chunk);
    solo = (struct solo *)(void *)(data + 2 * comm->chunk);
    memset(solo, 0, sizeof *solo);
    comm->state = data;
    for (size_t k = 0; k < 2; k++)
        comm->seats[k][0] = (struct tpi_seat){.line = &solo->line[k],
                                              .words = &solo->words,
                                              .last = &solo->words,
                                              .data = data + k * comm->chunk};
done:
    return status;
}

static tpcl_status solo_meet(struct tpcl_comm *comm)
{
    struct tpi_line *line = comm->seats[comm->seq & 1][0].line;
    atomic_store_explicit(&line->seq, comm->seq, memory_order_relaxed);
    return TPCL_OK;
}

static tpcl_status solo_fetch(struct tpcl_comm *comm)
{
    (void)comm;
    return TPCL_OK;
}

static void solo_leave(struct tpcl_comm *comm, const struct tpi_words *words)
{
    (void)comm, (void)words; /* nobody to tell */
}

static void solo_close(struct tpcl_comm *comm)
{
    free(comm->state);
}

const struct tpi_transport tpi_transport_solo = {
    .open = solo_open,
    .meet = solo_meet,
    .fetch = solo_fetch,
    .leave = solo_leave,
    .close = solo_close,
};
