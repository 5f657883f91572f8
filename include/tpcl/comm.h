/** @file comm.h  The ranks that share one model, and what they exchange through host memory. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_COMM_H
#define TPCL_COMM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tpcl/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A duplicate of the caller's communicator with a shared-memory window per host.
 *
 * Every collective below takes the caller's own `local` status: a rank that failed before the call
 * still arrives, with its error, and the call then ends on all ranks. A rank that brings an error
 * keeps its own code and message; the others get TPCL_ERR_PEER and "rank r: <that message>", of the
 * lowest such rank.
 *
 * A refusal (TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_UNSUPPORTED) ends that call only: nothing was
 * done, and the communicator goes on. Every other error ends the communicator: each later call
 * returns TPCL_ERR_GROUP_FAILED at once. So does a rank that calls another operation, count or root
 * (TPCL_ERR_MISMATCH) or does not come within the deadline (TPCL_ERR_TIMEOUT): the call ends on all
 * ranks with one message naming ranks, operation and call number. These are the errors "of
 * tpcl_comm". Opaque; one thread at a time.
 */
typedef struct tpcl_comm tpcl_comm;

/** How a communicator is made. All zero is the default. */
typedef struct tpcl_comm_options {
    double timeout_s;   /**< deadline of each wait; 0 = 60 */
    size_t chunk_bytes; /**< slot size of a rank; 0 = 512 KiB, at least 1 KiB, at most 1 GiB */
    bool force_mpi;     /**< use the transport between hosts also inside one (tests) */
} tpcl_comm_options;

/**
 * Makes a communicator of the ranks of @p mpi, which the caller keeps. MPI must have been initialised
 * with MPI_THREAD_FUNNELED at least; that is enough where the thread that did it makes all calls.
 * Several communicators in as many threads, each on an MPI_Comm of its own, need
 * MPI_THREAD_MULTIPLE. What MPI lacks is refused on this rank, before any rank is waited for.
 *
 * @param options  in   NULL = defaults; chunk and transport must be the same on all ranks
 * @param out      out  NULL on failure, on all ranks
 * Collective: yes, on @p mpi.  Blocks: yes, at most the deadline a phase.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_MISMATCH, TPCL_ERR_NOMEM, TPCL_ERR_COMM, TPCL_ERR_TIMEOUT,
 * TPCL_ERR_PEER.
 */
TPCL_NODISCARD tpcl_status tpcl_comm_create(MPI_Comm mpi, const tpcl_comm_options *options,
                                            tpcl_comm **out);
/**
 * Ends it and sets *comm to NULL. NULL and *NULL are no-ops.
 *
 * Collective: yes, unless it has failed.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: none.
 */
void tpcl_comm_destroy(tpcl_comm **comm);

/**
 * The caller's rank and the number of ranks.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_comm_rank(const tpcl_comm *comm);
int tpcl_comm_size(const tpcl_comm *comm);
/**
 * Place among, and number of, the ranks on this host.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_comm_local_rank(const tpcl_comm *comm);
int tpcl_comm_local_size(const tpcl_comm *comm);
/**
 * True after a collective that ended the communicator.
 *
 * @param rank  out  the lowest rank that failed; may be NULL
 * @param code  out  its own status; may be NULL
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
bool tpcl_comm_failed(const tpcl_comm *comm, int *rank, tpcl_status *code);

/**
 * Ends a phase: TPCL_OK on all ranks if all brought TPCL_OK. Also a barrier.
 *
 * @param local  in  this rank's own status
 * @param phase  in  what ends, for messages; the same on every rank
 * Collective: yes.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_comm_agree(tpcl_comm *comm, tpcl_status local, const char *phase);

/**
 * out[i] = sum over ranks r = 0, 1, ... of in_r[i], always added in rank order: the same bits on
 * every rank and every run. in == out is allowed; count 0 is legal; any count (chunked).
 *
 *           whole group    on rank r
 * in   in   -              [count], its term
 * out  out  [count]        [count], the same on every rank
 *
 * Collective: yes.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: TPCL_ERR_ARG, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_comm_allreduce_sum(tpcl_comm *comm, tpcl_status local,
                                                   const float *in, float *out, size_t count);

/**
 * In place: value [count] becomes the least, or the greatest, over the ranks, element by element.
 *
 * Collective: yes.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: TPCL_ERR_ARG, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_comm_allreduce_min(tpcl_comm *comm, tpcl_status local,
                                                   int64_t *value, size_t count);
TPCL_NODISCARD tpcl_status tpcl_comm_allreduce_max(tpcl_comm *comm, tpcl_status local,
                                                   int64_t *value, size_t count);

/**
 * The data of @p root to all.
 *
 * @param data   inout  read on the root, written elsewhere
 * @param bytes  in     the same on every rank; 0 is legal
 * Collective: yes.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: TPCL_ERR_ARG, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_comm_broadcast(tpcl_comm *comm, tpcl_status local, void *data,
                                               size_t bytes, int root);

/**
 * Rank r brings bytes[r] bytes; they land one behind the other, by rank, at @p out.
 * @param bytes  in   [size], the same on every rank; entries may be 0
 * @param out    out  sum(bytes) bytes on the root, ignored elsewhere (may be NULL)
 * @param root   in   a rank, or -1: every rank receives (all-gather)
 * Collective: yes.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: TPCL_ERR_ARG, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_comm_gather(tpcl_comm *comm, tpcl_status local, const void *in,
                                            const size_t *bytes, void *out, int root);

/**
 * Staging without a copy: the area in which this rank's next contribution of up to
 * tpcl_comm_chunk() bytes is built (for example by a blocking read from the device), passed as `in`
 * of the next collective. Valid until that collective is called. Results never go there: the other
 * ranks still read it (TPCL_ERR_ARG).
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void *tpcl_comm_stage(tpcl_comm *comm);
/**
 * Bytes of the staging area; larger payloads go in pieces of it.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
size_t tpcl_comm_chunk(const tpcl_comm *comm);

/**
 * Changes the deadline of the waits from now on, and returns the one before. A phase in which ranks
 * work alone for long (loading, compiling) needs a longer one than a sum does.
 * @param timeout_s  in  > 0, the same on every rank; anything else changes nothing
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
double tpcl_comm_set_timeout(tpcl_comm *comm, double timeout_s);

/**
 * A flag of the caller that ends waits early (a signal handler sets it); the wait then returns
 * TPCL_ERR_INTERRUPTED.
 *
 * @param flag  in  must live as long as the communicator; NULL = none
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_comm_set_interrupt(tpcl_comm *comm, const volatile int *flag);

#ifdef __cplusplus
}
#endif
#endif
