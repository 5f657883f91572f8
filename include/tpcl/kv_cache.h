/** @file kv_cache.h  Paged KV cache, and the batches of tokens that go through it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_KV_CACHE_H
#define TPCL_KV_CACHE_H

#include <tpcl/group.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * This rank's K and V heads of every layer, in blocks, and which sequence has which block. Opaque.
 * All ranks make the same calls in the same order, so that their tables stay alike.
 */
typedef struct tpcl_kv_cache tpcl_kv_cache;

/** What a cache holds. */
typedef struct tpcl_kv_cache_desc {
    int layers;                   /**< of the model */
    int head_dim;                 /**< of K: an even number up to 256 */
    int v_head_dim;               /**< of V, likewise; 0 = head_dim */
    int blocks;                   /**< blocks of all sequences together */
    int block_size;               /**< tokens of a block: 1..256 */
    int max_sequences;            /**< sequences are numbered 0..max_sequences-1 */
    bool f32;                     /**< store f32; default f16 */
    const tpcl_head_range *heads; /**< [layers] this rank's heads */
} tpcl_kv_cache_desc;

/**
 * Makes a cache; its memory is zeroed.
 *
 *                whole model                                  on rank r
 * K of a layer   [blocks, kv_heads, block_size, head_dim]     its kv heads
 * V of a layer   [blocks, kv_heads, block_size, v_head_dim]   its kv heads
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

#ifdef __cplusplus
}
#endif
#endif
