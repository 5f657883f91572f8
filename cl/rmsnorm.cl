/* SPDX-License-Identifier: Apache-2.0 */
/* rmsnorm.cl - residual addition and root-mean-square normalisation of rows
 *
 *     h[t, i] = h[t, i] + add[t, i]                                    (where has_add is not 0)
 *     y[t, i] = h[t, i] / sqrt(mean_j h[t, j]^2 + eps) * w[i]
 *
 * h      [tokens, dim]  f32   read, and written where has_add
 * add    [tokens, dim]  f32   the row-parallel layer's result, already summed over the ranks
 * w      [dim]          f32
 * y      [tokens, dim]  f32   must not be add; may be h only where has_add is 0
 *
 * Launch     one work-group per row: global = (tokens * WG), local = (WG)
 * Local mem  WG floats, static
 * Build      -DWG=<n>   work-group size, a power of two in 1..1024 (required)
 * Numerics   f32 accumulation in a fixed order: bitwise stable for one WG
 * Needs      OpenCL C 1.2, no extensions
 * Reference  tpcl_ref_rmsnorm() in lib/ops/reference.c
 */
#ifndef WG
#error "WG (work-group size) must be given with -DWG=<n>"
#endif

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
add_rmsnorm(__global float *h, __global const float *add, __global const float *w,
            __global float *y, int dim, float eps, int has_add)
{
    const int lid = (int)get_local_id(0);
    const size_t at = (size_t)get_group_id(0) * (size_t)dim;
    const int whole = dim / 16 * 16;
    __local float partial[WG];

    /* Vectors first, then the tail element by element; a work-item meets only its own elements
     * again below, so the sums it stored need no barrier. */
    float16 sq = 0.0f;
    float tail = 0.0f;
    for (int i = lid * 16; i < whole; i += WG * 16) {
        float16 v = vload16(0, h + at + i);
        if (has_add) {
            v += vload16(0, add + at + i);
            vstore16(v, 0, h + at + i);
        }
        sq = fma(v, v, sq);
    }
    for (int i = whole + lid; i < dim; i += WG) {
        float v = h[at + i];
        if (has_add) {
            v += add[at + i];
            h[at + i] = v;
        }
        tail = fma(v, v, tail);
    }
    /* .hi, spelt out: Oclgrind 21.10 takes the upper half of 16 lanes for uninitialised. */
    const float8 s8 = sq.lo + (float8)(sq.s8, sq.s9, sq.sa, sq.sb, sq.sc, sq.sd, sq.se, sq.sf);
    const float4 s4 = s8.lo + s8.hi;
    partial[lid] = (s4.x + s4.y) + (s4.z + s4.w) + tail;
    barrier(CLK_LOCAL_MEM_FENCE);

    /* Every work-item reaches every barrier: the loop bounds are uniform. */
    for (int half_wg = WG / 2; half_wg > 0; half_wg /= 2) {
        if (lid < half_wg) partial[lid] += partial[lid + half_wg];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float scale = 1.0f / sqrt(partial[0] / dim + eps);
    for (int i = lid * 16; i < whole; i += WG * 16)
        vstore16(vload16(0, h + at + i) * scale * vload16(0, w + i), 0, y + at + i);
    for (int i = whole + lid; i < dim; i += WG) y[at + i] = h[at + i] * scale * w[i];
}
