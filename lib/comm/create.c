/* Set-up and end of a communicator. Every phase of create is agreed before the next begins. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double default_timeout_s = 60.0;
/* A chunk must hold a rank's last words, and be countable in MPI's int. */
enum { CHUNK_DEFAULT = 512 * 1024, CHUNK_MIN = 1024, CHUNK_MAX = 1 << 30 };
enum { SPINS = 400 }; /* about 20 us of `pause` */

/* All succeed, or all fail with the message of the lowest rank that failed. */
static tpcl_status agree(MPI_Comm mpi, int rank, int size, tpcl_status local)
{
    tpcl_status status = TPCL_OK;
    struct tpi_words words = {.code = (int)local}, heard;
    int mine = local == TPCL_OK ? size : rank, first = size;
    if (local != TPCL_OK) snprintf(words.message, sizeof words.message, "%s", tpcl_last_error());
    TPI_TRY(TPI_MPI(MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, mpi)));
    if (first == size) goto done;
    heard = words;
    TPI_TRY(TPI_MPI(MPI_Bcast(&heard, sizeof heard, MPI_BYTE, first, mpi)));
    if (local != TPCL_OK)
        status = tpi_fail(local, "%s", words.message);
    else if (heard.code == TPCL_ERR_MISMATCH)
        TPI_FAIL(TPCL_ERR_MISMATCH, "%s", heard.message);
    else
        TPI_FAIL(TPCL_ERR_PEER, "rank %d: %.490s", first, heard.message);
done:
    return status;
}

static tpcl_status check_options(struct tpcl_comm *comm, const tpcl_comm_options *options)
{
    tpcl_status status = TPCL_OK;
    const size_t chunk = options && options->chunk_bytes ? options->chunk_bytes : CHUNK_DEFAULT;
    comm->timeout_s = options && options->timeout_s != 0.0 ? options->timeout_s : default_timeout_s;
    TPI_REQUIRE(isfinite(comm->timeout_s) && comm->timeout_s > 0.0, TPCL_ERR_ARG,
                "timeout_s %g: must be a finite number of seconds > 0", comm->timeout_s);
    TPI_REQUIRE(chunk <= CHUNK_MAX, TPCL_ERR_ARG, "chunk_bytes %zu: must not exceed %d", chunk,
                CHUNK_MAX);
    comm->chunk = (chunk < CHUNK_MIN ? CHUNK_MIN : chunk) / TPI_CACHE_LINE * TPI_CACHE_LINE;
done:
    return status;
}

static tpcl_status prepare(MPI_Comm mpi, const tpcl_comm_options *options, struct tpcl_comm **out)
{
    tpcl_status status = TPCL_OK;
    struct tpcl_comm *comm = calloc(1, sizeof *comm);
    size_t size;
    TPI_REQUIRE(comm, TPCL_ERR_NOMEM, "communicator: out of memory");
    *out = comm;
    comm->mpi = mpi;
    comm->local = MPI_COMM_NULL;
    TPI_TRY(TPI_MPI(MPI_Comm_rank(mpi, &comm->rank)));
    TPI_TRY(TPI_MPI(MPI_Comm_size(mpi, &comm->size)));
    TPI_TRY(check_options(comm, options));
    size = (size_t)comm->size;
    comm->seats[0] = calloc(size, sizeof *comm->seats[0]);
    comm->seats[1] = calloc(size, sizeof *comm->seats[1]);
    comm->sources = calloc(size, sizeof *comm->sources);
    comm->bytes = calloc(size, sizeof *comm->bytes);
    TPI_REQUIRE(comm->seats[0] && comm->seats[1] && comm->sources && comm->bytes, TPCL_ERR_NOMEM,
                "communicator: out of memory");
done:
    return status;
}

/* The slots' size and the transport must be the same everywhere; the deadline need not. */
static tpcl_status compare_options(const struct tpcl_comm *comm, const tpcl_comm_options *options)
{
    tpcl_status status = TPCL_OK;
    const bool force_mpi = options && options->force_mpi;
    uint64_t first[2] = {comm->chunk, force_mpi};
    TPI_TRY(TPI_MPI(MPI_Bcast(first, sizeof first, MPI_BYTE, 0, comm->mpi)));
    TPI_REQUIRE(first[0] == comm->chunk, TPCL_ERR_MISMATCH,
                "chunk_bytes is %llu on rank 0 but %zu on rank %d", (unsigned long long)first[0],
                comm->chunk, comm->rank);
    TPI_REQUIRE((first[1] != 0) == force_mpi, TPCL_ERR_MISMATCH,
                "force_mpi is %d on rank 0 but %d on rank %d", first[1] != 0, force_mpi,
                comm->rank);
done:
    return status;
}

/* Spinning pays only where every local rank has a core: the cores that any of them may use count,
 * for ranks may be bound to cores of their own. */
static tpcl_status choose_spins(struct tpcl_comm *comm)
{
    tpcl_status status = TPCL_OK;
    cpu_set_t mine, all;
    long cores;
    CPU_ZERO(&mine);
    CPU_ZERO(&all);
    /* Fails on hosts with more CPUs than the set holds; then nobody has bits, and all count. */
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_ZERO(&mine);
    TPI_TRY(TPI_MPI(MPI_Allreduce(&mine, &all, sizeof mine, MPI_BYTE, MPI_BOR, comm->local)));
    cores = CPU_COUNT(&all);
    if (cores == 0) cores = sysconf(_SC_NPROCESSORS_ONLN);
    comm->spins = cores >= comm->local_size ? SPINS : 0;
done:
    return status;
}

static tpcl_status find_neighbours(struct tpcl_comm *comm, const tpcl_comm_options *options)
{
    tpcl_status status = TPCL_OK;
    int one_host, mine;
    TPI_TRY(TPI_MPI(MPI_Comm_split_type(comm->mpi, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL,
                                        &comm->local)));
    TPI_TRY(TPI_MPI(MPI_Comm_rank(comm->local, &comm->local_rank)));
    TPI_TRY(TPI_MPI(MPI_Comm_size(comm->local, &comm->local_size)));
    TPI_TRY(choose_spins(comm));
    mine = comm->local_size == comm->size;
    TPI_TRY(TPI_MPI(MPI_Allreduce(&mine, &one_host, 1, MPI_INT, MPI_LAND, comm->mpi)));
    if (comm->size == 1)
        comm->transport = &tpi_transport_solo;
    else if (one_host && !(options && options->force_mpi))
        comm->transport = &tpi_transport_window;
    else
        comm->transport = &tpi_transport_peer;
done:
    return status;
}

static void release(struct tpcl_comm *comm, bool together)
{
    if (together && comm->transport) comm->transport->close(comm);
    if (together && comm->local != MPI_COMM_NULL) MPI_Comm_free(&comm->local);
    if (together) MPI_Comm_free(&comm->mpi);
    free(comm->seats[0]);
    free(comm->seats[1]);
    free(comm->sources);
    free(comm->bytes);
    free(comm);
}

tpcl_status tpcl_comm_create(MPI_Comm mpi, const tpcl_comm_options *options, tpcl_comm **out)
{
    tpcl_status status = TPCL_OK;
    struct tpcl_comm *comm = NULL;
    MPI_Comm own = MPI_COMM_NULL;
    int rank = 0, size = 1;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "communicator: no place for the result");
    *out = NULL;
    TPI_REQUIRE(mpi != MPI_COMM_NULL, TPCL_ERR_ARG, "communicator: MPI_COMM_NULL given");
    TPI_TRY(TPI_MPI(MPI_Comm_dup(mpi, &own)));
    TPI_TRY(TPI_MPI(MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN)));
    TPI_TRY(TPI_MPI(MPI_Comm_rank(own, &rank)));
    TPI_TRY(TPI_MPI(MPI_Comm_size(own, &size)));
    TPI_TRY(agree(own, rank, size, prepare(own, options, &comm)));
    TPI_TRY(agree(own, rank, size, compare_options(comm, options)));
    TPI_TRY(agree(own, rank, size, find_neighbours(comm, options)));
    TPI_TRY(agree(own, rank, size, comm->transport->open(comm)));
    *out = comm;
    comm = NULL;
    own = MPI_COMM_NULL;
done:
    /* A failure was agreed, so all ranks free; where MPI itself failed, nothing is certain. */
    if (comm)
        release(comm, status != TPCL_ERR_COMM);
    else if (own != MPI_COMM_NULL && status != TPCL_ERR_COMM)
        MPI_Comm_free(&own);
    return status;
}

/* Nobody frees what another still waits for, and nobody blocks in MPI for a rank that is gone. The
 * caller's last message survives. */
static void end_together(struct tpcl_comm *comm)
{
    char message[TPI_MESSAGE_MAX];
    struct tpi_call call = {.op = TPI_OP_CLOSE, .root = -1};
    snprintf(message, sizeof message, "%s", tpcl_last_error());
    if (comm->failed || tpi_comm_begin(comm, &call, TPCL_OK) != TPCL_OK) return;
    tpi_comm_expect(comm, 0, -1, false);
    if (tpi_comm_step(comm, &call) != TPCL_OK) tpi_fail(TPCL_OK, "%s", message);
}

void tpcl_comm_destroy(tpcl_comm **comm)
{
    struct tpcl_comm *c;
    if (!comm || !*comm) return;
    c = *comm;
    *comm = NULL;
    end_together(c);
    /* MPI frees collectively: with a rank that has failed or stopped it would block for ever. What
     * others may still read or send to is left to the end of the process. */
    release(c, c->size == 1 || !c->failed);
}

int tpcl_comm_rank(const tpcl_comm *comm)
{
    return comm->rank;
}

int tpcl_comm_size(const tpcl_comm *comm)
{
    return comm->size;
}

int tpcl_comm_local_rank(const tpcl_comm *comm)
{
    return comm->local_rank;
}

int tpcl_comm_local_size(const tpcl_comm *comm)
{
    return comm->local_size;
}

bool tpcl_comm_failed(const tpcl_comm *comm, int *rank, tpcl_status *code)
{
    if (comm->failed && rank) *rank = comm->failed_rank;
    if (comm->failed && code) *code = comm->failed_code;
    return comm->failed;
}

void *tpcl_comm_stage(tpcl_comm *comm)
{
    return tpi_comm_stage(comm);
}

size_t tpcl_comm_chunk(const tpcl_comm *comm)
{
    return comm->chunk;
}

void tpcl_comm_set_interrupt(tpcl_comm *comm, const volatile int *flag)
{
    comm->interrupt = flag;
}
