/* Rows of earlier runs, read back from csv or jsonl. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_RECORDS_H
#define BENCH_RECORDS_H

#include <stddef.h>

#include "stats.h"

enum { BENCH_TEXT = 160 };

/* Numbers that a row does not have are NaN; texts are cut to their room. */
struct bench_record {
    char name[64], shape[64], dtype[16], verdict[16], peer[64];
    char device[BENCH_TEXT], driver[BENCH_TEXT], git[64];
    double ranks, max_err, wrong, reps, min, median, p90, mean, sd, gbps, busbw, gflops, tps,
        tps_sd;
    double stage_out, exchange, stage_in, ratio;
};

struct bench_records {
    struct bench_record *rows;
    int n, room;
};

/* Appends the rows of a file. 0, or a code of <sysexits.h> and the reason. */
int bench_records_read(const char *path, struct bench_records *to, char *message, size_t size);
void bench_records_free(struct bench_records *records);

/* The last row of this name, or NULL. */
const struct bench_record *bench_records_find(const struct bench_records *records, const char *name,
                                              const char *shape, const char *dtype, int ranks);

/* How two runs of a row differ. */
struct bench_change {
    double slower; /* ours over theirs, minus 1 */
    double noise;  /* what the two runs' own spread makes of that: 0.05 at least */
};
struct bench_change bench_compare(const struct bench_stats *now, const struct bench_record *then);

#endif
