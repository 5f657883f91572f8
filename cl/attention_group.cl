/* SPDX-License-Identifier: Apache-2.0 */
/* attention_group.cl - attention.cl's result for devices whose work-items are single lanes (GPUs)
 *
 * Arguments, equation and bounds as attention.cl; a head tile has one q head, there are no row
 * tiles.
 *
 * Launch     global = (tokens * WG, q heads), local = (WG, 1): one work-group per (token, q head).
 *            Keys come in tiles of WG: work-item i scores key i of the tile, then all of them walk
 *            the tile's V rows together, each for the elements i, i + WG, ... of the head.
 * Local mem  D + 2 * WG floats, static
 * Build      -DD=<n>        head_dim of q and k, 2..256 (required)
 *            -DDV=<n>       head_dim of v, 2..256 (required)
 *            -DWG=<n>       work-group size, a power of two up to 256 (required)
 *            -DKV_F16=0|1   (required)
 * Numerics   f32; keys in ascending order, WG at a time
 * Needs      OpenCL C 1.2; half only through vload_half
 * Reference  tpcl_ref_paged_attention() in lib/ops/attention.c
 */
#if !defined(D) || !defined(DV) || !defined(WG) || !defined(KV_F16)
#error "D, DV, WG and KV_F16 must be given with -D"
#endif

#define NE ((DV + WG - 1) / WG) /* elements of the result that a work-item makes */

#if KV_F16
#define KV_TYPE half
#define KV_AT(p, i) vload_half(i, p)
#else
#define KV_TYPE float
#define KV_AT(p, i) (p)[i]
#endif

/* The greatest (or the sum) of one value per work-item, known to all of them. */
static inline float group_reduce(float value, bool sum, __local float *scratch)
{
    const int lid = (int)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    scratch[lid] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int half_wg = WG / 2; half_wg > 0; half_wg /= 2) {
        if (lid < half_wg)
            scratch[lid] = sum ? scratch[lid] + scratch[lid + half_wg]
                               : fmax(scratch[lid], scratch[lid + half_wg]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return scratch[0];
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_group(__global const float *qkv, __global const KV_TYPE *kc, __global const KV_TYPE *vc,
                __global float *out, __global const int *pos, __global const int *seq,
                __global const int *table, __global const int4 *head_tiles, int q_stride, int heads,
                int kv_heads, int block_size, int table_width, int window, float scale)
{
    const int lid = (int)get_local_id(0);
    const size_t t = get_group_id(0);
    const int4 tile = head_tiles[get_group_id(1)];
    const int keys = pos[t] + 1;
    __global const int *blocks = table + (size_t)seq[t] * table_width;
    __local float q[D], weight[WG], scratch[WG];
    float acc[NE];
    float top = -INFINITY, mass = 0.0f;

    for (int i = lid; i < D; i += WG) q[i] = qkv[t * q_stride + (size_t)tile.x * D + i] * scale;
    for (int i = 0; i < NE; i++) acc[i] = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int j0 = max(0, keys - window); j0 < keys; j0 += WG) {
        const int key = j0 + lid;
        float s = -INFINITY;
        if (key < keys) {
            const size_t row = ((size_t)blocks[key / block_size] * kv_heads + tile.z) * block_size +
                               key % block_size;
            s = 0.0f;
            for (int i = 0; i < D; i++) s = fma(q[i], KV_AT(kc, row * D + i), s);
        }
        const float peak = fmax(top, group_reduce(s, false, scratch));
        const float fade = exp(top - peak), p = exp(s - peak);
        mass = mass * fade + group_reduce(p, true, scratch);
        top = peak;
        weight[lid] = p;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int e = 0; e < NE; e++) acc[e] *= fade;
        for (int j = 0; j < min(WG, keys - j0); j++) {
            const int k = j0 + j;
            const size_t row =
                ((size_t)blocks[k / block_size] * kv_heads + tile.z) * block_size + k % block_size;
            for (int e = 0, i = lid; i < DV; e++, i += WG)
                acc[e] = fma(weight[j], KV_AT(vc, row * DV + i), acc[e]);
        }
    }
    for (int e = 0, i = lid; i < DV; e++, i += WG)
        out[(t * heads + tile.x) * DV + i] = acc[e] / mass;
}
