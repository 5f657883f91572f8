/** @file group.h  One rank's seat in a tensor-parallel group: device, communicator, shard weights.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_GROUP_H
#define TPCL_GROUP_H

#include <mpi.h>
#include <tpcl/comm.h>
#include <tpcl/device.h>
#include <tpcl/shard.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A rank's seat: device, queue, program cache, communicator, share of the work. Opaque; everything
 * else is made from it and must be destroyed before it. One thread at a time.
 */
typedef struct tpcl_group tpcl_group;

/** How a group is made. All zero is the default. */
typedef struct tpcl_group_options {
    const char *device;    /**< as tpcl_device_options.select */
    const char *cache_dir; /**< as tpcl_device_options.cache_dir */
    double timeout_s;      /**< deadline of every wait; 0 = 60 */
    size_t chunk_bytes;    /**< as tpcl_comm_options */
    const double *weights; /**< [size] share of each rank, the same on all ranks; NULL = equal */
    tpcl_gemm gemm;        /**< as tpcl_device_options.gemm */
    bool no_binding;       /**< leave threads unbound and CPU devices whole */
    bool profile;          /**< queue with profiling */
    tpcl_log log;          /**< where warnings go */
} tpcl_group_options;

/**
 * Opens this rank's device and joins the others. On a CPU device that several local ranks share,
 * each gets a sub-device and its own cores; an inherited affinity mask of k CPUs means k units.
 *
 * Collective: on @p comm, which is duplicated.  Blocks: yes.  Allocates: yes.
 * Errors: those of tpcl_device_open and tpcl_comm_create, agreed by all ranks: the failing rank has
 * its own code, the others TPCL_ERR_PEER, and *out is then NULL on all; tpcl_last_failure() tells
 * whose it was.
 */
TPCL_NODISCARD tpcl_status tpcl_group_create(MPI_Comm comm, const tpcl_group_options *options,
                                             tpcl_group **out);
/**
 * Ends the group and sets *group to NULL. What was made from it goes first. NULL and *NULL are
 * no-ops.
 *
 * Collective: yes, unless the group has failed.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: none.
 */
void tpcl_group_destroy(tpcl_group **group);

/**
 * The caller's rank, the number of ranks, the rank's device and the group's communicator. Both
 * belong to the group.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_group_rank(const tpcl_group *group);
int tpcl_group_size(const tpcl_group *group);
tpcl_device *tpcl_group_device(tpcl_group *group);
tpcl_comm *tpcl_group_comm(tpcl_group *group);

/**
 * tpcl_shard_split() and tpcl_shard_heads() with the group's size and weights: cuts for layers that
 * follow one another.
 *
 * @param ranges  out  [size]
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, and those of the two).
 */
TPCL_NODISCARD tpcl_status tpcl_group_shard(const tpcl_group *group, int64_t total, int64_t granule,
                                            int rotate, tpcl_range *ranges);
TPCL_NODISCARD tpcl_status tpcl_group_shard_heads(const tpcl_group *group, int heads, int kv_heads,
                                                  int q_granule, int rotate,
                                                  tpcl_head_range *ranges);

/**
 * Ends a phase: TPCL_OK on all ranks if all brought TPCL_OK, as tpcl_comm_agree(). After create
 * calls, so that no rank goes on where another failed.
 *
 * @param local  in  this rank's own status
 * @param phase  in  what ends, for messages; the same on every rank
 * Collective: yes.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: TPCL_ERR_ARG (group is NULL), those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_group_agree(tpcl_group *group, tpcl_status local,
                                            const char *phase);
/**
 * The first @p elements elements of a tensor become the sum over the ranks, in rank order: the same
 * bits on every rank and in every run.
 *
 *                whole group   on rank r
 * tensor  inout  [elements]    its term, then the sum
 *
 * @param local  in  a status other than TPCL_OK ends the call on all ranks
 * Collective: yes.  Blocks: yes, at most the deadline.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, not F32, of another device), TPCL_ERR_SHAPE, TPCL_ERR_DEVICE, those
 * of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_group_allreduce(tpcl_group *group, tpcl_status local,
                                                tpcl_tensor *tensor, size_t elements);
/**
 * Waits until the device has done all that this rank queued.
 *
 * Collective: no.  Blocks: yes.  Allocates: no.  Errors: TPCL_ERR_ARG (NULL), TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_group_finish(tpcl_group *group);
/**
 * True after a collective that ended the group for good: tpcl_comm_failed(). NULL: false.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
bool tpcl_group_failed(const tpcl_group *group, int *rank, tpcl_status *code);

#ifdef __cplusplus
}
#endif
#endif
