/* The command line of tpcl-bench. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench.h"

enum bench_format { BENCH_TABLE, BENCH_CSV, BENCH_JSONL, BENCH_GBENCH, BENCH_OSU };
enum { BENCH_SELECTIONS = 64, BENCH_REPS_MAX = 100000 };

/* Cases whose name begins with `name`; or one case at one shape, whatever the model. The words
 * pp256 and tg128 are cases with their own tokens, and @d4096 behind them is their depth. */
struct bench_selection {
    const char *name;
    int dims; /* 0 = no shape given */
    long shape[BENCH_DIMS];
    struct bench_list tokens, depth; /* n = 0: those of the options */
};

struct bench_settings {
    struct bench_selection selections[BENCH_SELECTIONS];
    int n_selections; /* 0 = every case */
    struct bench_plan plan;
    unsigned dtypes; /* BENCH_DTYPE bits */
    int reps;
    const char *device; /* as tpcl_device_options.select, or NULL */
    enum bench_format format;
    const char *baseline; /* a file of an earlier run, or NULL */
    bool list, help, version;
};

/* The one table of options: parsing, help and the man page are made from it. */
struct bench_option_row {
    const char *name, *argument; /* argument NULL = a flag */
    char code;                   /* what getopt returns */
    bool letter;                 /* code is also a short option */
    const char *help, *fallback; /* the default, or NULL */
};
extern const struct bench_option_row bench_option_table[];
extern const size_t bench_option_count;

/* Returns 0, or an exit code of <sysexits.h> and the reason. Prints nothing. */
int bench_options_parse(struct bench_settings *s, int argc, char **argv, char *message,
                        size_t size);

/* Writes "f16", "q4_0", ... */
void bench_dtype_text(tpcl_dtype dtype, char out[8]);

#endif
