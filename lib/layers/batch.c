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

static tpcl_status create_host(tpcl_batch *b)
{
    tpcl_status status = TPCL_OK;
    const size_t n = (size_t)b->max_tokens, sequences = (size_t)b->cache->desc.max_sequences;
    b->host = calloc(n * ARRAYS, sizeof *b->host);
    b->tiles = calloc(n * 2, sizeof *b->tiles);
    b->table = calloc(sequences * (size_t)b->cache->table_width, sizeof *b->table);
    b->runs = calloc(sequences, sizeof *b->runs);
    TPI_REQUIRE(b->host && b->tiles && b->table && b->runs, TPCL_ERR_NOMEM, "batch of %d tokens",
                b->max_tokens);
done:
    return status;
}

tpcl_status tpcl_batch_create(tpcl_group *group, tpcl_kv_cache *cache,
                              const tpcl_batch_options *options, tpcl_batch **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_batch *b = NULL;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "batch: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "batch: group is NULL");
    TPI_REQUIRE(cache, TPCL_ERR_ARG, "batch: cache is NULL");
    TPI_REQUIRE(options, TPCL_ERR_ARG, "batch: options is NULL");
    TPI_REQUIRE(cache->group == group, TPCL_ERR_ARG, "batch: the cache is of another group");
    TPI_REQUIRE(options->max_tokens >= 1, TPCL_ERR_ARG, "batch of %d tokens, need 1 or more",
                options->max_tokens);
    TPI_REQUIRE(options->vocab >= 0, TPCL_ERR_ARG, "batch: vocab %d, need 0 or more",
                options->vocab);
    b = calloc(1, sizeof *b);
    TPI_REQUIRE(b, TPCL_ERR_NOMEM, "batch object");
    b->group = group;
    b->cache = cache;
    b->max_tokens = options->max_tokens;
    b->vocab = options->vocab;
    TPI_TRY(create_host(b));
    const int64_t n[1] = {b->max_tokens}, tiles[2] = {b->max_tokens, 2};
    const int64_t table[2] = {cache->desc.max_sequences, cache->table_width};
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
    free(b->runs);
    free(b);
}

void tpcl_batch_clear(tpcl_batch *b)
{
    if (!b) return;
    wait_sent(b);
    b->n = b->n_runs = b->end = 0;
    b->uploaded = false;
}

static tpcl_status check_add(const tpcl_batch *b, const int32_t *ids, int n)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(n >= 0 && n <= b->max_tokens - b->n, TPCL_ERR_ARG,
                "batch: %d tokens beside %d, it holds %d", n, b->n, b->max_tokens);
    TPI_REQUIRE(ids || n == 0, TPCL_ERR_ARG, "batch: ids is NULL");
    for (int i = 0; b->vocab > 0 && i < n; i++)
        TPI_REQUIRE(ids[i] >= 0 && ids[i] < b->vocab, TPCL_ERR_ARG,
                    "batch: id %d at place %d, the vocabulary has 0 to %d", ids[i], i,
                    b->vocab - 1);
done:
    return status;
}

static tpi_batch_run *run_of(tpcl_batch *b, int sequence)
{
    for (int i = 0; i < b->n_runs; i++)
        if (b->runs[i].sequence == sequence) return &b->runs[i];
    b->runs[b->n_runs] =
        (tpi_batch_run){.sequence = sequence, .cuts = b->cache->sequences[sequence].cuts};
    return &b->runs[b->n_runs++];
}

tpcl_status tpcl_batch_add(tpcl_batch *b, int sequence, const int32_t *ids, int n)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(b, TPCL_ERR_ARG, "batch: batch is NULL");
    tpcl_kv_cache *c = b->cache;
    const tpi_sequence *s = tpi_kv_sequence(c, sequence, "batch");
    if (!s) return TPCL_ERR_ARG;
    TPI_TRY(check_add(b, ids, n));
    if (n == 0) goto done;
    wait_sent(b);
    const int first = s->length, size = c->desc.block_size;
    TPI_TRY(tpi_kv_cache_extend(c, sequence, n));
    for (int i = 0; i < n; i++) {
        const int pos = first + i, at = b->n + i;
        array(b, IDS)[at] = ids[i];
        array(b, POS)[at] = pos;
        array(b, SEQ)[at] = sequence;
        array(b, SLOT)[at] = s->blocks[pos / size] * size + pos % size;
    }
    b->n += n;
    b->uploaded = false;
    if (s->length > b->end) b->end = s->length;
    tpi_batch_run *run = run_of(b, sequence);
    run->last_row = b->n - 1;
    run->end = s->length;
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
    return TPI_CL(clEnqueueWriteBuffer(to->dev->queue, to->mem, CL_FALSE, 0, elements * 4, from, 0,
                                       NULL, sent));
}

/* Block tables change once in a block of tokens. What was sent before has arrived: wait_sent(). */
static tpcl_status send_table(tpcl_batch *b)
{
    tpcl_status status = TPCL_OK;
    const tpcl_kv_cache *c = b->cache;
    const size_t width = (size_t)c->table_width;
    if (b->has_table && b->table_changes == c->changes) goto done;
    b->has_table = false;
    for (int s = 0; s < c->desc.max_sequences; s++)
        memcpy(b->table + (size_t)s * width, c->sequences[s].blocks, width * sizeof *b->table);
    TPI_TRY(send(b->dev_table, b->table, (size_t)c->desc.max_sequences * width, NULL));
    b->has_table = true;
    b->table_changes = c->changes;
done:
    return status;
}

/* Rows of tokens that were taken away meanwhile would go to blocks that others may have. */
static tpcl_status check_runs(const tpcl_batch *b)
{
    tpcl_status status = TPCL_OK;
    for (int i = 0; i < b->n_runs; i++) {
        const tpi_sequence *s = &b->cache->sequences[b->runs[i].sequence];
        TPI_REQUIRE(s->cuts == b->runs[i].cuts, TPCL_ERR_ARG,
                    "batch: sequence %d was freed or truncated after %d rows of it were added; "
                    "clear the batch",
                    b->runs[i].sequence, b->n);
    }
done:
    return status;
}

static tpcl_status send_all(tpcl_batch *b)
{
    tpcl_status status = TPCL_OK;
    const size_t n = (size_t)b->n;
    TPI_TRY(send_table(b));
    TPI_TRY(send(b->ids, array(b, IDS), n, NULL));
    TPI_TRY(send(b->pos, array(b, POS), n, NULL));
    TPI_TRY(send(b->seq, array(b, SEQ), n, NULL));
    TPI_TRY(send(b->slot, array(b, SLOT), n, NULL));
    TPI_TRY(send(b->row_tiles, b->tiles, 2 * (size_t)b->n_tiles, &b->sent));
done:
    /* Without the last one's event nothing else tells when the host arrays may change. */
    if (status != TPCL_OK) (void)clFinish(b->group->dev->queue);
    return status;
}

tpcl_status tpcl_batch_upload(tpcl_batch *b)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(b, TPCL_ERR_ARG, "batch: batch is NULL");
    TPI_TRY(check_runs(b));
    wait_sent(b);
    b->uploaded = false;
    if (b->n == 0) goto done;
    make_tiles(b);
    TPI_TRY(send_all(b));
    b->uploaded = true;
done:
    return status;
}

tpcl_status tpi_batch_check(const tpcl_batch *b, const tpcl_kv_cache *cache, const char *who)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(b, TPCL_ERR_ARG, "%s: batch is NULL", who);
    TPI_REQUIRE(cache, TPCL_ERR_ARG, "%s: cache is NULL", who);
    TPI_REQUIRE(b->cache == cache, TPCL_ERR_ARG, "%s: the batch is of another cache", who);
    TPI_REQUIRE(b->uploaded || b->n == 0, TPCL_ERR_ARG,
                "%s: the batch of %d tokens was not uploaded after its last change", who, b->n);
    TPI_TRY(check_runs(b));
done:
    return status;
}

void tpi_batch_stored(const tpcl_batch *b)
{
    for (int i = 0; i < b->n_runs; i++) {
        tpi_sequence *s = &b->cache->sequences[b->runs[i].sequence];
        if (b->runs[i].end > s->stored) s->stored = b->runs[i].end;
    }
}

tpcl_status tpcl_batch_last_rows(const tpcl_batch *b, int *rows, int *n)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(b, TPCL_ERR_ARG, "batch: batch is NULL");
    TPI_REQUIRE(rows, TPCL_ERR_ARG, "batch: rows is NULL");
    TPI_REQUIRE(n, TPCL_ERR_ARG, "batch: n is NULL");
    for (int i = 0; i < b->n_runs; i++) rows[i] = b->runs[i].last_row;
    *n = b->n_runs;
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
