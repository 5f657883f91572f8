/* The inside of a group, and the two ways in which a layer's rows cross the ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_LAYERS_GROUP_H
#define TPI_LAYERS_GROUP_H

#include <tpcl/group.h>

#include "device/device.h"

struct tpcl_group {
    tpcl_device *dev;
    tpcl_comm *comm;
    int rank, size;
    double *weights; /* [size], or NULL = equal */
    tpcl_log log;
    float *staging; /* one chunk: the sum on its way back to the device */
    bool staged;    /* the queue may still read it */
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

/* Where a collective has nothing to move, or this rank refuses its arguments: all ranks end alike.
 */
tpcl_status tpi_meet(tpcl_group *group, tpcl_status local, const char *what);

/* A replicated f32 vector (norm weight, bias) of a full host tensor, elements [begin, end). */
tpcl_status tpi_vector_create(tpcl_group *group, const tpcl_host_tensor *tensor, int64_t begin,
                              int64_t end, tpcl_tensor **out);

#endif
