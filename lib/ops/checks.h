/* What every op asks before it launches. Never compiled out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_OPS_CHECKS_H
#define TPI_OPS_CHECKS_H

#include "device/device.h"

/* `t` holds at least rows * columns 4-byte elements. `what` is "op argument". */
tpcl_status tpi_need(const char *what, const tpcl_tensor *t, int64_t rows, int64_t columns);

typedef enum tpi_use {
    TPI_READ,
    TPI_WRITTEN,
    TPI_READ_IN_PLACE /* what is written may begin exactly where this does */
} tpi_use;

/* An argument of an op that the caller chose: what it must hold, and what it must not touch. */
typedef struct tpi_operand {
    const char *what; /* "op argument" */
    const tpcl_tensor *tensor;
    int64_t rows, columns;
    tpi_use use;
} tpi_operand;

/* Every operand is a large enough f32 tensor, all are of one device, and none that is written
 * shares bytes with another. */
tpcl_status tpi_need_all(const tpi_operand *operands, int n);

/* Work-items that share a row: one on a CPU, which walks it alone with vectors; elsewhere 64, or
 * the power of two below that the device allows. */
size_t tpi_workgroup(const tpcl_device *dev);

/* Most work-items of a launch that is better one work-group on one core of a CPU: a kernel of a few
 * microseconds ends before the driver has woken a second one. Elsewhere 0. */
size_t tpi_single_group(const tpcl_device *dev);

#endif
