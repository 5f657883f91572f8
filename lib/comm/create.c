/* Set-up and end of a communicator. Every phase of create is agreed before the next begins. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const double default_timeout_s = 60.0;
/* A chunk must hold a rank's last words, and be countable in MPI's int. */
enum { CHUNK_DEFAULT = 512 * 1024, CHUNK_MIN = 1024, CHUNK_MAX = 1 << 30 };
/* About 200 us of `pause`: ranks in step differ by less, and waking a sleeper costs tens of them.
 */
enum { SPINS = 4000 };

/* What the collectives of the set-up read and write. On the heap, and left there (with the
 * communicator) after a timeout: MPI may still come to write into it. */
struct setup {
    MPI_Request request;
    int least[2]; /* mine, and over all ranks */
    struct tpi_words words, heard;
    uint64_t options[2];
    cpu_set_t cores[2];
};

/* MPI's blocking calls burn whole time slices where ranks outnumber cores, and have no deadline. */
static tpcl_status finish(const struct tpcl_comm *comm, struct setup *setup, const char *what)
{
    tpcl_status status = TPCL_OK;
    struct tpi_wait wait = {0};
    for (;;) {
        int complete = 0;
        TPI_TRY(TPI_MPI(MPI_Test(&setup->request, &complete, MPI_STATUS_IGNORE)));
        if (complete) break;
        status = tpi_wait_turn(&comm->limits, &wait);
        TPI_REQUIRE(status == TPCL_OK, status, "communicator: not all ranks came within %g s (%s)",
                    comm->limits.timeout_s, what);
    }
done:
    return status;
}

static tpcl_status find_least(struct tpcl_comm *comm, struct setup *setup, int mine, int *out)
{
    tpcl_status status = TPCL_OK;
    setup->least[0] = mine;
    TPI_TRY(TPI_MPI(MPI_Iallreduce(&setup->least[0], &setup->least[1], 1, MPI_INT, MPI_MIN,
                                   comm->mpi, &setup->request)));
    TPI_TRY(finish(comm, setup, "agreement"));
    *out = setup->least[1];
done:
    return status;
}

/* All succeed, or all fail with the message of the lowest rank that failed. */
static tpcl_status agree(struct tpcl_comm *comm, struct setup *setup, tpcl_status local)
{
    tpcl_status status = TPCL_OK;
    struct tpi_words *words = &setup->words, *heard = &setup->heard;
    int first = comm->size;
    words->code = (int)local;
    snprintf(words->message, sizeof words->message, "%s", tpcl_last_error());
    TPI_TRY(find_least(comm, setup, local == TPCL_OK ? comm->size : comm->rank, &first));
    if (first == comm->size) goto done;
    *heard = *words;
    TPI_TRY(TPI_MPI(MPI_Ibcast(heard, sizeof *heard, MPI_BYTE, first, comm->mpi, &setup->request)));
    TPI_TRY(finish(comm, setup, "message"));
    if (local != TPCL_OK)
        status = tpi_fail(local, "%s", words->message);
    else if (heard->code == TPCL_ERR_MISMATCH)
        TPI_FAIL(TPCL_ERR_MISMATCH, "%s", heard->message);
    else
        TPI_FAIL(TPCL_ERR_PEER, "rank %d: %.490s", first, heard->message);
    tpi_blame(first, (tpcl_status)heard->code);
done:
    return status;
}

static tpcl_status check_options(struct tpcl_comm *comm, const tpcl_comm_options *options)
{
    tpcl_status status = TPCL_OK;
    const size_t chunk = options && options->chunk_bytes ? options->chunk_bytes : CHUNK_DEFAULT;
    const double timeout_s = options ? options->timeout_s : 0.0;
    comm->limits.timeout_s = timeout_s > 0.0 && isfinite(timeout_s) ? timeout_s : default_timeout_s;
    TPI_REQUIRE(isfinite(timeout_s) && timeout_s >= 0.0, TPCL_ERR_ARG,
                "timeout_s %g: must be a finite number of seconds >= 0", timeout_s);
    TPI_REQUIRE(chunk <= CHUNK_MAX, TPCL_ERR_ARG, "chunk_bytes %zu: must not exceed %d", chunk,
                CHUNK_MAX);
    comm->chunk = (chunk < CHUNK_MIN ? CHUNK_MIN : chunk) / TPI_CACHE_LINE * TPI_CACHE_LINE;
done:
    return status;
}

tpcl_status tpi_comm_prepare(struct tpcl_comm *comm, const tpcl_comm_options *options)
{
    tpcl_status status = TPCL_OK;
    const size_t size = (size_t)comm->size;
    TPI_TRY(check_options(comm, options));
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
static tpcl_status compare_options(const struct tpcl_comm *comm, struct setup *setup,
                                   bool force_mpi)
{
    tpcl_status status = TPCL_OK;
    uint64_t *first = setup->options;
    first[0] = comm->chunk;
    first[1] = force_mpi;
    TPI_TRY(
        TPI_MPI(MPI_Ibcast(first, sizeof setup->options, MPI_BYTE, 0, comm->mpi, &setup->request)));
    TPI_TRY(finish(comm, setup, "options"));
    TPI_REQUIRE(first[0] == comm->chunk, TPCL_ERR_MISMATCH,
                "chunk_bytes is %llu on rank 0 but %zu on rank %d", (unsigned long long)first[0],
                comm->chunk, comm->rank);
    TPI_REQUIRE((first[1] != 0) == force_mpi, TPCL_ERR_MISMATCH,
                "force_mpi is %d on rank 0 but %d on rank %d", first[1] != 0, force_mpi,
                comm->rank);
done:
    return status;
}

void tpi_comm_set_spins(struct tpcl_comm *comm, long cores)
{
    comm->limits.spins = cores >= comm->local_size ? SPINS : 0;
}

/* Spinning pays only where every local rank has a core: the cores that any of them may use count,
 * for ranks may be bound to cores of their own. */
static tpcl_status choose_spins(struct tpcl_comm *comm, struct setup *setup)
{
    tpcl_status status = TPCL_OK;
    cpu_set_t *mine = &setup->cores[0], *all = &setup->cores[1];
    long cores;
    /* Fails on hosts with more CPUs than the set holds; then nobody has bits, and all count. */
    if (sched_getaffinity(0, sizeof *mine, mine) != 0) CPU_ZERO(mine);
    TPI_TRY(TPI_MPI(
        MPI_Iallreduce(mine, all, sizeof *mine, MPI_BYTE, MPI_BOR, comm->local, &setup->request)));
    TPI_TRY(finish(comm, setup, "cores"));
    cores = CPU_COUNT(all);
    if (cores == 0) cores = sysconf(_SC_NPROCESSORS_ONLN);
    tpi_comm_set_spins(comm, cores);
done:
    return status;
}

static tpcl_status find_neighbours(struct tpcl_comm *comm, struct setup *setup, bool force_mpi)
{
    tpcl_status status = TPCL_OK;
    int fewest = 0;
    TPI_TRY(TPI_MPI(MPI_Comm_split_type(comm->mpi, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL,
                                        &comm->local)));
    TPI_TRY(TPI_MPI(MPI_Comm_rank(comm->local, &comm->local_rank)));
    TPI_TRY(TPI_MPI(MPI_Comm_size(comm->local, &comm->local_size)));
    TPI_TRY(choose_spins(comm, setup));
    TPI_TRY(find_least(comm, setup, comm->local_size, &fewest));
    if (comm->size == 1)
        comm->transport = &tpi_transport_solo;
    else if (fewest == comm->size && !force_mpi)
        comm->transport = &tpi_transport_window;
    else
        comm->transport = &tpi_transport_peer;
done:
    return status;
}

void tpi_comm_release(struct tpcl_comm *comm, bool together)
{
    if (comm->transport && (together || comm->transport->close_alone)) comm->transport->close(comm);
    if (together && comm->local != MPI_COMM_NULL) MPI_Comm_free(&comm->local);
    if (together && comm->mpi != MPI_COMM_NULL) MPI_Comm_free(&comm->mpi);
    free(comm->seats[0]);
    free(comm->seats[1]);
    free(comm->sources);
    free(comm->bytes);
    free(comm);
}

static tpcl_status duplicate(struct tpcl_comm *comm, struct setup *setup, MPI_Comm mpi,
                             const tpcl_comm_options *options)
{
    tpcl_status status = TPCL_OK;
    const double timeout_s = options ? options->timeout_s : 0.0;
    comm->mpi = comm->local = MPI_COMM_NULL;
    comm->win = MPI_WIN_NULL;
    comm->limits.timeout_s = isfinite(timeout_s) && timeout_s > 0.0 ? timeout_s : default_timeout_s;
    TPI_TRY(TPI_MPI(MPI_Comm_idup(mpi, &comm->mpi, &setup->request)));
    TPI_TRY(finish(comm, setup, "start"));
    TPI_TRY(TPI_MPI(MPI_Comm_set_errhandler(comm->mpi, MPI_ERRORS_RETURN)));
    TPI_TRY(TPI_MPI(MPI_Comm_rank(comm->mpi, &comm->rank)));
    TPI_TRY(TPI_MPI(MPI_Comm_size(comm->mpi, &comm->size)));
done:
    return status;
}

/* What would end the process or hang inside of MPI. Drivers have threads of their own, so that MPI
 * must know of threads even where only one calls it. */
static tpcl_status check_mpi(MPI_Comm mpi)
{
    tpcl_status status = TPCL_OK;
    int flag = 0, level = MPI_THREAD_SINGLE, main_thread = 0;
    TPI_TRY(TPI_MPI(MPI_Initialized(&flag)));
    TPI_REQUIRE(flag, TPCL_ERR_ARG,
                "communicator: MPI is not initialised; call MPI_Init_thread with "
                "MPI_THREAD_FUNNELED first");
    TPI_TRY(TPI_MPI(MPI_Finalized(&flag)));
    TPI_REQUIRE(!flag, TPCL_ERR_ARG, "communicator: MPI is finalised");
    TPI_REQUIRE(mpi != MPI_COMM_NULL, TPCL_ERR_ARG, "communicator: MPI_COMM_NULL given");
    TPI_TRY(TPI_MPI(MPI_Query_thread(&level)));
    TPI_REQUIRE(level >= MPI_THREAD_FUNNELED, TPCL_ERR_ARG,
                "communicator: MPI was initialised with MPI_THREAD_SINGLE; call MPI_Init_thread "
                "with MPI_THREAD_FUNNELED, since OpenCL drivers start threads");
    TPI_TRY(TPI_MPI(MPI_Is_thread_main(&main_thread)));
    TPI_REQUIRE(main_thread || level >= MPI_THREAD_SERIALIZED, TPCL_ERR_ARG,
                "communicator: called from a thread that did not initialise MPI; that needs "
                "MPI_THREAD_MULTIPLE, MPI has MPI_THREAD_FUNNELED");
    TPI_TRY(TPI_MPI(MPI_Comm_test_inter(mpi, &flag)));
    TPI_REQUIRE(!flag, TPCL_ERR_ARG, "communicator: an intercommunicator given, need one group");
done:
    return status;
}

tpcl_status tpcl_comm_create(MPI_Comm mpi, const tpcl_comm_options *options, tpcl_comm **out)
{
    tpcl_status status = TPCL_OK;
    struct tpcl_comm *comm = NULL;
    struct setup *setup = NULL;
    const bool force_mpi = options && options->force_mpi;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "communicator: no place for the result");
    *out = NULL;
    TPI_TRY(check_mpi(mpi));
    comm = calloc(1, sizeof *comm);
    setup = calloc(1, sizeof *setup);
    if (!comm || !setup) {
        free(comm), free(setup);
        return tpi_fail(TPCL_ERR_NOMEM, "communicator: out of memory");
    }
    TPI_TRY(duplicate(comm, setup, mpi, options));
    TPI_TRY(agree(comm, setup, tpi_comm_prepare(comm, options)));
    TPI_TRY(agree(comm, setup, compare_options(comm, setup, force_mpi)));
    TPI_TRY(agree(comm, setup, find_neighbours(comm, setup, force_mpi)));
    TPI_TRY(agree(comm, setup, comm->transport->open(comm)));
    *out = comm;
    comm = NULL;
done:
    /* Any other failure was agreed, so all ranks clean up; see struct setup for these two. */
    if (status == TPCL_ERR_COMM || status == TPCL_ERR_TIMEOUT) return status;
    if (comm) tpi_comm_release(comm, true);
    free(setup);
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
    tpi_comm_release(c, c->size == 1 || !c->failed);
}

int tpcl_comm_rank(const tpcl_comm *comm)
{
    return comm ? comm->rank : 0;
}

int tpcl_comm_size(const tpcl_comm *comm)
{
    return comm ? comm->size : 0;
}

int tpcl_comm_local_rank(const tpcl_comm *comm)
{
    return comm ? comm->local_rank : 0;
}

int tpcl_comm_local_size(const tpcl_comm *comm)
{
    return comm ? comm->local_size : 0;
}

bool tpcl_comm_failed(const tpcl_comm *comm, int *rank, tpcl_status *code)
{
    if (!comm) return false;
    if (comm->failed && rank) *rank = comm->failed_rank;
    if (comm->failed && code) *code = comm->failed_code;
    return comm->failed;
}

void *tpcl_comm_stage(tpcl_comm *comm)
{
    return comm ? tpi_comm_stage(comm) : NULL;
}

size_t tpcl_comm_chunk(const tpcl_comm *comm)
{
    return comm ? comm->chunk : 0;
}

double tpcl_comm_set_timeout(tpcl_comm *comm, double timeout_s)
{
    if (!comm) return 0.0;
    const double before = comm->limits.timeout_s;
    if (isfinite(timeout_s) && timeout_s > 0.0) comm->limits.timeout_s = timeout_s;
    return before;
}

void tpcl_comm_set_interrupt(tpcl_comm *comm, const volatile int *flag)
{
    if (comm) comm->limits.interrupt = flag;
}
