/* The inside of a KV cache: memory per layer, a block allocator for all layers together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_LAYERS_KV_CACHE_H
#define TPI_LAYERS_KV_CACHE_H

#include <tpcl/kv_cache.h>

#include "layers/group.h"
#include "ops/ops.h"

typedef struct tpi_sequence {
    int length, n_blocks;
    int32_t *blocks; /* [table_width] */
} tpi_sequence;

struct tpcl_kv_cache {
    tpcl_group *group;
    tpcl_kv_cache_desc desc; /* desc.heads is not kept */
    tpcl_head_range *heads;  /* [layers] */
    tpi_kv_layer *layers;
    uint64_t bytes;
    int table_width; /* most blocks of a sequence */
    int n_free;
    int32_t *free_blocks; /* a stack: the lowest number is taken first from a fresh cache */
    tpi_sequence *sequences;
};

/* Takes the blocks for `n` more tokens of a sequence. Nothing changes on failure. */
tpcl_status tpi_kv_cache_extend(tpcl_kv_cache *cache, int sequence, int n);

struct tpcl_batch {
    tpcl_group *group;
    tpcl_kv_cache *cache;
    int max_tokens, n, n_tiles;
    int32_t *host; /* one upload: pos, seq, slot, ids of max_tokens each */
    int32_t *tiles, *table;
    tpcl_tensor *ids, *pos, *seq, *slot; /* [max_tokens] I32 */
    tpcl_tensor *row_tiles;              /* [max_tokens, 2] tiles of several tokens of a sequence */
    tpcl_tensor *dev_table;              /* [max_sequences, table_width] */
    cl_event sent;                       /* the last upload, until `host` may change again */
    bool single_rows;                    /* each tile is one token: decode */
};

#endif
