/** @file log.h  Where the library's warnings go. The library itself never prints. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_LOG_H
#define TPCL_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tpcl_log_level { TPCL_LOG_WARN, TPCL_LOG_INFO } tpcl_log_level;

/** Receives one line without a newline. The default, a NULL function, is silence. */
typedef struct tpcl_log {
    void (*write)(void *context, tpcl_log_level level, const char *line);
    void *context;
} tpcl_log;

#ifdef __cplusplus
}
#endif
#endif
