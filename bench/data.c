/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "ops/ops.h"

enum { PERIOD = 127 };     /* rows; shares no factor with a panel */
enum { COPIES_MAX = 256 }; /* of small things; then caches do help */
static const uint64_t uncached_min = 64u << 20, uncached_max = 512u << 20;

void bench_fill(float *v, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

double bench_max_error(const float *got, const float *want, size_t n)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double error = fabs((double)got[i] - want[i]);
        if (isnan(error)) return INFINITY;
        if (error > worst) worst = error;
    }
    return worst;
}

tpcl_status bench_tensor(tpcl_device *dev, tpcl_dtype dtype, const void *values, size_t n,
                         tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    const int64_t shape[1] = {(int64_t)n};
    float *nan = NULL;
    TPI_TRY(tpcl_tensor_create(dev, dtype, 1, shape, out));
    if (!values) {
        nan = malloc(n * sizeof *nan + 1);
        TPI_REQUIRE(nan, TPCL_ERR_NOMEM, "%zu values", n);
        for (size_t i = 0; i < n; i++) nan[i] = NAN;
        values = nan;
    }
    TPI_TRY(tpcl_tensor_write(*out, values, n));
done:
    free(nan);
    return status;
}

int bench_copies(const struct bench_env *env, size_t bytes)
{
    cl_ulong cache = 0;
    clGetDeviceInfo(env->dev->id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache, NULL);
    uint64_t wanted = 2 * (uint64_t)cache;
    if (wanted < uncached_min) wanted = uncached_min;
    if (wanted > uncached_max) wanted = uncached_max;
    const uint64_t copies = bytes ? (wanted + bytes - 1) / bytes : 1;
    return copies < COPIES_MAX ? (int)copies : COPIES_MAX;
}

tpcl_status bench_copy(tpcl_device *dev, cl_mem from, size_t bytes, cl_mem *out)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(tpi_buffer_create(dev, bytes, "copy of a weight or cache", out));
    TPI_TRY(TPI_CL(clEnqueueCopyBuffer(dev->queue, from, *out, 0, 0, bytes, 0, NULL, NULL)));
done:
    return status;
}

static void store_scale(uint8_t *at, float scale)
{
    const uint16_t half = tpi_float_to_half(scale);
    memcpy(at, &half, sizeof half);
}

/* Any byte is a legal quant; the scales keep the values at about [-1, 1). */
static void fill_blocks(tpcl_dtype dtype, const float *v, float amplitude, size_t elements,
                        uint8_t *stored)
{
    const size_t step = (size_t)tpcl_dtype_block_bytes(dtype);
    for (size_t i = 0; i < tpi_dtype_bytes(dtype, elements); i++)
        stored[i] = (uint8_t)(int)(127.0f + 128.0f * v[i]);
    for (size_t b = 0; b < elements / 32; b++) {
        const float scale =
            (dtype == TPCL_Q8_0 ? 0.005f : 0.08f) * (1.5f + 0.5f * v[b]) * amplitude;
        store_scale(stored + b * step, scale);
        if (dtype == TPCL_Q4_1) store_scale(stored + b * step + 2, -7.5f * scale);
    }
}

static void fill_stored(tpcl_dtype dtype, float *v, float amplitude, size_t elements,
                        uint8_t *stored)
{
    for (size_t i = 0; tpcl_dtype_block(dtype) == 1 && i < elements; i++) v[i] *= amplitude;
    if (dtype == TPCL_F32) {
        memcpy(stored, v, elements * sizeof *v);
        return;
    }
    if (tpcl_dtype_block(dtype) > 1) {
        fill_blocks(dtype, v, amplitude, elements, stored);
        return;
    }
    for (size_t i = 0; i < elements; i++) {
        const uint16_t bits = dtype == TPCL_F16 ? tpi_float_to_half(v[i]) : tpi_float_to_bf16(v[i]);
        memcpy(stored + 2 * i, &bits, sizeof bits);
    }
}

tpcl_status bench_rows_create(tpcl_dtype dtype, long n, long k, struct bench_rows *out)
{
    return bench_rows_create_small(dtype, n, k, 1.0f, out);
}

tpcl_status bench_rows_create_small(tpcl_dtype dtype, long n, long k, float amplitude,
                                    struct bench_rows *out)
{
    tpcl_status status = TPCL_OK;
    float *v = NULL;
    const int block = tpcl_dtype_block(dtype);
    *out = (struct bench_rows){.dtype = dtype, .n = (int)n, .k = (int)k};
    out->rows = n < PERIOD ? (int)n : PERIOD;
    TPI_REQUIRE(k % block == 0, TPCL_ERR_SHAPE, "rows of %ld are not whole %s blocks of %d", k,
                tpcl_dtype_name(dtype), block);
    out->row_bytes = tpi_dtype_bytes(dtype, (size_t)k);
    const size_t elements = (size_t)out->rows * (size_t)k;
    const size_t bytes = (size_t)out->rows * out->row_bytes;
    v = malloc((elements + bytes) * sizeof *v);
    out->stored = malloc(bytes);
    out->wide = malloc(elements * sizeof *out->wide);
    TPI_REQUIRE(v && out->stored && out->wide, TPCL_ERR_NOMEM, "%zu weights", elements);
    bench_fill(v, elements + bytes, 7);
    fill_stored(dtype, v, amplitude, elements, out->stored);
    tpi_widen(dtype, out->stored, elements, out->wide);
done:
    free(v);
    return status;
}

void bench_rows_free(struct bench_rows *rows)
{
    free(rows->stored);
    free(rows->wide);
    rows->stored = NULL;
    rows->wide = NULL;
}

/* The root of sum (x w)^2, the largest of the rows: what a sum of so many such terms amounts to. */
tpcl_status bench_scale(const float *hx, const struct bench_rows *b, double *scale)
{
    tpcl_status status = TPCL_OK;
    const size_t k = (size_t)b->k, rows = (size_t)b->rows;
    float *x = malloc(k * sizeof *x), *w = malloc(rows * k * sizeof *w);
    float *sums = malloc(rows * sizeof *sums);
    TPI_REQUIRE(x && w && sums, TPCL_ERR_NOMEM, "%zu squares", rows * k);
    for (size_t i = 0; i < k; i++) x[i] = hx[i] * hx[i];
    for (size_t i = 0; i < rows * k; i++) w[i] = b->wide[i] * b->wide[i];
    tpcl_ref_linear(x, w, NULL, sums, 1, (int)rows, (int)k);
    *scale = 0.0;
    for (size_t i = 0; i < rows; i++) *scale = fmax(*scale, sqrt((double)sums[i]));
    TPI_REQUIRE(*scale > 0.0, TPCL_ERR_NONFINITE, "linear: a reference of zeros");
done:
    free(x);
    free(w);
    free(sums);
    return status;
}

static tpcl_status read_rows(void *context, uint64_t offset, size_t bytes, void *destination)
{
    const struct bench_rows *rows = context;
    uint8_t *to = destination;
    while (bytes > 0) {
        const size_t row = (size_t)(offset / rows->row_bytes % (uint64_t)rows->rows);
        const size_t skip = (size_t)(offset % rows->row_bytes);
        const size_t part = rows->row_bytes - skip < bytes ? rows->row_bytes - skip : bytes;
        memcpy(to, rows->stored + row * rows->row_bytes + skip, part);
        to += part;
        offset += part;
        bytes -= part;
    }
    return TPCL_OK;
}

tpcl_host_tensor bench_rows_host(struct bench_rows *rows)
{
    return (tpcl_host_tensor){.name = "weight",
                              .dtype = rows->dtype,
                              .ndim = 2,
                              .shape = {rows->n, rows->k},
                              .read = read_rows,
                              .context = rows};
}

tpcl_status bench_rows_weight(struct bench_rows *rows, tpcl_device *dev, tpi_weight **out)
{
    const tpcl_host_tensor host = bench_rows_host(rows);
    const tpi_part part = {&host, 0, rows->n, 0, rows->k};
    return tpi_weight_create(dev, &part, 1, out);
}
