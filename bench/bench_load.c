/* A model file to a model that is ready: opened, read, packed, its kernels built (they come from
 * the store after the first load) and run once. The file is synthetic and goes again. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tpcl/model.h>
#include <unistd.h>

#include "data.h"
#include "runner.h"
#include "synth.h"

enum { VOCAB, HIDDEN, LAYERS };
enum kind { COLD, WARM };
enum { PROBE = 6, PATH = 512, CONTEXT = 256 };

struct state {
    struct bench_synth *synth;
    char path[PATH];
    bool written; /* by this rank, which removes it */
    tpcl_model *model;
    float *last; /* [vocab] of the probe, on rank 0 */
    double bytes;
};

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    out[0][VOCAB] = plan->model.vocab;
    out[0][HIDDEN] = plan->model.hidden;
    out[0][LAYERS] = plan->model.layers;
    return 1;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    tpcl_model_destroy(&s->model);
    bench_synth_destroy(&s->synth);
    if (s->written) unlink(s->path);
    free(s->last);
    free(s);
    r->state = NULL;
}

/* The same name on every rank; the first rank of each host writes the file there. */
static tpcl_status write_file(struct bench_run *r, struct state *s)
{
    tpcl_status status = TPCL_OK, agreed = TPCL_OK;
    const char *folder = getenv("TMPDIR");
    snprintf(s->path, sizeof s->path, "%.400s/tpcl-bench-%d-%.0f.gguf",
             folder && *folder ? folder : "/tmp", (int)getpid(), bench_now_us());
    TPI_TRY(tpcl_comm_broadcast(r->env->comm, TPCL_OK, s->path, sizeof s->path, 0));
    if (tpcl_comm_local_rank(r->env->comm) == 0) {
        s->written = true;
        status = bench_synth_write(s->synth, s->path);
    }
    TPI_TRY(bench_agree(r->env, status, "the synthetic model's file", &agreed));
    status = agreed;
done:
    return status;
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK, agreed = TPCL_OK;
    struct model_shape shape = r->plan->model;
    struct state *s = r->state = calloc(1, sizeof *s);
    if (s) s->last = calloc((size_t)r->shape[VOCAB], sizeof *s->last);
    if (!s || !s->last) status = tpi_fail(TPCL_ERR_NOMEM, "state of a load");
    if (r->shape[VOCAB] != shape.vocab || r->shape[HIDDEN] != shape.hidden ||
        r->shape[LAYERS] != shape.layers)
        status = tpi_fail(TPCL_ERR_SHAPE, "the model of --shape is %ldx%ldx%ld", shape.vocab,
                          shape.hidden, shape.layers);
    if (status == TPCL_OK) status = bench_synth_create(&shape, r->dtype, &s->synth);
    TPI_TRY(bench_agree(r->env, status, "a synthetic model", &agreed));
    TPI_TRY(agreed);
    TPI_TRY(write_file(r, s));
    s->bytes = (double)bench_synth_bytes(s->synth) / r->env->size;
done:
    return status;
}

/* The model before goes; cold: so do the pages of the file. */
static tpcl_status reset(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    tpcl_model_destroy(&s->model);
    if (r->c->kind == WARM || !s->written) goto done;
    const int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    const bool dropped = fd >= 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0;
    if (fd >= 0) close(fd);
    TPI_REQUIRE(dropped, TPCL_ERR_IO, "%s: its pages cannot be dropped", s->path);
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    tpcl_checkpoint *ck = NULL;
    const tpcl_model_options options = {.context = CONTEXT};
    tpcl_model_destroy(&s->model);
    tpcl_status status = tpcl_checkpoint_open(s->path, NULL, &ck);
    status = tpcl_model_load(r->env->group, status, ck, &options, &s->model);
    tpcl_checkpoint_close(&ck);
    return status;
}

/* What tpcl_model_score hands out. */
struct probe {
    float *last;
    size_t vocab;
};

static int keep(void *context, int position, const float *logits)
{
    const struct probe *p = context;
    if (position == PROBE - 1) memcpy(p->last, logits, p->vocab * sizeof *logits);
    return 0;
}

/* A few tokens of the loaded model against plain C. */
static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    struct probe p = {s->last, (size_t)r->shape[VOCAB]};
    int32_t ids[PROBE];
    float *want = NULL;
    int period = 0;
    double most = 0.0;
    *max_err = 0.0;
    for (int i = 0; i < PROBE; i++) ids[i] = (int32_t)((i * 7919L + 3) % r->shape[VOCAB]);
    memset(s->last, 0xff, p.vocab * sizeof *s->last); /* not a number until it is computed */
    TPI_TRY(tpcl_model_score(s->model, ids, PROBE, keep, &p));
    /* GGUF's llama turns neighbours together */
    TPI_TRY(bench_synth_logits(s->synth, ids, PROBE, true, &want, &period));
    for (size_t w = 0; w < p.vocab && r->env->rank == 0; w++) {
        const float *one = want + w % (size_t)period;
        *max_err = fmax(*max_err, bench_max_error(s->last + w, one, 1));
        most = fmax(most, fabs((double)*one));
    }
    if (most > 0.0) *max_err /= most;
done:
    free(want);
    return status;
}

/* an equal share of the file */
static double bytes(const struct bench_run *r)
{
    const struct state *s = r->state;
    return s->bytes;
}

static double flops(const struct bench_run *r)
{
    (void)r;
    return 0.0;
}

#define LOAD(id, text, which)                                                 \
    const struct bench_case bench_load_##id = {.name = "load/" text,          \
                                               .dims = "vocab,hidden,layers", \
                                               .dtypes = BENCH_WEIGHTS,       \
                                               .of_model = true,              \
                                               .kind = which,                 \
                                               .shapes = shapes,              \
                                               .setup = setup,                \
                                               .reset = reset,                \
                                               .run = run,                    \
                                               .check = check,                \
                                               .teardown = teardown,          \
                                               .bytes = bytes,                \
                                               .flops = flops,                \
                                               .max_err = 2e-3 /* as of model/pp */}

LOAD(cold, "cold", COLD);
LOAD(warm, "warm", WARM);
