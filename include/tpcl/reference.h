/** @file reference.h  Plain C references of every op: slow, simple, f64 inside, for tests and
 * ports.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_REFERENCE_H
#define TPCL_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tpcl/dtype.h>
#include <tpcl/shard.h>
#include <tpcl/status.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What an op computes, as arithmetic on host arrays: row-major, f32, sums and functions in f64 and
 * rounded to f32 once, at the end. A reference takes what one rank takes: the whole model's arrays
 * at one rank, a rank's rows or columns of them at several. Nothing is checked but what a dtype
 * makes uncertain: the arrays are as large as their shapes say, and outputs overlap no input unless
 * a parameter says so. Counts of 0 are legal.
 *
 * All functions here: Collective: no.  Blocks: no.  Allocates: no.  Errors: none, unless stated.
 */

/**
 * dst[i] = the value of stored element i, exactly, in f32: subnormals, infinities, NaN and the sign
 * of zero included. Blocks are laid out as tpcl/dtype.h says.
 *
 * @param dtype  in   F32, F16, BF16, Q8_0, Q4_0 or Q4_1
 * @param src    in   the stored bytes, at any address
 * @param n      in   elements, whole blocks
 * @param dst    out  [n]
 * Errors: TPCL_ERR_UNSUPPORTED (dtype), TPCL_ERR_SHAPE (n cuts a block); dst is then untouched.
 */
TPCL_NODISCARD tpcl_status tpcl_ref_widen(tpcl_dtype dtype, const void *src, size_t n, float *dst);

/** y [tokens, n] = x [tokens, k] W^T + bias [n] (NULL = none); w [n, k]. */
void tpcl_ref_linear(const float *x, const float *w, const float *bias, float *y, int tokens, int n,
                     int k);
/**
 * The same with a weight as it is stored, [n, k] of any dtype, read element by element as it is
 * needed: bit for bit what tpcl_ref_linear() makes of the widened weight.
 *
 * Errors: TPCL_ERR_ARG (NULL), TPCL_ERR_SHAPE, TPCL_ERR_UNSUPPORTED, and what its `read` returns; y
 * is undefined then.
 */
TPCL_NODISCARD tpcl_status tpcl_ref_linear_stored(const float *x, const tpcl_host_tensor *w,
                                                  const float *bias, float *y, int tokens);

/** y [tokens, k] = rows ids[t] - v0 of w [rows, k]; a zero row where that is outside of it. */
void tpcl_ref_embed(const int32_t *ids, const float *w, float *y, int tokens, int k, int v0,
                    int rows);
/**
 * The same for a rank that holds two ranges of ids, @p base of the vocabulary and @p added of the
 * words added behind it: w has the rows of base, then those of added. An id in neither gives a zero
 * row.
 */
void tpcl_ref_embed_added(const int32_t *ids, const float *w, float *y, int tokens, int k,
                          tpcl_range base, tpcl_range added);

/** h += add (NULL = nothing), in f32 as the kernel does; y = h / sqrt(mean(h^2) + eps) * w. h, add,
 * y [tokens, dim], w [dim]. y may be h where add is NULL.
 */
void tpcl_ref_rmsnorm(float *h, const float *add, const float *w, float *y, int tokens, int dim,
                      float eps);
/** One head row in place: optional norm [head_dim], then rotation by angles [head_dim/2] (cos,
 * sin).
 */
void tpcl_ref_rope(float *x, const float *norm, const float *angles, int head_dim, bool interleaved,
                   float eps);
/** out [v_head_dim]: one q row [head_dim] attends to all K rows [keys, head_dim] and V rows [keys,
 * v_head_dim]. keys >= 1.
 *
 * @param scale  in  of the scores before the softmax; 0 = 1 / sqrt(head_dim)
 */
void tpcl_ref_attention(const float *q, const float *k, const float *v, float *out, int keys,
                        int head_dim, int v_head_dim, float scale);

/** Causal attention of tokens of several sequences over K and V in blocks. */
typedef struct tpcl_ref_paged {
    const float *q;       /**< token t's head h: [head_dim] at t * q_stride + h * head_dim */
    const float *k;       /**< [blocks, kv_heads, block_size, head_dim] */
    const float *v;       /**< [blocks, kv_heads, block_size, v_head_dim] */
    const int32_t *pos;   /**< [tokens] position in the token's sequence */
    const int32_t *seq;   /**< [tokens] number of the token's sequence */
    const int32_t *table; /**< [sequences, table_width] a sequence's blocks in order */
    const int *kv_of;     /**< [heads] kv head of each q head; NULL = h / (heads / kv_heads) */
    int tokens;           /**< rows of q and of the result */
    int heads;            /**< q heads; a multiple of kv_heads where kv_of is NULL */
    int kv_heads;         /**< heads of k and v */
    int head_dim;         /**< of q and k */
    int v_head_dim;       /**< of v and the result */
    int q_stride;         /**< elements from one token's q to the next one's */
    int block_size;       /**< tokens of a block */
    int table_width;      /**< blocks from one sequence's table to the next one's */
    int window;           /**< a token sees the last `window` keys, its own included; 0 = all */
    float scale;          /**< of the scores; 0 = 1 / sqrt(head_dim) */
} tpcl_ref_paged;
/** out [tokens, heads * v_head_dim]. Only rows of K and V that a token sees are read. */
void tpcl_ref_paged_attention(const tpcl_ref_paged *args, float *out);

/** y [tokens, inter] = silu(x[:, :inter]) * x[:, inter:]. */
void tpcl_ref_swiglu(const float *x, float *y, int tokens, int inter);
/** y[i] = x[i] / (1 + exp(-x[i])), and the tanh form of gelu; n elements. y may be x. */
void tpcl_ref_silu(const float *x, float *y, size_t n);
void tpcl_ref_gelu(const float *x, float *y, size_t n);
/** y[i] += x[i], n elements: one f32 addition each. */
void tpcl_ref_add(float *y, const float *x, size_t n);
/** y[t, i] += bias[i]: one f32 addition each. y [tokens, dim], bias [dim]. */
void tpcl_ref_add_bias(float *y, const float *bias, int tokens, int dim);

/** Logits y [tokens, vocab] = x [tokens, k] W^T + bias (NULL = none), -INFINITY from column @p
 * valid on: rows that no word has must never win. w [vocab, k].
 */
void tpcl_ref_lm_head(const float *x, const float *w, const float *bias, float *y, int tokens,
                      int vocab, int k, int valid);

/** Index of the greatest of v [n], the lowest of those that are equal. NaN never wins; -1 where
 * nothing does.
 */
int tpcl_ref_argmax(const float *v, int n);
/** p [n] = exp(v) / sum(exp(v)), in f64. An entry of -INFINITY gets 0; one at least must be finite.
 */
void tpcl_ref_softmax(const float *v, double *p, int n);
/** logp [n] = v - log(sum(exp(v))), in f64; otherwise as tpcl_ref_softmax(). */
void tpcl_ref_log_softmax(const float *v, double *logp, int n);

#ifdef __cplusplus
}
#endif
#endif
