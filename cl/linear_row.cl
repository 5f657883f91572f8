/* SPDX-License-Identifier: Apache-2.0 */
/* linear_row.cl - one f32 row times a panelled weight: decoding on a CPU
 *
 *     linear_row    y[n] = sum_i x[i] * W[n, i]  (+ bias[n])
 *     norm_linear   the same of a row that is made on the way:
 *                   s[i] = h[i] (+ add[i]);  x[i] = s[i] / sqrt(mean s^2 + eps) * norm[i]
 *     norm_swiglu   y[n] = g / (1 + exp(-g)) * u,  g = (W x + bias)[n],  u = (W x + bias)[outputs + n]
 *
 * from          [dim]     f32   linear_row's x
 * h, add, norm  [dim]     f32   add is read only where has_add is not 0 (else any buffer)
 * sum           [dim]     f32   s, written where has_add is not 0; must not overlap h or add, which
 *                               every work-group reads
 * w             panels of [outputs, dim], norm_swiglu: [2 * outputs, dim]; see panel.clh
 * bias          one number a row of w, read only where has_bias is not 0 (else any buffer)
 * y             [outputs] f32   norm_swiglu: outputs is a multiple of P
 *
 * Launch     global = (work-groups), local = (1): each makes x for itself, in local memory, which is
 *            little beside its share of the panels, and streams NP of them side by side, so that what
 *            it reads of x serves all and their sums do not wait for each other. The first stores s.
 * Build      -DNP=<n>  1..4, norm_swiglu: 2 (required); panel.clh's macros
 * Local mem  x: dim floats
 * Numerics   row.clh; norm_linear and norm_swiglu are bit for bit add_rmsnorm with WG=1, then
 *            linear_row, then swiglu
 * Needs      OpenCL C 1.2, no extensions
 * Reference  tpcl_ref_linear(), tpcl_ref_rmsnorm(), tpcl_ref_swiglu() in lib/ops/reference.c
 */
#include "panel.clh"
#include "row.clh"

/* This work-group's part of n things: consecutive, covering, as even as can be. */
static inline int part_begin(int n, size_t group)
{
    return (int)((size_t)n * group / get_num_groups(0));
}

/* y = W x of this work-group's panels; those past the last panel repeat it. */
static inline void product(__global const uchar *w, __global const float *bias, __global float *y,
                           int outputs, int dim, int has_bias, __local const float *x)
{
    const int panels = (outputs + P - 1) / P, turns = (panels + NP - 1) / NP;
    const int end = part_begin(turns, get_group_id(0) + 1);
    for (int i = part_begin(turns, get_group_id(0)); i < end; i++) {
        __global const uchar *panel[NP];
        float16 total[NP];
#pragma unroll
        for (int p = 0; p < NP; p++)
            panel[p] = w + (size_t)min(i * NP + p, panels - 1) * panel_bytes(dim);
        one_row(panel, x, dim, total);
#pragma unroll
        for (int p = 0; p < NP; p++) {
            const int at = (i * NP + p) * P;
            if (at >= outputs) continue;
            const float16 add = has_bias ? load_lanes(bias, at, outputs) : (float16)(0.0f);
            store_lanes(total[p] + add, y, at, outputs);
        }
    }
}

__kernel void linear_row(__global const float *from, __global const uchar *w,
                         __global const float *bias, __global float *y, int outputs, int dim,
                         int has_bias, __local float *x)
{
    for (int i = 0; i < dim / 16; i++) vstore16(vload16(i, from), i, x);
    for (int i = dim / 16 * 16; i < dim; i++) x[i] = from[i];
    row_arrange(x, dim);
    product(w, bias, y, outputs, dim, has_bias, x);
}

static inline void norm_row(__global const float *h, __global const float *add,
                            __global const float *norm, __global float *sum, int dim, float eps,
                            int has_add, __local float *x)
{
    const bool first = get_group_id(0) == 0 && has_add;
    float16 sq = 0.0f;
    float tail = 0.0f;
    for (int i = 0; i < dim / 16; i++) {
        float16 v = vload16(i, h);
        if (has_add) v += vload16(i, add);
        if (first) vstore16(v, i, sum);
        vstore16(v, i, x);
        sq = fma(v, v, sq);
    }
    for (int i = dim / 16 * 16; i < dim; i++) {
        const float v = has_add ? h[i] + add[i] : h[i];
        if (first) sum[i] = v;
        x[i] = v;
        tail = fma(v, v, tail);
    }
    /* .hi, spelt out: Oclgrind 21.10 takes the upper half of 16 lanes for uninitialised. */
    const float8 s8 = sq.lo + (float8)(sq.s8, sq.s9, sq.sa, sq.sb, sq.sc, sq.sd, sq.se, sq.sf);
    const float4 s4 = s8.lo + s8.hi;
    const float scale = 1.0f / sqrt(((s4.x + s4.y) + (s4.z + s4.w) + tail) / dim + eps);
    for (int i = 0; i < dim / 16; i++) vstore16(vload16(i, x) * scale * vload16(i, norm), i, x);
    for (int i = dim / 16 * 16; i < dim; i++) x[i] = x[i] * scale * norm[i];
    row_arrange(x, dim);
}

__kernel void norm_linear(__global const float *h, __global const float *add,
                          __global const float *norm, __global float *sum,
                          __global const uchar *w, __global const float *bias, __global float *y,
                          int outputs, int dim, float eps, int has_add, int has_bias,
                          __local float *x)
{
    norm_row(h, add, norm, sum, dim, eps, has_add, x);
    product(w, bias, y, outputs, dim, has_bias, x);
}

#if NP == 2
__kernel void norm_swiglu(__global const float *h, __global const float *add,
                          __global const float *norm, __global float *sum,
                          __global const uchar *w, __global const float *bias, __global float *y,
                          int outputs, int dim, float eps, int has_add, int has_bias,
                          __local float *x)
{
    const int panels = outputs / P;
    const int end = part_begin(panels, get_group_id(0) + 1);
    norm_row(h, add, norm, sum, dim, eps, has_add, x);
    for (int i = part_begin(panels, get_group_id(0)); i < end; i++) {
        __global const uchar *panel[NP];
        float16 total[NP];
        panel[0] = w + (size_t)i * panel_bytes(dim);
        panel[1] = w + (size_t)(panels + i) * panel_bytes(dim);
        one_row(panel, x, dim, total);
        const float16 g = total[0] + (has_bias ? vload16(i, bias) : (float16)(0.0f));
        const float16 u = total[1] + (has_bias ? vload16(i, bias + outputs) : (float16)(0.0f));
        vstore16(g / (1.0f + exp(-g)) * u, i, y);
    }
}
#endif
