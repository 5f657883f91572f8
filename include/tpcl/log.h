/** @file log.h  Where the library's warnings go. The library itself never prints. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_LOG_H
#define TPCL_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/** How much a line matters. */
typedef enum tpcl_log_level {
    TPCL_LOG_WARN, /**< something that the user should know: ignored, slower, not as asked for */
    TPCL_LOG_INFO  /**< something that explains what was done: device, programs, choices */
} tpcl_log_level;

/**
 * Receives the library's lines. All zero, the default, is silence. It is copied where it is given;
 * `context` must live as long as the object made with it. It is called on the thread that called
 * the library, inside that call: it must not call back into the same object.
 */
typedef struct tpcl_log {
    /** Gets one line without a newline, valid during the call; NULL = silence. */
    void (*write)(void *context, tpcl_log_level level, const char *line);
    void *context; /**< given to write */
} tpcl_log;

#ifdef __cplusplus
}
#endif
#endif
