/** @file status.h  Status codes returned by every fallible tpcl function. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_STATUS_H
#define TPCL_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Calls that can fail return a tpcl_status; calls that only tell something of an object return it,
 * and give 0, NULL or an empty range where the object is NULL (-1 where that stands for none).
 * Destroy and close calls take NULL.
 */

/** X(code, text) for every status: the enumeration and tpcl_status_text() are made from it. */
#define TPCL_STATUS_LIST(X)                                 \
    X(TPCL_OK, "success")                                   \
    X(TPCL_ERR_ARG, "invalid argument")                     \
    X(TPCL_ERR_SHAPE, "shape or size does not fit")         \
    X(TPCL_ERR_FORMAT, "damaged or inconsistent file")      \
    X(TPCL_ERR_UNSUPPORTED, "valid, but not supported")     \
    X(TPCL_ERR_OPEN, "cannot open")                         \
    X(TPCL_ERR_IO, "read or write failed")                  \
    X(TPCL_ERR_NOMEM, "out of host memory")                 \
    X(TPCL_ERR_NO_DEVICE, "no usable OpenCL device")        \
    X(TPCL_ERR_DEVICE, "OpenCL call failed")                \
    X(TPCL_ERR_DEVICE_MEM, "out of device memory")          \
    X(TPCL_ERR_COMM, "MPI call failed")                     \
    X(TPCL_ERR_TIMEOUT, "a rank did not answer in time")    \
    X(TPCL_ERR_MISMATCH, "ranks disagree")                  \
    X(TPCL_ERR_PEER, "another rank failed")                 \
    X(TPCL_ERR_GROUP_FAILED, "the group has failed before") \
    X(TPCL_ERR_NONFINITE, "a value is not a finite number") \
    X(TPCL_ERR_INTERRUPTED, "interrupted")

/** What a call that can fail returns. */
typedef enum tpcl_status {
#define X(code, text) code,
    TPCL_STATUS_LIST(X)
#undef X
} tpcl_status;

/** Before a function whose status must be looked at: the compiler warns where it is not. */
#if defined(__GNUC__)
#define TPCL_NODISCARD __attribute__((warn_unused_result))
#else
#define TPCL_NODISCARD
#endif

/**
 * A fixed English text for a code: "success", "invalid argument", ... Never NULL, and valid for
 * ever; a number that is no code is "unknown status".
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
const char *tpcl_status_text(tpcl_status status);

/**
 * The message of the last failure on the calling thread, one line: what, where, which numbers, what
 * to do. "" if none. Each thread has its own; a call that succeeds leaves it as it was.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none. The text is valid until the
 * thread's next failure.
 */
const char *tpcl_last_error(void);

/**
 * Whose failure the last one on the calling thread was.
 *
 * @param rank  out  the lowest rank that failed, or -1 for the caller's own; may be NULL
 * @param code  out  that rank's status (the caller may hold TPCL_ERR_PEER); may be NULL
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_last_failure(int *rank, tpcl_status *code);

#ifdef __cplusplus
}
#endif
#endif
