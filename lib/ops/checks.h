/* The shape check that every op makes. Never compiled out. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_OPS_CHECKS_H
#define TPI_OPS_CHECKS_H

#include "device/device.h"

/* `t` holds at least rows * columns 4-byte elements. `what` is "op argument". */
tpcl_status tpi_need(const char *what, const tpcl_tensor *t, int64_t rows, int64_t columns);

#endif
