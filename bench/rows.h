/* Which rows a command line means, and running them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "output.h"
#include "records.h"

/* Returns 0, or EX_USAGE and the reason: no such case, no row. */
int bench_rows_check(const struct bench_suite *suite, const struct bench_settings *s, char *message,
                     size_t size);
void bench_rows_print(const struct bench_suite *suite, const struct bench_settings *s, FILE *to);

/**
 * Runs every row; rank 0 prints. Returns the exit code: 0; 1 where a result was wrong; that of the
 * first row that could not run. With a `baseline`, which may be NULL and only rank 0 needs, 1 also
 * where a row is slower than there beyond the noise. Collective. *lost: the ranks have lost each
 * other, the job must be aborted.
 */
int bench_rows_run(const struct bench_suite *suite, const struct bench_settings *s,
                   const struct bench_records *baseline, struct bench_env *env, FILE *to,
                   bool *lost);

/* 64 and above, as <sysexits.h> has them. */
int bench_exit_code(tpcl_status status);

#endif
