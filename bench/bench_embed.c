/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "data.h"
#include "ops/ops.h"

enum { TOKENS, VOCAB, HIDDEN };

struct state {
    struct bench_rows rows;
    tpi_weight *weight;
    tpcl_tensor *ids, *y;
    int32_t *host_ids;
    float *want, *got;
};

static size_t elements(const struct bench_run *r)
{
    return (size_t)r->shape[TOKENS] * (size_t)r->shape[HIDDEN];
}

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    for (int i = 0; i < plan->tokens.n; i++) {
        out[i][TOKENS] = plan->tokens.v[i];
        out[i][VOCAB] = plan->model.vocab;
        out[i][HIDDEN] = plan->model.hidden;
    }
    return plan->tokens.n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    bench_rows_free(&s->rows);
    tpi_weight_destroy(&s->weight);
    tpcl_tensor_destroy(&s->ids);
    tpcl_tensor_destroy(&s->y);
    free(s->host_ids);
    free(s->want);
    free(s->got);
    free(s);
    r->state = NULL;
}

/* Words from all over the vocabulary, the first and the last among them. */
static void choose_words(const struct bench_run *r, struct state *s)
{
    const size_t tokens = (size_t)r->shape[TOKENS], hidden = (size_t)r->shape[HIDDEN];
    uint32_t seed = 11;
    for (size_t t = 0; t < tokens; t++) {
        seed = seed * 1664525u + 1013904223u;
        const uint64_t word = (uint64_t)seed * (uint64_t)r->shape[VOCAB] >> 32;
        s->host_ids[t] = t == 1 ? 0 : t == 2 ? (int32_t)r->shape[VOCAB] - 1 : (int32_t)word;
        memcpy(s->want + t * hidden,
               s->rows.wide + (size_t)(s->host_ids[t] % s->rows.rows) * hidden,
               hidden * sizeof *s->want);
    }
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    const size_t n = elements(r), tokens = (size_t)r->shape[TOKENS];
    tpcl_device *dev = r->env->dev;
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "embed state");
    s->host_ids = malloc(tokens * sizeof *s->host_ids);
    s->want = malloc(n * sizeof *s->want);
    s->got = malloc(n * sizeof *s->got);
    TPI_REQUIRE(s->host_ids && s->want && s->got, TPCL_ERR_NOMEM, "embed of %zu values", n);
    TPI_TRY(bench_rows_create(r->dtype, r->shape[VOCAB], r->shape[HIDDEN], &s->rows));
    TPI_TRY(bench_rows_weight(&s->rows, dev, &s->weight));
    choose_words(r, s);
    TPI_TRY(bench_tensor(dev, TPCL_I32, s->host_ids, tokens, &s->ids));
    TPI_TRY(bench_tensor(dev, TPCL_F32, NULL, n, &s->y));
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    const tpi_embed_args args = {.weight = s->weight,
                                 .ids = s->ids,
                                 .y = s->y,
                                 .tokens = (int)r->shape[TOKENS],
                                 .base = {0, s->weight->n},
                                 .vocab = s->weight->n};
    return tpi_embed(&args);
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    TPI_TRY(tpcl_tensor_read(s->y, s->got, elements(r)));
    *max_err = bench_max_error(s->got, s->want, elements(r));
done:
    return status;
}

/* a row of the table and an id in, a row out */
static double bytes(const struct bench_run *r)
{
    const size_t row = tpi_dtype_bytes(r->dtype, (size_t)r->shape[HIDDEN]);
    return (double)r->shape[TOKENS] * (double)(row + sizeof(int32_t)) +
           sizeof(float) * (double)elements(r);
}

static double flops(const struct bench_run *r)
{
    (void)r;
    return 0.0;
}

const struct bench_case bench_embed = {
    .name = "ops/embed",
    .dims = "tokens,vocab,hidden",
    .dtypes = BENCH_WEIGHTS,
    .shapes = shapes,
    .setup = setup,
    .run = run,
    .check = check,
    .teardown = teardown,
    .bytes = bytes,
    .flops = flops,
    .max_err = 5e-7, /* values of about 1; q * d + m may be rounded once or twice */
};
