/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "layers/kv_cache.h"

/* Rows of `host`. */
enum { IDS, POS, SEQ, SLOT, ARRAYS };

static int32_t *array(const tpcl_batch *b, int which)
{
    return b->host + (size_t)which * (size_t)b->max_tokens;
}

tpcl_status tpcl_batch_create(tpcl_group *group, tpcl_kv_cache *cache, int max_tokens,
                              tpcl_batch **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_batch *b = NULL;

    TPI_REQUIRE(group && cache && out, TPCL_ERR_ARG, "batch: a pointer is NULL");
    *out = NULL;
    TPI_REQUIRE(max_tokens >= 1, TPCL_ERR_ARG, "batch of %d tokens", max_tokens);
    b = calloc(1, sizeof *b);
    TPI_REQUIRE(b, TPCL_ERR_NOMEM, "batch object");
    b->group = group;
    b->cache = cache;
    b->max_tokens = max_tokens;
    const int64_t n[1] = {max_tokens}, tiles[2] = {max_tokens, 2};
    const int64_t table[2] = {cache->desc.max_sequences, cache->table_width};
    b->host = calloc((size_t)max_tokens * ARRAYS, sizeof *b->host);
    b->tiles = calloc((size_t)max_tokens * 2, sizeof *b->tiles);
    b->table = calloc((size_t)(table[0] * table[1]), sizeof *b->table);
    TPI_REQUIRE(b->host && b->tiles && b->table, TPCL_ERR_NOMEM, "batch of %d tokens", max_tokens);
    TPI_TRY(tpcl_tensor_create(group->dev, TPCL_I32, 1, n, &b->ids));
    TPI_TRY(tpcl_tensor_create(group->dev, TPCL_I32, 1, n, &b->pos));
    TPI_TRY(tpcl_tensor_create(group->dev, TPCL_I32, 1, n, &b->seq));
    TPI_TRY(tpcl_tensor_create(group->dev, TPCL_I32, 1, n, &b->slot));
    TPI_TRY(tpcl_tensor_create(group->dev, TPCL_I32, 2, tiles, &b->row_tiles));
    TPI_TRY(tpcl_tensor_create(group->dev, TPCL_I32, 2, table, &b->dev_table));
    *out = b;
    b = NULL;
done:
    tpcl_batch_destroy(&b);
    return status;
}

/* The queue reads the host arrays when it gets there: with one rank, a whole pass later. */
static void wait_sent(tpcl_batch *b)
{
    if (!b->sent) return;
    clWaitForEvents(1, &b->sent);
    clReleaseEvent(b->sent);
    b->sent = NULL;
}

void tpcl_batch_destroy(tpcl_batch **batch)
{
    if (!batch || !*batch) return;
    tpcl_batch *b = *batch;
    *batch = NULL;
    wait_sent(b);
    tpcl_tensor **tensors[] = {&b->ids, &b->pos, &b->seq, &b->slot, &b->row_tiles, &b->dev_table};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) tpcl_tensor_destroy(tensors[i]);
    free(b->host);
    free(b->tiles);
    free(b->table);
    free(b);
}

void tpcl_batch_clear(tpcl_batch *b)
{
    wait_sent(b);
    b->n = 0;
}

tpcl_status tpcl_batch_add(tpcl_batch *b, int sequence, const int32_t *ids, int n)
{
    tpcl_status status = TPCL_OK;
    tpcl_kv_cache *c = b->cache;
    TPI_REQUIRE(sequence >= 0 && sequence < c->desc.max_sequences, TPCL_ERR_ARG,
                "batch: sequence %d, the cache has %d", sequence, c->desc.max_sequences);
    TPI_REQUIRE(n >= 0 && n <= b->max_tokens - b->n, TPCL_ERR_ARG,
                "batch: %d tokens beside %d, it holds %d", n, b->n, b->max_tokens);
    const int first = c->sequences[sequence].length, size = c->desc.block_size;
    TPI_TRY(tpi_kv_cache_extend(c, sequence, n));
    for (int i = 0; i < n; i++) {
        const int pos = first + i, at = b->n + i;
        array(b, IDS)[at] = ids[i];
        array(b, POS)[at] = pos;
        array(b, SEQ)[at] = sequence;
        array(b, SLOT)[at] = c->sequences[sequence].blocks[pos / size] * size + pos % size;
    }
    b->n += n;
done:
    return status;
}

/* Neighbouring tokens of a sequence share a tile, up to the pairs that attention keeps at once. */
static void make_tiles(tpcl_batch *b)
{
    const int32_t *seq = array(b, SEQ), *pos = array(b, POS);
    b->n_tiles = 0;
    b->single_rows = true;
    for (int t = 0; t < b->n;) {
        int rows = 1;
        while (rows < TPI_ATTENTION_PAIRS && t + rows < b->n && seq[t + rows] == seq[t] &&
               pos[t + rows] == pos[t] + rows)
            rows++;
        b->tiles[2 * b->n_tiles] = t;
        b->tiles[2 * b->n_tiles + 1] = rows;
        b->n_tiles++;
        if (rows > 1) b->single_rows = false;
        t += rows;
    }
}

static tpcl_status send(tpcl_tensor *to, const void *from, size_t elements, cl_event *sent)
{
    if (elements == 0) return TPCL_OK;
    return TPI_CL(clEnqueueWriteBuffer(to->dev->queue, to->mem, CL_FALSE, 0, elements * 4, from, 0,
                                       NULL, sent));
}

tpcl_status tpcl_batch_upload(tpcl_batch *b)
{
    tpcl_status status = TPCL_OK;
    const tpcl_kv_cache *c = b->cache;
    const size_t n = (size_t)b->n, width = (size_t)c->table_width;
    wait_sent(b);
    make_tiles(b);
    for (int s = 0; s < c->desc.max_sequences; s++)
        memcpy(b->table + (size_t)s * width, c->sequences[s].blocks, width * sizeof *b->table);
    TPI_TRY(send(b->ids, array(b, IDS), n, NULL));
    TPI_TRY(send(b->pos, array(b, POS), n, NULL));
    TPI_TRY(send(b->seq, array(b, SEQ), n, NULL));
    TPI_TRY(send(b->slot, array(b, SLOT), n, NULL));
    TPI_TRY(send(b->row_tiles, b->tiles, 2 * (size_t)b->n_tiles, NULL));
    TPI_TRY(send(b->dev_table, b->table, (size_t)c->desc.max_sequences * width, &b->sent));
done:
    return status;
}

int tpcl_batch_tokens(const tpcl_batch *batch)
{
    return batch ? batch->n : 0;
}

const tpcl_tensor *tpcl_batch_ids(const tpcl_batch *batch)
{
    return batch ? batch->ids : NULL;
}
