/* The inside of a group, and the two ways in which a layer's rows cross the ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_LAYERS_GROUP_H
#define TPI_LAYERS_GROUP_H

#include <tpcl/group.h>

#include "device/device.h"

/* Sums that the worker of the device's queue does between two kernels, without the host thread. */
typedef struct tpi_queued {
    bool possible; /* a CPU device that runs host functions, ranks that meet without MPI */
    bool wanted;   /* by the model, which hands nothing out before it has met the others again */
    tpcl_status status; /* of the first that failed; written by the worker */
    int rank;           /* whose failure that was */
    tpcl_status code;
    char message[TPI_MESSAGE_MAX];
} tpi_queued;

struct tpcl_group {
    tpcl_device *dev;
    tpcl_comm *comm;
    int rank, size;
    int sharers;     /* ranks of this host that have the same device, this one included */
    double *weights; /* [size], or NULL = equal */
    tpcl_log log;
    float *staging; /* one chunk: the sum on its way back to the device */
    bool staged;    /* the queue may still read it */
    tpi_queued queued;
};

/* Opens this rank's device, group->dev. What it returns has been agreed by all ranks. */
typedef tpcl_status (*tpi_group_opener)(tpcl_group *group, const tpcl_group_options *options,
                                        const void *context);
/* The rest of every create call, on a communicator that belongs to the group from here on, also
 * where this fails. */
TPCL_NODISCARD tpcl_status tpi_group_create(tpcl_comm *comm, const tpcl_group_options *options,
                                            tpi_group_opener open, const void *context,
                                            tpcl_group **out);
TPCL_NODISCARD tpcl_status tpi_group_create_mpi(MPI_Comm comm, const tpcl_group_options *options,
                                                tpi_group_opener open, const void *context,
                                                tpcl_group **out);

/* y += the other ranks' y, in rank order. A rank with an error of its own brings it in `local`. */
tpcl_status tpi_reduce(tpcl_group *group, tpcl_status local, tpcl_tensor *y, size_t elements);

/* layers/queued.c: can this group's device do sums in its queue? Then one of them, in place; its
 * failure shows at the next collective, or here: settle waits for the queue, returns what all ranks
 * ended with, once, and adds to `local` what only this rank met. */
bool tpi_can_queue(const tpcl_group *group);
tpcl_status tpi_queue_sum(tpcl_group *group, tpcl_tensor *y, size_t elements);
tpcl_status tpi_queue_settle(tpcl_group *group, tpcl_status *local);

/* Where a collective has nothing to move, or this rank refuses its arguments: all ranks end alike.
 */
tpcl_status tpi_meet(tpcl_group *group, tpcl_status local, const char *what);

/* A replicated f32 vector (norm weight, bias) of a full host tensor, elements [begin, end). */
tpcl_status tpi_vector_create(tpcl_group *group, const tpcl_host_tensor *tensor, int64_t begin,
                              int64_t end, tpcl_tensor **out);

#endif
