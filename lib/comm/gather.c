/* Data that move unchanged: gather and all-gather, broadcast; and the agreement, which moves none.
 *
 * For n bytes in all: a gather takes max(bytes) / chunk steps, and a reader copies n bytes; a
 * broadcast n / chunk steps, and everybody but the root copies n. The root fills its next seat
 * while the others still read the one before. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <string.h>

tpcl_status tpcl_comm_agree(tpcl_comm *comm, tpcl_status local, const char *phase)
{
    tpcl_status status = TPCL_OK;
    struct tpi_call call = {.op = TPI_OP_AGREE, .root = -1};
    if (phase) /* equal lines need equal padding: it stays zero */
        memcpy(call.phase, phase, strnlen(phase, sizeof call.phase - 1));
    TPI_TRY(tpi_comm_begin(comm, &call, local));
    tpi_comm_expect(comm, 0, -1, false);
    TPI_TRY(tpi_comm_step(comm, &call));
done:
    return status;
}

static tpcl_status check_broadcast(const struct tpcl_comm *comm, const void *data, size_t bytes,
                                   int root)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(root >= 0 && root < comm->size, TPCL_ERR_ARG,
                "broadcast from rank %d: the group has ranks 0 to %d", root, comm->size - 1);
    TPI_REQUIRE(data || bytes == 0, TPCL_ERR_ARG, "broadcast of %zu bytes: no buffer", bytes);
    TPI_REQUIRE(!tpi_comm_owns(comm, data) || bytes <= comm->chunk, TPCL_ERR_ARG,
                "broadcast of %zu bytes from the staging area, which holds %zu", bytes,
                comm->chunk);
done:
    return status;
}

tpcl_status tpcl_comm_broadcast(tpcl_comm *comm, tpcl_status local, void *data, size_t bytes,
                                int root)
{
    tpcl_status status = TPCL_OK;
    struct tpi_call call = {.op = TPI_OP_BROADCAST, .count = bytes, .root = root};
    unsigned char *at = data;
    size_t left = bytes;
    if (local == TPCL_OK) local = check_broadcast(comm, data, bytes, root);
    TPI_TRY(tpi_comm_begin(comm, &call, local));
    if (comm->size == 1) goto done;
    do {
        const size_t n = left < comm->chunk ? left : comm->chunk;
        if (comm->rank == root) tpi_comm_put(comm, at, n);
        tpi_comm_expect(comm, 0, -1, false);
        comm->bytes[root] = n;
        TPI_TRY(tpi_comm_step(comm, &call));
        if (at && comm->rank != root) memcpy(at, tpi_comm_data(comm, root), n);
        if (at) at += n; /* none where there is nothing to move */
        left -= n;
    } while (left > 0);
done:
    return status;
}

/* Sum, greatest and a hash (FNV-1a over the sizes) of what the ranks bring. */
static tpcl_status check_gather(const struct tpcl_comm *comm, const void *in, const size_t *bytes,
                                const void *out, struct tpi_call *call, size_t *greatest)
{
    tpcl_status status = TPCL_OK;
    const bool reads = call->root < 0 || call->root == comm->rank;
    *greatest = 0;
    call->detail = UINT64_C(14695981039346656037);
    TPI_REQUIRE(call->root >= -1 && call->root < comm->size, TPCL_ERR_ARG,
                "gather to rank %d: the group has ranks 0 to %d, and -1 is all", call->root,
                comm->size - 1);
    TPI_REQUIRE(bytes, TPCL_ERR_ARG, "gather: no sizes given");
    for (int r = 0; r < comm->size; r++) {
        TPI_REQUIRE(bytes[r] <= SIZE_MAX / 2 - call->count, TPCL_ERR_ARG,
                    "gather: the sizes of ranks 0 to %d are more than memory can hold", r);
        call->count += bytes[r];
        call->detail = (call->detail ^ bytes[r]) * UINT64_C(1099511628211);
        if (bytes[r] > *greatest) *greatest = bytes[r];
    }
    TPI_REQUIRE(in || bytes[comm->rank] == 0, TPCL_ERR_ARG, "gather of %zu bytes: no buffer",
                bytes[comm->rank]);
    TPI_REQUIRE(!tpi_comm_owns(comm, in) || bytes[comm->rank] <= comm->chunk, TPCL_ERR_ARG,
                "gather of %zu bytes from the staging area, which holds %zu", bytes[comm->rank],
                comm->chunk);
    TPI_REQUIRE(!reads || call->count == 0 || (out && !tpi_comm_owns(comm, out)), TPCL_ERR_ARG,
                "gather of %llu bytes: the result needs a buffer outside the staging area",
                (unsigned long long)call->count);
done:
    return status;
}

static size_t part(const size_t *bytes, int rank, size_t from, size_t chunk)
{
    const size_t left = bytes[rank] > from ? bytes[rank] - from : 0;
    return left < chunk ? left : chunk;
}

tpcl_status tpcl_comm_gather(tpcl_comm *comm, tpcl_status local, const void *in,
                             const size_t *bytes, void *out, int root)
{
    tpcl_status status = TPCL_OK;
    struct tpi_call call = {.op = TPI_OP_GATHER, .root = root};
    const bool reads = root < 0 || root == comm->rank;
    size_t greatest = 0, from = 0;
    if (local == TPCL_OK) local = check_gather(comm, in, bytes, out, &call, &greatest);
    TPI_TRY(tpi_comm_begin(comm, &call, local));
    do {
        const size_t mine = part(bytes, comm->rank, from, comm->chunk);
        size_t place = 0;
        if (mine) tpi_comm_put(comm, (const char *)in + from, mine);
        tpi_comm_expect(comm, 0, root, false);
        for (int r = 0; r < comm->size; r++) comm->bytes[r] = part(bytes, r, from, comm->chunk);
        TPI_TRY(tpi_comm_step(comm, &call));
        for (int r = 0; reads && r < comm->size; r++) {
            if (comm->bytes[r])
                memcpy((char *)out + place + from, tpi_comm_data(comm, r), comm->bytes[r]);
            place += bytes[r];
        }
        from += comm->chunk;
    } while (from < greatest);
done:
    return status;
}
