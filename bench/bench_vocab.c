/* Embedding and LM head as layers: the words are shared out over the ranks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tpcl/reference.h>
#include <tpcl/vocab.h>

#include "data.h"

enum { TOKENS, VOCAB, HIDDEN };
enum kind { EMBEDDING, HEAD };

struct state {
    struct bench_rows rows;
    tpcl_embedding *embedding;
    tpcl_lm_head *head;
    tpcl_tensor *ids, *x, *y;
    int32_t *host_ids;
    float *hx, *got; /* got: rows of the table, or all logits */
    float *want;     /* head: [tokens, rows.rows]; word w is that of row w % rows.rows */
    double scale;
};

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    for (int i = 0; i < plan->tokens.n; i++) {
        out[i][TOKENS] = plan->tokens.v[i];
        out[i][VOCAB] = plan->model.vocab;
        out[i][HIDDEN] = plan->model.hidden;
    }
    return plan->tokens.n;
}

/* A model's head works on a row for each sequence: on --batch rows. */
static int head_shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    for (int i = 0; i < plan->batch.n; i++) {
        out[i][TOKENS] = plan->batch.v[i];
        out[i][VOCAB] = plan->model.vocab;
        out[i][HIDDEN] = plan->model.hidden;
    }
    return plan->batch.n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    tpcl_lm_head_destroy(&s->head);
    tpcl_embedding_destroy(&s->embedding);
    tpcl_tensor_destroy(&s->ids);
    tpcl_tensor_destroy(&s->x);
    tpcl_tensor_destroy(&s->y);
    bench_rows_free(&s->rows);
    free(s->host_ids);
    free(s->hx);
    free(s->got);
    free(s->want);
    free(s);
    r->state = NULL;
}

/* Words from all over the vocabulary, so that every rank has some; the first and the last. */
static tpcl_status setup_embedding(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t tokens = (size_t)r->shape[TOKENS], hidden = (size_t)r->shape[HIDDEN];
    const tpcl_host_tensor weight = bench_rows_host(&s->rows);
    const tpcl_embedding_desc desc = {.weight = &weight};
    uint32_t seed = 11;
    s->host_ids = malloc(tokens * sizeof *s->host_ids);
    s->got = malloc(tokens * hidden * sizeof *s->got);
    s->want = malloc(tokens * hidden * sizeof *s->want);
    TPI_REQUIRE(s->host_ids && s->got && s->want, TPCL_ERR_NOMEM, "%zu rows", tokens);
    for (size_t t = 0; t < tokens; t++) {
        seed = seed * 1664525u + 1013904223u;
        const uint64_t word = (uint64_t)seed * (uint64_t)r->shape[VOCAB] >> 32;
        s->host_ids[t] = t == 1 ? 0 : t == 2 ? (int32_t)r->shape[VOCAB] - 1 : (int32_t)word;
        memcpy(s->want + t * hidden,
               s->rows.wide + (size_t)(s->host_ids[t] % s->rows.rows) * hidden,
               hidden * sizeof *s->want);
    }
    TPI_TRY(tpcl_embedding_create(r->env->group, &desc, &s->embedding));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_I32, s->host_ids, tokens, &s->ids));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, NULL, tokens * hidden, &s->y));
done:
    return status;
}

static tpcl_status setup_head(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t tokens = (size_t)r->shape[TOKENS], in = tokens * (size_t)r->shape[HIDDEN];
    const size_t out = tokens * (size_t)r->shape[VOCAB];
    const tpcl_host_tensor weight = bench_rows_host(&s->rows);
    const tpcl_lm_head_desc desc = {.weight = &weight};
    s->hx = malloc(in * sizeof *s->hx);
    s->got = malloc(out * sizeof *s->got);
    s->want = malloc(tokens * (size_t)s->rows.rows * sizeof *s->want);
    TPI_REQUIRE(s->hx && s->got && s->want, TPCL_ERR_NOMEM, "%zu logits", out);
    bench_fill(s->hx, in, 3);
    for (size_t i = 0; i < out; i++) s->got[i] = NAN;
    tpcl_ref_linear(s->hx, s->rows.wide, NULL, s->want, (int)tokens, s->rows.rows, s->rows.k);
    TPI_TRY(bench_scale(s->hx, &s->rows, &s->scale));
    TPI_TRY(tpcl_lm_head_create(r->env->group, &desc, &s->head));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, s->hx, in, &s->x));
done:
    return status;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "vocabulary state");
    TPI_TRY(bench_rows_create(r->dtype, r->shape[VOCAB], r->shape[HIDDEN], &s->rows));
    TPI_TRY(r->c->kind == HEAD ? setup_head(r, s) : setup_embedding(r, s));
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    const int tokens = (int)r->shape[TOKENS];
    return r->c->kind == HEAD ? tpcl_lm_head_forward(s->head, s->x, NULL, tokens, s->got)
                              : tpcl_embedding_forward(s->embedding, s->ids, s->y, tokens);
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const size_t tokens = (size_t)r->shape[TOKENS], vocab = (size_t)r->shape[VOCAB];
    const size_t n = tokens * (size_t)r->shape[HIDDEN], rows = (size_t)s->rows.rows;
    *max_err = 0.0;
    if (r->c->kind == EMBEDDING) {
        TPI_TRY(tpcl_tensor_read(s->y, s->got, n));
        *max_err = bench_max_error(s->got, s->want, n);
        goto done;
    }
    for (size_t t = 0; t < tokens && r->env->rank == 0; t++) /* the others have no logits */
        for (size_t w = 0; w < vocab; w += rows) {
            const size_t part = vocab - w < rows ? vocab - w : rows;
            const double error = bench_max_error(s->got + t * vocab + w, s->want + t * rows, part);
            *max_err = fmax(*max_err, error / s->scale);
        }
done:
    return status;
}

/* embedding: a row of the table and an id in, a row out; head: this rank's share of the table and x
 * in, its logits out */
static double bytes(const struct bench_run *r)
{
    const struct state *s = r->state;
    const double tokens = (double)r->shape[TOKENS], hidden = (double)r->shape[HIDDEN];
    if (r->c->kind == EMBEDDING)
        return tokens * ((double)s->rows.row_bytes + sizeof(int32_t) + sizeof(float) * hidden);
    const double words = (double)r->shape[VOCAB] / r->env->size;
    return words * (double)s->rows.row_bytes + sizeof(float) * tokens * (hidden + words);
}

static double flops(const struct bench_run *r)
{
    const double words = (double)r->shape[VOCAB] / r->env->size;
    return r->c->kind == EMBEDDING
               ? 0.0
               : 2.0 * (double)r->shape[TOKENS] * words * (double)r->shape[HIDDEN];
}

#define VOCABULARY(id, text, which, list, limit)                         \
    const struct bench_case bench_##id = {.name = "layers/" text,        \
                                          .dims = "tokens,vocab,hidden", \
                                          .dtypes = BENCH_WEIGHTS,       \
                                          .kind = which,                 \
                                          .shapes = list,                \
                                          .setup = setup,                \
                                          .run = run,                    \
                                          .check = check,                \
                                          .teardown = teardown,          \
                                          .bytes = bytes,                \
                                          .flops = flops,                \
                                          .max_err = limit}

VOCABULARY(embedding, "embedding", EMBEDDING, shapes, 5e-7); /* as of ops/embed */
VOCABULARY(head, "head", HEAD, head_shapes, 2e-5);           /* as of ops/linear */
