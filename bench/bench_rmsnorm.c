/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "data.h"
#include "ops/ops.h"

enum { TOKENS, HIDDEN };
static const float eps = 1e-5f;

struct state {
    tpcl_tensor *x, *w, *y;
    float *hx, *hw, *want, *got;
};

static size_t elements(const struct bench_run *r)
{
    return (size_t)r->shape[TOKENS] * (size_t)r->shape[HIDDEN];
}

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    for (int i = 0; i < plan->tokens.n; i++) {
        out[i][TOKENS] = plan->tokens.v[i];
        out[i][HIDDEN] = plan->model.hidden;
    }
    return plan->tokens.n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    tpcl_tensor_destroy(&s->x);
    tpcl_tensor_destroy(&s->w);
    tpcl_tensor_destroy(&s->y);
    free(s->hx);
    free(s->hw);
    free(s->want);
    free(s->got);
    free(s);
    r->state = NULL;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    const size_t n = elements(r), hidden = (size_t)r->shape[HIDDEN];
    tpcl_device *dev = r->env->dev;
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "rmsnorm state");
    s->hx = malloc(n * sizeof *s->hx);
    s->hw = malloc(hidden * sizeof *s->hw);
    s->want = malloc(n * sizeof *s->want);
    s->got = malloc(n * sizeof *s->got);
    TPI_REQUIRE(s->hx && s->hw && s->want && s->got, TPCL_ERR_NOMEM, "rmsnorm of %zu values", n);
    bench_fill(s->hx, n, 3);
    bench_fill(s->hw, hidden, 5);
    tpcl_ref_rmsnorm(s->hx, NULL, s->hw, s->want, (int)r->shape[TOKENS], (int)hidden, eps);
    TPI_TRY(bench_tensor(dev, TPCL_F32, s->hx, n, &s->x));
    TPI_TRY(bench_tensor(dev, TPCL_F32, s->hw, hidden, &s->w));
    TPI_TRY(bench_tensor(dev, TPCL_F32, NULL, n, &s->y));
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    return tpcl_rmsnorm(s->x, NULL, s->w, s->y, (int)r->shape[TOKENS], (int)r->shape[HIDDEN], eps);
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

/* x and w in, y out */
static double bytes(const struct bench_run *r)
{
    return sizeof(float) * (2.0 * (double)elements(r) + (double)r->shape[HIDDEN]);
}

/* square and add, scale and weight */
static double flops(const struct bench_run *r)
{
    return 4.0 * (double)elements(r);
}

const struct bench_case bench_rmsnorm = {
    .name = "ops/rmsnorm",
    .dims = "tokens,hidden",
    .dtypes = BENCH_DTYPE(TPCL_F32),
    .shapes = shapes,
    .setup = setup,
    .run = run,
    .check = check,
    .teardown = teardown,
    .bytes = bytes,
    .flops = flops,
    .max_err = 2e-5, /* values up to about 2; an f32 sum of squares in any order */
};
