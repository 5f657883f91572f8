/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <tpcl/vocab.h>

#include "layers/group.h"
#include "ops/ops.h"

enum { HEAD_ROWS = 16 }; /* rows of one product; more go in turns */

struct tpcl_embedding {
    tpcl_group *group;
    tpi_weight *weight;
    tpcl_range *rows; /* [size] */
    int dim;
};

struct tpcl_lm_head {
    tpcl_group *group;
    tpcl_embedding *own; /* its weight, where it is not tied */
    const tpcl_embedding *rows;
    tpcl_tensor *x, *logits; /* [HEAD_ROWS, dim] hidden rows, [HEAD_ROWS, words] their logits */
    float *host;             /* [HEAD_ROWS, words] */
    size_t *bytes;           /* [size] of one row on each rank */
    int64_t vocab;
};

tpcl_status tpcl_embedding_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                  const tpcl_range *rows, tpcl_embedding **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_embedding *e = NULL;

    TPI_REQUIRE(group && weight && out, TPCL_ERR_ARG, "embedding: a pointer is NULL");
    *out = NULL;
    TPI_REQUIRE(weight->ndim == 2 && weight->shape[0] <= INT32_MAX, TPCL_ERR_SHAPE,
                "%s: %d dimensions, need [vocab, dim]", weight->name, weight->ndim);
    e = calloc(1, sizeof *e);
    TPI_REQUIRE(e, TPCL_ERR_NOMEM, "embedding object");
    e->group = group;
    e->dim = (int)weight->shape[1];
    e->rows = malloc((size_t)group->size * sizeof *e->rows);
    TPI_REQUIRE(e->rows, TPCL_ERR_NOMEM, "ranges of %d ranks", group->size);
    if (rows)
        memcpy(e->rows, rows, (size_t)group->size * sizeof *rows);
    else
        TPI_TRY(tpcl_shard_split(weight->shape[0], 1, group->size, group->weights, 0, e->rows));
    const tpcl_range mine = e->rows[group->rank];
    const tpi_part part = {weight, mine.begin, mine.end, 0, e->dim};
    TPI_TRY(tpi_weight_create(group->dev, &part, 1, &e->weight));
    *out = e;
    e = NULL;
done:
    tpcl_embedding_destroy(&e);
    return status;
}

void tpcl_embedding_destroy(tpcl_embedding **layer)
{
    if (!layer || !*layer) return;
    tpi_weight_destroy(&(*layer)->weight);
    free((*layer)->rows);
    free(*layer);
    *layer = NULL;
}

tpcl_status tpcl_embedding_partial(tpcl_embedding *e, const tpcl_tensor *ids, tpcl_tensor *y,
                                   int tokens)
{
    return tpi_embed(e->weight, ids, y, tokens, (int)e->rows[e->group->rank].begin);
}

tpcl_status tpcl_embedding_forward(tpcl_embedding *e, const tpcl_tensor *ids, tpcl_tensor *y,
                                   int tokens)
{
    const tpcl_status status = tpcl_embedding_partial(e, ids, y, tokens);
    return tpi_reduce(e->group, status, y, (size_t)tokens * (size_t)e->dim);
}

uint64_t tpcl_embedding_bytes(const tpcl_embedding *layer)
{
    return layer->weight->bytes;
}

static tpcl_status head_buffers(tpcl_lm_head *h)
{
    tpcl_status status = TPCL_OK;
    tpcl_group *g = h->group;
    const int64_t words = tpcl_range_size(h->rows->rows[g->rank]);
    const int64_t x_shape[2] = {HEAD_ROWS, h->rows->dim}, logits_shape[2] = {HEAD_ROWS, words};
    h->host = malloc(HEAD_ROWS * (size_t)words * sizeof *h->host + 1);
    h->bytes = malloc((size_t)g->size * sizeof *h->bytes);
    TPI_REQUIRE(h->host && h->bytes, TPCL_ERR_NOMEM, "logits of %lld words", (long long)words);
    for (int r = 0; r < g->size; r++) {
        const int64_t n = tpcl_range_size(h->rows->rows[r]);
        h->bytes[r] = (size_t)n * sizeof *h->host;
        h->vocab += n;
    }
    TPI_TRY(tpcl_tensor_create(g->dev, TPCL_F32, 2, x_shape, &h->x));
    TPI_TRY(tpcl_tensor_create(g->dev, TPCL_F32, 2, logits_shape, &h->logits));
done:
    return status;
}

tpcl_status tpcl_lm_head_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                tpcl_embedding *tied, const tpcl_range *rows, tpcl_lm_head **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_lm_head *h = NULL;

    TPI_REQUIRE(group && out, TPCL_ERR_ARG, "lm head: a pointer is NULL");
    *out = NULL;
    h = calloc(1, sizeof *h);
    TPI_REQUIRE(h, TPCL_ERR_NOMEM, "lm head object");
    h->group = group;
    if (!tied) TPI_TRY(tpcl_embedding_create(group, weight, rows, &h->own));
    h->rows = tied ? tied : h->own;
    TPI_TRY(head_buffers(h));
    *out = h;
    h = NULL;
done:
    tpcl_lm_head_destroy(&h);
    return status;
}

void tpcl_lm_head_destroy(tpcl_lm_head **layer)
{
    if (!layer || !*layer) return;
    tpcl_lm_head *h = *layer;
    *layer = NULL;
    tpcl_embedding_destroy(&h->own);
    tpcl_tensor_destroy(&h->x);
    tpcl_tensor_destroy(&h->logits);
    free(h->host);
    free(h->bytes);
    free(h);
}

/* This rank's words of n <= HEAD_ROWS rows, to h->host. */
static tpcl_status local_logits(tpcl_lm_head *h, const tpcl_tensor *x, int row, int n)
{
    tpcl_status status = TPCL_OK;
    cl_command_queue queue = h->group->dev->queue;
    const size_t row_bytes = (size_t)h->rows->dim * sizeof(float);
    const size_t mine = h->bytes[h->group->rank] * (size_t)n;
    if (mine == 0) goto done;
    TPI_TRY(TPI_CL(clEnqueueCopyBuffer(queue, x->mem, h->x->mem, (size_t)row * row_bytes, 0,
                                       (size_t)n * row_bytes, 0, NULL, NULL)));
    TPI_TRY(tpi_linear(h->rows->weight, h->x, NULL, h->logits, n));
    TPI_TRY(TPI_CL(
        clEnqueueReadBuffer(queue, h->logits->mem, CL_TRUE, 0, mine, h->host, 0, NULL, NULL)));
done:
    return status;
}

tpcl_status tpcl_lm_head_forward(tpcl_lm_head *h, const tpcl_tensor *x, int row, int n,
                                 float *logits)
{
    tpcl_status status = TPCL_OK;
    const int rank = h->group->rank;
    const size_t words = h->bytes[rank] / sizeof(float);
    if (row < 0 || n < 0 || ((uint64_t)row + (uint64_t)n) * (uint64_t)h->rows->dim > x->bytes / 4)
        TPI_FAIL(TPCL_ERR_SHAPE, "lm head: rows %d..%d of a tensor of %zu elements", row, row + n,
                 x->bytes / 4);
    for (int done_rows = 0; done_rows < n; done_rows += HEAD_ROWS) {
        const int rows = n - done_rows < HEAD_ROWS ? n - done_rows : HEAD_ROWS;
        if (status == TPCL_OK) status = local_logits(h, x, row + done_rows, rows);
        for (int i = 0; i < rows; i++) {
            float *out =
                rank == 0 && logits ? logits + (size_t)(done_rows + i) * (size_t)h->vocab : NULL;
            TPI_TRY(tpcl_comm_gather(h->group->comm, status, h->host + (size_t)i * words, h->bytes,
                                     out, 0));
        }
    }
done:
    return status;
}

uint64_t tpcl_lm_head_bytes(const tpcl_lm_head *layer)
{
    return layer->own ? tpcl_embedding_bytes(layer->own) : 0;
}
