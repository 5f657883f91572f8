/* SPDX-License-Identifier: Apache-2.0 */
/* rope.cl - per-head norm, rotary embedding, and the way of K and V into the paged cache
 *
 *     q, k:  optional RMSNorm over the head with weight [D], then with (c, s) = angles[pos, j]
 *            half-split    (a, b) = (x[j],  x[j + D/2])   ->  (a c - b s, b c + a s)
 *            interleaved   (a, b) = (x[2j], x[2j + 1])    ->  the same
 *     q stays in qkv; k and v go to slot[t] of the cache.
 *
 * qkv     [tokens, (heads + kv_heads) * D + kv_heads * DV]  f32   this rank's q, k and v heads
 * angles  [context, D/2]  float2 (cos, sin); read only where rotate is not 0
 * pos     [tokens]  i32   position of the token in its sequence
 * slot    [tokens]  i32   block * block_size + place in the block
 * q_norm, k_norm  [D] f32, read only where has_norm is not 0
 * kc, vc  [blocks, kv_heads, block_size, D], and DV for vc  f16 or f32
 *
 * Launch     global = (heads + 2 kv_heads, tokens), local = (1, 1)
 * Build      -DD=<n>     head_dim of q and k, even, 2..256 (required)
 *            -DDV=<n>    head_dim of v, likewise (required)
 *            -DVEC=<n>   16, 4 or 2, a divisor of D (required)
 *            -DVVEC=<n>  the same of DV (required)
 *            -DINTERLEAVED=0|1, -DKV_F16=0|1 (required)
 * Needs      OpenCL C 1.2; half only through vstore_half
 * Reference  tpcl_ref_rope() in lib/ops/rope.c
 */
#if !defined(D) || !defined(DV) || !defined(VEC) || !defined(VVEC)
#error "D, DV, VEC and VVEC must be given with -D"
#endif
#if !defined(INTERLEAVED) || !defined(KV_F16)
#error "INTERLEAVED and KV_F16 must be given with -D"
#endif

#if KV_F16
#define KV_TYPE half
#define KV_STORE(n, v, p) CAT(CAT(vstore_half, n), _rte)(v, 0, p)
#else
#define KV_TYPE float
#define KV_STORE(n, v, p) CAT(vstore, n)(v, 0, p)
#endif

static inline void normalise(float *x, __global const float *w, float eps)
{
    float sum = 0.0f;
    for (int i = 0; i < D; i++) sum = fma(x[i], x[i], sum);
    const float scale = 1.0f / sqrt(sum / D + eps);
    for (int i = 0; i < D; i++) x[i] = x[i] * scale * w[i];
}

static inline void rotate_pairs(float *x, __global const float2 *angle)
{
    for (int j = 0; j < D / 2; j++) {
        const int ia = INTERLEAVED ? 2 * j : j, ib = INTERLEAVED ? 2 * j + 1 : j + D / 2;
        const float a = x[ia], b = x[ib], c = angle[j].x, s = angle[j].y;
        x[ia] = a * c - b * s;
        x[ib] = b * c + a * s;
    }
}

__kernel void rope_store(__global float *qkv, __global const float2 *angles,
                         __global const int *pos, __global const int *slot,
                         __global const float *q_norm, __global const float *k_norm,
                         __global KV_TYPE *kc, __global KV_TYPE *vc, int heads, int kv_heads,
                         int block_size, float eps, int has_norm, int rotate)
{
    const int head = (int)get_global_id(0);
    const size_t t = get_global_id(1);
    const bool is_q = head < heads, is_v = head >= heads + kv_heads;
    const int kv = head - heads - (is_v ? kv_heads : 0); /* of a q head: not used */
    __global float *row = qkv + t * ((size_t)(heads + kv_heads) * D + (size_t)kv_heads * DV);
    const size_t to =
        ((size_t)(slot[t] / block_size) * kv_heads + kv) * block_size + slot[t] % block_size;

    if (is_v) {
        __global const float *v = row + (size_t)(heads + kv_heads) * D + (size_t)kv * DV;
        for (int i = 0; i < DV; i += VVEC)
            KV_STORE(VVEC, CAT(vload, VVEC)(0, v + i), vc + to * DV + i);
        return;
    }
    __global float *from = row + (size_t)head * D;
    float x[D];
    for (int i = 0; i < D; i += VEC) CAT(vstore, VEC)(CAT(vload, VEC)(0, from + i), 0, x + i);
    if (has_norm) normalise(x, is_q ? q_norm : k_norm, eps);
    if (rotate) rotate_pairs(x, angles + (size_t)pos[t] * (D / 2));
    if (is_q) {
        for (int i = 0; i < D; i += VEC) CAT(vstore, VEC)(CAT(vload, VEC)(0, x + i), 0, from + i);
        return;
    }
    for (int i = 0; i < D; i += VEC) KV_STORE(VEC, CAT(vload, VEC)(0, x + i), kc + to * D + i);
}
