/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "data.h"
#include "ops/ops.h"
#include "read.h"

/* The last `tokens` positions of one sequence of `context`: 1 = decoding, context = a prompt. */
enum { TOKENS, CONTEXT, HEADS, KV_HEADS, HEAD_DIM };
enum { BLOCK = 256, CHECKED = 8 /* tokens that are compared, the first and the last among them */ };

struct state {
    tpi_heads heads;
    tpi_kv_layer *caches; /* copies */
    int n_caches, n_row_tiles, n_head_tiles, blocks, pairs;
    tpcl_tensor *qkv, *out, *pos, *seq, *table, *row_tiles, *head_tiles;
    float *hqkv, *k, *v; /* k, v [kv head][position][head_dim], as the cache rounds them */
    float *got;          /* [tokens, heads * head_dim] */
    float *want;         /* [checked, heads * head_dim] */
    int n_checked;
};

static size_t query_row(const struct bench_run *r)
{
    return (size_t)r->shape[HEADS] * (size_t)r->shape[HEAD_DIM];
}

static size_t kv_row(const struct bench_run *r)
{
    return (size_t)r->shape[KV_HEADS] * (size_t)r->shape[HEAD_DIM];
}

/* Token number `i` of those compared. */
static long checked_token(const struct bench_run *r, const struct state *s, int i)
{
    return s->n_checked == 1 ? 0 : (r->shape[TOKENS] - 1) * i / (s->n_checked - 1);
}

static void set_shape(const struct model_shape *m, long *out, long tokens, long context)
{
    out[TOKENS] = tokens;
    out[CONTEXT] = context;
    out[HEADS] = m->heads;
    out[KV_HEADS] = m->kv_heads;
    out[HEAD_DIM] = m->head_dim;
}

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    int n = 0;
    for (int i = 0; i < plan->tokens.n; i++) {
        if (plan->tokens.v[i] > 1)
            set_shape(&plan->model, out[n++], plan->tokens.v[i], plan->tokens.v[i]);
        for (int c = 0; c < plan->context.n && plan->tokens.v[i] == 1; c++) {
            if (n >= BENCH_SHAPES - BENCH_LIST) return BENCH_SHAPES + 1;
            set_shape(&plan->model, out[n++], 1, plan->context.v[c]);
        }
    }
    return n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    for (int i = 0; i < s->n_caches; i++) {
        tpi_buffer_release(&s->caches[i].k);
        tpi_buffer_release(&s->caches[i].v);
    }
    free(s->caches);
    tpcl_tensor *tensors[] = {s->qkv,   s->out,       s->pos,       s->seq,
                              s->table, s->row_tiles, s->head_tiles};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        tpcl_tensor_destroy(&tensors[i]);
    free(s->hqkv);
    free(s->k);
    free(s->v);
    free(s->got);
    free(s->want);
    free(s);
    r->state = NULL;
}

static tpcl_status check_shape(const struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(r->shape[TOKENS] <= r->shape[CONTEXT], TPCL_ERR_SHAPE,
                "%ld tokens in a context of %ld", r->shape[TOKENS], r->shape[CONTEXT]);
    TPI_REQUIRE(r->shape[HEADS] % r->shape[KV_HEADS] == 0, TPCL_ERR_SHAPE,
                "%ld heads over %ld kv heads", r->shape[HEADS], r->shape[KV_HEADS]);
done:
    return status;
}

/* Random keys and values, as the cache will hold them. */
static void fill_kv(const struct bench_run *r, float *kv, uint32_t seed)
{
    const size_t n = kv_row(r) * (size_t)r->shape[CONTEXT];
    bench_fill(kv, n, seed);
    for (size_t i = 0; r->dtype == TPCL_F16 && i < n; i++)
        kv[i] = tpi_half_to_float(tpi_float_to_half(kv[i]));
}

/* [block][kv head][slot][head_dim] of the cache; what no position has is not a number. */
static tpcl_status make_pool(const struct bench_run *r, const struct state *s, const float *kv,
                             size_t bytes, cl_mem *out)
{
    tpcl_status status = TPCL_OK;
    const size_t dim = (size_t)r->shape[HEAD_DIM], heads = (size_t)r->shape[KV_HEADS];
    const size_t context = (size_t)r->shape[CONTEXT], slots = (size_t)s->heads.block_size;
    const size_t size = s->heads.kv_f32 ? 4 : 2;
    uint8_t *pool = malloc(bytes);
    TPI_REQUIRE(pool, TPCL_ERR_NOMEM, "cache of %zu bytes", bytes);
    memset(pool, 0xff, bytes);
    for (size_t h = 0; h < heads; h++)
        for (size_t p = 0; p < context; p++) {
            const float *from = kv + (h * context + p) * dim;
            uint8_t *to = pool + (((p / slots) * heads + h) * slots + p % slots) * dim * size;
            if (size == 4) memcpy(to, from, dim * size);
            for (size_t i = 0; size == 2 && i < dim; i++) {
                const uint16_t half = tpi_float_to_half(from[i]);
                memcpy(to + 2 * i, &half, 2);
            }
        }
    TPI_TRY(tpi_buffer_create(r->env->dev, bytes, "cache", out));
    TPI_TRY(TPI_CL(
        clEnqueueWriteBuffer(r->env->dev->queue, *out, CL_TRUE, 0, bytes, pool, 0, NULL, NULL)));
done:
    free(pool);
    return status;
}

static tpcl_status make_caches(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = r->env->dev;
    const size_t bytes =
        (size_t)s->blocks * (size_t)s->heads.block_size * kv_row(r) * (s->heads.kv_f32 ? 4 : 2);
    const int wanted = r->shape[TOKENS] == 1 ? bench_copies(r->env, 2 * bytes) : 1;
    s->caches = calloc((size_t)wanted, sizeof *s->caches);
    TPI_REQUIRE(s->caches, TPCL_ERR_NOMEM, "%d caches", wanted);
    s->n_caches = wanted;
    TPI_TRY(make_pool(r, s, s->k, bytes, &s->caches[0].k));
    TPI_TRY(make_pool(r, s, s->v, bytes, &s->caches[0].v));
    for (int i = 1; i < wanted; i++) {
        TPI_TRY(bench_copy(dev, s->caches[0].k, bytes, &s->caches[i].k));
        TPI_TRY(bench_copy(dev, s->caches[0].v, bytes, &s->caches[i].v));
    }
done:
    return status;
}

/* Tiles as the attention layer makes them: neighbouring tokens of a prompt together; for one token
 * heads that share keys, where that leaves work enough for every unit. */
static void make_tiles(const struct bench_run *r, struct state *s, int32_t *rows, int32_t *heads)
{
    const int tokens = (int)r->shape[TOKENS], n_heads = s->heads.heads;
    const int per_kv = n_heads / s->heads.kv_heads;
    const int most = per_kv < TPI_ATTENTION_PAIRS ? per_kv : TPI_ATTENTION_PAIRS;
    const int shared = s->heads.kv_heads * ((per_kv + most - 1) / most);
    const bool share = tokens == 1 && shared >= 2 * r->env->dev->info.compute_units;
    s->pairs = tokens == 1 && (!share || shared == n_heads) ? 1 : TPI_ATTENTION_PAIRS;
    for (int t = 0; t < tokens; t += TPI_ATTENTION_PAIRS) {
        rows[2 * s->n_row_tiles] = t;
        rows[2 * s->n_row_tiles++ + 1] =
            tokens - t < TPI_ATTENTION_PAIRS ? tokens - t : TPI_ATTENTION_PAIRS;
    }
    for (int h = 0, n = 1; h < n_heads; h += n) {
        const int left = per_kv - h % per_kv;
        n = !share ? 1 : left < most ? left : most;
        int32_t *tile = heads + 4 * s->n_head_tiles++;
        tile[0] = h;
        tile[1] = n;
        tile[2] = h / per_kv;
        tile[3] = 0;
    }
}

static tpcl_status make_batch(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = r->env->dev;
    const size_t tokens = (size_t)r->shape[TOKENS], heads = (size_t)s->heads.heads;
    const size_t blocks = (size_t)s->blocks;
    int32_t *all = calloc(4 * tokens + 4 * heads + blocks, sizeof *all);
    TPI_REQUIRE(all, TPCL_ERR_NOMEM, "batch of %zu tokens", tokens);
    int32_t *pos = all, *seq = all + tokens, *rows = all + 2 * tokens, *tiles = all + 4 * tokens;
    int32_t *table = tiles + 4 * heads;
    for (size_t t = 0; t < tokens; t++) pos[t] = (int32_t)((size_t)r->shape[CONTEXT] - tokens + t);
    for (size_t b = 0; b < blocks; b++) table[b] = (int32_t)b;
    make_tiles(r, s, rows, tiles);
    TPI_TRY(bench_tensor(dev, TPCL_I32, pos, tokens, &s->pos));
    TPI_TRY(bench_tensor(dev, TPCL_I32, seq, tokens, &s->seq));
    TPI_TRY(bench_tensor(dev, TPCL_I32, table, blocks, &s->table));
    TPI_TRY(bench_tensor(dev, TPCL_I32, rows, 2 * (size_t)s->n_row_tiles, &s->row_tiles));
    TPI_TRY(bench_tensor(dev, TPCL_I32, tiles, 4 * (size_t)s->n_head_tiles, &s->head_tiles));
done:
    free(all);
    return status;
}

static void make_reference(const struct bench_run *r, struct state *s)
{
    const size_t row = query_row(r), dim = (size_t)r->shape[HEAD_DIM];
    const size_t stride = row + 2 * kv_row(r), context = (size_t)r->shape[CONTEXT];
    const long per_kv = r->shape[HEADS] / r->shape[KV_HEADS];
    for (int i = 0; i < s->n_checked; i++) {
        const long t = checked_token(r, s, i);
        const int keys = (int)(r->shape[CONTEXT] - r->shape[TOKENS] + t + 1);
        for (long h = 0; h < r->shape[HEADS]; h++) {
            const size_t kv = (size_t)(h / per_kv) * context * dim;
            tpcl_ref_attention(s->hqkv + (size_t)t * stride + (size_t)h * dim, s->k + kv, s->v + kv,
                               s->want + (size_t)i * row + (size_t)h * dim, keys, (int)dim,
                               (int)dim, 0.0f);
        }
    }
}

static tpcl_status make_host(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t row = query_row(r), stride = row + 2 * kv_row(r);
    const size_t tokens = (size_t)r->shape[TOKENS];
    const size_t n = kv_row(r) * (size_t)r->shape[CONTEXT];
    s->n_checked = tokens < CHECKED ? (int)tokens : CHECKED;
    s->hqkv = malloc(tokens * stride * sizeof *s->hqkv);
    s->k = malloc(n * sizeof *s->k);
    s->v = malloc(n * sizeof *s->v);
    s->got = malloc(tokens * row * sizeof *s->got);
    s->want = malloc((size_t)s->n_checked * row * sizeof *s->want);
    TPI_REQUIRE(s->hqkv && s->k && s->v && s->got && s->want, TPCL_ERR_NOMEM,
                "attention over %ld positions", r->shape[CONTEXT]);
    bench_fill(s->hqkv, tokens * stride, 3);
    fill_kv(r, s->k, 5);
    fill_kv(r, s->v, 7);
    make_reference(r, s);
done:
    return status;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = r->env->dev;
    const size_t tokens = (size_t)r->shape[TOKENS], row = query_row(r);
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "attention state");
    TPI_TRY(check_shape(r));
    const int context = (int)r->shape[CONTEXT];
    s->heads = (tpi_heads){.heads = (int)r->shape[HEADS],
                           .kv_heads = (int)r->shape[KV_HEADS],
                           .head_dim = (int)r->shape[HEAD_DIM],
                           .v_head_dim = (int)r->shape[HEAD_DIM],
                           .block_size = context < BLOCK ? context : BLOCK,
                           .kv_f32 = r->dtype == TPCL_F32};
    s->blocks = (context + s->heads.block_size - 1) / s->heads.block_size;
    TPI_REQUIRE(s->heads.head_dim <= 256, TPCL_ERR_SHAPE, "head_dim %d, need up to 256",
                s->heads.head_dim);
    TPI_TRY(make_host(r, s));
    TPI_TRY(make_caches(r, s));
    TPI_TRY(make_batch(r, s));
    TPI_TRY(bench_tensor(dev, TPCL_F32, s->hqkv, tokens * (row + 2 * kv_row(r)), &s->qkv));
    TPI_TRY(bench_tensor(dev, TPCL_F32, NULL, tokens * row, &s->out));
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    const tpi_attention_args args = {.heads = s->heads,
                                     .qkv = s->qkv,
                                     .out = s->out,
                                     .pos = s->pos,
                                     .seq = s->seq,
                                     .table = s->table,
                                     .row_tiles = s->row_tiles,
                                     .head_tiles = s->head_tiles,
                                     .cache = &s->caches[r->turn % (uint64_t)s->n_caches],
                                     .tokens = (int)r->shape[TOKENS],
                                     .n_row_tiles = s->n_row_tiles,
                                     .n_head_tiles = s->n_head_tiles,
                                     .table_width = s->blocks,
                                     .pairs = s->pairs};
    return tpi_attention(&args);
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const size_t row = query_row(r);
    TPI_TRY(tpcl_tensor_read(s->out, s->got, (size_t)r->shape[TOKENS] * row));
    *max_err = 0.0;
    for (int i = 0; i < s->n_checked; i++) {
        const float *got = s->got + (size_t)checked_token(r, s, i) * row;
        *max_err = fmax(*max_err, bench_max_error(got, s->want + (size_t)i * row, row));
    }
done:
    return status;
}

static tpcl_status peer(struct bench_run *r, struct bench_peer *out)
{
    return r->shape[TOKENS] == 1 ? bench_read_peer(r, out) : TPCL_ERR_UNSUPPORTED;
}

/* K and V once, q in, out out */
static double bytes(const struct bench_run *r)
{
    const double kv = 2.0 * (double)r->shape[CONTEXT] * (double)kv_row(r);
    const double q = 2.0 * (double)r->shape[TOKENS] * (double)query_row(r);
    return kv * (r->dtype == TPCL_F32 ? 4.0 : 2.0) + q * sizeof(float);
}

/* a product with K and one with V for each pair of token and earlier position */
static double flops(const struct bench_run *r)
{
    const double tokens = (double)r->shape[TOKENS], past = (double)r->shape[CONTEXT] - tokens;
    const double pairs = tokens * past + tokens * (tokens + 1.0) / 2.0;
    return 4.0 * pairs * (double)query_row(r);
}

const struct bench_case bench_attention = {
    .name = "ops/attention",
    .dims = "tokens,context,heads,kv_heads,head_dim",
    .dtypes = BENCH_DTYPE(TPCL_F16) | BENCH_DTYPE(TPCL_F32),
    .shapes = shapes,
    .setup = setup,
    .run = run,
    .check = check,
    .peer = peer,
    .teardown = teardown,
    .bytes = bytes,
    .flops = flops,
    .max_err = 5e-6, /* means of values of about 1; f32 sums */
};
