/* Which sequence has which block. A block may be held by several, which read it; before one of them
 * writes into it, it gets a copy. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "layers/kv_cache.h"

tpi_sequence *tpi_kv_sequence(tpcl_kv_cache *c, int sequence, const char *who)
{
    if (!c) {
        tpi_fail(TPCL_ERR_ARG, "%s: cache is NULL", who);
        return NULL;
    }
    if (sequence < 0 || sequence >= c->desc.max_sequences) {
        tpi_fail(TPCL_ERR_ARG, "%s: sequence %d, the cache has 0 to %d", who, sequence,
                 c->desc.max_sequences - 1);
        return NULL;
    }
    return &c->sequences[sequence];
}

static int blocks_for(const tpcl_kv_cache *c, int64_t tokens)
{
    return (int)((tokens + c->desc.block_size - 1) / c->desc.block_size);
}

static int32_t take(tpcl_kv_cache *c)
{
    const int32_t block = c->free_blocks[--c->n_free];
    c->holders[block] = 1;
    return block;
}

static void give_back(tpcl_kv_cache *c, int32_t block)
{
    if (--c->holders[block] == 0) c->free_blocks[c->n_free++] = block;
}

/* Copies a block in every layer, in the queue: behind the pass that stored it. */
static tpcl_status copy_block(tpcl_kv_cache *c, int32_t from, int32_t to)
{
    tpcl_status status = TPCL_OK;
    for (int l = 0; l < c->desc.layers; l++) {
        for (int v = 0; v < 2; v++) {
            const size_t bytes = tpi_block_bytes(c, l, v);
            const cl_mem mem = v ? c->layers[l].v : c->layers[l].k;
            if (bytes == 0) continue;
            TPI_TRY(TPI_CL(clEnqueueCopyBuffer(c->group->dev->queue, mem, mem, (size_t)from * bytes,
                                               (size_t)to * bytes, bytes, 0, NULL, NULL)));
        }
    }
done:
    return status;
}

tpcl_status tpi_kv_cache_extend(tpcl_kv_cache *c, int sequence, int n)
{
    tpcl_status status = TPCL_OK;
    tpi_sequence *s = &c->sequences[sequence];
    const int size = c->desc.block_size;
    int32_t *last = s->n_blocks ? &s->blocks[s->n_blocks - 1] : NULL;
    const bool copy = n > 0 && s->length % size != 0 && c->holders[*last] > 1;
    TPI_REQUIRE(n <= c->desc.max_length - s->length, TPCL_ERR_SHAPE,
                "KV cache: sequence %d of %d tokens gets %d more, the longest may have %d",
                sequence, s->length, n, c->desc.max_length);
    const int need = blocks_for(c, (int64_t)s->length + n) - s->n_blocks;
    TPI_REQUIRE(need + copy <= c->n_free, TPCL_ERR_SHAPE,
                "KV cache full: sequence %d of %d tokens needs %d more, %d blocks of %d are free",
                sequence, s->length, n, c->n_free, size);
    if (copy) {
        TPI_TRY(copy_block(c, *last, c->free_blocks[c->n_free - 1]));
        give_back(c, *last);
        *last = take(c);
    }
    for (int b = 0; b < need; b++) s->blocks[s->n_blocks++] = take(c);
    if (copy || need) c->changes++;
    s->length += n;
done:
    return status;
}

static void cut(tpcl_kv_cache *c, tpi_sequence *s, int length)
{
    const int keep = blocks_for(c, length);
    while (s->n_blocks > keep) give_back(c, s->blocks[--s->n_blocks]);
    if (length < s->length) s->cuts++;
    s->length = length;
    if (s->stored > length) s->stored = length;
    c->changes++;
}

void tpcl_kv_cache_free(tpcl_kv_cache *c, int sequence)
{
    if (c && sequence >= 0 && sequence < c->desc.max_sequences) cut(c, &c->sequences[sequence], 0);
}

tpcl_status tpcl_kv_cache_truncate(tpcl_kv_cache *c, int sequence, int length)
{
    tpi_sequence *s = tpi_kv_sequence(c, sequence, "truncate");
    if (!s) return TPCL_ERR_ARG;
    if (length < 0 || length > s->length)
        return tpi_fail(TPCL_ERR_ARG, "truncate: %d tokens of sequence %d, which has %d", length,
                        sequence, s->length);
    cut(c, s, length);
    return TPCL_OK;
}

tpcl_status tpcl_kv_cache_fork(tpcl_kv_cache *c, int from, int to)
{
    tpcl_status status = TPCL_OK;
    const tpi_sequence *a = tpi_kv_sequence(c, from, "fork");
    tpi_sequence *b = a ? tpi_kv_sequence(c, to, "fork") : NULL;
    if (!b) return TPCL_ERR_ARG;
    TPI_REQUIRE(b->length == 0, TPCL_ERR_ARG, "fork: sequence %d has %d tokens, need none", to,
                b->length);
    TPI_REQUIRE(a->stored == a->length, TPCL_ERR_ARG,
                "fork: sequence %d has %d tokens, %d of them stored; attend to its batch first",
                from, a->length, a->stored);
    memcpy(b->blocks, a->blocks, (size_t)a->n_blocks * sizeof *b->blocks);
    for (int i = 0; i < a->n_blocks; i++) c->holders[a->blocks[i]]++;
    b->n_blocks = a->n_blocks;
    b->length = b->stored = a->length;
    c->changes++;
done:
    return status;
}

static tpcl_status check_blocks(const tpcl_kv_cache *c, const int32_t *blocks, int n)
{
    tpcl_status status = TPCL_OK;
    for (int i = 0; i < n; i++) {
        TPI_REQUIRE(blocks[i] >= 0 && blocks[i] < c->desc.blocks, TPCL_ERR_ARG,
                    "assign: entry %d is block %d, the cache has 0 to %d", i, blocks[i],
                    c->desc.blocks - 1);
        for (int j = 0; j < i; j++)
            TPI_REQUIRE(blocks[i] != blocks[j], TPCL_ERR_ARG,
                        "assign: entries %d and %d are both block %d", j, i, blocks[i]);
    }
done:
    return status;
}

/* A free block becomes this sequence's; one that is held, one more's. */
static void hold(tpcl_kv_cache *c, int32_t block)
{
    if (c->holders[block]++ > 0) return;
    int i = 0;
    while (c->free_blocks[i] != block) i++;
    memmove(c->free_blocks + i, c->free_blocks + i + 1,
            (size_t)(--c->n_free - i) * sizeof *c->free_blocks);
}

tpcl_status tpcl_kv_cache_assign(tpcl_kv_cache *c, int sequence, const int32_t *blocks,
                                 int n_blocks, int length)
{
    tpcl_status status = TPCL_OK;
    tpi_sequence *s = tpi_kv_sequence(c, sequence, "assign");
    if (!s) return TPCL_ERR_ARG;
    TPI_REQUIRE(blocks || n_blocks == 0, TPCL_ERR_ARG, "assign: blocks is NULL");
    TPI_REQUIRE(s->length == 0, TPCL_ERR_ARG, "assign: sequence %d has %d tokens, need none",
                sequence, s->length);
    TPI_REQUIRE(length >= 0, TPCL_ERR_ARG, "assign: %d tokens, need 0 or more", length);
    TPI_REQUIRE(length <= c->desc.max_length, TPCL_ERR_SHAPE,
                "assign: %d tokens, the longest sequence may have %d", length, c->desc.max_length);
    TPI_REQUIRE(n_blocks == blocks_for(c, length), TPCL_ERR_ARG,
                "assign: %d blocks for %d tokens, need %d of %d", n_blocks, length,
                blocks_for(c, length), c->desc.block_size);
    TPI_TRY(check_blocks(c, blocks, n_blocks));
    for (int i = 0; i < n_blocks; i++) {
        hold(c, blocks[i]);
        s->blocks[i] = blocks[i];
    }
    s->n_blocks = n_blocks;
    s->length = s->stored = length;
    c->changes++;
done:
    return status;
}
