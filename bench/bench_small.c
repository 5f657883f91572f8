/* Small steps between the products: SwiGLU, and drawing a token, which is softmax and a cut. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tpcl/ops.h>
#include <tpcl/reference.h>
#include <tpcl/sampling.h>

#include "data.h"

enum { TOKENS, WIDTH };
enum kind { SWIGLU, SOFTMAX };
enum { TOP_K = 40 };

struct state {
    tpcl_tensor *x, *y;
    float *hx, *want, *got;
    double *p;     /* of the plain softmax, sorted as the ids are */
    int32_t drawn; /* by the last run */
    uint64_t step;
};

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    for (int i = 0; i < plan->tokens.n; i++) {
        out[i][TOKENS] = plan->tokens.v[i];
        out[i][WIDTH] = plan->model.inter;
    }
    return plan->tokens.n;
}

/* A draw is for one sequence; a step of a batch draws as often as it has sequences. */
static int sample_shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    for (int i = 0; i < plan->batch.n; i++) {
        out[i][TOKENS] = plan->batch.v[i];
        out[i][WIDTH] = plan->model.vocab;
    }
    return plan->batch.n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    tpcl_tensor_destroy(&s->x);
    tpcl_tensor_destroy(&s->y);
    free(s->hx);
    free(s->want);
    free(s->got);
    free(s->p);
    free(s);
    r->state = NULL;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    const size_t tokens = (size_t)r->shape[TOKENS], width = (size_t)r->shape[WIDTH];
    const size_t n = tokens * width;
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "state of a small step");
    s->hx = malloc(2 * n * sizeof *s->hx);
    s->want = malloc(n * sizeof *s->want);
    s->got = malloc(n * sizeof *s->got);
    s->p = malloc(width * sizeof *s->p);
    TPI_REQUIRE(s->hx && s->want && s->got && s->p, TPCL_ERR_NOMEM, "%zu values", 3 * n);
    bench_fill(s->hx, 2 * n, 3);
    for (size_t i = 0; i < 2 * n; i++) s->hx[i] *= 4.0f;
    if (r->c->kind == SOFTMAX) {
        tpcl_ref_softmax(s->hx, s->p, (int)width);
        goto done;
    }
    tpcl_ref_swiglu(s->hx, s->want, (int)tokens, (int)width);
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, s->hx, 2 * n, &s->x));
    TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, NULL, n, &s->y));
done:
    return status;
}

static tpcl_status draw(const struct bench_run *r, struct state *s, float temperature, int row,
                        uint64_t step, int32_t *id)
{
    const tpcl_sampling how = {
        .temperature = temperature, .top_k = TOP_K, .top_p = 0.95f, .seed = 5};
    const tpcl_sample_input in = {.logits = s->hx + (size_t)row * (size_t)r->shape[WIDTH],
                                  .n = (int)r->shape[WIDTH],
                                  .step = step};
    return tpcl_sample(&in, &how, id);
}

static tpcl_status run(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    if (r->c->kind == SWIGLU)
        return tpcl_swiglu(s->x, s->y, (int)r->shape[TOKENS], (int)r->shape[WIDTH]);
    s->step++;
    for (int row = 0; row < r->shape[TOKENS]; row++)
        TPI_TRY(draw(r, s, 0.8f, row, s->step, &s->drawn));
done:
    return status;
}

static int more(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Greedy draws are the argmax; others are among the top_k likeliest. The error is 0 or 1. */
static tpcl_status check_draws(struct bench_run *r, struct state *s, double *max_err)
{
    tpcl_status status = TPCL_OK;
    const int n = (int)r->shape[WIDTH];
    int32_t id = -1;
    *max_err = 0.0;
    double *sorted = malloc((size_t)n * sizeof *sorted);
    TPI_REQUIRE(sorted, TPCL_ERR_NOMEM, "%d probabilities", n);
    memcpy(sorted, s->p, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, more);
    const double least = sorted[n < TOP_K ? n - 1 : TOP_K - 1];
    TPI_TRY(draw(r, s, 0.0f, 0, 0, &id));
    if (id != tpcl_ref_argmax(s->hx, n)) *max_err = 1.0;
    for (uint64_t step = 0; step < 16; step++) {
        TPI_TRY(draw(r, s, 0.8f, 0, step, &id));
        if (id < 0 || id >= n || s->p[id] < least) *max_err = 1.0;
    }
    if (s->drawn < 0 || s->drawn >= n) *max_err = 1.0;
done:
    free(sorted);
    return status;
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const size_t n = (size_t)r->shape[TOKENS] * (size_t)r->shape[WIDTH];
    if (r->c->kind == SOFTMAX) return check_draws(r, s, max_err);
    TPI_TRY(tpcl_tensor_read(s->y, s->got, n));
    *max_err = bench_max_error(s->got, s->want, n) / 16.0; /* products of up to 4 and 4 */
done:
    return status;
}

/* gate and up in, one out; logits in */
static double bytes(const struct bench_run *r)
{
    const double n = (double)r->shape[TOKENS] * (double)r->shape[WIDTH];
    return sizeof(float) * n * (r->c->kind == SWIGLU ? 3.0 : 1.0);
}

static double flops(const struct bench_run *r)
{
    (void)r;
    return 0.0;
}

#define SMALL(id, text, which, names, list, limit)                         \
    const struct bench_case bench_##id = {.name = "ops/" text,             \
                                          .dims = names,                   \
                                          .dtypes = BENCH_DTYPE(TPCL_F32), \
                                          .kind = which,                   \
                                          .shapes = list,                  \
                                          .setup = setup,                  \
                                          .run = run,                      \
                                          .check = check,                  \
                                          .teardown = teardown,            \
                                          .bytes = bytes,                  \
                                          .flops = flops,                  \
                                          .max_err = limit}

SMALL(swiglu, "swiglu", SWIGLU, "tokens,inter", shapes, 2e-6);
SMALL(sample, "sample", SOFTMAX, "sequences,vocab", sample_shapes, 0.0);
