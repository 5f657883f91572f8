/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data.h"
#include "ops/gemm.h"
#include "ops/ops.h"
#include "read.h"

enum { TOKENS, N, K };
enum { MANY = 32 }; /* tokens from which arithmetic and not the reading of weights takes the time */

struct state {
    struct bench_rows rows;
    tpi_weight **copies;
    int n_copies;
    tpcl_tensor *x, *y;
    float *hx, *got;
    float *want;              /* [tokens, rows.rows]; output o is that of row o % rows.rows */
    double scale;             /* what sums of k such terms amount to; errors are relative to it */
    tpi_weight *their_weight; /* CLBlast's, on its own handle of the device */
    tpcl_tensor *their_x, *their_y;
};

static size_t outputs(const struct bench_run *r)
{
    return (size_t)r->shape[TOKENS] * (size_t)r->shape[N];
}

static size_t inputs(const struct bench_run *r)
{
    return (size_t)r->shape[TOKENS] * (size_t)r->shape[K];
}

static void set_shape(long *out, long tokens, long n, long k)
{
    out[TOKENS] = tokens;
    out[N] = n;
    out[K] = k;
}

/* The products of a decoder layer; the head's for one token, as a model multiplies only the last.
 */
static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    const struct model_shape *m = &plan->model;
    const long q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    int n = 0;
    for (int i = 0; i < plan->tokens.n && n + 5 <= BENCH_SHAPES; i++) {
        const long tokens = plan->tokens.v[i];
        set_shape(out[n++], tokens, q + 2 * kv, m->hidden);
        set_shape(out[n++], tokens, m->hidden, q);
        set_shape(out[n++], tokens, 2 * m->inter, m->hidden);
        set_shape(out[n++], tokens, m->hidden, m->inter);
        if (tokens == 1) set_shape(out[n++], tokens, m->vocab, m->hidden);
    }
    return n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    for (int i = 0; i < s->n_copies; i++) tpi_weight_destroy(&s->copies[i]);
    free(s->copies);
    tpi_weight_destroy(&s->their_weight);
    tpcl_tensor *tensors[] = {s->x, s->y, s->their_x, s->their_y};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        tpcl_tensor_destroy(&tensors[i]);
    bench_rows_free(&s->rows);
    free(s->hx);
    free(s->got);
    free(s->want);
    free(s);
    r->state = NULL;
}

/* The weight once, or where reading it is what takes the time, as often as caches demand. */
static tpcl_status make_copies(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = r->env->dev;
    const size_t bytes = tpi_weight_panel_bytes(r->dtype, (int)r->shape[K]) *
                         (size_t)((r->shape[N] + TPI_PANEL - 1) / TPI_PANEL);
    const int wanted = r->shape[TOKENS] < MANY ? bench_copies(r->env, bytes) : 1;
    s->copies = calloc((size_t)wanted, sizeof(tpi_weight *));
    TPI_REQUIRE(s->copies, TPCL_ERR_NOMEM, "%d weights", wanted);
    for (s->n_copies = 0; s->n_copies < wanted;) {
        tpi_weight **to = &s->copies[s->n_copies++];
        if (s->n_copies == 1) {
            TPI_TRY(bench_rows_weight(&s->rows, dev, to));
            continue;
        }
        *to = malloc(sizeof **to);
        TPI_REQUIRE(*to, TPCL_ERR_NOMEM, "weight object");
        **to = *s->copies[0];
        (*to)->dev = tpi_device_retain(dev);
        (*to)->mem = NULL;
        TPI_TRY(bench_copy(dev, s->copies[0]->mem, s->copies[0]->bytes, &(*to)->mem));
    }
done:
    return status;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    const size_t tokens = (size_t)r->shape[TOKENS];
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "linear state");
    TPI_TRY(bench_rows_create(r->dtype, r->shape[N], r->shape[K], &s->rows));
    s->hx = malloc(inputs(r) * sizeof *s->hx);
    s->got = malloc(outputs(r) * sizeof *s->got);
    s->want = malloc(tokens * (size_t)s->rows.rows * sizeof *s->want);
    TPI_REQUIRE(s->hx && s->got && s->want, TPCL_ERR_NOMEM, "linear of %zu values", outputs(r));
    bench_fill(s->hx, inputs(r), 3);
    tpcl_ref_linear(s->hx, s->rows.wide, NULL, s->want, (int)tokens, s->rows.rows, s->rows.k);
    TPI_TRY(bench_scale(s->hx, &s->rows, &s->scale));
    TPI_TRY(make_copies(r, s));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, s->hx, inputs(r), &s->x));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, NULL, outputs(r), &s->y));
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    const tpi_weight *w = s->copies[r->turn % (uint64_t)s->n_copies];
    return tpi_linear(w, s->x, NULL, s->y, (int)r->shape[TOKENS]);
}

static tpcl_status compare(const struct bench_run *r, const tpcl_tensor *y, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const size_t n = (size_t)r->shape[N], rows = (size_t)s->rows.rows;
    TPI_TRY(tpcl_tensor_read(y, s->got, outputs(r)));
    *max_err = 0.0;
    for (size_t t = 0; t < (size_t)r->shape[TOKENS]; t++)
        for (size_t o = 0; o < n; o += rows) {
            const size_t part = n - o < rows ? n - o : rows;
            const double error = bench_max_error(s->got + t * n + o, s->want + t * rows, part);
            *max_err = fmax(*max_err, error / s->scale);
        }
done:
    return status;
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    return compare(r, ((struct state *)r->state)->y, max_err);
}

static tpcl_status run_clblast(struct bench_run *r)
{
    struct state *s = r->state;
    return tpi_linear(s->their_weight, s->their_x, NULL, s->their_y, (int)r->shape[TOKENS]);
}

static tpcl_status open_clblast(struct bench_env *env)
{
    tpcl_status status = TPCL_OK;
    char index[16];
    snprintf(index, sizeof index, "%d", env->dev->info.index);
    const tpcl_device_options options = {
        .select = index,
        .units = env->dev->is_sub_device ? env->dev->info.compute_units : 0,
        .gemm = TPCL_GEMM_CLBLAST,
        .log = env->dev->log};
    if (!env->clblast) TPI_TRY(tpcl_device_open(&options, &env->clblast));
done:
    return status;
}

static tpcl_status clblast_peer(struct bench_run *r, struct bench_peer *out)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    double error = 0.0;
    TPI_TRY(open_clblast(r->env));
    TPI_TRY(bench_rows_weight(&s->rows, r->env->clblast, &s->their_weight));
    TPI_REQUIRE(tpi_gemm_wanted(s->their_weight, (int)r->shape[TOKENS]), TPCL_ERR_UNSUPPORTED,
                "too large for CLBlast's scratch");
    TPI_TRY(bench_tensor(r->env->clblast, TPCL_F32, s->hx, inputs(r), &s->their_x));
    TPI_TRY(bench_tensor(r->env->clblast, TPCL_F32, NULL, outputs(r), &s->their_y));
    TPI_TRY(run_clblast(r));
    TPI_TRY(compare(r, s->their_y, &error));
    TPI_REQUIRE(error <= bench_linear.max_err, TPCL_ERR_DEVICE, "CLBlast is wrong by %g", error);
    *out = (struct bench_peer){.name = "clblast:time", .run = run_clblast, .dev = r->env->clblast};
done:
    return status;
}

/* One token reads the weight and that is all; many multiply. */
static tpcl_status peer(struct bench_run *r, struct bench_peer *out)
{
    if (r->shape[TOKENS] >= MANY) return clblast_peer(r, out);
    return r->shape[TOKENS] == 1 ? bench_read_peer(r, out) : TPCL_ERR_UNSUPPORTED;
}

/* the weight and x in, y out */
static double bytes(const struct bench_run *r)
{
    const struct state *s = r->state;
    return (double)s->rows.row_bytes * (double)r->shape[N] +
           sizeof(float) * (double)(inputs(r) + outputs(r));
}

static double flops(const struct bench_run *r)
{
    return 2.0 * (double)outputs(r) * (double)r->shape[K];
}

const struct bench_case bench_linear = {
    .name = "ops/linear",
    .dims = "tokens,n,k",
    .dtypes = BENCH_WEIGHTS,
    .shapes = shapes,
    .setup = setup,
    .run = run,
    .check = check,
    .peer = peer,
    .teardown = teardown,
    .bytes = bytes,
    .flops = flops,
    .max_err = 2e-5, /* f32 sums of up to some 10,000 terms; a lost term is 1e-2 */
};
