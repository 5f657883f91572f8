/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A batch is long against the clock and the barrier, and short against a person's patience. */
static const double batch_us = 2000.0;
enum { BATCH_MAX = 256 };

/* One of the two that are timed alternately. */
struct contender {
    tpcl_status (*run)(struct bench_run *r);
    tpcl_device *dev; /* whose queue is drained, or NULL */
    int batch;
    double *us;    /* [reps] */
    double cpu_us; /* of all samples */
};

const char *bench_verdict_name(enum bench_verdict verdict)
{
    static const char *const names[] = {"PASS", "FAILED", "ERROR"};
    return names[verdict];
}

enum bench_verdict bench_judge(tpcl_status status, double max_err, double limit)
{
    if (status != TPCL_OK) return BENCH_ERROR;
    return max_err <= limit ? BENCH_PASS : BENCH_FAILED; /* NaN is not <= */
}

double bench_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

void bench_say(const char *fmt, ...)
{
    char line[1200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    fprintf(stderr, "tpcl-bench: %s\n", line);
}

tpcl_status bench_agree(const struct bench_env *env, tpcl_status local, const char *what,
                        tpcl_status *agreed)
{
    tpcl_status status = TPCL_OK;
    int64_t worst[2] = {local, local == TPCL_OK ? 0 : env->size - env->rank};
    TPI_TRY(tpcl_comm_allreduce_max(env->comm, TPCL_OK, worst, 2));
    if (what && worst[1] > 0 && env->size - worst[1] == env->rank)
        bench_say("%s: %s", what, tpcl_last_error());
    *agreed = (tpcl_status)worst[0];
done:
    return status;
}

static double cpu_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* The input as the next batch is to find it, in place before a clock is read. */
static tpcl_status reset(const struct bench_case *c, struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    if (!c->reset) return TPCL_OK;
    TPI_TRY(c->reset(r));
    TPI_TRY(TPI_CL(clFinish(r->env->dev->queue)));
done:
    return status;
}

static tpcl_status run_batch(const struct contender *c, struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    for (int i = 0; i < c->batch; i++, r->turn++) TPI_TRY(c->run(r));
    if (c->dev) TPI_TRY(TPI_CL(clFinish(c->dev->queue)));
done:
    return status;
}

/* Returns an error where the ranks have lost each other; *agreed tells of the run. */
static tpcl_status sample(struct contender *c, struct bench_run *r, double *us, tpcl_status *agreed)
{
    tpcl_status status = TPCL_OK;
    const struct bench_env *env = r->env;
    tpcl_status local = reset(r->c, r);
    TPI_TRY(bench_agree(env, local, "input", agreed));
    if (*agreed != TPCL_OK) goto done;
    TPI_TRY(tpcl_comm_agree(env->comm, TPCL_OK, "bench sample")); /* all start together */
    const double cpu = cpu_now_us(), start = bench_now_us();
    local = run_batch(c, r);
    int64_t slowest_ns = (int64_t)((bench_now_us() - start) * 1e3);
    c->cpu_us += (cpu_now_us() - cpu) / c->batch;
    TPI_TRY(tpcl_comm_allreduce_max(env->comm, TPCL_OK, &slowest_ns, 1));
    *us = (double)slowest_ns * 1e-3 / c->batch;
    TPI_TRY(bench_agree(env, local, "timing", agreed));
done:
    return status;
}

/* How many runs make a batch, from the time of one; and one batch to be warm. */
static tpcl_status warm_up(struct contender *c, struct bench_run *r, tpcl_status *agreed)
{
    tpcl_status status = TPCL_OK;
    double us = 0.0;
    c->batch = 1;
    TPI_TRY(sample(c, r, &us, agreed));
    if (*agreed != TPCL_OK) goto done;
    c->batch = us * BATCH_MAX <= batch_us ? BATCH_MAX : (int)ceil(batch_us / us);
    TPI_TRY(sample(c, r, &us, agreed));
    c->cpu_us = 0.0;
done:
    return status;
}

static tpcl_status time_both(struct contender *both, int n, struct bench_run *r, int reps,
                             tpcl_status *agreed)
{
    tpcl_status status = TPCL_OK;
    for (int i = 0; i < n && *agreed == TPCL_OK; i++) TPI_TRY(warm_up(&both[i], r, agreed));
    for (int s = 0; s < reps; s++)
        for (int i = 0; i < n && *agreed == TPCL_OK; i++)
            TPI_TRY(sample(&both[i], r, &both[i].us[s], agreed));
done:
    return status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The three phases of a run, the median of `reps` and of the slowest rank. */
static tpcl_status time_phases(const struct bench_case *c, struct bench_run *r, int reps,
                               struct bench_result *out)
{
    tpcl_status status = TPCL_OK, agreed = TPCL_OK;
    double *us = malloc((size_t)reps * BENCH_PHASES * sizeof *us);
    TPI_TRY(bench_agree(r->env, us ? TPCL_OK : tpi_fail(TPCL_ERR_NOMEM, "%d samples", reps),
                        "phases", &agreed));
    for (int s = 0; s < reps && agreed == TPCL_OK; s++) {
        double one[BENCH_PHASES] = {0};
        int64_t ns[BENCH_PHASES];
        TPI_TRY(tpcl_comm_agree(r->env->comm, TPCL_OK, "bench phases"));
        const tpcl_status local = c->split(r, one);
        for (int p = 0; p < BENCH_PHASES; p++) ns[p] = (int64_t)(one[p] * 1e3);
        TPI_TRY(tpcl_comm_allreduce_max(r->env->comm, TPCL_OK, ns, BENCH_PHASES));
        for (int p = 0; p < BENCH_PHASES; p++) us[p * reps + s] = (double)ns[p] * 1e-3;
        TPI_TRY(bench_agree(r->env, local, "phases", &agreed));
    }
    for (int p = 0; p < BENCH_PHASES && agreed == TPCL_OK; p++) {
        qsort(us + p * reps, (size_t)reps, sizeof *us, by_value);
        out->phases[p] = us[p * reps + reps / 2];
    }
    if (agreed != TPCL_OK) {
        out->status = agreed;
        out->verdict = BENCH_ERROR;
    }
done:
    free(us);
    return status;
}

/* Sorts the samples. */
static void summarise(const struct bench_case *c, const struct bench_run *r,
                      const struct bench_peer *peer, struct contender *both, int n, int reps,
                      struct bench_result *out)
{
    double *us = both[0].us;
    if (r->samples) memcpy(r->samples, us, (size_t)reps * sizeof *us);
    out->reps = reps;
    out->batch = both[0].batch;
    out->cpu_us = both[0].cpu_us / reps;
    out->us = bench_stats_of(us, (size_t)reps);
    out->gbps = c->bytes(r) / out->us.median * 1e-3;
    out->gflops = c->flops(r) / out->us.median * 1e-3;
    if (n == 2) {
        const struct bench_stats theirs = bench_stats_of(both[1].us, (size_t)reps);
        out->peer = peer->name;
        out->peer_us = theirs.median;
        out->ratio = peer->bytes > 0.0 ? out->gbps / (peer->bytes / theirs.min * 1e-3)
                                       : theirs.median / out->us.median;
    }
    if (!c->tokens) return;
    for (int i = 0; i < reps; i++) us[i] = c->tokens(r) / us[i] * 1e6;
    out->tps = bench_stats_of(us, (size_t)reps);
}

/* The worst rank's error. No error is negative, and then doubles are ordered as their bits are, a
 * NaN above all. */
static tpcl_status worst_error(const struct bench_env *env, double *error)
{
    tpcl_status status = TPCL_OK;
    int64_t bits = 0;
    memcpy(&bits, error, sizeof bits);
    TPI_TRY(tpcl_comm_allreduce_max(env->comm, TPCL_OK, &bits, 1));
    memcpy(error, &bits, sizeof bits);
done:
    return status;
}

/* Whether the last run's result is right on every rank. */
static tpcl_status judge(const struct bench_case *c, struct bench_run *r, tpcl_status local,
                         struct bench_result *out)
{
    tpcl_status status = TPCL_OK;
    double error = 0.0;
    if (local == TPCL_OK) local = TPI_CL(clFinish(r->env->dev->queue));
    if (local == TPCL_OK) local = c->check(r, &error);
    TPI_TRY(worst_error(r->env, &error));
    TPI_TRY(bench_agree(r->env, local, c->name, &out->status));
    if (c->bus) MPI_Allreduce(&r->wrong, &out->wrong, 1, MPI_LONG, MPI_SUM, r->env->mpi);
    out->max_err = out->status == TPCL_OK ? error : NAN;
    out->verdict = bench_judge(out->status, error, c->max_err);
done:
    return status;
}

static tpcl_status run_and_judge(const struct bench_case *c, struct bench_run *r,
                                 struct bench_result *out)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(bench_agree(r->env, reset(c, r), c->name, &out->status));
    out->verdict = BENCH_ERROR;
    if (out->status != TPCL_OK) goto done;
    TPI_TRY(judge(c, r, c->run(r), out));
done:
    return status;
}

/* After the first check: peer, samples, second check. */
static tpcl_status measure(const struct bench_case *c, struct bench_run *r, int reps, double *us,
                           struct bench_result *out)
{
    tpcl_status status = TPCL_OK, agreed = TPCL_OK;
    struct bench_peer peer = {0};
    const tpcl_status local = c->peer ? c->peer(r, &peer) : TPCL_ERR_UNSUPPORTED;
    TPI_TRY(bench_agree(r->env, local, local == TPCL_ERR_UNSUPPORTED ? NULL : "no peer", &agreed));
    const int n = agreed == TPCL_OK ? 2 : 1;
    struct contender both[2] = {{.run = c->run, .dev = r->env->dev, .us = us},
                                {.run = peer.run, .dev = peer.dev, .us = us + reps}};
    agreed = TPCL_OK;
    TPI_TRY(time_both(both, n, r, reps, &agreed));
    if (agreed != TPCL_OK) {
        out->status = agreed;
        out->verdict = BENCH_ERROR;
        goto done;
    }
    TPI_TRY(run_and_judge(c, r, out));
    if (out->verdict == BENCH_PASS && c->split) TPI_TRY(time_phases(c, r, reps, out));
    if (out->verdict == BENCH_PASS) summarise(c, r, &peer, both, n, reps, out);
done:
    return status;
}

tpcl_status bench_row(const struct bench_case *c, struct bench_run *r, int reps,
                      struct bench_result *out)
{
    tpcl_status status = TPCL_OK;
    double *us = malloc(2 * (size_t)reps * sizeof *us);
    *out = (struct bench_result){.max_err = NAN};
    r->c = c;
    TPI_REQUIRE(us, TPCL_ERR_NOMEM, "%d samples", reps);
    TPI_TRY(bench_agree(r->env, c->setup(r), c->name, &out->status));
    if (out->status != TPCL_OK) {
        out->verdict = BENCH_ERROR;
        goto done;
    }
    TPI_TRY(run_and_judge(c, r, out));
    if (out->verdict == BENCH_PASS) TPI_TRY(measure(c, r, reps, us, out));
done:
    c->teardown(r);
    free(us);
    return status;
}
