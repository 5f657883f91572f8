/* Whole models of synthetic weights: prompts and generation, apart. Tokens are made up and nothing
 * is sampled, as in llama-bench. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "model/model.h"
#include "read.h"
#include "synth.h"

/* `tokens` of each of `batch` sequences that have `depth` before them. */
enum { TOKENS, DEPTH, BATCH };
enum kind { PROMPT, GENERATION };
enum { CHUNK = 256, BLOCK = 64, PROBE = 6, STEPS = 4 };

struct state {
    struct bench_synth *synth;
    tpcl_model *model;
    int depth, tokens, batch;
    float *logits, *again; /* [batch, vocab] of the last tokens; on every rank, used on rank 0 */
};

static int list(const struct bench_plan *plan, bool prompt, long (*out)[BENCH_DIMS])
{
    int n = 0;
    for (int t = 0; t < plan->tokens.n; t++)
        for (int d = 0; d < plan->depth.n; d++)
            for (int b = 0; b < plan->batch.n; b++) {
                const long tokens = plan->tokens.v[t];
                if (prompt && tokens == 1 && !plan->word) continue;
                if (!prompt && tokens > 1 && !plan->word) continue;
                if (n == BENCH_SHAPES) return BENCH_SHAPES + 1;
                out[n][TOKENS] = prompt || plan->word ? tokens : 128;
                out[n][DEPTH] = plan->depth.v[d];
                out[n++][BATCH] = plan->batch.v[b];
            }
    return n;
}

static int prompts(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    return list(plan, true, out);
}

static int generations(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    return list(plan, false, out);
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    tpcl_model_destroy(&s->model);
    bench_synth_destroy(&s->synth);
    free(s->logits);
    free(s->again);
    free(s);
    r->state = NULL;
}

/* The model's own cache has one sequence; this one has `batch` and one to probe. */
static tpcl_status widen_cache(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    tpcl_model *m = s->model;
    const int layers = m->config.layers, context = s->depth + s->tokens;
    const int each = (context + BLOCK - 1) / BLOCK + 1;
    tpcl_head_range *heads = calloc((size_t)layers, sizeof *heads);
    TPI_REQUIRE(heads, TPCL_ERR_NOMEM, "%d layers", layers);
    for (int i = 0; i < layers; i++) {
        tpi_layer_plan plan;
        TPI_TRY(
            tpi_layer_plan_create(bench_synth_checkpoint(s->synth), i, r->env->size, NULL, &plan));
        heads[i] = plan.heads[r->env->rank];
        tpi_layer_plan_free(&plan);
    }
    const tpcl_kv_cache_desc cache = {.layers = layers,
                                      .head_dim = m->config.head_dim,
                                      .blocks = each * s->batch + 1,
                                      .block_size = BLOCK,
                                      .max_sequences = s->batch + 1,
                                      .heads = heads};
    const tpcl_batch_options batch = {.max_tokens = m->plan.chunk, .vocab = m->config.vocab};
    tpcl_batch_destroy(&m->batch);
    tpcl_kv_cache_destroy(&m->cache);
    TPI_TRY(tpcl_kv_cache_create(r->env->group, &cache, &m->cache));
    TPI_TRY(tpcl_batch_create(r->env->group, m->cache, &batch, &m->batch));
done:
    free(heads);
    return status;
}

/* The made-up token of a sequence at a position. */
static int32_t token_at(const struct state *s, int sequence, int position)
{
    const uint32_t hash = ((uint32_t)position * 2654435761u) ^ ((uint32_t)sequence * 40503u + 77u);
    return (int32_t)(((uint64_t)(hash * 2246822519u) * (uint64_t)s->model->config.vocab) >> 32);
}

static tpcl_status add(struct state *s, int sequence, int from, int n)
{
    int32_t ids[CHUNK];
    for (int i = 0; i < n; i++) ids[i] = token_at(s, sequence, from + i);
    return tpcl_batch_add(s->model->batch, sequence, ids, n);
}

/* The batch through all layers, and the logits of its sequences' last rows. */
static tpcl_status forward(struct state *s, float *logits)
{
    tpcl_status status = TPCL_OK;
    tpcl_model *m = s->model;
    int rows[CHUNK] = {0}, n = 0;
    TPI_TRY(tpi_model_forward(m, true));
    if (!logits) goto done;
    TPI_TRY(tpcl_batch_last_rows(m->batch, rows, &n));
    TPI_TRY(tpcl_lm_head_forward(m->head, m->x, rows, n, logits));
done:
    return status;
}

/* Positions [from, to) of one sequence, as a prompt: logits only of the last. */
static tpcl_status prompt(struct state *s, int sequence, int from, int to, float *logits)
{
    tpcl_status status = TPCL_OK;
    for (int at = from; at < to; at += CHUNK) {
        const int n = to - at < CHUNK ? to - at : CHUNK;
        tpcl_batch_clear(s->model->batch);
        TPI_TRY(add(s, sequence, at, n));
        TPI_TRY(forward(s, at + n == to ? logits : NULL));
    }
done:
    return status;
}

static tpcl_status prompts_of_all(struct state *s, int from, int to, float *logits)
{
    tpcl_status status = TPCL_OK;
    const size_t vocab = (size_t)s->model->config.vocab;
    for (int b = 0; b < s->batch; b++)
        TPI_TRY(prompt(s, b, from, to, logits ? logits + (size_t)b * vocab : NULL));
done:
    return status;
}

/* Positions [from, to) of all sequences, one after the other: logits of each step. */
static tpcl_status steps(struct state *s, int from, int to, float *logits)
{
    tpcl_status status = TPCL_OK;
    for (int at = from; at < to; at++) {
        tpcl_batch_clear(s->model->batch);
        for (int b = 0; b < s->batch; b++) TPI_TRY(add(s, b, at, 1));
        TPI_TRY(forward(s, logits));
    }
done:
    return status;
}

static tpcl_status back_to(struct state *s, int length)
{
    tpcl_status status = TPCL_OK;
    tpcl_batch_clear(s->model->batch);
    for (int b = 0; b < s->batch; b++) TPI_TRY(tpcl_kv_cache_truncate(s->model->cache, b, length));
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const int end = s->depth + s->tokens;
    TPI_TRY(back_to(s, s->depth));
    TPI_TRY(r->c->kind == PROMPT ? prompts_of_all(s, s->depth, end, s->logits)
                                 : steps(s, s->depth, end, s->logits));
done:
    return status;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "model state");
    s->tokens = (int)r->shape[TOKENS];
    s->depth = (int)r->shape[DEPTH];
    s->batch = (int)r->shape[BATCH];
    TPI_REQUIRE(s->batch <= CHUNK, TPCL_ERR_SHAPE, "%d sequences; %d at most", s->batch, CHUNK);
    TPI_TRY(bench_synth_create(&r->plan->model, r->dtype, &s->synth));
    const tpcl_model_options options = {
        .context = s->depth + s->tokens > CHUNK ? s->depth + s->tokens : CHUNK, .chunk = CHUNK};
    TPI_TRY(tpcl_model_load(r->env->group, TPCL_OK, bench_synth_checkpoint(s->synth), &options,
                            &s->model));
    TPI_TRY(widen_cache(r, s));
    const size_t n = (size_t)s->batch * (size_t)s->model->config.vocab;
    s->logits = calloc(n, sizeof *s->logits);
    s->again = calloc(n, sizeof *s->again);
    TPI_REQUIRE(s->logits && s->again, TPCL_ERR_NOMEM, "%zu logits", n);
    TPI_TRY(prompts_of_all(s, 0, s->depth, NULL));
done:
    return status;
}

/* Greatest difference, relative to the largest logit. */
static double difference(const float *got, const float *want, size_t n, size_t period)
{
    double worst = 0.0, most = 0.0;
    for (size_t i = 0; i < n; i++) {
        const double error = bench_max_error(got + i, want + i % period, 1);
        worst = fmax(worst, error);
        most = fmax(most, fabs((double)want[i % period]));
    }
    return most > 0.0 ? worst / most : INFINITY;
}

/* A few tokens of a fresh sequence against plain C: as a prompt, then one at a time. */
static tpcl_status check_reference(struct bench_run *r, struct state *s, double *max_err)
{
    tpcl_status status = TPCL_OK;
    tpcl_model *m = s->model;
    int32_t ids[PROBE];
    float *want = NULL;
    int period = 0;
    const size_t vocab = (size_t)m->config.vocab;
    for (int i = 0; i < PROBE; i++) ids[i] = token_at(s, s->batch, i);
    TPI_TRY(bench_synth_logits(s->synth, ids, PROBE, m->config.rope_form == TPCL_ROPE_INTERLEAVED,
                               &want, &period));
    for (int way = 0; way < 2; way++) {
        tpcl_kv_cache_free(m->cache, s->batch);
        for (int at = 0; at < PROBE; at += way ? 1 : PROBE)
            TPI_TRY(prompt(s, s->batch, at, way ? at + 1 : PROBE, s->again));
        if (r->env->rank == 0)
            *max_err = fmax(*max_err, difference(s->again, want, vocab, (size_t)period));
    }
    tpcl_kv_cache_free(m->cache, s->batch);
done:
    free(want);
    return status;
}

/* The last logits of the run against the other way to the same place: a prompt's last tokens one at
 * a time, generated ones as a prompt. Other kernels, another order; the same numbers. */
static tpcl_status check_other_way(struct bench_run *r, struct state *s, double *max_err)
{
    tpcl_status status = TPCL_OK;
    const int end = s->depth + s->tokens;
    const int from = r->c->kind == GENERATION || s->tokens < STEPS ? s->depth : end - STEPS;
    TPI_TRY(back_to(s, from));
    TPI_TRY(r->c->kind == PROMPT ? steps(s, from, end, s->again)
                                 : prompts_of_all(s, from, end, s->again));
    const size_t n = (size_t)s->batch * (size_t)s->model->config.vocab;
    if (r->env->rank == 0) *max_err = fmax(*max_err, difference(s->logits, s->again, n, n));
done:
    return status;
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    *max_err = 0.0;
    TPI_TRY(check_other_way(r, s, max_err));
    TPI_TRY(check_reference(r, s, max_err));
done:
    return status;
}

static tpcl_status peer(struct bench_run *r, struct bench_peer *out)
{
    return r->c->kind == GENERATION && r->shape[BATCH] == 1 ? bench_read_peer(r, out)
                                                            : TPCL_ERR_UNSUPPORTED;
}

static double tokens(const struct bench_run *r)
{
    return (double)r->shape[TOKENS] * (double)r->shape[BATCH];
}

/* this rank's weights once a pass; K and V of what is looked back on: once a token that is
 * generated, once a pass of a prompt */
static double bytes(const struct bench_run *r)
{
    const struct state *s = r->state;
    const double n = (double)r->shape[TOKENS], depth = (double)r->shape[DEPTH];
    const double batch = (double)r->shape[BATCH];
    const double token = (double)tpcl_kv_cache_token_bytes(s->model->cache);
    const bool prompt_case = r->c->kind == PROMPT;
    const double passes = prompt_case ? ceil(n / CHUNK) * batch : n;
    const double looks = prompt_case ? passes * (depth + n / 2.0) : batch * n * (depth + n / 2.0);
    return passes * (double)s->model->share.weight_bytes + looks * token;
}

/* products with the layers' weights and with K and V, and the head's: of a prompt's last token, of
 * every generated one; an equal share of a rank */
static double flops(const struct bench_run *r)
{
    const struct model_shape *m = &r->plan->model;
    const double n = (double)r->shape[TOKENS], depth = (double)r->shape[DEPTH];
    const double batch = (double)r->shape[BATCH], hidden = (double)m->hidden;
    const double q = (double)(m->heads * m->head_dim), kv = (double)(m->kv_heads * m->head_dim);
    const double layer = hidden * (2.0 * q + 2.0 * kv + 3.0 * (double)m->inter);
    const double pairs = n * depth + n * (n + 1.0) / 2.0;
    const double heads = r->c->kind == PROMPT ? 1.0 : n;
    return batch / r->env->size *
           ((double)m->layers * (2.0 * n * layer + 4.0 * pairs * q) +
            2.0 * heads * hidden * (double)m->vocab);
}

#define MODEL(id, text, which, fill)                                    \
    const struct bench_case bench_##id = {.name = "model/" text,        \
                                          .dims = "tokens,depth,batch", \
                                          .dtypes = BENCH_WEIGHTS,      \
                                          .of_model = true,             \
                                          .kind = which,                \
                                          .shapes = fill,               \
                                          .setup = setup,               \
                                          .run = run,                   \
                                          .check = check,               \
                                          .peer = peer,                 \
                                          .teardown = teardown,         \
                                          .bytes = bytes,               \
                                          .flops = flops,               \
                                          .tokens = tokens,             \
                                          .max_err =                    \
                                              2e-3 /* K and V round to f16 in each layer */}

MODEL(pp, "pp", PROMPT, prompts);
MODEL(tg, "tg", GENERATION, generations);
