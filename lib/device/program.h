/* From source to cl_program. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_DEVICE_PROGRAM_H
#define TPI_DEVICE_PROGRAM_H

#include "device/cache.h"

/* Key of a program: its source, its options and all that tells the compiler and the device apart.
 */
tpi_cache_key tpi_build_key(const tpcl_device *dev, const char *const parts[2],
                            const char *options);

/* Builds from the cached binary of `key` or from source; *from_source tells which. `name` is for
 * messages. A compiler's log goes to the log callback, its head into the message. */
TPCL_NODISCARD tpcl_status tpi_build(tpcl_device *dev, const char *name, const char *const parts[2],
                                     const char *options, const tpi_cache_key *key, cl_program *out,
                                     bool *from_source);

/* Stores the binary of a built program under `key`, once its kernels have run (see program.c). */
void tpi_build_store(tpcl_device *dev, const tpi_cache_key *key, cl_program program);

#endif
