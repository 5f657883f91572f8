/* Which device a rank gets. Pure: works on a list, makes no OpenCL call. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_DEVICE_SELECT_H
#define TPI_DEVICE_SELECT_H

#include <tpcl/device.h>

/**
 * The device of local rank `local_rank` under `select` (see tpcl_device_options), as an index into
 * `list`. The same list and selector on every rank of a host let each of them know all choices
 * beforehand, and so whether a device will be shared. Errors: TPCL_ERR_NO_DEVICE with a message
 * that lists what exists, TPCL_ERR_ARG (an empty entry of a comma list, a negative rank).
 */
TPCL_NODISCARD tpcl_status tpi_device_choose(const tpcl_device_info *list, int n,
                                             const char *select, int local_rank, int *index);

/* "GPU", "integrated GPU", "accelerator", "CPU". */
const char *tpi_device_type_name(tpcl_device_type type);

#endif
