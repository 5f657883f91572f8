/* Rows as a table, CSV, JSON lines, or as others write them. One set of columns, versioned. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <stdio.h>

#include "options.h"
#include "runner.h"

enum { BENCH_SCHEMA = 2 };

/* Which columns of a table some row has something in. */
struct bench_extras {
    bool bus, tokens;
};

struct bench_output {
    FILE *to;
    enum bench_format format;
    const struct bench_env *env;
    const char *device; /* as given, for repro; NULL = not given */
    struct bench_extras extras;
    const struct bench_case *last; /* of the row before; set by bench_output_row */
};

void bench_output_begin(struct bench_output *o);
void bench_output_row(struct bench_output *o, const struct bench_run *r, int reps,
                      const struct bench_result *result);
void bench_output_end(struct bench_output *o);

/* "17x576"; the number of dimensions is that of the case. */
void bench_shape_text(const struct bench_case *c, const long *shape, char *out, size_t size);
int bench_case_dims(const struct bench_case *c);
/* "version (commit)" */
void bench_version_print(void);
/* The commit that was built. */
const char *bench_commit(void);

/* A string as JSON has it, with its quotes. */
void bench_put_json(FILE *to, const char *text);

/* One row in Google Benchmark's form, and what stands around the rows. */
void bench_gbench_begin(const struct bench_output *o);
void bench_gbench_row(const struct bench_output *o, const struct bench_run *r,
                      const struct bench_result *result);
void bench_gbench_end(const struct bench_output *o);

/* One row as the OSU micro-benchmarks print it, under a heading for each case. */
void bench_osu_row(const struct bench_output *o, const struct bench_run *r,
                   const struct bench_result *result);

#endif
