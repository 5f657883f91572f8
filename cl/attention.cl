/* SPDX-License-Identifier: Apache-2.0 */
/* attention.cl - causal grouped-query attention over a paged cache, online softmax
 *
 *     out[t, h] = sum_j softmax_j(scale q[t, h] . K[j, h/g]) V[j, h/g],   first <= j <= pos[t]
 *
 * with first = max(0, pos[t] - window + 1).
 *
 * qkv        [tokens, q_stride]  f32   q heads first; what follows them is not read
 * kc, vc     [blocks, kv_heads, block_size, D], and DV for vc  f16 or f32; slots past a sequence's
 *            end and keys before the window are never read; what a token of the tile does not see
 *            never enters its sums, not even times 0: all of them may hold NaN
 * out        [tokens, heads * DV] f32
 * pos, seq   [tokens] i32        position in, and number of, the token's sequence
 * table      [sequences, table_width] i32   a sequence's blocks in order
 * row_tiles  int2 (first token, tokens)     tokens of one sequence at consecutive positions
 * head_tiles int4 (first q head, q heads, kv head, 0)   q heads that read the same kv head
 *            tokens * q heads of two tiles together is at most QT
 * window     keys that a token sees, its own included; 1 or more
 *
 * Launch     global = (row tiles, head tiles), local = (1, 1): one work-item keeps the QT pairs of
 *            (token, q head) in registers, so each K and V row is read and widened once for them
 * Build      -DD=<n> head_dim of q and k, 2..256, -DVEC=<n> 16, 4 or 2 dividing D,
 *            -DDV=<n>, -DVVEC=<n> the same of v, -DQT=<n> 1..8, -DKV_F16=0|1 (all required)
 * Numerics   f32; keys in ascending order, eight at a time
 * Needs      OpenCL C 1.2; half only through vload_half
 * Reference  tpcl_ref_paged_attention() in lib/ops/attention.c
 */
#if !defined(D) || !defined(VEC) || !defined(DV) || !defined(VVEC)
#error "D, VEC, DV and VVEC must be given with -D"
#endif
#if !defined(QT) || !defined(KV_F16)
#error "QT and KV_F16 must be given with -D"
#endif

#define FK CAT(float, VEC)
#define FV CAT(float, VVEC)
#define NK (D / VEC)
#define NV (DV / VVEC)
#define KT 8 /* keys of one softmax step; at least QT */

#if KV_F16
#define KV_TYPE half
#define KV_LOAD(n, p) CAT(vload_half, n)(0, p)
#else
#define KV_TYPE float
#define KV_LOAD(n, p) CAT(vload, n)(0, p)
#endif

static inline float lanes_sum(FK v)
{
#if VEC == 16
    /* v.hi, spelt out: Oclgrind 21.10 takes the upper half of 16 lanes for uninitialised. */
    const float8 v8 = v.lo + (float8)(v.s8, v.s9, v.sa, v.sb, v.sc, v.sd, v.se, v.sf);
    const float4 v4 = v8.lo + v8.hi;
    return (v4.x + v4.y) + (v4.z + v4.w);
#elif VEC == 4
    return (v.x + v.y) + (v.z + v.w);
#else
    return v.x + v.y;
#endif
}

__kernel void attention(__global const float *qkv, __global const KV_TYPE *kc,
                        __global const KV_TYPE *vc, __global float *out, __global const int *pos,
                        __global const int *seq, __global const int *table,
                        __global const int2 *row_tiles, __global const int4 *head_tiles,
                        int q_stride, int heads, int kv_heads, int block_size, int table_width,
                        int window, float scale)
{
    const int2 rows = row_tiles[get_global_id(0)];
    const int4 group = head_tiles[get_global_id(1)];
    const int pairs = rows.y * group.y;
    __global const int *blocks = table + (size_t)seq[rows.x] * table_width;
    const int last = pos[rows.x + rows.y - 1];
    const int start = max(0, pos[rows.x] - window + 1);
    /* keys that all of the tile's tokens see */
    const int common_first = max(0, last - window + 1), common_last = pos[rows.x];
    int token[QT], head[QT], first[QT], limit[QT];
    FK q[QT][NK];
    FV acc[QT][NV];
    float top[QT], mass[QT];

#pragma unroll
    for (int i = 0; i < QT; i++) {
        const int pair = min(i, pairs - 1); /* idle pairs repeat the last one */
        token[i] = rows.x + pair / group.y;
        head[i] = group.x + pair % group.y;
        limit[i] = pos[token[i]];
        first[i] = limit[i] - window + 1;
        top[i] = -INFINITY;
        mass[i] = 0.0f;
#pragma unroll
        for (int v = 0; v < NK; v++)
            q[i][v] = CAT(vload, VEC)(v, qkv + (size_t)token[i] * q_stride + head[i] * D) * scale;
#pragma unroll
        for (int v = 0; v < NV; v++) acc[i][v] = (FV)(0.0f);
    }
    for (int j0 = start; j0 <= last; j0 += KT) {
        const int keys = min(KT, last + 1 - j0);
        size_t row[KT];
        float s[QT][KT];
        for (int j = 0; j < KT; j++) {
            const int key = min(j0 + j, last);
            row[j] = ((size_t)blocks[key / block_size] * kv_heads + group.z) * block_size +
                     key % block_size;
        }
        for (int j = 0; j < keys; j++) {
            FK dot[QT];
#pragma unroll
            for (int i = 0; i < QT; i++) dot[i] = (FK)(0.0f);
#pragma unroll
            for (int v = 0; v < NK; v++) {
                const FK k = KV_LOAD(VEC, kc + row[j] * D + v * VEC);
#pragma unroll
                for (int i = 0; i < QT; i++) dot[i] = fma(q[i][v], k, dot[i]);
            }
#pragma unroll
            for (int i = 0; i < QT; i++)
                s[i][j] = j0 + j >= first[i] && j0 + j <= limit[i] ? lanes_sum(dot[i]) : -INFINITY;
        }
        for (int j = keys; j < KT; j++)
#pragma unroll
            for (int i = 0; i < QT; i++) s[i][j] = -INFINITY;

#pragma unroll
        for (int i = 0; i < QT; i++) {
            const float8 si = vload8(0, s[i]);
            const float4 m4 = fmax(si.lo, si.hi);
            /* Every token sees one of the first QT keys: the maximum is finite from there on. */
            const float peak = fmax(top[i], fmax(fmax(m4.x, m4.y), fmax(m4.z, m4.w)));
            const float fade = exp(top[i] - peak);
            const float8 p = exp(si - peak);
            const float4 p4 = p.lo + p.hi;
            vstore8(p, 0, s[i]);
            mass[i] = mass[i] * fade + ((p4.x + p4.y) + (p4.z + p4.w));
            top[i] = peak;
#pragma unroll
            for (int v = 0; v < NV; v++) acc[i][v] *= fade;
        }
        for (int j = 0; j < keys; j++) {
            if (QT == 1 || (j0 + j >= common_first && j0 + j <= common_last)) {
#pragma unroll
                for (int v = 0; v < NV; v++) {
                    const FV value = KV_LOAD(VVEC, vc + row[j] * DV + v * VVEC);
#pragma unroll
                    for (int i = 0; i < QT; i++) acc[i][v] = fma(value, (FV)(s[i][j]), acc[i][v]);
                }
                continue;
            }
#pragma unroll
            for (int i = 0; i < QT; i++) {
                if (j0 + j < first[i] || j0 + j > limit[i]) continue;
#pragma unroll
                for (int v = 0; v < NV; v++)
                    acc[i][v] =
                        fma(KV_LOAD(VVEC, vc + row[j] * DV + v * VVEC), (FV)(s[i][j]), acc[i][v]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < QT; i++) {
        if (i >= pairs) continue;
        __global float *to = out + ((size_t)token[i] * heads + head[i]) * DV;
#pragma unroll
        for (int v = 0; v < NV; v++) CAT(vstore, VVEC)(acc[i][v] / mass[i], v, to);
    }
}
