/* What the user is told: one error line per job, warnings, exit codes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <tpcl/status.h>

/* Exit codes are those of <sysexits.h>, 64 and above, and EXIT_INTERRUPTED: launchers use the small
 * ones. CODE_PEER stands for "another rank failed and will say so"; it never leaves the program. */
enum { EXIT_INTERRUPTED = 130, CODE_PEER = -1 };

/* Who is speaking: "tpcl: " for one rank alone, else "tpcl[rank/size@host]: ". */
void report_set_seat(int rank, int size, const char *host);
const char *report_prefix(void);

/* Records the message of this process' failure (the first one stays) and returns `code`. */
int report_fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with tpcl_last_error(), mapped to an exit code; 0 for TPCL_OK. */
int report_status(tpcl_status status);
int exit_code(tpcl_status status);

/* Prints what was recorded, as one line without control characters; at most once. */
void report_print(void);
void report_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
