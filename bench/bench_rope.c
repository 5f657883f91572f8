/* RoPE of q and k, and the write of k and v into the cache: one step between two products. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tpcl/attention.h>

#include "data.h"
#include "ops/ops.h"

enum { TOKENS, HEADS, KV_HEADS, HEAD_DIM };
static const double theta = 10000.0;

struct state {
    tpi_heads heads;
    tpi_kv_layer cache;
    tpcl_tensor *qkv, *angles, *pos, *slot;
    size_t row;             /* floats of qkv, of one token */
    float *hx, *want, *got; /* [tokens, row] */
};

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    for (int i = 0; i < plan->tokens.n; i++) {
        out[i][TOKENS] = plan->tokens.v[i];
        out[i][HEADS] = plan->model.heads;
        out[i][KV_HEADS] = plan->model.kv_heads;
        out[i][HEAD_DIM] = plan->model.head_dim;
    }
    return plan->tokens.n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    tpi_buffer_release(&s->cache.k);
    tpi_buffer_release(&s->cache.v);
    tpcl_tensor_destroy(&s->qkv);
    tpcl_tensor_destroy(&s->angles);
    tpcl_tensor_destroy(&s->pos);
    tpcl_tensor_destroy(&s->slot);
    free(s->hx);
    free(s->want);
    free(s->got);
    free(s);
    r->state = NULL;
}

/* What the heads of q and k become; k and v are rows of the result, too. */
static tpcl_status make_host(const struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t tokens = (size_t)r->shape[TOKENS], dim = (size_t)r->shape[HEAD_DIM];
    const size_t turned = (size_t)(r->shape[HEADS] + r->shape[KV_HEADS]);
    float *angles = malloc(dim * sizeof *angles);
    s->hx = malloc(tokens * s->row * sizeof *s->hx);
    s->want = malloc(tokens * s->row * sizeof *s->want);
    s->got = malloc(tokens * s->row * sizeof *s->got);
    TPI_REQUIRE(angles && s->hx && s->want && s->got, TPCL_ERR_NOMEM, "%zu rows", tokens);
    bench_fill(s->hx, tokens * s->row, 3);
    memcpy(s->want, s->hx, tokens * s->row * sizeof *s->want);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t i = 0; i < dim / 2; i++) {
            const double angle = (double)t * pow(theta, -2.0 * (double)i / (double)dim);
            angles[2 * i] = (float)cos(angle);
            angles[2 * i + 1] = (float)sin(angle);
        }
        for (size_t h = 0; h < turned; h++)
            tpcl_ref_rope(s->want + t * s->row + h * dim, NULL, angles, (int)dim, false, 0.0f);
    }
done:
    free(angles);
    return status;
}

static tpcl_status make_places(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t tokens = (size_t)r->shape[TOKENS];
    int32_t *order = malloc(tokens * sizeof *order);
    TPI_REQUIRE(order, TPCL_ERR_NOMEM, "%zu positions", tokens);
    for (size_t t = 0; t < tokens; t++) order[t] = (int32_t)t;
    TPI_TRY(bench_tensor(r->env->dev, TPCL_I32, order, tokens, &s->pos));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_I32, order, tokens, &s->slot));
done:
    free(order);
    return status;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = r->env->dev;
    const int dim = (int)r->shape[HEAD_DIM], tokens = (int)r->shape[TOKENS];
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "rope state");
    TPI_REQUIRE(r->shape[HEADS] % r->shape[KV_HEADS] == 0 && dim % 2 == 0 && dim <= 256,
                TPCL_ERR_SHAPE,
                "%ld heads over %ld of %d: need a multiple, and an even size up to "
                "256",
                r->shape[HEADS], r->shape[KV_HEADS], dim);
    s->row = (size_t)(r->shape[HEADS] + 2 * r->shape[KV_HEADS]) * (size_t)dim;
    s->heads = (tpi_heads){.heads = (int)r->shape[HEADS],
                           .kv_heads = (int)r->shape[KV_HEADS],
                           .head_dim = dim,
                           .v_head_dim = dim,
                           .block_size = tokens,
                           .kv_f32 = true};
    const tpcl_rope_desc rope = {.head_dim = dim, .context = tokens, .theta = theta};
    const size_t bytes = (size_t)tokens * (size_t)r->shape[KV_HEADS] * (size_t)dim * sizeof(float);
    TPI_TRY(make_host(r, s));
    TPI_TRY(make_places(r, s));
    TPI_TRY(tpcl_rope_table_create(dev, &rope, &s->angles));
    TPI_TRY(tpi_buffer_create(dev, bytes, "cache of k", &s->cache.k));
    TPI_TRY(tpi_buffer_create(dev, bytes, "cache of v", &s->cache.v));
    TPI_TRY(bench_tensor(dev, TPCL_F32, NULL, (size_t)tokens * s->row, &s->qkv));
done:
    return status;
}

/* A run turns its input in place. */
static tpcl_status reset(struct bench_run *r)
{
    struct state *s = r->state;
    return tpcl_tensor_write(s->qkv, s->hx, (size_t)r->shape[TOKENS] * s->row);
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    const tpi_rope_args args = {.heads = s->heads,
                                .qkv = s->qkv,
                                .angles = s->angles,
                                .pos = s->pos,
                                .slot = s->slot,
                                .cache = &s->cache,
                                .tokens = (int)r->shape[TOKENS]};
    return tpi_rope_store(&args);
}

/* The cache of one block is [kv head][token][head_dim]. */
static double cache_error(const struct bench_run *r, const struct state *s, size_t at)
{
    const size_t tokens = (size_t)r->shape[TOKENS], dim = (size_t)r->shape[HEAD_DIM];
    double worst = 0.0;
    for (size_t h = 0; h < (size_t)r->shape[KV_HEADS]; h++)
        for (size_t t = 0; t < tokens; t++)
            worst = fmax(worst, bench_max_error(s->got + (h * tokens + t) * dim,
                                                s->want + t * s->row + at + h * dim, dim));
    return worst;
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    cl_command_queue queue = r->env->dev->queue;
    const size_t tokens = (size_t)r->shape[TOKENS], dim = (size_t)r->shape[HEAD_DIM];
    const size_t q = (size_t)r->shape[HEADS] * dim, kv = (size_t)r->shape[KV_HEADS] * dim;
    const size_t bytes = tokens * kv * sizeof(float);
    *max_err = 0.0;
    TPI_TRY(tpcl_tensor_read(s->qkv, s->got, tokens * s->row));
    for (size_t t = 0; t < tokens; t++)
        *max_err = fmax(*max_err, bench_max_error(s->got + t * s->row, s->want + t * s->row, q));
    TPI_TRY(
        TPI_CL(clEnqueueReadBuffer(queue, s->cache.k, CL_TRUE, 0, bytes, s->got, 0, NULL, NULL)));
    *max_err = fmax(*max_err, cache_error(r, s, q));
    TPI_TRY(
        TPI_CL(clEnqueueReadBuffer(queue, s->cache.v, CL_TRUE, 0, bytes, s->got, 0, NULL, NULL)));
    *max_err = fmax(*max_err, cache_error(r, s, q + kv));
done:
    return status;
}

/* q, k and v in; q out, k and v into the cache */
static double bytes(const struct bench_run *r)
{
    const struct state *s = r->state;
    return 2.0 * sizeof(float) * (double)r->shape[TOKENS] * (double)s->row;
}

static double flops(const struct bench_run *r)
{
    const double heads = (double)(r->shape[HEADS] + r->shape[KV_HEADS]);
    return 3.0 * (double)r->shape[TOKENS] * heads * (double)r->shape[HEAD_DIM];
}

const struct bench_case bench_rope = {
    .name = "ops/rope",
    .dims = "tokens,heads,kv_heads,head_dim",
    .dtypes = BENCH_DTYPE(TPCL_F32),
    .shapes = shapes,
    .setup = setup,
    .reset = reset,
    .run = run,
    .check = check,
    .teardown = teardown,
    .bytes = bytes,
    .flops = flops,
    .max_err = 2e-6, /* values of about 1, turned */
};
