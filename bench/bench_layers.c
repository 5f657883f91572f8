/* Parallel linear layers through their public calls, on all ranks, against one rank's plain C. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tpcl/linear.h>
#include <tpcl/reference.h>

#include "data.h"

enum { TOKENS, N, K };
enum { HEADS = N, KV_HEADS = K, HEAD_DIM, HIDDEN };
enum kind { COLUMN, MERGED, ROW, QKV };
enum { MANY = 32 }; /* tokens from which arithmetic and not the reading of weights takes the time */

struct state {
    struct bench_rows rows;
    tpcl_host_tensor weight;
    tpcl_linear **copies;
    int n_copies;
    tpcl_range *cuts;
    tpcl_head_range *heads;
    tpcl_tensor *x, *y;
    float *hx, *mine;  /* all of x, and what this rank is given of it */
    float *got, *want; /* want [tokens, rows.rows]; output o is that of row o % rows.rows */
    double scale;
};

static long inputs(const struct bench_run *r)
{
    return r->c->kind == QKV ? r->shape[HIDDEN] : r->shape[K];
}

static long outputs(const struct bench_run *r)
{
    if (r->c->kind != QKV) return r->shape[N];
    return (r->shape[HEADS] + 2 * r->shape[KV_HEADS]) * r->shape[HEAD_DIM];
}

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    const struct model_shape *m = &plan->model;
    for (int i = 0; i < plan->tokens.n; i++) {
        out[i][TOKENS] = plan->tokens.v[i];
        out[i][N] = m->inter; /* the column layer's: up */
        out[i][K] = m->hidden;
    }
    return plan->tokens.n;
}

static int merged_shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    const int n = shapes(plan, out);
    for (int i = 0; i < n; i++) out[i][N] = 2 * plan->model.inter;
    return n;
}

static int row_shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    const int n = shapes(plan, out);
    for (int i = 0; i < n; i++) {
        out[i][N] = plan->model.hidden;
        out[i][K] = plan->model.inter;
    }
    return n;
}

static int qkv_shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    const int n = shapes(plan, out);
    for (int i = 0; i < n; i++) {
        out[i][HEADS] = plan->model.heads;
        out[i][KV_HEADS] = plan->model.kv_heads;
        out[i][HEAD_DIM] = plan->model.head_dim;
        out[i][HIDDEN] = plan->model.hidden;
    }
    return n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    for (int i = 0; i < s->n_copies; i++) tpcl_linear_destroy(&s->copies[i]);
    tpcl_tensor_destroy(&s->x);
    tpcl_tensor_destroy(&s->y);
    bench_rows_free(&s->rows);
    free(s->copies);
    free(s->cuts);
    free(s->heads);
    free(s->hx);
    free(s->mine);
    free(s->got);
    free(s->want);
    free(s);
    r->state = NULL;
}

/* Which rows or columns are whose: the same cuts that the layer is told, or makes itself. */
static tpcl_status make_cuts(const struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const int size = r->env->size;
    s->cuts = calloc((size_t)size, sizeof *s->cuts);
    s->heads = calloc((size_t)size, sizeof *s->heads);
    TPI_REQUIRE(s->cuts && s->heads, TPCL_ERR_NOMEM, "cuts of %d ranks", size);
    if (r->c->kind == QKV)
        TPI_TRY(tpcl_shard_heads((int)r->shape[HEADS], (int)r->shape[KV_HEADS], 1, size, NULL, 0,
                                 s->heads));
    else if (r->c->kind == ROW)
        TPI_TRY(tpcl_shard_split(r->shape[K], tpcl_dtype_block(r->dtype), size, NULL, 0, s->cuts));
    else
        TPI_TRY(tpcl_shard_split(r->shape[N] / (r->c->kind == MERGED ? 2 : 1), 1, size, NULL, 0,
                                 s->cuts));
done:
    return status;
}

static tpcl_status create_layer(const struct bench_run *r, struct state *s, tpcl_linear **out)
{
    tpcl_group *group = r->env->group;
    const int64_t half = r->shape[N] / 2;
    const tpcl_linear_part one = {.weight = &s->weight, .rows = s->cuts};
    const tpcl_linear_part two[2] = {
        {.weight = &s->weight, .rows = s->cuts, .out = half},
        {.weight = &s->weight, .rows = s->cuts, .first = half, .out = half}};
    const tpcl_row_linear_options columns = {.columns = s->cuts};
    const tpcl_qkv_linear_desc qkv = {.heads = (int)r->shape[HEADS],
                                      .kv_heads = (int)r->shape[KV_HEADS],
                                      .head_dim = (int)r->shape[HEAD_DIM],
                                      .fused = &s->weight,
                                      .ranges = s->heads};
    switch ((enum kind)r->c->kind) {
    case COLUMN:
        return tpcl_column_linear_create(group, &one, 1, NULL, out);
    case MERGED:
        return tpcl_column_linear_create(group, two, 2, NULL, out);
    case ROW:
        return tpcl_row_linear_create(group, &s->weight, NULL, &columns, out);
    case QKV:
        return tpcl_qkv_linear_create(group, &qkv, out);
    }
    return TPCL_OK;
}

/* The layer once, or where reading it is what takes the time, as often as caches demand; on every
 * rank as often, because each call of a row layer is a collective. */
static tpcl_status make_copies(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t share = (size_t)outputs(r) * s->rows.row_bytes / (size_t)r->env->size;
    const int wanted = r->shape[TOKENS] < MANY ? bench_copies(r->env, share) : 1;
    s->copies = calloc((size_t)wanted, sizeof(tpcl_linear *));
    TPI_REQUIRE(s->copies, TPCL_ERR_NOMEM, "%d layers", wanted);
    for (s->n_copies = 0; s->n_copies < wanted;)
        TPI_TRY(create_layer(r, s, &s->copies[s->n_copies++]));
done:
    return status;
}

static void take_mine(const struct bench_run *r, struct state *s)
{
    const size_t k = (size_t)inputs(r), tokens = (size_t)r->shape[TOKENS];
    const tpcl_range mine = r->c->kind == ROW ? s->cuts[r->env->rank] : (tpcl_range){0, (int64_t)k};
    const size_t width = (size_t)tpcl_range_size(mine);
    for (size_t t = 0; t < tokens; t++)
        memcpy(s->mine + t * width, s->hx + t * k + mine.begin, width * sizeof *s->mine);
}

static tpcl_status make_host(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    const size_t tokens = (size_t)r->shape[TOKENS], in = tokens * (size_t)inputs(r);
    TPI_TRY(bench_rows_create(r->dtype, outputs(r), inputs(r), &s->rows));
    s->weight = bench_rows_host(&s->rows);
    s->hx = malloc(in * sizeof *s->hx);
    s->mine = malloc(in * sizeof *s->mine);
    s->got = malloc(tokens * (size_t)outputs(r) * sizeof *s->got);
    s->want = malloc(tokens * (size_t)s->rows.rows * sizeof *s->want);
    TPI_REQUIRE(s->hx && s->mine && s->got && s->want, TPCL_ERR_NOMEM, "layer of %zu values", in);
    bench_fill(s->hx, in, 3);
    tpcl_ref_linear(s->hx, s->rows.wide, NULL, s->want, (int)tokens, s->rows.rows, s->rows.k);
    TPI_TRY(bench_scale(s->hx, &s->rows, &s->scale));
done:
    return status;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    const size_t tokens = (size_t)r->shape[TOKENS];
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "layer state");
    TPI_REQUIRE(r->c->kind != MERGED || r->shape[N] % 2 == 0, TPCL_ERR_SHAPE,
                "%ld outputs are not two equal parts", r->shape[N]);
    TPI_TRY(make_cuts(r, s));
    TPI_TRY(make_host(r, s));
    take_mine(r, s);
    TPI_TRY(make_copies(r, s));
    const size_t in = tokens * (size_t)tpcl_linear_in(s->copies[0]);
    const size_t out = tokens * (size_t)tpcl_linear_out(s->copies[0]);
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, in ? s->mine : NULL, in ? in : 1, &s->x));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, NULL, out ? out : 1, &s->y));
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    tpcl_linear *layer = s->copies[r->turn % (uint64_t)s->n_copies];
    return tpcl_linear_forward(layer, s->x, s->y, (int)r->shape[TOKENS]);
}

/* Which row of the whole weight this rank's output `i` is. */
static int64_t global_row(const struct bench_run *r, const struct state *s, int64_t i)
{
    const tpcl_range cut = s->cuts[r->env->rank];
    if (r->c->kind == ROW) return i;
    if (r->c->kind == COLUMN) return cut.begin + i;
    if (r->c->kind == MERGED) {
        const int64_t part = tpcl_range_size(cut);
        return i < part ? cut.begin + i : r->shape[N] / 2 + cut.begin + i - part;
    }
    const tpcl_head_range h = s->heads[r->env->rank];
    const int64_t dim = r->shape[HEAD_DIM], all_q = r->shape[HEADS] * dim;
    const int64_t q = tpcl_range_size(h.q) * dim, kv = tpcl_range_size(h.kv) * dim;
    if (i < q) return h.q.begin * dim + i;
    if (i < q + kv) return all_q + h.kv.begin * dim + i - q;
    return all_q + r->shape[KV_HEADS] * dim + h.kv.begin * dim + i - q - kv;
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const size_t n = (size_t)tpcl_linear_out(s->copies[0]), tokens = (size_t)r->shape[TOKENS];
    const size_t rows = (size_t)s->rows.rows;
    *max_err = 0.0;
    if (n > 0) TPI_TRY(tpcl_tensor_read(s->y, s->got, tokens * n));
    for (size_t o = 0; o < n; o++) {
        const size_t row = (size_t)global_row(r, s, (int64_t)o) % rows;
        for (size_t t = 0; t < tokens; t++) {
            const double error = bench_max_error(s->got + t * n + o, s->want + t * rows + row, 1);
            *max_err = fmax(*max_err, error / s->scale);
        }
    }
done:
    return status;
}

/* this rank's equal share of the weight; x in, y out */
static double bytes(const struct bench_run *r)
{
    const struct state *s = r->state;
    const double tokens = (double)r->shape[TOKENS], size = r->env->size;
    const double in = tokens * (double)inputs(r) / (r->c->kind == ROW ? size : 1.0);
    const double out = tokens * (double)outputs(r) / (r->c->kind == ROW ? 1.0 : size);
    return (double)s->rows.row_bytes * (double)outputs(r) / size + sizeof(float) * (in + out);
}

static double flops(const struct bench_run *r)
{
    return 2.0 * (double)r->shape[TOKENS] * (double)outputs(r) * (double)inputs(r) / r->env->size;
}

#define LAYER(id, text, which, names, list)                        \
    const struct bench_case bench_##id = {.name = "layers/" text,  \
                                          .dims = names,           \
                                          .dtypes = BENCH_WEIGHTS, \
                                          .kind = which,           \
                                          .shapes = list,          \
                                          .setup = setup,          \
                                          .run = run,              \
                                          .check = check,          \
                                          .teardown = teardown,    \
                                          .bytes = bytes,          \
                                          .flops = flops,          \
                                          .max_err = 2e-5 /* as of ops/linear */}

LAYER(column, "column", COLUMN, "tokens,n,k", shapes);
LAYER(merged, "merged", MERGED, "tokens,n,k", merged_shapes);
LAYER(row_layer, "row", ROW, "tokens,n,k", row_shapes);
LAYER(qkv, "qkv", QKV, "tokens,heads,kv_heads,head_dim,hidden", qkv_shapes);
