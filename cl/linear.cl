/* SPDX-License-Identifier: Apache-2.0 */
/* linear.cl - products of several f32 rows with a panelled weight
 *
 *     y[t, n] = sum_k x[t, k] * W[n, k]  (+ bias[n])
 *
 * x      [tokens, k]          f32   row-major, contiguous
 * w      panels of [n, k]           see panel.clh; any stored dtype
 * bias   [n]                  f32   read only where has_bias is not 0 (else any buffer)
 * y      [tokens, n]          f32   row-major, contiguous; must not overlap x
 *
 * linear_rows   global = (ceil(n/P), ceil(tokens/MR)), local = (1, 1)
 *               one work-item streams one panel against MR rows held in registers: few tokens
 * linear_tile   global = (ceil(tokens/TILE_ROWS), ceil(n/(P*TILE_PANELS))), local = (1, 1)
 *               one work-item widens KC columns of its panels once and uses them for TILE_ROWS rows;
 *               what it reads of x serves all of its panels
 * Build      -DMR=<n>         rows in registers, 2..16 (required); panel.clh's macros
 *            -DKC=<n>         columns widened at a time, a multiple of 32 (required)
 *            -DTILE_ROWS=<n>  rows per work-item of linear_tile, a multiple of MR (required)
 *            -DTILE_PANELS=<n>  panels per work-item of linear_tile (required)
 * Numerics   f32 accumulation, k ascending; a row's result depends on the kernel, not on its
 *            neighbours
 * Needs      OpenCL C 1.2, no extensions, no local memory
 * Reference  tpcl_ref_linear() in lib/ops/reference.c
 */
#include "panel.clh"

#if !defined(MR) || !defined(KC) || !defined(TILE_ROWS) || !defined(TILE_PANELS)
#error "MR, KC, TILE_ROWS and TILE_PANELS must be given with -D"
#endif

__kernel void linear_rows(__global const float *x, __global const uchar *w,
                          __global const float *bias, __global float *y, int tokens, int n, int k,
                          int has_bias)
{
    const int at = (int)get_global_id(0) * P;
    const int t0 = (int)get_global_id(1) * MR;
    __global const uchar *panel = w + get_global_id(0) * panel_bytes(k);
    float16 acc[MR];

    __global const float *row[MR];
#pragma unroll
    for (int i = 0; i < MR; i++) {
        acc[i] = 0.0f;
        row[i] = x + (size_t)min(t0 + i, tokens - 1) * k; /* idle rows repeat the last one */
    }
#ifdef COLUMN_BYTES
    for (int c = 0; c < k; c++) {
        const float16 v = panel_column(panel, c);
#pragma unroll
        for (int i = 0; i < MR; i++) acc[i] = fma(v, (float16)(row[i][c]), acc[i]);
    }
#else
    for (int b = 0; b < k / BLOCK; b++) {
        __global const uchar *block = panel + (size_t)b * BLOCK_BYTES;
        const float16 d = block_scale(block), m = block_offset(block, d);
#pragma unroll
        for (int j = 0; j < BLOCK / 2; j++) {
            float16 even, odd;
            block_pair(block, j, &even, &odd);
            even = fma(even, d, m);
            odd = fma(odd, d, m);
#pragma unroll
            for (int i = 0; i < MR; i++) {
                acc[i] = fma(even, (float16)(row[i][b * BLOCK + 2 * j]), acc[i]);
                acc[i] = fma(odd, (float16)(row[i][b * BLOCK + 2 * j + 1]), acc[i]);
            }
        }
    }
#endif
    const float16 add = has_bias ? load_lanes(bias, at, n) : (float16)(0.0f);
#pragma unroll
    for (int i = 0; i < MR; i++)
        if (t0 + i < tokens) store_lanes(acc[i] + add, y + (size_t)(t0 + i) * n, at, n);
}

__kernel void linear_tile(__global const float *x, __global const uchar *w,
                          __global const float *bias, __global float *y, int tokens, int n, int k,
                          int has_bias)
{
    const int first = (int)get_global_id(1) * TILE_PANELS;
    const int panels = min(TILE_PANELS, (n + P - 1) / P - first);
    const int begin = (int)get_global_id(0) * TILE_ROWS;
    const int end = min(begin + TILE_ROWS, tokens);
    float16 wide[TILE_PANELS * KC];

    for (int k0 = 0; k0 < k; k0 += KC) {
        const int columns = min(KC, k - k0);
        for (int p = 0; p < panels; p++)
            panel_widen(w + (size_t)(first + p) * panel_bytes(k), k0, columns, wide + p * KC);
        for (int t0 = begin; t0 < end; t0 += MR) {
            __global const float *row[MR];
#pragma unroll
            for (int i = 0; i < MR; i++) row[i] = x + (size_t)min(t0 + i, end - 1) * k + k0;
            for (int p = 0; p < panels; p++) {
                const int at = (first + p) * P;
                const float16 *column = wide + p * KC;
                float16 acc[MR];
#pragma unroll
                for (int i = 0; i < MR; i++) {
                    if (k0 > 0)
                        acc[i] = load_lanes(y + (size_t)min(t0 + i, end - 1) * n, at, n);
                    else
                        acc[i] = has_bias ? load_lanes(bias, at, n) : (float16)(0.0f);
                }
                for (int c = 0; c < columns; c++) {
#pragma unroll
                    for (int i = 0; i < MR; i++)
                        acc[i] = fma(column[c], (float16)(row[i][c]), acc[i]);
                }
#pragma unroll
                for (int i = 0; i < MR; i++)
                    if (t0 + i < end) store_lanes(acc[i], y + (size_t)(t0 + i) * n, at, n);
            }
        }
    }
}
