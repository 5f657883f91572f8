/* Ranks on several hosts: messages between each pair, non-blocking, tested under the deadline.
 *
 * A step is one packet to every rank: the line, and with it the data where they are few (or the
 * last words). Larger data follow once the lines agree, and only to those who read them. Messages
 * of one pair arrive in order, and a rank sends step s + 1 only after it has all of step s, so the
 * tags need no number. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

enum { TAG_PACKET = 1, TAG_DATA = 2, EAGER = 8192 };

struct peer {
    MPI_Request *requests; /* receives [size], then sends [size] */
    MPI_Status *statuses;  /* unread; gcc 12 takes MPI_STATUSES_IGNORE for a buffer overflow */
    unsigned char *memory; /* packets: one of each rank, two of this one */
    size_t packet;         /* line + chunk */
};

static struct tpi_seat seat_at(unsigned char *packet)
{
    unsigned char *data = packet + sizeof(struct tpi_line);
    struct tpi_words *words = (struct tpi_words *)(void *)data; /* instead of data */
    return (struct tpi_seat){
        .line = (struct tpi_line *)(void *)packet, .words = words, .last = words, .data = data};
}

static tpcl_status peer_open(struct tpcl_comm *comm)
{
    tpcl_status status = TPCL_OK;
    const size_t size = (size_t)comm->size;
    struct peer *peer = calloc(1, sizeof *peer);
    TPI_REQUIRE(peer, TPCL_ERR_NOMEM, "communicator: out of memory");
    comm->state = peer;
    peer->packet = sizeof(struct tpi_line) + comm->chunk;
    peer->requests = malloc(2 * size * sizeof *peer->requests);
    peer->statuses = malloc(2 * size * sizeof *peer->statuses);
    peer->memory = aligned_alloc(TPI_CACHE_LINE, (size + 1) * peer->packet);
    TPI_REQUIRE(peer->requests && peer->statuses && peer->memory, TPCL_ERR_NOMEM,
                "communicator: %zu bytes of staging memory", (size + 1) * peer->packet);
    memset(peer->memory, 0, (size + 1) * peer->packet);
    for (size_t i = 0; i < 2 * size; i++) peer->requests[i] = MPI_REQUEST_NULL;
    for (size_t r = 0; r < size; r++)
        comm->seats[0][r] = comm->seats[1][r] = seat_at(peer->memory + r * peer->packet);
    comm->seats[1][comm->rank] = seat_at(peer->memory + size * peer->packet);
done:
    return status;
}

static tpcl_status wait_all(struct tpcl_comm *comm)
{
    tpcl_status status = TPCL_OK;
    struct peer *peer = comm->state;
    struct tpi_wait wait = {0};
    for (;;) {
        int all = 0;
        TPI_TRY(TPI_MPI(MPI_Testall(2 * comm->size, peer->requests, &all, peer->statuses)));
        if (all) break;
        TPI_TRY(tpi_wait_turn(&comm->limits, &wait));
    }
done:
    return status;
}

/* Bytes of a packet: few data travel with the line, and so do last words. */
static int packet_bytes(const struct tpi_line *line, size_t bytes, bool with_words)
{
    if (with_words) bytes = sizeof(struct tpi_words);
    return (int)(sizeof *line + (bytes <= EAGER ? bytes : 0));
}

/* After a failed wait: which receives did complete? The others are given back. */
static void drop_receives(struct tpcl_comm *comm)
{
    struct peer *peer = comm->state;
    for (int r = 0; r < comm->size; r++) {
        int complete = 0;
        if (peer->requests[r] == MPI_REQUEST_NULL) continue;
        MPI_Test(&peer->requests[r], &complete, MPI_STATUS_IGNORE);
        if (complete) continue;
        MPI_Cancel(&peer->requests[r]);
        MPI_Request_free(&peer->requests[r]);
    }
}

static tpcl_status peer_meet(struct tpcl_comm *comm)
{
    tpcl_status status = TPCL_OK;
    struct peer *peer = comm->state;
    const struct tpi_seat *seats = comm->seats[comm->seq & 1];
    struct tpi_line *mine = seats[comm->rank].line;
    const size_t most = comm->chunk < EAGER ? comm->chunk : EAGER;
    const int send = packet_bytes(mine, comm->bytes[comm->rank], mine->call.status != TPCL_OK);
    atomic_store_explicit(&mine->seq, comm->seq, memory_order_relaxed);
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        TPI_TRY(TPI_MPI(MPI_Irecv(seats[r].line, (int)(sizeof *mine + most), MPI_BYTE, r,
                                  TAG_PACKET, comm->mpi, &peer->requests[r])));
    }
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) continue;
        TPI_TRY(TPI_MPI(MPI_Isend(mine, send, MPI_BYTE, r, TAG_PACKET, comm->mpi,
                                  &peer->requests[comm->size + r])));
    }
    status = wait_all(comm);
    if (status != TPCL_OK) drop_receives(comm);
done:
    return status;
}

/* The part of `owner`'s data that `reader` reads and that did not travel with the line. */
static size_t span(const struct tpcl_comm *comm, int owner, int reader, size_t *offset)
{
    const size_t bytes = comm->bytes[owner];
    *offset = 0;
    if (owner == reader || bytes <= EAGER) return 0;
    if (comm->reader >= 0 && comm->reader != reader) return 0;
    if (!comm->sliced) return bytes;
    *offset = tpi_slice(bytes, comm->size, reader);
    return tpi_slice(bytes, comm->size, reader + 1) - *offset;
}

static tpcl_status peer_fetch(struct tpcl_comm *comm)
{
    tpcl_status status = TPCL_OK;
    struct peer *peer = comm->state;
    const struct tpi_seat *seats = comm->seats[comm->seq & 1];
    for (int r = 0; r < comm->size; r++) {
        size_t offset, bytes = span(comm, r, comm->rank, &offset);
        if (bytes == 0) continue;
        TPI_TRY(TPI_MPI(MPI_Irecv(seats[r].data + offset, (int)bytes, MPI_BYTE, r, TAG_DATA,
                                  comm->mpi, &peer->requests[r])));
    }
    for (int r = 0; r < comm->size; r++) {
        size_t offset, bytes = span(comm, comm->rank, r, &offset);
        if (bytes == 0) continue;
        TPI_TRY(TPI_MPI(MPI_Isend(seats[comm->rank].data + offset, (int)bytes, MPI_BYTE, r,
                                  TAG_DATA, comm->mpi, &peer->requests[comm->size + r])));
    }
    status = wait_all(comm);
    if (status != TPCL_OK) drop_receives(comm);
done:
    return status;
}

/* A packet in place of the next step. It is small, so it leaves at once and nobody waits for it;
 * its memory stays, since a failed communicator keeps it. */
static void peer_leave(struct tpcl_comm *comm, const struct tpi_words *words)
{
    const struct tpi_seat *next = &comm->seats[(comm->seq + 1) & 1][comm->rank];
    next->line->call = (struct tpi_call){0};
    memmove(next->words, words, sizeof *words);
    atomic_store_explicit(&next->line->seq, (comm->seq + 1) | TPI_GAVE_UP, memory_order_relaxed);
    for (int r = 0; r < comm->size; r++) {
        MPI_Request request = MPI_REQUEST_NULL;
        if (r == comm->rank) continue;
        MPI_Isend(next->line, packet_bytes(next->line, 0, true), MPI_BYTE, r, TAG_PACKET, comm->mpi,
                  &request);
        if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    }
}

static void peer_close(struct tpcl_comm *comm)
{
    struct peer *peer = comm->state;
    if (!peer) return;
    free(peer->requests);
    free(peer->statuses);
    free(peer->memory);
    free(peer);
}

const struct tpi_transport tpi_transport_peer = {
    .open = peer_open,
    .meet = peer_meet,
    .fetch = peer_fetch,
    .leave = peer_leave,
    .close = peer_close,
};
