/* SPDX-License-Identifier: Apache-2.0 */
/* linear_lanes.cl - linear.cl's product for devices whose work-items are single lanes (GPUs)
 *
 *     y[t, n] = sum_k x[t, k] * W[n, k]  (+ bias[n])
 *
 * x, w, bias, y, tokens, n, k, has_bias   as linear_rows in linear.cl
 *
 * Launch     global = (ceil(n/P) * P * SLICES, ceil(tokens/MR)), local = (P * SLICES, 1)
 *            One work-group per panel: lane l = one output, slice s = the columns s, s + SLICES, ...
 *            (for block types whole blocks), so neighbouring work-items read neighbouring bytes.
 *            The sums of the slices are added in order.
 * Local mem  P * SLICES floats, static
 * Build      -DMR=<n>       rows in registers (required); panel.clh's macros
 *            -DSLICES=<n>   (required)
 * Numerics   f32; each slice k ascending, slices added 0, 1, 2, ...: bitwise stable for one SLICES
 * Needs      OpenCL C 1.2, no extensions, no sub-groups
 * Reference  tpcl_ref_linear() in lib/ops/reference.c
 */
#include "panel.clh"

#if !defined(MR) || !defined(SLICES)
#error "MR and SLICES must be given with -D"
#endif

#ifdef COLUMN_BYTES
#define STEP 1
#else
#define STEP BLOCK
#endif

/* The values of one output in columns k0 .. k0 + STEP. */
static inline void lane_values(__global const uchar *panel, int k0, int lane, float *out)
{
#ifdef COLUMN_BYTES
    out[0] = lane_column(panel, k0, lane);
#else
    __global const uchar *block = panel + (size_t)(k0 / BLOCK) * BLOCK_BYTES;
    const float d = lane_scale(block, lane), m = lane_offset(block, lane, d);
    for (int j = 0; j < BLOCK / 2; j++) {
        const float2 q = lane_pair(block, j, lane);
        out[2 * j] = fma(q.x, d, m);
        out[2 * j + 1] = fma(q.y, d, m);
    }
#endif
}

__kernel __attribute__((reqd_work_group_size(P * SLICES, 1, 1))) void
linear_lanes(__global const float *x, __global const uchar *w, __global const float *bias,
             __global float *y, int tokens, int n, int k, int has_bias)
{
    const int lane = (int)get_local_id(0) % P, slice = (int)get_local_id(0) / P;
    const int at = (int)get_group_id(0) * P + lane;
    const int t0 = (int)get_group_id(1) * MR;
    __global const uchar *panel = w + get_group_id(0) * panel_bytes(k);
    __local float partial[P * SLICES];
    float acc[MR];

    for (int i = 0; i < MR; i++) acc[i] = 0.0f;
    for (int k0 = slice * STEP; k0 < k; k0 += SLICES * STEP) {
        float v[STEP];
        lane_values(panel, k0, lane, v);
        for (int i = 0; i < MR; i++) {
            __global const float *row = x + (size_t)min(t0 + i, tokens - 1) * k + k0;
            for (int c = 0; c < STEP; c++) acc[i] = fma(v[c], row[c], acc[i]);
        }
    }
    for (int i = 0; i < MR; i++) {
        partial[get_local_id(0)] = acc[i];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (slice == 0 && at < n && t0 + i < tokens) {
            float sum = has_bias ? bias[at] : 0.0f;
            for (int s = 0; s < SLICES; s++) sum += partial[s * P + lane];
            y[(size_t)(t0 + i) * n + at] = sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}
