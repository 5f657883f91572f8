/* Rows in the forms of Google Benchmark and of the OSU micro-benchmarks. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <tpcl/version.h>
#include <unistd.h>

#include "output.h"

void bench_gbench_begin(const struct bench_output *o)
{
    const tpcl_device_info *d = &o->env->dev->info;
    char host[128] = "", date[40] = "";
    const time_t now = time(NULL);
    struct tm utc;
    cl_uint mhz = 0;
    clGetDeviceInfo(o->env->dev->id, CL_DEVICE_MAX_CLOCK_FREQUENCY, sizeof mhz, &mhz, NULL);
    gethostname(host, sizeof host - 1);
    if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S+00:00", &utc);
    fprintf(o->to, "{\n  \"context\": {\n    \"date\": \"%s\",\n    \"host_name\": ", date);
    bench_put_json(o->to, host);
    fprintf(o->to,
            ",\n    \"executable\": \"tpcl-bench\",\n    \"num_cpus\": %ld,\n"
            "    \"mhz_per_cpu\": %u,\n    \"cpu_scaling_enabled\": false,\n    \"caches\": [],\n"
            "    \"load_avg\": [],\n    \"library_build_type\": \"release\",\n    \"device\": ",
            sysconf(_SC_NPROCESSORS_ONLN), (unsigned)mhz);
    bench_put_json(o->to, d->name);
    fputs(",\n    \"driver\": ", o->to);
    bench_put_json(o->to, d->driver);
    fputs(",\n    \"git\": ", o->to);
    bench_put_json(o->to, bench_commit());
    fprintf(o->to, ",\n    \"ranks\": %d\n  },\n  \"benchmarks\": [", o->env->size);
}

void bench_gbench_end(const struct bench_output *o)
{
    fputs("\n  ]\n}\n", o->to);
}

/* "ops/linear/1x576x1536/f16"; ranks are part of the name, as they are of the measurement. */
static void put_name(const struct bench_output *o, const struct bench_run *r, const char *suffix)
{
    char shape[128], dtype[8], name[300];
    bench_shape_text(r->c, r->shape, shape, sizeof shape);
    bench_dtype_text(r->dtype, dtype);
    snprintf(name, sizeof name, "%s/%s/%s/ranks:%d%s", r->c->name, shape, dtype, o->env->size,
             suffix);
    bench_put_json(o->to, name);
}

/* The fields that every entry has, up to its times. */
static void put_entry(const struct bench_output *o, const struct bench_run *r, const char *suffix,
                      const char *type, int reps)
{
    fprintf(o->to, "%s\n    {\"name\": ", o->last ? "," : "");
    put_name(o, r, suffix);
    fputs(", \"run_name\": ", o->to);
    put_name(o, r, "");
    fprintf(o->to,
            ", \"family_index\": 0, \"per_family_instance_index\": 0, \"run_type\": \"%s\", "
            "\"repetitions\": %d",
            type, reps);
}

static void put_times(const struct bench_output *o, double real, double cpu, int iterations)
{
    fprintf(o->to,
            ", \"threads\": 1, \"iterations\": %d, \"real_time\": %.9g, \"cpu_time\": %.9g, "
            "\"time_unit\": \"us\"",
            iterations, real, cpu);
}

static void put_failure(const struct bench_output *o, const struct bench_run *r,
                        const struct bench_result *result)
{
    put_entry(o, r, "", "iteration", 0);
    put_times(o, 0.0, 0.0, 0);
    fprintf(o->to, ", \"error_occurred\": true, \"error_message\": \"%s",
            bench_verdict_name(result->verdict));
    if (isfinite(result->max_err)) fprintf(o->to, ", max_err %.3g", result->max_err);
    fputs("\"}", o->to);
}

void bench_gbench_row(const struct bench_output *o, const struct bench_run *r,
                      const struct bench_result *result)
{
    struct bench_output next = *o;
    const struct {
        const char *name;
        double value, cpu;
    } all[] = {{"mean", result->us.mean, result->cpu_us},
               {"median", result->us.median, result->cpu_us},
               {"stddev", result->us.sd, 0.0}};
    if (result->verdict != BENCH_PASS) {
        put_failure(o, r, result);
        return;
    }
    for (int i = 0; r->samples && i < result->reps; i++, next.last = r->c) {
        put_entry(&next, r, "", "iteration", result->reps);
        fprintf(o->to, ", \"repetition_index\": %d", i);
        put_times(o, r->samples[i], result->cpu_us, result->batch);
        fprintf(o->to, ", \"bytes_per_second\": %.9g}", r->c->bytes(r) / r->samples[i] * 1e6);
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++, next.last = r->c) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "_%s", all[i].name);
        put_entry(&next, r, suffix, "aggregate", result->reps);
        fprintf(o->to, ", \"aggregate_name\": \"%s\", \"aggregate_unit\": \"time\"", all[i].name);
        put_times(o, all[i].value, all[i].cpu, result->reps);
        fputs("}", o->to);
    }
}

void bench_osu_row(const struct bench_output *o, const struct bench_run *r,
                   const struct bench_result *result)
{
    if (o->last != r->c) {
        char name[64];
        snprintf(name, sizeof name, "%s", strchr(r->c->name, '/') + 1);
        name[0] = (char)toupper((unsigned char)name[0]);
        fprintf(o->to, "\n# OSU tpcl %s Latency Test v%s\n# %-8s%20s\n", name,
                tpcl_version_string(), "Size", "Avg Latency(us)");
    }
    if (result->verdict == BENCH_PASS)
        fprintf(o->to, "%-10ld%20.2f\n", r->shape[0], result->us.mean);
    else
        bench_say("%s of %ld bytes: %s, %ld wrong", r->c->name, r->shape[0],
                  bench_verdict_name(result->verdict), result->wrong);
}
