/* Internal error handling. Rule: a fallible function has one `status`, one `done:` label. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_BASE_ERROR_H
#define TPI_BASE_ERROR_H

#include <tpcl/status.h>

enum { TPI_MESSAGE_MAX = 512 };

/* Records the message for this thread and returns `status` unchanged. The message is one line that
 * a user reads: what, where (file, tensor, offset, option), which numbers, what to do. */
tpcl_status tpi_fail(tpcl_status status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Tells whose failure the one just recorded was: tpcl_last_failure(). */
void tpi_blame(int rank, tpcl_status code);

#define TPI_FAIL(code, ...) (status = tpi_fail((code), __VA_ARGS__))

/* Jump to `done:` when `expr` fails; the message was recorded where it failed. */
#define TPI_TRY(expr)                     \
    do {                                  \
        status = (expr);                  \
        if (status != TPCL_OK) goto done; \
    } while (0)

/* Jump to `done:` with a message when a precondition does not hold. Never compiled out. */
#define TPI_REQUIRE(cond, code, ...)       \
    do {                                   \
        if (!(cond)) {                     \
            TPI_FAIL((code), __VA_ARGS__); \
            goto done;                     \
        }                                  \
    } while (0)

#endif
