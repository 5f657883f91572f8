/* SPDX-License-Identifier: Apache-2.0 */
#include "read.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "read_host.h"
#include "runner.h"

enum {
    LANES = 16,
    STREAMS_MAX = 8, /* of a compute unit */
    GPU_LOCAL = 64,
    FILL_LOCAL = 32, /* divides the number of vectors: 4 * STREAMS_MAX */
    TRIALS = 3
};
static const size_t host_bytes = 1024u << 20; /* read by all ranks of a host together */

struct bench_read {
    tpcl_device *dev;
    cl_program program;
    cl_kernel fill, sum;
    cl_mem data, sums;
    size_t local, groups, chunk;  /* of the fastest launch; chunk in vectors of a group */
    size_t vectors;               /* a multiple of what any launch needs */
    struct bench_read_host *host; /* of a CPU whose plain loop is faster, or NULL */
    size_t host_streams;
};

static size_t widest(const struct bench_read *b)
{
    return (size_t)b->dev->info.compute_units * STREAMS_MAX;
}

static tpcl_status build(struct bench_read *b)
{
    tpcl_status status = TPCL_OK;
    const char *text = bench_read_sum_cl;
    cl_int err = CL_SUCCESS;
    b->program = clCreateProgramWithSource(b->dev->context, 1, &text, NULL, &err);
    TPI_TRY(tpi_cl_check(err, "read_sum: clCreateProgramWithSource"));
    TPI_TRY(tpi_cl_check(clBuildProgram(b->program, 1, &b->dev->id, "-cl-std=CL1.2", NULL, NULL),
                         "read_sum: clBuildProgram"));
    b->fill = clCreateKernel(b->program, "fill", &err);
    TPI_TRY(tpi_cl_check(err, "read_sum: clCreateKernel(fill)"));
    b->sum = clCreateKernel(b->program, "read_sum", &err);
    TPI_TRY(tpi_cl_check(err, "read_sum: clCreateKernel(read_sum)"));
done:
    return status;
}

static tpcl_status fill_data(struct bench_read *b)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = b->dev, .kernel = b->fill};
    const size_t local = b->dev->info.max_workgroup < FILL_LOCAL ? 1 : FILL_LOCAL;
    tpi_arg_mem(&l, b->data);
    tpi_arg_float(&l, 1.0f);
    TPI_TRY(tpi_launch_run(&l, 1, &b->vectors, &local, "fill"));
done:
    return status;
}

static tpcl_status launch(struct bench_read *b)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = b->dev, .kernel = b->sum};
    const size_t global = b->groups * b->local;
    tpi_arg_mem(&l, b->data);
    tpi_arg_mem(&l, b->sums);
    tpi_arg_ulong(&l, b->chunk);
    TPI_TRY(tpi_launch_run(&l, 1, &global, &b->local, "read_sum"));
done:
    return status;
}

/* Every element is 1, so the sums say how many were read. */
static tpcl_status check_sums(const struct bench_read *b)
{
    tpcl_status status = TPCL_OK;
    double total = 0.0;
    const size_t n = b->groups * b->local, bytes = n * sizeof(float);
    float *sums = malloc(bytes);
    TPI_REQUIRE(sums, TPCL_ERR_NOMEM, "%zu sums", n);
    TPI_TRY(TPI_CL(
        clEnqueueReadBuffer(b->dev->queue, b->sums, CL_TRUE, 0, bytes, sums, 0, NULL, NULL)));
    for (size_t i = 0; i < n; i++) total += sums[i];
    TPI_REQUIRE(total == (double)(b->vectors * LANES), TPCL_ERR_DEVICE,
                "read_sum: %.0f elements were read, not %zu", total, b->vectors * LANES);
done:
    free(sums);
    return status;
}

static void set_streams(struct bench_read *b, size_t streams)
{
    b->groups = (size_t)b->dev->info.compute_units * streams;
    b->chunk = b->vectors / b->groups;
}

/* Tries 1, 2, 4 and 8 streams a unit; the best time of a byte. */
static tpcl_status choose_streams(struct bench_read *b, double *us_per_byte)
{
    tpcl_status status = TPCL_OK;
    double best = INFINITY;
    size_t fastest = 1;
    for (size_t streams = 1; streams <= STREAMS_MAX; streams *= 2) {
        set_streams(b, streams);
        for (int t = 0; t < TRIALS; t++) {
            const double start = bench_now_us();
            TPI_TRY(launch(b));
            TPI_TRY(TPI_CL(clFinish(b->dev->queue)));
            const double us = bench_now_us() - start;
            if (t == 0) TPI_TRY(check_sums(b));
            if (t == 0 || us >= best) continue;
            best = us;
            fastest = streams;
        }
    }
    set_streams(b, fastest);
    *us_per_byte = best / (double)(b->vectors * LANES * sizeof(float));
done:
    return status;
}

/* A CPU also tries a loop of its own cores, and takes what is faster. */
static tpcl_status try_host(struct bench_read *b, size_t bytes, double us_per_byte)
{
    tpcl_status status = TPCL_OK;
    double best = INFINITY;
    if (b->dev->info.type != TPCL_DEVICE_CPU) return TPCL_OK;
    TPI_TRY(bench_read_host_create(bytes, b->dev->info.compute_units, &b->host));
    for (size_t streams = 1; streams <= STREAMS_MAX; streams *= 2)
        for (int t = 0; t < TRIALS; t++) {
            const double start = bench_now_us();
            TPI_TRY(bench_read_host_run(b->host, streams));
            const double us = bench_now_us() - start;
            if (t == 0 || us >= best) continue;
            best = us;
            b->host_streams = streams;
        }
    if (best / (double)bench_read_host_bytes(b->host) >= us_per_byte)
        bench_read_host_destroy(&b->host);
done:
    return status;
}

static tpcl_status create(const struct bench_env *env, struct bench_read **out)
{
    tpcl_status status = TPCL_OK;
    double us_per_byte = 0.0;
    struct bench_read *b = calloc(1, sizeof *b);
    TPI_REQUIRE(b, TPCL_ERR_NOMEM, "read peer");
    b->dev = tpi_device_retain(env->dev);
    b->local = env->dev->info.type == TPCL_DEVICE_CPU ? 1 : GPU_LOCAL;
    if (b->local > env->dev->info.max_workgroup) b->local = env->dev->info.max_workgroup;
    const size_t unit = widest(b) * 4 * b->local;
    const size_t wanted = host_bytes / (size_t)tpcl_comm_local_size(env->comm);
    b->vectors = (wanted / (LANES * sizeof(float)) + unit - 1) / unit * unit;
    TPI_TRY(
        tpi_buffer_create(b->dev, b->vectors * LANES * sizeof(float), "memory to read", &b->data));
    TPI_TRY(tpi_buffer_create(b->dev, widest(b) * b->local * sizeof(float), "sums", &b->sums));
    TPI_TRY(build(b));
    TPI_TRY(fill_data(b));
    TPI_TRY(choose_streams(b, &us_per_byte));
    TPI_TRY(try_host(b, wanted, us_per_byte));
    *out = b;
    b = NULL;
done:
    bench_read_destroy(&b);
    return status;
}

void bench_read_destroy(struct bench_read **read)
{
    struct bench_read *b = *read;
    if (!b) return;
    *read = NULL;
    bench_read_host_destroy(&b->host);
    tpi_buffer_release(&b->data);
    tpi_buffer_release(&b->sums);
    if (b->fill) clReleaseKernel(b->fill);
    if (b->sum) clReleaseKernel(b->sum);
    if (b->program) clReleaseProgram(b->program);
    tpcl_device_close(&b->dev);
    free(b);
}

static tpcl_status run(struct bench_run *r)
{
    struct bench_read *b = r->env->read;
    return b->host ? bench_read_host_run(b->host, b->host_streams) : launch(b);
}

tpcl_status bench_read_peer(struct bench_run *r, struct bench_peer *out)
{
    tpcl_status status = TPCL_OK;
    struct bench_env *env = r->env;
    if (!env->read) TPI_TRY(create(env, &env->read));
    const size_t bytes = env->read->host ? bench_read_host_bytes(env->read->host)
                                         : env->read->vectors * LANES * sizeof(float);
    *out = (struct bench_peer){
        .name = "read:GB/s", .run = run, .dev = env->dev, .bytes = (double)bytes};
done:
    return status;
}
