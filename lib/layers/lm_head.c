/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layers/vocab.h"
#include "ops/checks.h"

enum { HEAD_ROWS = 16 }; /* rows of one product; more go in turns */

struct tpcl_lm_head {
    tpcl_group *group;
    tpi_vocab_shard own;          /* where it is not tied */
    const tpi_vocab_shard *vocab; /* own, or an embedding's */
    tpcl_tensor *bias;            /* of this rank's words, or NULL */
    tpcl_tensor *x;               /* [HEAD_ROWS, dim] hidden rows */
    tpcl_tensor *logits;          /* [HEAD_ROWS, words] */
    float *host;                  /* [HEAD_ROWS, words] */
    size_t *bytes, *added; /* [size] of one row of each rank: its base words, its added words */
    int padding[2];        /* of this rank's words: logits [begin, end) are no words */
    tpcl_lm_head_output output;
};

static tpcl_status check_desc(const tpcl_group *group, const tpcl_lm_head_desc *d)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(d->weight || d->tied, TPCL_ERR_ARG,
                "lm head: neither weight nor tied: one of them has its rows");
    TPI_REQUIRE(!d->tied || (!d->weight && !d->added && !d->rows && !d->added_rows), TPCL_ERR_ARG,
                "lm head: tied, and also weight, added or their rows: give one or the other");
    TPI_REQUIRE(!d->tied || d->tied->group == group, TPCL_ERR_ARG,
                "lm head: tied to an embedding of another group");
    TPI_REQUIRE(d->output == TPCL_LM_HEAD_GATHER || d->output == TPCL_LM_HEAD_ALL_GATHER ||
                    d->output == TPCL_LM_HEAD_SHARDED,
                TPCL_ERR_ARG, "lm head: unknown output %d", (int)d->output);
done:
    return status;
}

/* This rank's base words from `valid` on. */
static tpcl_status set_padding(tpcl_lm_head *h, int valid)
{
    tpcl_status status = TPCL_OK;
    const tpcl_range mine = h->vocab->words[h->group->rank];
    TPI_REQUIRE(valid >= 0 && valid <= h->vocab->base, TPCL_ERR_ARG,
                "lm head: %d valid words of %d (0 = all)", valid, h->vocab->base);
    const int64_t from = valid ? valid : h->vocab->base;
    h->padding[0] = (int)(from < mine.begin ? 0
                          : from > mine.end ? mine.end - mine.begin
                                            : from - mine.begin);
    h->padding[1] = (int)tpcl_range_size(mine);
done:
    return status;
}

static tpcl_status load_bias(tpcl_lm_head *h, const tpcl_host_tensor *bias)
{
    tpcl_status status = TPCL_OK;
    const tpcl_range base = h->vocab->words[h->group->rank],
                     added = h->vocab->added[h->group->rank];
    const int64_t words = h->vocab->weight->n;
    float *values = malloc((size_t)words * sizeof *values + 1);
    TPI_REQUIRE(values, TPCL_ERR_NOMEM, "bias of %lld words", (long long)words);
    TPI_REQUIRE(bias->name, TPCL_ERR_ARG, "lm head: the name of its bias is NULL");
    TPI_REQUIRE(bias->ndim == 1 && bias->shape[0] == h->vocab->vocab, TPCL_ERR_SHAPE,
                "%s: %d dimensions of %lld, need 1 of %d: a number for each word", bias->name,
                bias->ndim, (long long)bias->shape[0], h->vocab->vocab);
    const tpi_part parts[2] = {{bias, 0, 1, base.begin, base.end},
                               {bias, 0, 1, added.begin, added.end}};
    TPI_TRY(tpi_part_check(&parts[0]));
    TPI_TRY(tpi_part_read_f32(&parts[0], 0, values));
    TPI_TRY(tpi_part_read_f32(&parts[1], 0, values + tpcl_range_size(base)));
    TPI_TRY(tpcl_tensor_create(h->group->dev, TPCL_F32, 1, &words, &h->bias));
    TPI_TRY(tpcl_tensor_write(h->bias, values, (size_t)words));
done:
    free(values);
    return status;
}

static tpcl_status head_buffers(tpcl_lm_head *h)
{
    tpcl_status status = TPCL_OK;
    tpcl_group *g = h->group;
    const int64_t words = h->vocab->weight->n;
    const int64_t x_shape[2] = {HEAD_ROWS, h->vocab->dim}, logits_shape[2] = {HEAD_ROWS, words};
    h->host = malloc(HEAD_ROWS * (size_t)words * sizeof *h->host + 1);
    h->bytes = malloc((size_t)g->size * sizeof *h->bytes);
    h->added = malloc((size_t)g->size * sizeof *h->added);
    TPI_REQUIRE(h->host && h->bytes && h->added, TPCL_ERR_NOMEM, "logits of %lld words",
                (long long)words);
    for (int r = 0; r < g->size; r++) {
        h->bytes[r] = (size_t)tpcl_range_size(h->vocab->words[r]) * sizeof *h->host;
        h->added[r] = (size_t)tpcl_range_size(h->vocab->added[r]) * sizeof *h->host;
    }
    TPI_TRY(tpcl_tensor_create(g->dev, TPCL_F32, 2, x_shape, &h->x));
    TPI_TRY(tpcl_tensor_create(g->dev, TPCL_F32, 2, logits_shape, &h->logits));
done:
    return status;
}

tpcl_status tpcl_lm_head_create(tpcl_group *group, const tpcl_lm_head_desc *d, tpcl_lm_head **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_lm_head *h = NULL;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "lm head: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "lm head: group is NULL");
    TPI_REQUIRE(d, TPCL_ERR_ARG, "lm head: desc is NULL");
    TPI_TRY(check_desc(group, d));
    h = calloc(1, sizeof *h);
    TPI_REQUIRE(h, TPCL_ERR_NOMEM, "lm head object");
    h->group = group;
    h->output = d->output;
    h->vocab = d->tied ? &d->tied->vocab : &h->own;
    const tpi_vocab_shard_source source = {d->weight, d->added, d->rows, d->added_rows};
    if (!d->tied) TPI_TRY(tpi_vocab_shard_create(group, &source, &h->own));
    TPI_TRY(set_padding(h, d->valid_vocab));
    if (d->bias) TPI_TRY(load_bias(h, d->bias));
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
    tpi_vocab_shard_free(&h->own);
    tpcl_tensor_destroy(&h->bias);
    tpcl_tensor_destroy(&h->x);
    tpcl_tensor_destroy(&h->logits);
    free(h->host);
    free(h->bytes);
    free(h->added);
    free(h);
}

/* Rows of x, `n` of them from place `at` of `rows` on, to h->x: neighbours in one copy. */
static tpcl_status take_rows(tpcl_lm_head *h, const tpcl_tensor *x, const int *rows, int at, int n)
{
    tpcl_status status = TPCL_OK;
    const size_t row = (size_t)h->vocab->dim * sizeof(float);
    for (int i = 0, run; i < n && row > 0; i += run) {
        const int first = rows ? rows[at + i] : at + i;
        run = rows ? 1 : n - i;
        while (i + run < n && rows && rows[at + i + run] == first + run) run++;
        TPI_TRY(
            TPI_CL(clEnqueueCopyBuffer(h->group->dev->queue, x->mem, h->x->mem, (size_t)first * row,
                                       (size_t)i * row, (size_t)run * row, 0, NULL, NULL)));
    }
done:
    return status;
}

/* This rank's words of n <= HEAD_ROWS rows, to host memory. */
static tpcl_status local_logits(tpcl_lm_head *h, const tpcl_tensor *x, const int *rows, int at,
                                int n, float *to)
{
    tpcl_status status = TPCL_OK;
    const size_t words = (size_t)h->vocab->weight->n;
    if (words == 0) goto done;
    TPI_TRY(take_rows(h, x, rows, at, n));
    TPI_TRY(tpi_linear(h->vocab->weight, h->x, h->bias, h->logits, n));
    TPI_TRY(tpcl_tensor_read(h->logits, to, (size_t)n * words));
    for (int i = 0; i < n; i++)
        for (int w = h->padding[0]; w < h->padding[1]; w++)
            to[(size_t)i * words + (size_t)w] = -INFINITY;
done:
    return status;
}

/* One row of logits: the base words of the ranks in turn, behind them their added words. */
static tpcl_status gather_row(tpcl_lm_head *h, tpcl_status status, const float *mine, float *out)
{
    const int root = h->output == TPCL_LM_HEAD_ALL_GATHER ? -1 : 0;
    const int base = h->vocab->base;
    float *added = out ? out + base : NULL;
    TPI_TRY(tpcl_comm_gather(h->group->comm, status, mine, h->bytes, out, root));
    if (h->vocab->vocab == base) goto done;
    mine += h->bytes[h->group->rank] / sizeof *mine;
    TPI_TRY(tpcl_comm_gather(h->group->comm, TPCL_OK, mine, h->added, added, root));
done:
    return status;
}

static bool receives(const tpcl_lm_head *h)
{
    return h->output != TPCL_LM_HEAD_GATHER || h->group->rank == 0;
}

static tpcl_status check_forward(const tpcl_lm_head *h, const tpcl_tensor *x, const int *rows,
                                 int n, const float *logits)
{
    tpcl_status status = TPCL_OK;
    const tpi_operand in = {"lm head x", x, rows ? 0 : n, h->vocab->dim, TPI_READ};
    TPI_REQUIRE(n >= 0, TPCL_ERR_ARG, "lm head: %d rows, need 0 or more", n);
    TPI_TRY(tpi_need_all(&in, 1));
    TPI_REQUIRE(x->dev == h->group->dev, TPCL_ERR_ARG,
                "lm head x is a tensor of another device than the layer");
    TPI_REQUIRE(logits || n == 0 || !receives(h), TPCL_ERR_ARG, "lm head: logits is NULL");
    const size_t have = h->vocab->dim ? x->bytes / 4 / (size_t)h->vocab->dim : INT32_MAX;
    for (int i = 0; rows && i < n; i++)
        TPI_REQUIRE(rows[i] >= 0 && (size_t)rows[i] < have, TPCL_ERR_ARG,
                    "lm head: entry %d is row %d of x, which has %zu", i, rows[i], have);
done:
    return status;
}

tpcl_status tpcl_lm_head_forward(tpcl_lm_head *h, const tpcl_tensor *x, const int *rows, int n,
                                 float *logits)
{
    if (!h) return tpi_fail(TPCL_ERR_ARG, "lm head: layer is NULL");
    const bool sharded = h->output == TPCL_LM_HEAD_SHARDED;
    const size_t words = (size_t)h->vocab->weight->n, vocab = (size_t)h->vocab->vocab;
    tpcl_status status = check_forward(h, x, rows, n, logits);
    if (status != TPCL_OK || n == 0)
        return sharded ? status : tpi_meet(h->group, status, "lm head");
    if (!receives(h)) logits = NULL;
    for (int at = 0; at < n; at += HEAD_ROWS) {
        const int turn = n - at < HEAD_ROWS ? n - at : HEAD_ROWS;
        float *to = sharded ? logits + (size_t)at * words : h->host;
        status = local_logits(h, x, rows, at, turn, to);
        if (sharded && status != TPCL_OK) goto done;
        for (int i = 0; !sharded && i < turn; i++)
            TPI_TRY(gather_row(h, status, h->host + (size_t)i * words,
                               logits ? logits + (size_t)(at + i) * vocab : NULL));
    }
done:
    return status;
}

int tpcl_lm_head_vocab(const tpcl_lm_head *layer)
{
    return layer ? layer->vocab->vocab : 0;
}

int tpcl_lm_head_n_words(const tpcl_lm_head *layer)
{
    return layer ? layer->vocab->weight->n : 0;
}

tpcl_range tpcl_lm_head_words(const tpcl_lm_head *layer, int rank)
{
    if (!layer) return (tpcl_range){0, 0};
    return tpi_vocab_shard_words(layer->group, layer->vocab->words, rank);
}

tpcl_range tpcl_lm_head_added_words(const tpcl_lm_head *layer, int rank)
{
    if (!layer) return (tpcl_range){0, 0};
    return tpi_vocab_shard_words(layer->group, layer->vocab->added, rank);
}

uint64_t tpcl_lm_head_bytes(const tpcl_lm_head *layer)
{
    if (!layer) return 0;
    return (layer->own.weight ? layer->own.weight->bytes : 0) +
           (layer->bias ? layer->bias->bytes : 0);
}
