/** @file group.h  One rank's seat in a tensor-parallel group: device, communicator, shard weights.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_GROUP_H
#define TPCL_GROUP_H

#include <mpi.h>
#include <tpcl/comm.h>
#include <tpcl/device.h>
#include <tpcl/shard.h>

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

#ifdef __cplusplus
}
#endif
#endif
