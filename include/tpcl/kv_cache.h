/** @file kv_cache.h  Paged KV cache and the batches of tokens that go through it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_KV_CACHE_H
#define TPCL_KV_CACHE_H

#include <tpcl/group.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * This rank's K and V heads of every layer, in blocks of some tokens, and which sequence has which
 * block. A sequence of n tokens holds ceil(n / block_size) blocks, never more. Blocks may be shared
 * by sequences; memory of unused slots and free blocks never reaches a result, whatever it holds.
 *
 * Every rank keeps the same tables: all ranks make the same calls in the same order. One thread at
 * a time uses a cache, its batches and the group they belong to.
 */
typedef struct tpcl_kv_cache tpcl_kv_cache;

/** What a cache holds. Zero where a field's comment says so is its default. */
typedef struct tpcl_kv_cache_desc {
    int layers;                   /**< of the model */
    int head_dim;                 /**< of K: an even number, 2 to 256 */
    int v_head_dim;               /**< of V, likewise; 0 = head_dim */
    int blocks;                   /**< how many; 0 = as many as `memory_bytes` hold on every rank */
    int block_size;               /**< tokens of a block: 1 to 256 */
    int max_sequences;            /**< sequences are numbered 0 to max_sequences - 1 */
    int max_length;               /**< most tokens of a sequence; 0 = as many as all blocks hold */
    bool f32;                     /**< store f32; default f16 */
    const tpcl_head_range *heads; /**< [layers] this rank's heads; copied */
    /** With `blocks` 0: this rank's bytes for K and V of all layers. 0 = nine tenths of what its
     * device has left, divided by the ranks of this host that share the device; in a group on the
     * caller's own OpenCL context, which may share it with anybody, say how much. */
    uint64_t memory_bytes;
} tpcl_kv_cache_desc;

/** What a cache takes on one rank. */
typedef struct tpcl_kv_cache_size {
    /** (2, layers, blocks, block_size, kv heads of this rank in layer 0, head_dim) */
    int64_t shape[6];
    uint64_t bytes;       /**< K and V of all layers */
    uint64_t block_bytes; /**< of one block in all layers, K and V */
    uint64_t token_bytes; /**< of one token: block_bytes / block_size */
} tpcl_kv_cache_size;

/**
 * The size of a cache, without a device or a group. `max_sequences` is not looked at. With `blocks`
 * 0 it is for the blocks that `memory_bytes` hold on this rank alone (shape[2]; 0 where they hold
 * none, INT32_MAX on a rank without heads): tpcl_kv_cache_create() takes the least of all ranks.
 *
 * @param out  out  bytes of this rank
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, a number out of its range, neither `blocks` nor `memory_bytes`),
 * TPCL_ERR_SHAPE (sizes overflow).
 */
TPCL_NODISCARD tpcl_status tpcl_kv_cache_plan(const tpcl_kv_cache_desc *desc,
                                              tpcl_kv_cache_size *out);

/**
 * Makes a cache; its memory is zeroed. With `blocks` 0 the number of blocks is the least that any
 * rank can hold, the same on all ranks; a rank without heads imposes no limit.
 *
 *                    whole model                        on rank r
 * K of a layer       [blocks, kv_heads, block_size, head_dim]    its kv heads
 * V of a layer       [blocks, kv_heads, block_size, v_head_dim]  its kv heads
 *
 * @param out  out  NULL on failure; release with tpcl_kv_cache_destroy()
 * Collective: where `blocks` is 0 (on all ranks alike); else no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_ARG (with `blocks` 0 also, on all ranks alike, where no rank has kv heads),
 * TPCL_ERR_SHAPE (a layer's buffer over the device's limit; with `blocks` 0 also, on all ranks
 * alike, memory that does not hold one block), TPCL_ERR_MISMATCH (ranks with
 * unlike block sizes), TPCL_ERR_DEVICE_MEM, TPCL_ERR_NOMEM, TPCL_ERR_DEVICE; where collective those
 * of tpcl_comm, TPCL_ERR_PEER among them.
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
 * Shares the tokens of one sequence with an empty one, by reference: full blocks for good, a last
 * block that is not full until one of the two appends to it and gets its own copy (on the device,
 * in every layer; it takes one free block). Tokens must have been through a pass first.
 *
 * @param from  in  the sequence that has the tokens
 * @param to    in  another one, without tokens
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, no such sequence, @p to has tokens, @p from has tokens that no
 * tpcl_attention_forward() has stored); nothing has changed then.
 */
TPCL_NODISCARD tpcl_status tpcl_kv_cache_fork(tpcl_kv_cache *cache, int from, int to);

/**
 * Forgets all but the first @p length tokens of a sequence and gives up the blocks that held only
 * forgotten ones. The next token appended gets position @p length.
 *
 * @param length  in  0 to the sequence's length
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, no such sequence, a length it does not have).
 */
TPCL_NODISCARD tpcl_status tpcl_kv_cache_truncate(tpcl_kv_cache *cache, int sequence, int length);

/**
 * Gives an empty sequence its first @p length tokens by naming their blocks, for callers that keep
 * a prefix cache of their own. A block that some sequence holds is then shared; a free one is taken
 * with what it still holds: a freed block keeps its contents until another append takes it.
 *
 * @param blocks    in  [n_blocks] numbers in order, each in [0, blocks of the cache), all distinct
 * @param n_blocks  in  ceil(length / block_size)
 * @param length    in  tokens whose K and V the blocks hold, 0 or more
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, no such sequence, one that has tokens, an entry out of range or named
 * twice, another number of blocks than the length needs), TPCL_ERR_SHAPE (longer than `max_length`
 * allows); nothing has changed then.
 */
TPCL_NODISCARD tpcl_status tpcl_kv_cache_assign(tpcl_kv_cache *cache, int sequence,
                                                const int32_t *blocks, int n_blocks, int length);

/**
 * Gives up a sequence's blocks; those that no other sequence shares are free then. Its length is 0.
 * No such sequence, and NULL, are no-ops.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_kv_cache_free(tpcl_kv_cache *cache, int sequence);

/**
 * Queries. NULL and a sequence that the cache does not have give zeros, tpcl_kv_cache_block() -1.
 *
 * - `shape`: (2, layers, blocks, block_size, kv heads of this rank in layer 0, head_dim).
 * - `bytes`, `token_bytes`: memory of K and V on this rank, and of one token in all layers.
 * - `blocks`, `free_blocks`: all of them, and those that no sequence holds.
 * - `length`, `blocks_used`: tokens of a sequence, and blocks it holds, shared ones included.
 * - `block`: the number of a sequence's block @p i, from 0; -1 where it has none.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_kv_cache_shape(const tpcl_kv_cache *cache, int64_t shape[6]);
uint64_t tpcl_kv_cache_bytes(const tpcl_kv_cache *cache);
uint64_t tpcl_kv_cache_token_bytes(const tpcl_kv_cache *cache);
int tpcl_kv_cache_blocks(const tpcl_kv_cache *cache);
int tpcl_kv_cache_free_blocks(const tpcl_kv_cache *cache);
int tpcl_kv_cache_length(const tpcl_kv_cache *cache, int sequence);
int tpcl_kv_cache_blocks_used(const tpcl_kv_cache *cache, int sequence);
int tpcl_kv_cache_block(const tpcl_kv_cache *cache, int sequence, int i);

/**
 * The tokens of one forward pass. Rows of several sequences may be mixed in any order: prompts (or
 * parts of them), single generated tokens, and new tokens behind a prefix that was forked or
 * assigned. A pass is: clear, add for each sequence, upload, then the layers.
 */
typedef struct tpcl_batch tpcl_batch;

/** Zero where a field's comment says so is its default. */
typedef struct tpcl_batch_options {
    int max_tokens; /**< rows of a pass: 1 or more */
    int vocab;      /**< ids must be in [0, vocab); 0 = ids are not looked at */
} tpcl_batch_options;

/**
 * Makes room for the rows of a pass.
 *
 * @param cache  in   of this group; must outlive the batch
 * @param out    out  NULL on failure; release with tpcl_batch_destroy()
 * Collective: no.  Blocks: no.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE (too many tokens for one buffer), TPCL_ERR_NOMEM,
 * TPCL_ERR_DEVICE_MEM.
 */
TPCL_NODISCARD tpcl_status tpcl_batch_create(tpcl_group *group, tpcl_kv_cache *cache,
                                             const tpcl_batch_options *options, tpcl_batch **out);
/**
 * NULL and *NULL are no-ops; sets *batch to NULL.
 *
 * Collective: no.  Blocks: until its last upload has ended.  Allocates: no.  Errors: none.
 */
void tpcl_batch_destroy(tpcl_batch **batch);
/**
 * Empties the batch; the cache keeps the tokens. NULL is a no-op.
 *
 * Collective: no.  Blocks: until its last upload has ended.  Allocates: no.  Errors: none.
 */
void tpcl_batch_clear(tpcl_batch *batch);

/**
 * Appends the next @p n tokens of a sequence, at positions length, length + 1, ... of it, and takes
 * cache blocks for them. A block that another sequence shares is copied first if it must change.
 *
 * @param ids  in  [n]; may be NULL where n is 0
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, no such sequence, batch full, an id outside of the vocabulary),
 * TPCL_ERR_SHAPE (cache full, sequence too long), TPCL_ERR_DEVICE: then neither batch nor cache has
 * changed.
 */
TPCL_NODISCARD tpcl_status tpcl_batch_add(tpcl_batch *batch, int sequence, const int32_t *ids,
                                          int n);
/**
 * Sends the batch to the device; call once after the last add and before the layers.
 *
 * Collective: no.  Blocks: only until the upload before has ended.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, a sequence that was freed or truncated since it was added),
 * TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_batch_upload(tpcl_batch *batch);

/**
 * The last row of each sequence of the batch, in the order in which they were first added: the rows
 * that the LM head needs to go on with each.
 *
 * @param rows  out  room for a number of each sequence of the batch; tpcl_batch_tokens() suffice
 * @param n     out  how many: sequences that have rows in the batch
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: TPCL_ERR_ARG (NULL).
 */
TPCL_NODISCARD tpcl_status tpcl_batch_last_rows(const tpcl_batch *batch, int *rows, int *n);

/**
 * Rows added so far (NULL: 0); their ids on the device after tpcl_batch_upload(), [tokens] I32,
 * what tpcl_embedding_forward() takes (NULL: NULL).
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_batch_tokens(const tpcl_batch *batch);
const tpcl_tensor *tpcl_batch_ids(const tpcl_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
