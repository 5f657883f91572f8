/* SPDX-License-Identifier: Apache-2.0 */
/* linear_row.cl - one f32 row at a time with a panelled weight: decoding
 *
 *     y[t, n] = sum_k x[t, k] * W[n, k]  (+ bias[n])
 *
 * x, w, bias, y, tokens, n, k, has_bias   as in linear.cl
 *
 * Launch     global = (ceil(n / (P * NP)), tokens), local = (1, 1): a work-item streams NP panels side
 *            by side, so what it reads of x serves all of them and their sums do not wait for each other
 * Build      -DNP=<n> panels of a work-item, 1..4 (required); panel.clh's macros
 * Numerics   f32. Plain types: even and odd columns apart, added at the end. Block types scale each
 *            block of 32 after summing it, total += d * (sum x q) + m * (sum x); even and odd apart.
 *            The same for every NP.
 * Needs      OpenCL C 1.2, no extensions, no local memory
 * Reference  tpcl_ref_linear() in lib/ops/reference.c
 */
#include "panel.clh"

#ifndef NP
#error "NP (panels of a work-item) must be given with -DNP=<n>"
#endif

/* Bytes that a stream is fetched ahead of its use. Measured on two cores: 2 KiB is where a Q4_1 row
 * from memory takes no longer than one from cache; 512 is too late, 8 KiB pushes out its own data. */
#define AHEAD 2048

/* The sums of NP panels; those past the last panel repeat it. */
static inline void one_row(__global const uchar *const *panel, __global const float *x, int k,
                           float16 *total)
{
#ifdef COLUMN_BYTES
    float16 odd_sum[NP];
#pragma unroll
    for (int p = 0; p < NP; p++) total[p] = odd_sum[p] = 0.0f;
    for (int c = 0; c + 1 < k; c += 2) {
#pragma unroll
        for (int p = 0; p < NP; p++) {
            __global const uchar *from = panel[p];
            PREFETCH(from + (size_t)c * COLUMN_BYTES + AHEAD);
            total[p] = fma(panel_column(from, c), (float16)(x[c]), total[p]);
            odd_sum[p] = fma(panel_column(from, c + 1), (float16)(x[c + 1]), odd_sum[p]);
        }
    }
#pragma unroll
    for (int p = 0; p < NP; p++) {
        if (k % 2)
            total[p] = fma(panel_column(panel[p], k - 1), (float16)(x[k - 1]), total[p]);
        total[p] += odd_sum[p];
    }
#else
#pragma unroll
    for (int p = 0; p < NP; p++) total[p] = 0.0f;
    for (int b = 0; b < k / BLOCK; b++) {
        __global const float *xb = x + b * BLOCK;
#if !defined(DT_Q8_0)
        const float16 v = vload16(0, xb) + vload16(1, xb);
        const float8 v8 = v.lo + (float8)(v.s8, v.s9, v.sa, v.sb, v.sc, v.sd, v.se, v.sf);
        const float4 v4 = v8.lo + v8.hi;
        const float sum_x = (v4.x + v4.y) + (v4.z + v4.w);
#endif
#pragma unroll
        for (int p = 0; p < NP; p++) {
            __global const uchar *block = panel[p] + (size_t)b * BLOCK_BYTES;
            float16 even_sum = 0.0f, odd_sum = 0.0f;
#pragma unroll
            for (int line = 0; line < BLOCK_BYTES; line += 64) PREFETCH(block + AHEAD + line);
#pragma unroll
            for (int j = 0; j < BLOCK / 2; j++) {
                float16 even, odd;
                block_pair(block, j, &even, &odd);
                even_sum = fma(even, (float16)(xb[2 * j]), even_sum);
                odd_sum = fma(odd, (float16)(xb[2 * j + 1]), odd_sum);
            }
            const float16 d = block_scale(block);
            total[p] = fma(d, even_sum + odd_sum, total[p]);
#if !defined(DT_Q8_0)
            total[p] = fma(block_offset(block, d), (float16)(sum_x), total[p]);
#endif
        }
    }
#endif
}

__kernel void linear_row(__global const float *x, __global const uchar *w,
                         __global const float *bias, __global float *y, int tokens, int n, int k,
                         int has_bias)
{
    const int panels = (n + P - 1) / P;
    const int first = (int)get_global_id(0) * NP;
    const size_t t = get_global_id(1);
    __global const uchar *panel[NP];
    float16 total[NP];

#pragma unroll
    for (int p = 0; p < NP; p++) panel[p] = w + (size_t)min(first + p, panels - 1) * panel_bytes(k);
    one_row(panel, x + t * k, k, total);
#pragma unroll
    for (int p = 0; p < NP; p++) {
        const int at = (first + p) * P;
        if (at >= n) continue;
        const float16 add = has_bias ? load_lanes(bias, at, n) : (float16)(0.0f);
        store_lanes(total[p] + add, y + t * n, at, n);
    }
}
