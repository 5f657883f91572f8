/* Summary of samples. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stddef.h>

struct bench_stats {
    double min, median, p90; /* p90: the least sample that 90 % of them do not exceed */
    double mean, sd;         /* sd with n - 1; 0 for one sample */
};

/* Sorts the samples. n >= 1. */
struct bench_stats bench_stats_of(double *samples, size_t n);

#endif
