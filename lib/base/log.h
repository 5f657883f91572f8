/* How the library talks: through the caller's function, never to a stream. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_BASE_LOG_H
#define TPI_BASE_LOG_H

#include <tpcl/log.h>

/* A message without a newline. A NULL log is silent. */
void tpi_log(const tpcl_log *log, tpcl_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
