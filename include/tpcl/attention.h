/** @file attention.h  Per-head attention: paged KV cache, batches, RoPE and attention layers. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_ATTENTION_H
#define TPCL_ATTENTION_H

#include <tpcl/group.h>
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

/**
 * This rank's K and V heads of every layer, in blocks, and which sequence has which block. Opaque.
 * All ranks make the same calls in the same order, so that their tables stay alike.
 */
typedef struct tpcl_kv_cache tpcl_kv_cache;

/** What a cache holds. */
typedef struct tpcl_kv_cache_desc {
    int layers;                   /**< of the model */
    int head_dim;                 /**< an even number up to 256 */
    int blocks;                   /**< blocks of all sequences together */
    int block_size;               /**< tokens of a block: 1..256 */
    int max_sequences;            /**< sequences are numbered 0..max_sequences-1 */
    bool f32;                     /**< store f32; default f16 */
    const tpcl_head_range *heads; /**< [layers] this rank's heads */
} tpcl_kv_cache_desc;

/**
 * Makes a cache; its memory is zeroed.
 *
 *                   whole model                                on rank r
 * K, V of a layer   [blocks, kv_heads, block_size, head_dim]   its kv heads
 *
 * @param out  out  NULL on failure; release with tpcl_kv_cache_destroy()
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_DEVICE_MEM, TPCL_ERR_NOMEM, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_kv_cache_create(tpcl_group *group, const tpcl_kv_cache_desc *desc,
                                                tpcl_kv_cache **out);
/**
 * Batches of it go first. NULL and *NULL are no-ops; sets *cache to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_kv_cache_destroy(tpcl_kv_cache **cache);
/**
 * (2, layers, blocks, block_size, kv heads of this rank in layer 0, head_dim).
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_kv_cache_shape(const tpcl_kv_cache *cache, int64_t shape[6]);
/**
 * Bytes of K and V of all layers on this rank.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
uint64_t tpcl_kv_cache_bytes(const tpcl_kv_cache *cache);
/**
 * Tokens stored for a sequence, and blocks it holds: ceil(tokens / block_size).
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_kv_cache_length(const tpcl_kv_cache *cache, int sequence);
int tpcl_kv_cache_blocks_used(const tpcl_kv_cache *cache, int sequence);
/**
 * Gives a sequence's blocks back; its length is then 0.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_kv_cache_free(tpcl_kv_cache *cache, int sequence);

/**
 * The tokens of one forward pass: prompt and generated rows of several sequences may be mixed.
 * Opaque. A pass is: clear, add for each sequence, upload, then the layers.
 */
typedef struct tpcl_batch tpcl_batch;
/**
 * Makes room for the rows of a pass.
 *
 * @param cache       in   must outlive the batch
 * @param max_tokens  in   rows of a pass, 1 or more
 * @param out         out  NULL on failure; release with tpcl_batch_destroy()
 * Collective: no.  Blocks: no.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM, those of tpcl_tensor_create().
 */
TPCL_NODISCARD tpcl_status tpcl_batch_create(tpcl_group *group, tpcl_kv_cache *cache,
                                             int max_tokens, tpcl_batch **out);
/**
 * NULL and *NULL are no-ops; sets *batch to NULL.
 *
 * Collective: no.  Blocks: until its last upload has ended.  Allocates: no.  Errors: none.
 */
void tpcl_batch_destroy(tpcl_batch **batch);
/**
 * Empties the batch; the cache keeps the tokens.
 *
 * Collective: no.  Blocks: until its last upload has ended.  Allocates: no.  Errors: none.
 */
void tpcl_batch_clear(tpcl_batch *batch);
/**
 * Appends the next @p n tokens of @p sequence and takes cache blocks for them.
 *
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG (batch full, no such sequence), TPCL_ERR_SHAPE (cache full, with numbers):
 * then neither batch nor cache has changed.
 */
TPCL_NODISCARD tpcl_status tpcl_batch_add(tpcl_batch *batch, int sequence, const int32_t *ids,
                                          int n);
/**
 * Sends the batch to the device; call once after the last add.
 *
 * Collective: no.  Blocks: only until the upload before has ended.  Allocates: no.
 * Errors: TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_batch_upload(tpcl_batch *batch);
/**
 * Rows added so far, and their ids on the device after tpcl_batch_upload(): what
 * tpcl_embedding_forward() takes.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_batch_tokens(const tpcl_batch *batch);
const tpcl_tensor *tpcl_batch_ids(const tpcl_batch *batch);

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
