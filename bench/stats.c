/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct bench_stats bench_stats_of(double *samples, size_t n)
{
    double sum = 0.0, squares = 0.0;
    qsort(samples, n, sizeof *samples, by_value);
    /* From the least one: equal samples have exactly their mean, and a deviation of 0. */
    for (size_t i = 0; i < n; i++) sum += samples[i] - samples[0];
    const double mean = samples[0] + sum / (double)n;
    /* Two passes: the difference of two large sums would have no digits left. */
    for (size_t i = 0; i < n; i++) squares += (samples[i] - mean) * (samples[i] - mean);
    const double upper = samples[n / 2], lower = samples[(n - 1) / 2];
    return (struct bench_stats){
        .min = samples[0],
        .median = lower + (upper - lower) / 2.0,
        .p90 = samples[(9 * n + 9) / 10 - 1],
        .mean = mean,
        .sd = n > 1 ? sqrt(squares / (double)(n - 1)) : 0.0,
    };
}
