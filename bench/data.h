/* Inputs, results and what the cases that use device memory share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include "bench.h"
#include "ops/weight.h"

/* Values in [-1, 1), the same on every machine. */
void bench_fill(float *v, size_t n, uint32_t seed);

/* Greatest |got - want|; infinite where one of them is not a number. */
double bench_max_error(const float *got, const float *want, size_t n);

/* A device tensor with these values, or all NaN where `values` is NULL: what a kernel fails to
 * write then shows. */
tpcl_status bench_tensor(tpcl_device *dev, tpcl_dtype dtype, const void *values, size_t n,
                         tpcl_tensor **out);

/* How often something of `bytes` must be there so that all of it is read from memory, not from a
 * cache, when the copies are used in turn. 1 at least. */
int bench_copies(const struct bench_env *env, size_t bytes);
/* A buffer on the device with the contents of another. */
tpcl_status bench_copy(tpcl_device *dev, cl_mem from, size_t bytes, cl_mem *out);

/* A random weight whose row r is row r % rows, so that a reference is cheap for any n. */
struct bench_rows {
    tpcl_dtype dtype;
    int n, k, rows;
    size_t row_bytes;
    uint8_t *stored; /* [rows, row_bytes] */
    float *wide;     /* [rows, k] */
};
tpcl_status bench_rows_create(tpcl_dtype dtype, long n, long k, struct bench_rows *out);
/* With values in [-amplitude, amplitude) instead of [-1, 1). */
tpcl_status bench_rows_create_small(tpcl_dtype dtype, long n, long k, float amplitude,
                                    struct bench_rows *out);
void bench_rows_free(struct bench_rows *rows);
/* As a layer takes it; read from `rows`, which outlives it. */
tpcl_host_tensor bench_rows_host(struct bench_rows *rows);
/* What sums of rows.k products of x [k] and a row amount to: errors are relative to it. */
tpcl_status bench_scale(const float *x, const struct bench_rows *rows, double *scale);
tpcl_status bench_rows_weight(struct bench_rows *rows, tpcl_device *dev, tpi_weight **out);

#endif
