/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "data.h"

enum { BYTES };

struct state {
    size_t n;
    float *in, *out, *theirs, *want;
    MPI_Comm mpi; /* MPI's own, so that its errors come back */
};

static const long sizes[] = {4, 64, 1024, 4096, 32768, 262144, 1048576, 4194304};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    (void)plan;
    for (int i = 0; i < SIZES; i++) out[i][BYTES] = sizes[i];
    return SIZES;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    if (s->mpi != MPI_COMM_NULL) MPI_Comm_free(&s->mpi);
    free(s->in);
    free(s->out);
    free(s->theirs);
    free(s->want);
    free(s);
    r->state = NULL;
}

static void fill_of_rank(const struct state *s, int rank, float *out)
{
    bench_fill(out, s->n, 100u + (uint32_t)rank);
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "allreduce state");
    s->mpi = MPI_COMM_NULL;
    TPI_REQUIRE(r->shape[BYTES] % 4 == 0, TPCL_ERR_SHAPE, "%ld bytes are not whole floats of 4",
                r->shape[BYTES]);
    s->n = (size_t)r->shape[BYTES] / sizeof *s->in;
    s->in = malloc(s->n * sizeof *s->in);
    s->out = malloc(s->n * sizeof *s->out);
    s->theirs = malloc(s->n * sizeof *s->theirs);
    s->want = malloc(s->n * sizeof *s->want);
    TPI_REQUIRE(s->in && s->out && s->theirs && s->want, TPCL_ERR_NOMEM, "4 x %ld bytes",
                r->shape[BYTES]);
    /* the sum in rank order, as promised; `in` holds each rank's values for a while */
    fill_of_rank(s, 0, s->want);
    for (int rank = 1; rank < r->env->size; rank++) {
        fill_of_rank(s, rank, s->in);
        for (size_t i = 0; i < s->n; i++) s->want[i] += s->in[i];
    }
    fill_of_rank(s, r->env->rank, s->in);
    for (size_t i = 0; i < s->n; i++) s->out[i] = s->theirs[i] = NAN;
done:
    return status;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    return tpcl_comm_allreduce_sum(r->env->comm, TPCL_OK, s->in, s->out, s->n);
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    const struct state *s = r->state;
    *max_err = bench_max_error(s->out, s->want, s->n);
    return TPCL_OK;
}

static tpcl_status run_mpi(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const int err = MPI_Allreduce(s->in, s->theirs, (int)s->n, MPI_FLOAT, MPI_SUM, s->mpi);
    TPI_REQUIRE(err == MPI_SUCCESS, TPCL_ERR_COMM, "MPI_Allreduce: error %d", err);
done:
    return status;
}

static tpcl_status peer(struct bench_run *r, struct bench_peer *out)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    TPI_REQUIRE(MPI_Comm_dup(r->env->mpi, &s->mpi) == MPI_SUCCESS, TPCL_ERR_COMM, "MPI_Comm_dup");
    MPI_Comm_set_errhandler(s->mpi, MPI_ERRORS_RETURN);
    TPI_TRY(run_mpi(r));
    const double error = bench_max_error(s->theirs, s->want, s->n);
    /* its order of summing is its own */
    TPI_REQUIRE(error <= 1e-6 * r->env->size, TPCL_ERR_COMM, "MPI_Allreduce is wrong by %g", error);
    /* the idle queue is drained after both: neither has an advantage */
    *out = (struct bench_peer){.name = "MPI_Allreduce:time", .run = run_mpi, .dev = r->env->dev};
done:
    return status;
}

/* the message, once: nccl-tests' algorithm bandwidth */
static double bytes(const struct bench_run *r)
{
    return (double)r->shape[BYTES];
}

static double flops(const struct bench_run *r)
{
    return (double)(r->env->size - 1) * (double)r->shape[BYTES] / sizeof(float);
}

const struct bench_case bench_allreduce = {
    .name = "comm/allreduce",
    .dims = "bytes",
    .dtypes = BENCH_DTYPE(TPCL_F32),
    .shapes = shapes,
    .setup = setup,
    .run = run,
    .check = check,
    .peer = peer,
    .teardown = teardown,
    .bytes = bytes,
    .flops = flops,
    .max_err = 0.0, /* rank order fixes every bit */
};
