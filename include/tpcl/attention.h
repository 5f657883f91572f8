/** @file attention.h  Rotary embedding and per-head attention over a paged KV cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_ATTENTION_H
#define TPCL_ATTENTION_H

#include <tpcl/group.h>
#include <tpcl/kv_cache.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Rotary angles: position p turns pair j of a head by p * theta^(-2j / head_dim), scaled. */
typedef struct tpcl_rope_desc {
    int head_dim;            /**< an even number, 2 to 256 */
    int context;             /**< positions 0 to context - 1 */
    double theta;            /**< base of the frequencies, > 0 */
    double factor;           /**< 0 = no scaling; else >= 1, of the kind that `linear` says */
    double low_freq_factor;  /**< Llama-3: longer waves than original_context / this are divided */
    double high_freq_factor; /**< Llama-3: shorter ones than original_context / this are kept */
    int original_context;    /**< Llama-3: positions the model was first trained on */
    bool linear;             /**< all frequencies are divided by factor; false = Llama-3's way */
    const float *factors;    /**< [head_dim / 2] divisors of the frequencies, each > 0; or NULL */
} tpcl_rope_desc;
/**
 * Makes the table [context, head_dim / 2, 2] of (cos, sin), F32, computed in f64. Every rank holds
 * all of it; layers share one.
 *
 * @param out  out  NULL on failure; release with tpcl_tensor_destroy()
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_ARG (NULL, a number out of its range), TPCL_ERR_NOMEM, those of
 * tpcl_tensor_create() and tpcl_tensor_write().
 */
TPCL_NODISCARD tpcl_status tpcl_rope_table_create(tpcl_device *device, const tpcl_rope_desc *desc,
                                                  tpcl_tensor **out);

/** Norm of q and k heads (optional), RoPE, cache, and attention of this rank's heads. */
typedef struct tpcl_attention tpcl_attention;
/** What an attention layer is. Zero where a field's comment says so is its default. */
typedef struct tpcl_attention_desc {
    int heads;            /**< of the whole model, a multiple of kv_heads */
    int kv_heads;         /**< of the whole model */
    int head_dim;         /**< of q and k: an even number, 2 to 256 */
    int v_head_dim;       /**< of v and the result, likewise; 0 = head_dim */
    tpcl_head_range mine; /**< this rank's, as tpcl_group_shard_heads() gives them */
    float scale;          /**< of the scores before the softmax; 0 = 1 / sqrt(head_dim) */
    int window;       /**< a token sees the last `window` positions, its own included; 0 = all */
    bool interleaved; /**< RoPE turns (2i, 2i+1) instead of (i, i + head_dim/2) */
    /** From tpcl_rope_table_create(), kept alive by the caller; NULL = no rotation. */
    const tpcl_tensor *rope_table;
    const tpcl_host_tensor *q_norm; /**< [head_dim], never cut; NULL with k_norm NULL = none */
    const tpcl_host_tensor *k_norm; /**< [head_dim], likewise */
    float norm_eps;                 /**< of q_norm and k_norm */
} tpcl_attention_desc;
/**
 * @param desc  in   host tensors are read here and not kept; the rope table is kept by the caller
 * @param out   out  NULL on failure; release with tpcl_attention_destroy()
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_ARG (NULL, a number out of its range, heads that read kv heads the rank does not
 * have, one norm without the other), TPCL_ERR_SHAPE (a norm or table for another head_dim),
 * TPCL_ERR_UNSUPPORTED, TPCL_ERR_IO, TPCL_ERR_NOMEM, TPCL_ERR_DEVICE_MEM, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_attention_create(tpcl_group *group, const tpcl_attention_desc *desc,
                                                 tpcl_attention **out);
/**
 * NULL and *NULL are no-ops; sets *layer to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_attention_destroy(tpcl_attention **layer);
/**
 * Stores the batch's k and v in layer @p layer_index of the cache and attends to them and to what
 * was stored before: causal, grouped queries, each sequence to itself.
 *
 *             whole model                                         on rank r
 * qkv  in     [tokens, (heads + kv_heads) * d + kv_heads * dv]    its q, k and v heads; overwritten
 * out  out    [tokens, heads * dv]                                its q heads; not qkv's memory
 *
 * with d = head_dim and dv = v_head_dim. No communication: the row-parallel layer that follows
 * reduces. A rank on which this fails brings the status to the group's next collective, so that no
 * rank waits for it: tpcl_group_agree().
 *
 * @param layer_index  in  which layer of the cache, from 0
 * @param batch        in  of this cache, uploaded
 * Collective: no.  Blocks: no.  Allocates: no (kernels are compiled at the first call).
 * Errors: TPCL_ERR_ARG (NULL, no such layer, a batch of another cache or not uploaded, a position
 * beyond the rope table, qkv and out overlapping), TPCL_ERR_SHAPE (heads unlike the cache's, qkv or
 * out too small), TPCL_ERR_DEVICE. Nothing has changed after the first two.
 */
TPCL_NODISCARD tpcl_status tpcl_attention_forward(tpcl_attention *layer, int layer_index,
                                                  tpcl_tensor *qkv, const tpcl_batch *batch,
                                                  tpcl_kv_cache *cache, tpcl_tensor *out);

/** @{ */
/**
 * Columns of qkv and of out on this rank. NULL gives 0.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_attention_in(const tpcl_attention *layer);
int tpcl_attention_out(const tpcl_attention *layer);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
