/* Rows as a table, CSV or JSON lines. One set of columns, versioned; units in the names. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <stdio.h>

#include "options.h"
#include "runner.h"

enum { BENCH_SCHEMA = 1 };

struct bench_output {
    FILE *to;
    enum bench_format format;
    const struct bench_env *env;
    const char *device; /* as given, for repro; NULL = not given */
};

void bench_output_begin(const struct bench_output *o);
void bench_output_row(const struct bench_output *o, const struct bench_case *c,
                      const struct bench_run *r, int reps, const struct bench_result *result);

/* "17x576"; the number of dimensions is that of the case. */
void bench_shape_text(const struct bench_case *c, const long *shape, char *out, size_t size);
int bench_case_dims(const struct bench_case *c);
/* "version (commit)" */
void bench_version_print(void);

#endif
