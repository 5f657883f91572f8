/* The inside of a KV cache: memory per layer, a block allocator for all layers together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_LAYERS_KV_CACHE_H
#define TPI_LAYERS_KV_CACHE_H

#include <tpcl/kv_cache.h>

#include "layers/group.h"
#include "ops/ops.h"

typedef struct tpi_sequence {
    int length, n_blocks;
    int stored;      /* tokens whose K and V a pass has stored, or queued to be */
    int32_t *blocks; /* [table_width] */
    unsigned cuts;   /* how often tokens were taken away: rows added before are then void */
} tpi_sequence;

struct tpcl_kv_cache {
    tpcl_group *group;
    tpcl_kv_cache_desc desc; /* its zeros replaced by what they stand for; heads is not kept */
    tpcl_head_range *heads;  /* [layers] */
    tpi_kv_layer *layers;
    uint64_t bytes;
    int table_width; /* most blocks of a sequence */
    int n_free;
    int32_t *free_blocks; /* a stack: the lowest number is taken first from a fresh cache */
    int32_t *holders;     /* [blocks] sequences that have the block; 0 = free */
    tpi_sequence *sequences;
    unsigned changes; /* of block tables; a batch sends them again after one */
};

/* Bytes of one block of K and of V in a layer with that many kv heads. */
static inline size_t tpi_block_bytes(const tpcl_kv_cache *c, int layer, bool v)
{
    const size_t rows = (size_t)tpcl_range_size(c->heads[layer].kv) * (size_t)c->desc.block_size;
    return rows * (size_t)(v ? c->desc.v_head_dim : c->desc.head_dim) * (c->desc.f32 ? 4 : 2);
}

/* The sequence, or NULL with a message that begins with `who`. */
tpi_sequence *tpi_kv_sequence(tpcl_kv_cache *cache, int sequence, const char *who);

/* Room for `n` more tokens of a sequence: takes blocks, and copies a last one that others share.
 * Nothing changes on failure. */
tpcl_status tpi_kv_cache_extend(tpcl_kv_cache *cache, int sequence, int n);

/* One sequence's rows of a batch. */
typedef struct tpi_batch_run {
    int sequence, last_row, end; /* its last row here, and the length that it then has */
    unsigned cuts;               /* of the sequence when rows were added */
} tpi_batch_run;

struct tpcl_batch {
    tpcl_group *group;
    tpcl_kv_cache *cache;
    int max_tokens, vocab, n, n_tiles, n_runs;
    int end;       /* the greatest position of the batch, plus one */
    bool uploaded; /* since the last add or clear */
    int32_t *host; /* ids, pos, seq, slot of max_tokens each */
    int32_t *tiles, *table;
    tpi_batch_run *runs;                 /* [n_runs], in the order of the first rows */
    tpcl_tensor *ids, *pos, *seq, *slot; /* [max_tokens] I32 */
    tpcl_tensor *row_tiles;              /* [max_tokens, 2] tiles of several tokens of a sequence */
    tpcl_tensor *dev_table;              /* [max_sequences, table_width] */
    bool has_table;
    unsigned table_changes; /* cache->changes when the table was sent */
    cl_event sent;          /* the last upload, until `host` may change again */
    bool single_rows;       /* each tile is one token: decode */
};

/* What every use of an uploaded batch asks. */
tpcl_status tpi_batch_check(const tpcl_batch *batch, const tpcl_kv_cache *cache, const char *who);
/* The batch's K and V are in all layers, or queued: its sequences may be forked. */
void tpi_batch_stored(const tpcl_batch *batch);

#endif
