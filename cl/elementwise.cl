/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.cl - small operations on whole rows
 *
 *     swiglu       y[t, i] = g / (1 + exp(-g)) * u,  g = x[t, i], u = x[t, inter + i]
 *     silu         y[i] = x[i] / (1 + exp(-x[i]))
 *     gelu         y[i] = x[i] / (1 + exp(-2 z)),  z = sqrt(2 / pi) (x[i] + 0.044715 x[i]^3)
 *                  which is x / 2 (1 + tanh z) without the cancellation at negative x
 *     add          y[i] = y[i] + x[i]
 *     add_bias     y[t, i] = y[t, i] + bias[i]
 *     fill_zero    y[i] = 0
 *
 * swiglu       x [tokens, 2 * inter] f32 -> y [tokens, inter] f32
 *              global = (ceil(inter / 16), tokens)
 * silu, gelu   x [n] f32 -> y [n] f32, y may be x; global = (ceil(n / 16))
 * add          y [n], x [n] f32; global = (ceil(n / 16))
 * add_bias     y [tokens, dim], bias [dim]; global = (ceil(dim / 16), tokens)
 * fill_zero    y [n] f32; global = (ceil(n / 16))
 * Launch     local = 1 in every dimension; a work-item does 16 elements
 * Needs      OpenCL C 1.2, no extensions
 * Reference  tpcl_ref_swiglu() and its neighbours in lib/ops/reference.c
 */
__kernel void swiglu(__global const float *x, __global float *y, int inter)
{
    const int at = (int)get_global_id(0) * 16;
    const size_t t = get_global_id(1);
    __global const float *gate = x + t * 2 * inter, *up = gate + inter;
    __global float *to = y + t * inter;

    if (at + 16 <= inter) {
        const float16 g = vload16(0, gate + at);
        vstore16(g / (1.0f + exp(-g)) * vload16(0, up + at), 0, to + at);
        return;
    }
    for (int i = at; i < inter; i++) to[i] = gate[i] / (1.0f + exp(-gate[i])) * up[i];
}

__kernel void silu(__global const float *x, __global float *y, ulong n)
{
    const ulong at = get_global_id(0) * 16;
    for (ulong i = at; i < min(at + 16, n); i++) y[i] = x[i] / (1.0f + exp(-x[i]));
}

__kernel void gelu(__global const float *x, __global float *y, ulong n)
{
    const ulong at = get_global_id(0) * 16;
    for (ulong i = at; i < min(at + 16, n); i++) {
        const float v = x[i], z = 0.797884561f * (v + 0.044715f * v * v * v);
        y[i] = v / (1.0f + exp(-2.0f * z));
    }
}

__kernel void add(__global const float *x, __global float *y, ulong n)
{
    const ulong at = get_global_id(0) * 16;
    for (ulong i = at; i < min(at + 16, n); i++) y[i] += x[i];
}

__kernel void add_bias(__global float *y, __global const float *bias, int dim)
{
    const int at = (int)get_global_id(0) * 16;
    const size_t t = get_global_id(1);
    for (int i = at; i < min(at + 16, dim); i++) y[t * dim + i] += bias[i];
}

__kernel void fill_zero(__global float *y, ulong n)
{
    const ulong at = get_global_id(0) * 16;
    for (ulong i = at; i < min(at + 16, n); i++) y[i] = 0.0f;
}
