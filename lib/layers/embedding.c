/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "layers/vocab.h"
#include "ops/checks.h"

enum { DEFAULT_TOKENS = 4096 };

tpcl_status tpcl_embedding_create(tpcl_group *group, const tpcl_embedding_desc *d,
                                  tpcl_embedding **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_embedding *e = NULL;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "embedding: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "embedding: group is NULL");
    TPI_REQUIRE(d, TPCL_ERR_ARG, "embedding: desc is NULL");
    TPI_REQUIRE(d->max_tokens >= 0, TPCL_ERR_ARG, "embedding: max_tokens %d, need 0 (= %d) or more",
                d->max_tokens, DEFAULT_TOKENS);
    e = calloc(1, sizeof *e);
    TPI_REQUIRE(e, TPCL_ERR_NOMEM, "embedding object");
    e->group = group;
    const tpi_vocab_shard_source source = {d->weight, d->added, d->rows, d->added_rows};
    TPI_TRY(tpi_vocab_shard_create(group, &source, &e->vocab));
    e->max_tokens = d->max_tokens ? d->max_tokens : DEFAULT_TOKENS;
    const int64_t n = e->max_tokens;
    TPI_TRY(tpcl_tensor_create(group->dev, TPCL_I32, 1, &n, &e->ids));
    *out = e;
    e = NULL;
done:
    tpcl_embedding_destroy(&e);
    return status;
}

void tpcl_embedding_destroy(tpcl_embedding **layer)
{
    if (!layer || !*layer) return;
    tpi_vocab_shard_free(&(*layer)->vocab);
    tpcl_tensor_destroy(&(*layer)->ids);
    free(*layer);
    *layer = NULL;
}

static tpcl_status check_output(const tpcl_embedding *e, const tpcl_tensor *y, int tokens)
{
    tpcl_status status = TPCL_OK;
    const tpi_operand out = {"embedding y", y, tokens, e->vocab.dim, TPI_WRITTEN};
    TPI_REQUIRE(tokens >= 0, TPCL_ERR_ARG, "embedding: %d tokens, need 0 or more", tokens);
    TPI_TRY(tpi_need_all(&out, 1));
    TPI_REQUIRE(y->dev == e->group->dev, TPCL_ERR_ARG,
                "embedding y is a tensor of another device than the layer");
done:
    return status;
}

static tpcl_status check_ids(const tpcl_tensor *ids, const tpcl_tensor *y, int tokens, int dim)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(tpi_need("embedding ids", ids, tokens, 1));
    TPI_REQUIRE(ids->dtype == TPCL_I32, TPCL_ERR_ARG, "embedding ids: dtype %s, need I32",
                tpcl_dtype_name(ids->dtype));
    TPI_REQUIRE(ids->dev == y->dev, TPCL_ERR_ARG,
                "embedding ids is a tensor of another device than embedding y");
    TPI_REQUIRE(!tpi_tensor_overlap(ids, (size_t)tokens, y, (size_t)tokens * (size_t)dim),
                TPCL_ERR_ARG, "embedding y overlaps embedding ids: give it a tensor of its own");
done:
    return status;
}

/* Arguments have been checked. */
static tpcl_status own_rows(const tpcl_embedding *e, const tpcl_tensor *ids, tpcl_tensor *y,
                            int tokens)
{
    const int rank = e->group->rank;
    const tpi_embed_args args = {.weight = e->vocab.weight,
                                 .ids = ids,
                                 .y = y,
                                 .tokens = tokens,
                                 .base = e->vocab.words[rank],
                                 .added = e->vocab.added[rank],
                                 .vocab = rank == 0 ? e->vocab.vocab : 0};
    return tpi_embed(&args);
}

tpcl_status tpcl_embedding_partial(tpcl_embedding *e, const tpcl_tensor *ids, tpcl_tensor *y,
                                   int tokens)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(e, TPCL_ERR_ARG, "embedding: layer is NULL");
    TPI_TRY(check_output(e, y, tokens));
    TPI_TRY(check_ids(ids, y, tokens, e->vocab.dim));
    TPI_TRY(own_rows(e, ids, y, tokens));
done:
    return status;
}

/* The rest of a collective call, of which this rank says `status`. */
static tpcl_status sum_rows(tpcl_embedding *e, tpcl_status status, tpcl_tensor *y, int tokens)
{
    if (status != TPCL_OK || tokens == 0) return tpi_meet(e->group, status, "embedding");
    return tpi_reduce(e->group, status, y, (size_t)tokens * (size_t)e->vocab.dim);
}

tpcl_status tpcl_embedding_forward(tpcl_embedding *e, const tpcl_tensor *ids, tpcl_tensor *y,
                                   int tokens)
{
    if (!e) return tpi_fail(TPCL_ERR_ARG, "embedding: layer is NULL");
    return sum_rows(e, tpcl_embedding_partial(e, ids, y, tokens), y, tokens);
}

static tpcl_status upload(tpcl_embedding *e, const int32_t *ids, int tokens)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(ids || tokens == 0, TPCL_ERR_ARG, "embedding: ids is NULL");
    TPI_REQUIRE(tokens <= e->max_tokens, TPCL_ERR_SHAPE,
                "embedding: %d tokens, the layer takes %d at a time (max_tokens)", tokens,
                e->max_tokens);
    for (int i = 0; i < tokens; i++)
        TPI_REQUIRE(ids[i] >= 0 && ids[i] < e->vocab.vocab, TPCL_ERR_ARG,
                    "embedding: token %d is id %d, outside the vocabulary of 0 to %d", i,
                    (int)ids[i], e->vocab.vocab - 1);
    TPI_TRY(tpcl_tensor_write(e->ids, ids, (size_t)tokens));
done:
    return status;
}

tpcl_status tpcl_embedding_lookup(tpcl_embedding *e, const int32_t *ids, tpcl_tensor *y, int tokens)
{
    if (!e) return tpi_fail(TPCL_ERR_ARG, "embedding: layer is NULL");
    tpcl_status status = check_output(e, y, tokens);
    if (status == TPCL_OK) status = upload(e, ids, tokens);
    if (status == TPCL_OK) status = own_rows(e, e->ids, y, tokens);
    return sum_rows(e, status, y, tokens);
}

int tpcl_embedding_vocab(const tpcl_embedding *layer)
{
    return layer ? layer->vocab.vocab : 0;
}

int tpcl_embedding_dim(const tpcl_embedding *layer)
{
    return layer ? layer->vocab.dim : 0;
}

tpcl_range tpcl_embedding_words(const tpcl_embedding *layer, int rank)
{
    if (!layer) return (tpcl_range){0, 0};
    return tpi_vocab_shard_words(layer->group, layer->vocab.words, rank);
}

tpcl_range tpcl_embedding_added_words(const tpcl_embedding *layer, int rank)
{
    if (!layer) return (tpcl_range){0, 0};
    return tpi_vocab_shard_words(layer->group, layer->vocab.added, rank);
}

uint64_t tpcl_embedding_bytes(const tpcl_embedding *layer)
{
    return layer ? layer->vocab.weight->bytes : 0;
}
