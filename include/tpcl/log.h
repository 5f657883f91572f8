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
 * Receives the library's lines. All zero, the default, is silence: nothing else prints, to no
 * stream and at no level. Errors are no lines: they are what calls return, with tpcl_last_error().
 *
 * It is copied where it is given, and used as long as the object made with it lives, its destroy
 * call included; `context` must live as long. It is called on the thread that called the library,
 * inside that call, with no lock held: one function that is given to objects of several threads is
 * called by all of them, maybe at a time. It must return, not leave by longjmp() or an exception,
 * and must not call the library for the same object.
 */
typedef struct tpcl_log {
    /**
     * Gets one line of text without a newline, at most 511 bytes, valid during the call. A level it
     * does not know is one of a later version: to be treated as TPCL_LOG_INFO. NULL = silence.
     */
    void (*write)(void *context, tpcl_log_level level, const char *line);
    void *context; /**< given to write */
} tpcl_log;

#ifdef __cplusplus
}
#endif
#endif
