/* Collectives beside MPI's own, with the bandwidths and the count of wrong elements that nccl-tests
 * define: the algorithm bandwidth is the message by the time, the bus bandwidth that times what an
 * ideal algorithm sends over the slowest link for each byte. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "data.h"
#include "layers/group.h"

enum { BYTES };
enum kind { DEVICE_SUM, HOST_SUM, BROADCAST, GATHER };

struct state {
    size_t n;    /* floats that a rank brings */
    size_t room; /* floats of a result */
    float *in, *out, *theirs, *want;
    size_t *parts; /* [size] bytes, for gather */
    tpcl_tensor *y;
    MPI_Comm mpi; /* MPI's own, so that its errors come back */
};

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    for (int i = 0; i < plan->bytes.n; i++) out[i][BYTES] = plan->bytes.v[i];
    return plan->bytes.n;
}

static void teardown(struct bench_run *r)
{
    struct state *s = r->state;
    if (!s) return;
    if (s->mpi != MPI_COMM_NULL) MPI_Comm_free(&s->mpi);
    tpcl_tensor_destroy(&s->y);
    free(s->in);
    free(s->out);
    free(s->theirs);
    free(s->want);
    free(s->parts);
    free(s);
    r->state = NULL;
}

static void fill_of_rank(const struct state *s, int rank, float *out)
{
    bench_fill(out, s->n, 100u + (uint32_t)rank);
}

/* What this rank must find in `out`; `in` holds each rank's values for a while. */
static void make_want(const struct bench_run *r, struct state *s)
{
    fill_of_rank(s, 0, s->want);
    if (r->c->kind == BROADCAST) return;
    for (int rank = 1; rank < r->env->size; rank++) {
        if (r->c->kind == GATHER) {
            fill_of_rank(s, rank, s->want + (size_t)rank * s->n);
            continue;
        }
        fill_of_rank(s, rank, s->in); /* a sum in rank order, as promised */
        for (size_t i = 0; i < s->n; i++) s->want[i] += s->in[i];
    }
}

static tpcl_status setup(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    const size_t size = (size_t)r->env->size;
    struct state *s = r->state = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "state of a collective");
    s->mpi = MPI_COMM_NULL;
    TPI_REQUIRE(r->shape[BYTES] % 4 == 0, TPCL_ERR_SHAPE, "%ld bytes are not whole floats of 4",
                r->shape[BYTES]);
    s->n = (size_t)r->shape[BYTES] / sizeof *s->in;
    s->room = r->c->kind == GATHER ? s->n * size : s->n;
    s->in = malloc(s->n * sizeof *s->in);
    s->out = malloc(s->room * sizeof *s->out);
    s->theirs = malloc(s->room * sizeof *s->theirs);
    s->want = malloc(s->room * sizeof *s->want);
    s->parts = malloc(size * sizeof *s->parts);
    TPI_REQUIRE(s->in && s->out && s->theirs && s->want && s->parts, TPCL_ERR_NOMEM,
                "messages of %ld bytes", r->shape[BYTES]);
    for (size_t i = 0; i < size; i++) s->parts[i] = (size_t)r->shape[BYTES];
    make_want(r, s);
    fill_of_rank(s, r->env->rank, s->in);
    for (size_t i = 0; i < s->room; i++) s->out[i] = s->theirs[i] = NAN;
    if (r->c->kind == DEVICE_SUM) TPI_TRY(bench_tensor(r->env->dev, TPCL_F32, NULL, s->n, &s->y));
done:
    return status;
}

static tpcl_status reset(struct bench_run *r)
{
    struct state *s = r->state;
    if (r->c->kind == DEVICE_SUM) return tpcl_tensor_write(s->y, s->in, s->n);
    for (size_t i = 0; i < s->n && r->c->kind == BROADCAST; i++)
        s->out[i] = r->env->rank == 0 ? s->in[i] : NAN;
    return TPCL_OK;
}

static tpcl_status run(struct bench_run *r)
{
    struct state *s = r->state;
    tpcl_comm *comm = r->env->comm;
    switch ((enum kind)r->c->kind) {
    case DEVICE_SUM:
        return tpi_reduce(r->env->group, TPCL_OK, s->y, s->n);
    case HOST_SUM:
        return tpcl_comm_allreduce_sum(comm, TPCL_OK, s->in, s->out, s->n);
    case BROADCAST:
        return tpcl_comm_broadcast(comm, TPCL_OK, s->out, s->n * sizeof *s->out, 0);
    case GATHER:
        return tpcl_comm_gather(comm, TPCL_OK, s->in, s->parts, s->out, 0);
    }
    return TPCL_OK;
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    *max_err = 0.0;
    r->wrong = 0;
    if (r->c->kind == GATHER && r->env->rank != 0) return TPCL_OK;
    if (r->c->kind == DEVICE_SUM) TPI_TRY(tpcl_tensor_read(s->y, s->out, s->n));
    *max_err = bench_max_error(s->out, s->want, s->room);
    for (size_t i = 0; i < s->room; i++) r->wrong += !(s->out[i] == s->want[i]);
done:
    return status;
}

static tpcl_status run_mpi(struct bench_run *r)
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    const int n = (int)s->n;
    int err = MPI_SUCCESS;
    if (r->c->kind == BROADCAST)
        err = MPI_Bcast(s->theirs, n, MPI_FLOAT, 0, s->mpi);
    else if (r->c->kind == GATHER)
        err = MPI_Gather(s->in, n, MPI_FLOAT, s->theirs, n, MPI_FLOAT, 0, s->mpi);
    else
        err = MPI_Allreduce(s->in, s->theirs, n, MPI_FLOAT, MPI_SUM, s->mpi);
    TPI_REQUIRE(err == MPI_SUCCESS, TPCL_ERR_COMM, "MPI's %s: error %d", r->c->name, err);
done:
    return status;
}

static tpcl_status peer(struct bench_run *r, struct bench_peer *out)
{
    static const char *const names[] = {"MPI_Allreduce:time", "MPI_Allreduce:time",
                                        "MPI_Bcast:time", "MPI_Gather:time"};
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    TPI_REQUIRE(MPI_Comm_dup(r->env->mpi, &s->mpi) == MPI_SUCCESS, TPCL_ERR_COMM, "MPI_Comm_dup");
    MPI_Comm_set_errhandler(s->mpi, MPI_ERRORS_RETURN);
    for (size_t i = 0; i < s->n && r->c->kind == BROADCAST && r->env->rank == 0; i++)
        s->theirs[i] = s->in[i];
    TPI_TRY(run_mpi(r));
    const double error = r->c->kind == GATHER && r->env->rank != 0
                             ? 0.0
                             : bench_max_error(s->theirs, s->want, s->room);
    /* its order of summing is its own */
    TPI_REQUIRE(error <= 1e-6 * r->env->size, TPCL_ERR_COMM, "%s: wrong by %g", names[r->c->kind],
                error);
    /* the idle queue is drained after both: neither has an advantage */
    *out = (struct bench_peer){.name = names[r->c->kind], .run = run_mpi, .dev = r->env->dev};
done:
    return status;
}

/* A sum in device memory, as its layers do it, with a clock between the parts. */
static tpcl_status split(struct bench_run *r, double us[BENCH_PHASES])
{
    tpcl_status status = TPCL_OK;
    struct state *s = r->state;
    tpcl_comm *comm = r->env->comm;
    cl_command_queue queue = r->env->dev->queue;
    const size_t total = s->n * sizeof *s->out, chunk = tpcl_comm_chunk(comm);
    for (size_t at = 0; at < total && r->env->size > 1; at += chunk) {
        const size_t bytes = total - at < chunk ? total - at : chunk;
        float *slot = tpcl_comm_stage(comm);
        const double start = bench_now_us();
        const tpcl_status local =
            TPI_CL(clEnqueueReadBuffer(queue, s->y->mem, CL_TRUE, at, bytes, slot, 0, NULL, NULL));
        const double staged = bench_now_us();
        TPI_TRY(tpcl_comm_allreduce_sum(comm, local, slot, s->out, bytes / sizeof *slot));
        const double summed = bench_now_us();
        TPI_TRY(TPI_CL(
            clEnqueueWriteBuffer(queue, s->y->mem, CL_TRUE, at, bytes, s->out, 0, NULL, NULL)));
        us[0] += staged - start;
        us[1] += summed - staged;
        us[2] += bench_now_us() - summed;
    }
done:
    return status;
}

/* the whole message, once */
static double bytes(const struct bench_run *r)
{
    return (double)r->shape[BYTES] * (r->c->kind == GATHER ? r->env->size : 1);
}

static double flops(const struct bench_run *r)
{
    const bool sums = r->c->kind == DEVICE_SUM || r->c->kind == HOST_SUM;
    return sums ? (double)(r->env->size - 1) * (double)r->shape[BYTES] / sizeof(float) : 0.0;
}

static double bus(const struct bench_run *r)
{
    const double n = r->env->size;
    switch ((enum kind)r->c->kind) {
    case BROADCAST:
        return 1.0;
    case GATHER:
        return (n - 1.0) / n;
    default:
        return 2.0 * (n - 1.0) / n;
    }
}

#define COLLECTIVE(id, text, ...)                                          \
    const struct bench_case bench_##id = {.name = "collectives/" text,     \
                                          .dims = "bytes",                 \
                                          .dtypes = BENCH_DTYPE(TPCL_F32), \
                                          .shapes = shapes,                \
                                          .setup = setup,                  \
                                          .reset = reset,                  \
                                          .run = run,                      \
                                          .check = check,                  \
                                          .peer = peer,                    \
                                          .teardown = teardown,            \
                                          .bytes = bytes,                  \
                                          .flops = flops,                  \
                                          .bus = bus,                      \
                                          .max_err = 0.0,                  \
                                          /* rank order fixes every bit */ __VA_ARGS__}

COLLECTIVE(allreduce, "allreduce", .kind = DEVICE_SUM, .split = split);
COLLECTIVE(allreduce_host, "allreduce_host", .kind = HOST_SUM);
COLLECTIVE(broadcast, "broadcast", .kind = BROADCAST);
COLLECTIVE(gather, "gather", .kind = GATHER);
