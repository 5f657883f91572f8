/* SPDX-License-Identifier: Apache-2.0 */
/* embed.cl - vocabulary look-up in a panelled weight, masked to this rank's rows
 *
 *     y[t, :] = W[ids[t] - v0, :]   where v0 <= ids[t] < v0 + rows
 *               0                   elsewhere: another rank owns the word
 *
 * ids    [tokens]        i32   global word numbers
 * w      panels of [rows, k]   see panel.clh; the same buffer as a tied LM head
 * y      [tokens, k]     f32
 *
 * Launch     global = (ceil(k / 32), tokens), local = (1, 1): one work-item, 32 columns of one row
 * Build      panel.clh's macros
 * Numerics   exact: the stored value widened
 * Needs      OpenCL C 1.2, no extensions, no local memory
 * Reference  tpcl_ref_embed() in lib/ops/reference.c
 */
#include "panel.clh"

/* One element of a panel. */
static inline float panel_element(__global const uchar *panel, int k, int lane)
{
#if defined(DT_F32)
    return ((__global const float *)panel)[(size_t)k * P + lane];
#elif defined(DT_F16)
    return vload_half((size_t)k * P + lane, (__global const half *)panel);
#elif defined(DT_BF16)
    return as_float((uint)((__global const ushort *)panel)[(size_t)k * P + lane] << 16);
#else
    __global const uchar *block = panel + (size_t)(k / BLOCK) * BLOCK_BYTES;
    const int c = k % BLOCK;
    __global const half *scales = (__global const half *)(block + SCALE_AT);
    const float d = vload_half(lane, scales);
#if defined(DT_Q8_0)
    return d * (float)((__global const char *)block)[c * P + lane];
#else
    const uchar two = block[c / 2 * P + lane];
    const float q = (float)(c % 2 ? two >> 4 : two & 15);
#if defined(DT_Q4_0)
    return fma(q, d, d * -8.0f);
#else
    return fma(q, d, vload_half(P + lane, scales));
#endif
#endif
#endif
}

__kernel void embed(__global const int *ids, __global const uchar *w, __global float *y, int k,
                    int v0, int rows)
{
    const size_t t = get_global_id(1);
    const int k0 = (int)get_global_id(0) * 32;
    const int row = ids[t] - v0;
    const bool mine = row >= 0 && row < rows;
    __global const uchar *panel = w + (mine ? row / P : 0) * panel_bytes(k);

    for (int c = k0; c < min(k0 + 32, k); c++)
        y[t * k + c] = mine ? panel_element(panel, c, row % P) : 0.0f;
}
