/* Inside of a communicator: steps, seats and transports.
 *
 * A collective is one or more steps. In a step every rank brings a line (what it calls, its status)
 * and up to `chunk` bytes of data, waits until all ranks have brought theirs, and compares the
 * lines; then it may read. Each rank has two seats, used by turns (sequence number modulo 2): a
 * rank brings step s + 1 only after it has read step s, and nobody passes step s + 1 before all
 * have brought it, so when a seat is filled again, two steps later, all have read what it held. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_COMM_COMM_H
#define TPI_COMM_COMM_H

#include <stdatomic.h>
#include <tpcl/comm.h>

#include "base/error.h"

enum tpi_op {
    TPI_OP_AGREE,
    TPI_OP_SUM,
    TPI_OP_MIN,
    TPI_OP_MAX,
    TPI_OP_BROADCAST,
    TPI_OP_GATHER,
    TPI_OP_CLOSE
};

/* What a rank calls. The lines of all ranks must be equal, byte for byte. */
struct tpi_call {
    uint64_t count;  /* of the whole call: elements, or bytes */
    uint64_t detail; /* hash of the sizes of a gather */
    int32_t op, root, status;
    char phase[28]; /* of an agreement */
};

enum { TPI_CACHE_LINE = 64 };

/* `seq` comes last: when it is seen, call, words and data are there. With TPI_GAVE_UP the rank has
 * left the communicator for good, and its words say why. */
struct tpi_line {
    _Alignas(TPI_CACHE_LINE) _Atomic uint64_t seq;
    struct tpi_call call;
};
#define TPI_GAVE_UP (UINT64_C(1) << 63)
_Static_assert(sizeof(struct tpi_line) == TPI_CACHE_LINE, "one line, one transfer between cores");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "the sequence number is shared between processes");

/* What a rank says that brings an error, in the words of its seat, or that gives up waiting, in its
 * last ones: those are written once. */
struct tpi_words {
    int32_t status;     /* what the other ranks return */
    int32_t rank, code; /* who failed first, and with what */
    char message[TPI_MESSAGE_MAX];
};

/* How many ranks sleep until this one arrives (window.c). */
struct tpi_door {
    _Alignas(TPI_CACHE_LINE) _Atomic uint32_t sleepers;
};

/* One rank's place in one step. Other ranks' seats are only read, but for their doors. */
struct tpi_seat {
    struct tpi_line *line;
    struct tpi_words *words; /* of this step; read before the rank fills this seat again */
    struct tpi_words *last;  /* the same for both seats of a rank */
    struct tpi_door *door;
    unsigned char *data;
};

struct tpi_transport {
    /* Fills comm->seats. Collective; a failure is agreed by the caller. */
    tpcl_status (*open)(struct tpcl_comm *comm);
    /* Publishes this rank's seat of step comm->seq and waits until all ranks have brought theirs.
     * TPCL_ERR_PEER: a rank gave up. TIMEOUT, INTERRUPTED, COMM: this rank must give up. */
    tpcl_status (*meet)(struct tpcl_comm *comm);
    /* Makes the data that comm->bytes, reader and sliced promise to this rank readable. */
    tpcl_status (*fetch)(struct tpcl_comm *comm);
    /* Tells the others, without waiting, that this rank has left; its words are in `words`. */
    void (*leave)(struct tpcl_comm *comm, const struct tpi_words *words);
    /* Collective. Not called on a failed communicator of several ranks. */
    void (*close)(struct tpcl_comm *comm);
    bool close_alone; /* close is not collective, and called on failed communicators, too */
    bool any_thread;  /* meet and fetch call no MPI: one thread at a time, whichever it is */
};
extern const struct tpi_transport tpi_transport_window, tpi_transport_peer, tpi_transport_solo,
    tpi_transport_team;

/* seats.c: a rank's part of memory that others see has room for both of its seats. Where they lie
 * in it; this rank's own, before anybody looks; and what a transport over such parts is made of. */
size_t tpi_part_bytes(const struct tpcl_comm *comm);
void tpi_part_seat(struct tpcl_comm *comm, int rank, void *part);
void tpi_part_clear(struct tpcl_comm *comm);
tpcl_status tpi_seats_meet(struct tpcl_comm *comm);
tpcl_status tpi_seats_fetch(struct tpcl_comm *comm);
void tpi_seats_leave(struct tpcl_comm *comm, const struct tpi_words *words);

/* How a rank waits. */
struct tpi_limits {
    double timeout_s;
    unsigned spins; /* before a wait yields; 0 where ranks outnumber cores */
    const volatile int *interrupt;
};

struct tpcl_comm {
    MPI_Comm mpi, local;
    int rank, size, local_rank, local_size;
    const struct tpi_transport *transport;
    MPI_Win win; /* of the window */
    void *state; /* of the other transports */
    size_t chunk;
    struct tpi_limits limits;

    uint64_t seq;   /* steps taken */
    uint64_t calls; /* collectives called: the number in messages */
    struct tpi_seat *seats[2];
    const void **sources; /* [size], scratch of reductions */

    /* Of the step in progress: bytes brought by each rank, who reads them (-1: all), and whether
     * rank r reads only its slice (tpi_slice) of each. */
    size_t *bytes;
    int reader;
    bool sliced;

    /* Sums that wait in a device's queue (layers/staging.c), whose worker uses this communicator
     * until they are done. `settle` waits for that; it returns what they ended with on all ranks,
     * once, and adds to `local` what only this rank met. NULL: none wait. */
    tpcl_status (*settle)(void *owner, tpcl_status *local);
    void *owner;

    bool failed;
    int failed_rank;
    tpcl_status failed_code;
    char message[TPI_MESSAGE_MAX];
};

/* create.c: what a rank can do, and fail at, alone, with its rank, size and neighbours known; how
 * long it spins; and the end. */
tpcl_status tpi_comm_prepare(struct tpcl_comm *comm, const tpcl_comm_options *options);
void tpi_comm_set_spins(struct tpcl_comm *comm, long cores);
void tpi_comm_release(struct tpcl_comm *comm, bool together);

/* Turns MPI's code into a status, with the call and MPI's text as the message. */
tpcl_status tpi_mpi(int code, const char *call);
#define TPI_MPI(call) tpi_mpi((call), #call)

/* tpcl_comm_allreduce_sum(), in place, for the worker of a device's queue. */
tpcl_status tpi_comm_sum_queued(struct tpcl_comm *comm, float *values, size_t count);

/* What a rank refuses before anything is done: the call ends on all ranks, the communicator goes
 * on. Every other error ends it for good. */
static inline bool tpi_is_refusal(tpcl_status status)
{
    return status == TPCL_ERR_ARG || status == TPCL_ERR_SHAPE || status == TPCL_ERR_UNSUPPORTED;
}

/* Start of every collective. With a `local` error it arrives with it, and fails on all ranks. */
tpcl_status tpi_comm_begin(struct tpcl_comm *comm, struct tpi_call *call, tpcl_status local);
/* The same where what is queued does not have to be waited for: in the queue. */
tpcl_status tpi_comm_enter(struct tpcl_comm *comm, struct tpi_call *call, tpcl_status local);

/* Sets bytes (the same of every rank), reader and sliced of the next step. */
void tpi_comm_expect(struct tpcl_comm *comm, size_t bytes, int reader, bool sliced);
tpcl_status tpi_comm_step(struct tpcl_comm *comm, const struct tpi_call *call);

/* This rank's seat in the next step, and rank r's data of the step just taken. */
static inline unsigned char *tpi_comm_stage(const struct tpcl_comm *comm)
{
    return comm->seats[(comm->seq + 1) & 1][comm->rank].data;
}
static inline const unsigned char *tpi_comm_data(const struct tpcl_comm *comm, int rank)
{
    return comm->seats[comm->seq & 1][rank].data;
}
/* Brings `bytes` from `in`; no copy where the caller built them in the stage. */
void tpi_comm_put(struct tpcl_comm *comm, const void *in, size_t bytes);
/* Is `p` inside this rank's seats? Results must not go there: others still read it. */
bool tpi_comm_owns(const struct tpcl_comm *comm, const void *p);

/* Slice of rank r in `bytes` bytes: whole cache lines, consecutive, covering. */
static inline size_t tpi_slice(size_t bytes, int size, int rank)
{
    const size_t lines = (bytes + TPI_CACHE_LINE - 1) / TPI_CACHE_LINE;
    const size_t end = lines * (size_t)rank / (size_t)size * TPI_CACHE_LINE;
    return end < bytes ? end : bytes;
}

/* dst[i] = ((src[0][i] + src[1][i]) + src[2][i]) + ...; dst may be one of the sources. */
void tpi_sum(const void *const *sources, int ranks, size_t offset, size_t n, float *dst);

/* One turn of a wait: spins, yields or sleeps, and now and then looks at clock and interrupt. */
struct tpi_wait {
    unsigned turns;
    double started;
    bool patient;
};
enum { TPI_WAIT_CHECK = 16 };
tpcl_status tpi_wait_turn(const struct tpi_limits *limits, struct tpi_wait *wait);

#endif
