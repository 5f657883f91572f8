/* The attention layer: RoPE, cache and attention of each rank's heads, through the public calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tpcl/attention.h>
#include <tpcl/reference.h>

#include "base/dtype.h"
#include "data.h"

/* The last `tokens` positions of a sequence of `context`. */
enum { TOKENS, CONTEXT, HEADS, KV_HEADS, HEAD_DIM };
enum { BLOCK = 64, CHUNK = 256, CHECKED = 8 };
static const double theta = 10000.0;

struct state {
    tpcl_head_range *all, mine;
    size_t q, kv, stride; /* of this rank: floats of a row */
    tpcl_tensor *table, *qkv, *out;
    tpcl_attention *layer;
    tpcl_kv_cache *cache;
    tpcl_batch *batch;
    float *rows;   /* [context, stride] before the rotation */
    float *turned; /* likewise after it, k and v as the cache rounds them */
    float *got, *k, *v, *want;
};

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    const struct model_shape *m = &plan->model;
    int n = 0;
    for (int i = 0; i < plan->tokens.n; i++)
        for (int c = 0; c < plan->context.n; c++) {
            const long tokens = plan->tokens.v[i];
            if (n == BENCH_SHAPES) return BENCH_SHAPES + 1;
            out[n][TOKENS] = tokens;
            out[n][CONTEXT] = tokens > 1 ? tokens : plan->context.v[c];
            out[n][HEADS] = m->heads;
            out[n][KV_HEADS] = m->kv_heads;
            out[n++][HEAD_DIM] = m->head_dim;
        }
    return n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    tpcl_attention_destroy(&s->layer);
    tpcl_batch_destroy(&s->batch);
    tpcl_kv_cache_destroy(&s->cache);
    tpcl_tensor_destroy(&s->table);
    tpcl_tensor_destroy(&s->qkv);
    tpcl_tensor_destroy(&s->out);
    free(s->all);
    free(s->rows);
    free(s->turned);
    free(s->got);
    free(s->k);
    free(s->v);
    free(s->want);
    free(s);
    r->state = NULL;
}

static tpcl_status make_layer(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    tpcl_group *group = r->env->group;
    const int context = (int)r->shape[CONTEXT], dim = (int)r->shape[HEAD_DIM];
    const tpcl_rope_desc rope = {.head_dim = dim, .context = context, .theta = theta};
    const tpcl_kv_cache_desc cache = {.layers = 1,
                                      .head_dim = dim,
                                      .blocks = (context + BLOCK - 1) / BLOCK,
                                      .block_size = BLOCK,
                                      .max_sequences = 1,
                                      .f32 = r->dtype == TPCL_F32,
                                      .heads = &s->mine};
    const int most = r->shape[TOKENS] > CHUNK ? (int)r->shape[TOKENS] : CHUNK;
    const tpcl_batch_options batch = {.max_tokens = most};
    TPI_TRY(tpcl_rope_table_create(r->env->dev, &rope, &s->table));
    const tpcl_attention_desc desc = {.heads = (int)r->shape[HEADS],
                                      .kv_heads = (int)r->shape[KV_HEADS],
                                      .head_dim = dim,
                                      .mine = s->mine,
                                      .rope_table = s->table};
    TPI_TRY(tpcl_attention_create(group, &desc, &s->layer));
    TPI_TRY(tpcl_kv_cache_create(group, &cache, &s->cache));
    TPI_TRY(tpcl_batch_create(group, s->cache, &batch, &s->batch));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, NULL, (size_t)most * s->stride, &s->qkv));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, NULL, (size_t)most * s->q, &s->out));
done:
    return status;
}

/* Every head of the whole model has its own values, whoever computes it. */
static void fill_row(const struct bench_run *r, const struct state *s, long position, float *row)
{
    const size_t dim = (size_t)r->shape[HEAD_DIM];
    const long heads = r->shape[HEADS], kv_heads = r->shape[KV_HEADS];
    const long all = heads + 2 * kv_heads;
    const tpcl_range parts[3] = {
        s->mine.q,
        {heads + s->mine.kv.begin, heads + s->mine.kv.end},
        {heads + kv_heads + s->mine.kv.begin, heads + kv_heads + s->mine.kv.end}};
    for (int p = 0; p < 3; p++)
        for (int64_t h = parts[p].begin; h < parts[p].end; h++, row += dim)
            bench_fill(row, dim, (uint32_t)(position * all + h) * 2654435761u + 1u);
}

static void round_row(const struct bench_run *r, float *v, size_t n)
{
    for (size_t i = 0; r->dtype == TPCL_F16 && i < n; i++)
        v[i] = tpi_half_to_float(tpi_float_to_half(v[i]));
}

/* The rows, and the same turned in plain C. */
static tpcl_status make_rows(const struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t context = (size_t)r->shape[CONTEXT], dim = (size_t)r->shape[HEAD_DIM];
    float *angles = malloc(dim * sizeof *angles);
    s->rows = malloc(context * s->stride * sizeof *s->rows + 1);
    s->turned = malloc(context * s->stride * sizeof *s->turned + 1);
    s->k = malloc(context * dim * sizeof *s->k);
    s->v = malloc(context * dim * sizeof *s->v);
    s->got = malloc((size_t)r->shape[TOKENS] * s->q * sizeof *s->got + 1);
    s->want = malloc(dim * sizeof *s->want);
    TPI_REQUIRE(angles && s->rows && s->turned && s->k && s->v && s->got && s->want, TPCL_ERR_NOMEM,
                "attention over %zu positions", context);
    for (size_t p = 0; p < context; p++) {
        float *row = s->turned + p * s->stride;
        fill_row(r, s, (long)p, s->rows + p * s->stride);
        memcpy(row, s->rows + p * s->stride, s->stride * sizeof *row);
        for (size_t i = 0; i < dim / 2; i++) {
            const double angle = (double)p * pow(theta, -2.0 * (double)i / (double)dim);
            angles[2 * i] = (float)cos(angle);
            angles[2 * i + 1] = (float)sin(angle);
        }
        for (size_t h = 0; h < (s->q + s->kv) / dim; h++)
            tpcl_ref_rope(row + h * dim, NULL, angles, (int)dim, false, 0.0f);
        round_row(r, row + s->q, 2 * s->kv);
    }
done:
    free(angles);
    return status;
}

/* Positions [from, from + n) of the sequence as the next batch. */
static tpcl_status next_rows(struct bench_run *r, struct state *s, size_t from, size_t n)
{
    tpcl_status status = TPCL_OK;
    static const int32_t zeros[CHUNK] = {0};
    tpcl_batch_clear(s->batch);
    for (size_t at = 0; at < n; at += CHUNK)
        TPI_TRY(tpcl_batch_add(s->batch, 0, zeros, (int)(n - at < CHUNK ? n - at : CHUNK)));
    TPI_TRY(tpcl_batch_upload(s->batch));
    if (s->stride > 0)
        TPI_TRY(tpcl_tensor_write(s->qkv, s->rows + from * s->stride, n * s->stride));
done:
    (void)r;
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    return tpcl_attention_forward(s->layer, 0, s->qkv, s->batch, s->cache, s->out);
}

/* What comes before the timed rows goes into the cache. */
static tpcl_status fill_cache(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t past = (size_t)(r->shape[CONTEXT] - r->shape[TOKENS]);
    for (size_t at = 0; at < past; at += CHUNK) {
        TPI_TRY(next_rows(r, s, at, past - at < CHUNK ? past - at : CHUNK));
        TPI_TRY(run(r));
    }
done:
    return status;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    const size_t dim = (size_t)r->shape[HEAD_DIM];
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "attention state");
    TPI_REQUIRE(r->shape[TOKENS] <= r->shape[CONTEXT], TPCL_ERR_SHAPE,
                "%ld tokens in a context of %ld", r->shape[TOKENS], r->shape[CONTEXT]);
    s->all = calloc((size_t)r->env->size, sizeof *s->all);
    TPI_REQUIRE(s->all, TPCL_ERR_NOMEM, "heads of %d ranks", r->env->size);
    TPI_TRY(tpcl_shard_heads((int)r->shape[HEADS], (int)r->shape[KV_HEADS], 1, r->env->size, NULL,
                             0, s->all));
    s->mine = s->all[r->env->rank];
    s->q = (size_t)tpcl_range_size(s->mine.q) * dim;
    s->kv = (size_t)tpcl_range_size(s->mine.kv) * dim;
    s->stride = s->q + 2 * s->kv;
    TPI_TRY(make_rows(r, s));
    TPI_TRY(make_layer(r, s));
    TPI_TRY(fill_cache(r, s));
done:
    return status;
}

/* A run turns its rows in place: each batch of runs begins with fresh ones. */
static tpcl_status reset(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const int past = (int)(r->shape[CONTEXT] - r->shape[TOKENS]);
    tpcl_batch_clear(s->batch);
    TPI_TRY(tpcl_kv_cache_truncate(s->cache, 0, past));
    TPI_TRY(next_rows(r, s, (size_t)past, (size_t)r->shape[TOKENS]));
done:
    return status;
}

static double head_error(const struct bench_run *r, const struct state *s, size_t token,
                         int64_t head)
{
    const size_t dim = (size_t)r->shape[HEAD_DIM];
    const size_t keys = (size_t)(r->shape[CONTEXT] - r->shape[TOKENS]) + token + 1;
    const int64_t per_kv = r->shape[HEADS] / r->shape[KV_HEADS];
    const size_t local = (size_t)(head - s->mine.q.begin) * dim;
    const size_t kv = (size_t)(head / per_kv - s->mine.kv.begin) * dim;
    for (size_t p = 0; p < keys; p++) {
        const float *row = s->turned + p * s->stride + s->q;
        memcpy(s->k + p * dim, row + kv, dim * sizeof *s->k);
        memcpy(s->v + p * dim, row + s->kv + kv, dim * sizeof *s->v);
    }
    tpcl_ref_attention(s->turned + (keys - 1) * s->stride + local, s->k, s->v, s->want, (int)keys,
                       (int)dim, (int)dim, 0.0f);
    return bench_max_error(s->got + token * s->q + local, s->want, dim);
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const size_t tokens = (size_t)r->shape[TOKENS];
    const size_t checked = tokens < CHECKED ? tokens : CHECKED;
    *max_err = 0.0;
    if (s->q == 0) return TPCL_OK; /* more ranks than heads */
    TPI_TRY(tpcl_tensor_read(s->out, s->got, tokens * s->q));
    for (size_t i = 0; i < checked; i++)
        for (int64_t h = s->mine.q.begin; h < s->mine.q.end; h++) {
            const size_t token = checked == 1 ? 0 : (tokens - 1) * i / (checked - 1);
            *max_err = fmax(*max_err, head_error(r, s, token, h));
        }
done:
    return status;
}

/* K and V of this rank once, q, k and v in, out out */
static double bytes(const struct bench_run *r)
{
    const struct state *s = r->state;
    const double kv = 2.0 * (double)r->shape[CONTEXT] * (double)s->kv;
    const double rows = (double)r->shape[TOKENS] * (double)(s->stride + s->q);
    return kv * (r->dtype == TPCL_F32 ? 4.0 : 2.0) + rows * sizeof(float);
}

static double flops(const struct bench_run *r)
{
    const struct state *s = r->state;
    const double tokens = (double)r->shape[TOKENS], past = (double)r->shape[CONTEXT] - tokens;
    return 4.0 * (tokens * past + tokens * (tokens + 1.0) / 2.0) * (double)s->q;
}

const struct bench_case bench_heads = {
    .name = "layers/attention",
    .dims = "tokens,context,heads,kv_heads,head_dim",
    .dtypes = BENCH_DTYPE(TPCL_F16) | BENCH_DTYPE(TPCL_F32),
    .shapes = shapes,
    .setup = setup,
    .reset = reset,
    .run = run,
    .check = check,
    .teardown = teardown,
    .bytes = bytes,
    .flops = flops,
    .max_err = 2e-4, /* another last bit of a rotation may round K to the next f16 */
};
