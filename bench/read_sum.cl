/* SPDX-License-Identifier: Apache-2.0 */
/* read_sum.cl - how fast a device reads memory, measured as a sum
 *
 *     y[i] = sum of all lanes of the vectors that work-item i reads
 *
 * v      [vectors * 16] f32   whole work-groups' chunks: vectors = groups * chunk
 * y      [groups * local] f32
 * chunk  vectors of a work-group, a multiple of 4 * local size
 *
 * Launch     local = any; neighbouring work-items read neighbouring vectors
 * Build      nothing
 * Numerics   four f32 accumulators, exact for small whole numbers
 * Needs      OpenCL C 1.2
 */
__kernel void fill(__global float16 *v, float value)
{
    v[get_global_id(0)] = (float16)(value);
}

__kernel void read_sum(__global const float16 *v, __global float *y, ulong chunk)
{
    const size_t step = get_local_size(0);
    __global const float16 *at = v + get_group_id(0) * (size_t)chunk + get_local_id(0);
    __global const float16 *end = v + (get_group_id(0) + 1) * (size_t)chunk;
    float16 a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    /* Four sums, so that no addition waits for the one before. */
    for (; at < end; at += 4 * step) {
        a += at[0];
        b += at[step];
        c += at[2 * step];
        d += at[3 * step];
    }
    a = (a + b) + (c + d);
    const float8 e = a.lo + a.hi;
    const float4 f = e.lo + e.hi;
    y[get_global_id(0)] = (f.x + f.y) + (f.z + f.w);
}
