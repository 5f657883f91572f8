/* SPDX-License-Identifier: Apache-2.0 */
/* linear_row.cl - one f32 row at a time with a panelled weight: decoding
 *
 *     y[t, n] = sum_k x[t, k] * W[n, k]  (+ bias[n])
 *
 * x, w, bias, y, tokens, n, k, has_bias   as in linear.cl
 *
 * Launch     global = (ceil(n / (P * NP)), tokens), local = (1, 1): a work-item streams NP panels side
 *            by side, so what it reads of x serves all of them and their sums do not wait for each other
 * Build      -DNP=<n> panels of a work-item, 1..4; -DX_SPACE=__global (both required); panel.clh's
 * Numerics   row.clh
 * Needs      OpenCL C 1.2, no extensions, no local memory
 * Reference  tpcl_ref_linear() in lib/ops/reference.c
 */
#include "panel.clh"
#include "row.clh"

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
