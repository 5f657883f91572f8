/* SPDX-License-Identifier: Apache-2.0 */
/* rmsnorm.cl - root-mean-square normalisation of rows
 *
 *     y[t,i] = x[t,i] / sqrt(mean_j x[t,j]^2 + eps) * w[i]
 *
 * x, y   [tokens, dim]  f32   row-major, contiguous; y may be x
 * w      [dim]          f32
 *
 * Launch     one work-group per row: global = (tokens * WG), local = (WG)
 * Local mem  WG floats, static
 * Build      -DWG=<n>   work-group size, a power of two in 1..1024 (required)
 * Numerics   f32 accumulation; tree reduction in a fixed order, so results are bitwise
 *            reproducible for one WG and differ in the last bits between WGs
 * Needs      OpenCL C 1.2, no extensions, no sub-groups
 * Reference  tpi_rmsnorm_ref() in lib/ops/rmsnorm.c
 */
#ifndef WG
#error "WG (work-group size) must be given with -DWG=<n>"
#endif

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
rmsnorm_f32(__global const float *x, __global const float *w, __global float *y, int dim, float eps)
{
    const int lid = get_local_id(0);
    const size_t row = (size_t)get_group_id(0) * (size_t)dim;
    __local float partial[WG];

    /* Each work-item sums a strided slice of the row: neighbours read neighbours. */
    float sum = 0.0f;
    for (int i = lid; i < dim; i += WG) sum += x[row + i] * x[row + i];
    partial[lid] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);

    /* Every work-item reaches every barrier: the loop bounds are uniform. */
    for (int half_wg = WG / 2; half_wg > 0; half_wg /= 2) {
        if (lid < half_wg) partial[lid] += partial[lid + half_wg];
        barrier(CLK_LOCAL_MEM_FENCE);
    }

    const float scale = 1.0f / sqrt(partial[0] / dim + eps);
    for (int i = lid; i < dim; i += WG) y[row + i] = x[row + i] * scale * w[i];
}
