/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

void tpi_log(const tpcl_log *log, tpcl_log_level level, const char *fmt, ...)
{
    if (!log || !log->write) return;
    char line[TPI_MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    log->write(log->context, level, line);
}
