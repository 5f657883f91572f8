/* SPDX-License-Identifier: Apache-2.0 */
/* embed.cl - vocabulary look-up in a panelled weight, masked to this rank's rows
 *
 *     y[t, :] = W[ids[t] - base, :]                where base <= ids[t] < base + n_base
 *               W[n_base + ids[t] - added, :]      where added <= ids[t] < added + n_added
 *               NaN                                where ids[t] is not in [0, vocab), if vocab > 0
 *               0                                  elsewhere: another rank owns the word
 *
 * ids    [tokens]        i32   global word numbers, any value
 * w      panels of [n_base + n_added, k]   see panel.clh; the same buffer as a tied LM head
 * y      [tokens, k]     f32
 *
 * Launch     global = (ceil(k / 32), tokens), local = (1, 1): one work-item, 32 columns of one row
 * Build      panel.clh's macros
 * Numerics   exact: the stored value widened; block types have the one rounding of scale * q + minimum
 * Needs      OpenCL C 1.2, no extensions, no local memory
 * Reference  tpcl_ref_embed() in lib/ops/reference.c
 */
#include "panel.clh"

/* One element of a panel. */
static inline float panel_element(__global const uchar *panel, int k, int lane)
{
#ifdef COLUMN_BYTES
    return lane_column(panel, k, lane);
#else
    __global const uchar *block = panel + (size_t)(k / BLOCK) * BLOCK_BYTES;
    const float d = lane_scale(block, lane);
    const float2 q = lane_pair(block, k % BLOCK / 2, lane);
    return fma(k % 2 ? q.y : q.x, d, lane_offset(block, lane, d));
#endif
}

__kernel void embed(__global const int *ids, __global const uchar *w, __global float *y, int k,
                    int base, int n_base, int added, int n_added, int vocab)
{
    const size_t t = get_global_id(1);
    const int k0 = (int)get_global_id(0) * 32;
    const int id = ids[t];
    /* Unsigned: below the first word is far beyond the last one, and nothing overflows. */
    const uint in_base = (uint)id - (uint)base, in_added = (uint)id - (uint)added;
    const bool is_base = in_base < (uint)n_base, is_added = in_added < (uint)n_added;
    const bool mine = is_base || is_added;
    const int row = is_base ? (int)in_base : is_added ? n_base + (int)in_added : 0;
    const float other = vocab > 0 && (id < 0 || id >= vocab) ? NAN : 0.0f;
    __global const uchar *panel = w + row / P * panel_bytes(k);

    for (int c = k0; c < min(k0 + 32, k); c++)
        y[t * k + c] = mine ? panel_element(panel, c, row % P) : other;
}
