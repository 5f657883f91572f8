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
    int head_dim, context;
    double theta;
    /** Llama-3 frequency scaling; factor 0 = none. `linear`: frequencies divided by factor. */
    double factor, low_freq_factor, high_freq_factor;
    int original_context;
    bool linear;
    const float *factors; /**< [head_dim / 2] divisors of the frequencies, or NULL */
} tpcl_rope_desc;
/** Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM, those of tpcl_tensor_create. Blocks, allocates. */
TPCL_NODISCARD tpcl_status tpcl_rope_table_create(tpcl_device *device, const tpcl_rope_desc *desc,
                                                  tpcl_tensor **out);

/** This rank's K and V heads of every layer, in blocks, and which sequence has which block. */
typedef struct tpcl_kv_cache tpcl_kv_cache;

typedef struct tpcl_kv_cache_desc {
    int layers, head_dim;
    int blocks, block_size; /**< tokens of a block: 1..256 */
    int max_sequences;
    bool f32;                     /**< store f32; default f16 */
    const tpcl_head_range *heads; /**< [layers] this rank's heads */
} tpcl_kv_cache_desc;

/** Memory is zeroed. Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_DEVICE_MEM, TPCL_ERR_NOMEM. */
TPCL_NODISCARD tpcl_status tpcl_kv_cache_create(tpcl_group *group, const tpcl_kv_cache_desc *desc,
                                                tpcl_kv_cache **out);
void tpcl_kv_cache_destroy(tpcl_kv_cache **cache);
/** (2, layers, blocks, block_size, kv heads of this rank in layer 0, head_dim). */
void tpcl_kv_cache_shape(const tpcl_kv_cache *cache, int64_t shape[6]);
uint64_t tpcl_kv_cache_bytes(const tpcl_kv_cache *cache);
/** Tokens stored for a sequence, and blocks it holds: ceil(tokens / block_size). */
int tpcl_kv_cache_length(const tpcl_kv_cache *cache, int sequence);
int tpcl_kv_cache_blocks_used(const tpcl_kv_cache *cache, int sequence);
/** Gives a sequence's blocks back; its length is then 0. */
void tpcl_kv_cache_free(tpcl_kv_cache *cache, int sequence);

/** The tokens of one forward pass: prompt and generated rows of several sequences may be mixed. */
typedef struct tpcl_batch tpcl_batch;
TPCL_NODISCARD tpcl_status tpcl_batch_create(tpcl_group *group, tpcl_kv_cache *cache,
                                             int max_tokens, tpcl_batch **out);
void tpcl_batch_destroy(tpcl_batch **batch);
void tpcl_batch_clear(tpcl_batch *batch);
/**
 * Appends the next @p n tokens of @p sequence and takes cache blocks for them.
 * Errors: TPCL_ERR_ARG (batch full, no such sequence), TPCL_ERR_SHAPE (cache full, with numbers):
 * then neither batch nor cache has changed.
 */
TPCL_NODISCARD tpcl_status tpcl_batch_add(tpcl_batch *batch, int sequence, const int32_t *ids,
                                          int n);
/** Sends the batch to the device; call once after the last add. */
TPCL_NODISCARD tpcl_status tpcl_batch_upload(tpcl_batch *batch);
int tpcl_batch_tokens(const tpcl_batch *batch);
const tpcl_tensor *tpcl_batch_ids(const tpcl_batch *batch);

/** Norm of q and k heads (optional), RoPE, cache, and attention of this rank's heads. */
typedef struct tpcl_attention tpcl_attention;
typedef struct tpcl_attention_desc {
    int heads, kv_heads, head_dim; /**< of the whole model */
    tpcl_head_range mine;          /**< this rank's, as tpcl_shard_heads gives them */
    bool interleaved;              /**< RoPE turns (2i, 2i+1) instead of (i, i + head_dim/2) */
    const tpcl_tensor *rope_table; /**< kept by the caller */
    const tpcl_host_tensor *q_norm, *k_norm; /**< [head_dim], never cut; NULL both = none */
    float norm_eps;
} tpcl_attention_desc;
TPCL_NODISCARD tpcl_status tpcl_attention_create(tpcl_group *group, const tpcl_attention_desc *desc,
                                                 tpcl_attention **out);
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
