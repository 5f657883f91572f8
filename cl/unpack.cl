/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.cl - a panelled weight as the plain f32 matrix that CLBlast multiplies with
 *
 *     out[k, p * P + lane] = W[p * P + lane, k]
 *
 * w      panels of [n, k]            see panel.clh; any stored dtype
 * out    [k, ceil(n/P) * P]  f32     row-major: W transposed, padded outputs are zeros
 *
 * Launch     global = (ceil(n/P), ceil(k/32)), local = (1, 1): a work-item widens 32 columns
 * Build      panel.clh's macros
 * Numerics   exact but for the one rounding of scale * q + minimum
 * Needs      OpenCL C 1.2, no extensions, no local memory
 */
#include "panel.clh"

__kernel void unpack(__global const uchar *w, __global float *out, int k)
{
    const int k0 = (int)get_global_id(1) * 32, columns = min(32, k - k0);
    const size_t panels = get_global_size(0);
    float16 wide[32];
    panel_widen(w + get_global_id(0) * panel_bytes(k), k0, columns, wide);
    for (int c = 0; c < columns; c++)
        vstore16(wide[c], (size_t)(k0 + c) * panels + get_global_id(0), out);
}
