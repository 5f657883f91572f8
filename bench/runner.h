/* One row: check first, then time. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_RUNNER_H
#define BENCH_RUNNER_H

#include "bench.h"
#include "stats.h"

enum bench_verdict { BENCH_PASS, BENCH_FAILED, BENCH_ERROR };
const char *bench_verdict_name(enum bench_verdict verdict);
/* A result that is wrong by more than `limit`, or is not a number, is FAILED. */
enum bench_verdict bench_judge(tpcl_status status, double max_err, double limit);

struct bench_result {
    enum bench_verdict verdict;
    tpcl_status status; /* why it is an ERROR */
    double max_err;     /* NaN after an ERROR: then it is not known */
    int reps;           /* samples; 0, and what follows means nothing, unless PASS */
    struct bench_stats us;
    double cpu_us;               /* of this process, the mean of a run */
    int batch;                   /* runs of a sample */
    double gbps, gflops;         /* by the median */
    struct bench_stats tps;      /* tokens/s of the samples, of cases that have tokens */
    double phases[BENCH_PHASES]; /* median us, of cases that split themselves */
    long wrong;                  /* elements, of all ranks */
    const char *peer;            /* NULL = none, and no ratio */
    double peer_us;              /* its median */
    double ratio;
};

/**
 * Sets up, runs once and checks; then `reps` samples of ours and the peer's in turn; checks again.
 * A sample is the mean of a batch of runs, its clock read before the first and after the queue is
 * drained, and it is the slowest rank's. Compiling and first touches lie before the first sample.
 *
 * Collective. Returns an error only where the ranks have lost each other; what is wrong with the
 * row is in *out, the same on all ranks.
 */
TPCL_NODISCARD tpcl_status bench_row(const struct bench_case *c, struct bench_run *r, int reps,
                                     struct bench_result *out);

/* All ranks learn whether one of them failed, without failing the group: the next row may be
 * better. The lowest failing rank says why, unless `what` is NULL. Collective. */
TPCL_NODISCARD tpcl_status bench_agree(const struct bench_env *env, tpcl_status local,
                                       const char *what, tpcl_status *agreed);

/* A line on stderr, "tpcl-bench: ...", for people. */
void bench_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
