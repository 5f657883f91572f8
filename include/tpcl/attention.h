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

/** Rotary angles: cos and sin of each position and pair, [context, head_dim / 2, 2]. */
typedef struct tpcl_rope_desc {
    int head_dim;            /**< an even number up to 256 */
    int context;             /**< positions 0..context-1 */
    double theta;            /**< base of the frequencies */
    double factor;           /**< Llama-3 or linear scaling of the frequencies; 0 = none */
    double low_freq_factor;  /**< Llama-3: longer waves than original_context / this are divided */
    double high_freq_factor; /**< Llama-3: shorter ones than original_context / this are kept */
    int original_context;    /**< Llama-3: tokens before the scaling */
    bool linear;             /**< all frequencies are divided by factor */
    const float *factors;    /**< [head_dim / 2] divisors of the frequencies, or NULL */
} tpcl_rope_desc;
/**
 * Computes the table, in f64, and sends it to the device: [context, head_dim / 2, 2].
 *
 * @param out  out  the caller's, to be freed with tpcl_tensor_destroy()
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM, those of tpcl_tensor_create().
 */
TPCL_NODISCARD tpcl_status tpcl_rope_table_create(tpcl_device *device, const tpcl_rope_desc *desc,
                                                  tpcl_tensor **out);

/** Norm of q and k heads (optional), RoPE, cache, and attention of this rank's heads. */
typedef struct tpcl_attention tpcl_attention;
/** What an attention layer is. */
typedef struct tpcl_attention_desc {
    int heads;                     /**< of the whole model, a multiple of kv_heads */
    int kv_heads;                  /**< of the whole model */
    int head_dim;                  /**< an even number up to 256 */
    tpcl_head_range mine;          /**< this rank's, as tpcl_shard_heads gives them */
    bool interleaved;              /**< RoPE turns (2i, 2i+1) instead of (i, i + head_dim/2) */
    const tpcl_tensor *rope_table; /**< kept by the caller */
    const tpcl_host_tensor *q_norm, *k_norm; /**< [head_dim], never cut; NULL both = none */
    float norm_eps;                          /**< of q_norm and k_norm */
} tpcl_attention_desc;
/**
 * @param desc  in   host tensors are read here and not kept; the rope table is kept by the caller
 * @param out   out  NULL on failure; release with tpcl_attention_destroy()
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_UNSUPPORTED, TPCL_ERR_IO, TPCL_ERR_NOMEM,
 * TPCL_ERR_DEVICE_MEM, TPCL_ERR_DEVICE.
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
 *             whole model                                on rank r
 * qkv  in     [tokens, (heads + 2 kv_heads) * head_dim]  its q heads, k heads, v heads; overwritten
 * out  out    [tokens, heads * head_dim]                 its q heads
 *
 * No communication: the row-parallel layer that follows reduces.
 * @param layer_index  in  which layer of the cache
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: TPCL_ERR_SHAPE, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_attention_forward(tpcl_attention *layer, int layer_index,
                                                  tpcl_tensor *qkv, const tpcl_batch *batch,
                                                  tpcl_kv_cache *cache, tpcl_tensor *out);

#ifdef __cplusplus
}
#endif
#endif
