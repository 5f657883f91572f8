/* A benchmark case: list shapes, set up, run once, check once, say what it cost. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_H
#define BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <tpcl/comm.h>
#include <tpcl/group.h>

#include "device/device.h"
#include "list.h"
#include "shapes.h"

enum { BENCH_DIMS = 5, BENCH_SHAPES = 512, BENCH_PHASES = 3 };

struct bench_read; /* read.h */

/* What all rows share. Every rank runs every row, each on its own device, at the same time. */
struct bench_env {
    MPI_Comm mpi;
    int rank, size;
    tpcl_group *group;
    tpcl_comm *comm;         /* the group's */
    tpcl_device *dev;        /* the group's */
    tpcl_device *clblast;    /* the same device once more, opened when a peer first needs it */
    struct bench_read *read; /* made when a peer first needs it */
};

struct bench_run {
    struct bench_env *env;
    const struct bench_case *c;
    const struct bench_plan *plan; /* NULL where a test has none */
    long shape[BENCH_DIMS];        /* in the order of bench_case.dims */
    tpcl_dtype dtype;
    uint64_t turn;   /* counts runs: cases with several copies of a weight use them in turn */
    void *state;     /* owned by the case between setup and teardown */
    long wrong;      /* elements of this rank that check found wrong; for cases that count them */
    double *samples; /* [reps] where the times of a PASS go in the order taken, or NULL */
};

/* What a row is compared with: timed alternately with it, in the same process. */
struct bench_peer {
    const char *name;                        /* "what:quantity compared" */
    tpcl_status (*run)(struct bench_run *r); /* as bench_case.run */
    tpcl_device *dev;                        /* whose queue it fills, or NULL */
    double bytes; /* 0: ratio = its median time over ours. Else it reads so many bytes a run, and
                     ratio = our GB/s over the best of its */
};

/* What the command line asks of the cases that list shapes. */
struct bench_plan {
    const char *model_name; /* as --shape gave it */
    struct model_shape model;
    struct bench_list tokens;  /* of a step */
    struct bench_list context; /* positions that decoding looks back on */
    struct bench_list bytes;   /* of a message */
    struct bench_list batch;   /* sequences */
    struct bench_list depth;   /* positions before a prompt or a generation */
    bool word;                 /* tokens come from a word like pp256: they stand as they are */
};

struct bench_case {
    const char *name; /* "<layer>/<op>" */
    const char *dims; /* e.g. "tokens,hidden": names of shape[] */
    unsigned dtypes;  /* bit d: runs with tpcl_dtype d */
    bool of_model;    /* its shape does not say all: --shape does */
    int kind;         /* the case's own: which of several that share functions */
    /* Fills at most BENCH_SHAPES rows and returns their number, or that many and one where they do
     * not fit. */
    int (*shapes)(const struct bench_plan *plan, long (*out)[BENCH_DIMS]);
    tpcl_status (*setup)(struct bench_run *r);
    /* Untimed, before each batch of runs, for cases that change their own input. May be NULL. */
    tpcl_status (*reset)(struct bench_run *r);
    tpcl_status (*run)(struct bench_run *r); /* enqueues; the runner drains the queue */
    /* Untimed; of the last run, against the reference, which setup has computed. */
    tpcl_status (*check)(struct bench_run *r, double *max_err);
    /* TPCL_ERR_UNSUPPORTED: has none for this shape. May be NULL. Leaves the peer's result checked
     * and its buffers warm. */
    tpcl_status (*peer)(struct bench_run *r, struct bench_peer *out);
    void (*teardown)(struct bench_run *r);      /* also after a failed setup */
    double (*bytes)(const struct bench_run *r); /* compulsory traffic of one run on one rank */
    double (*flops)(const struct bench_run *r);
    double (*tokens)(const struct bench_run *r); /* of one run; NULL: the row has no tokens/s */
    double (*bus)(const struct bench_run *r);    /* bus over algorithm bandwidth; NULL: neither */
    /* One run in its phases, untimed: microseconds of stage-out, exchange and stage-in. */
    tpcl_status (*split)(struct bench_run *r, double us[BENCH_PHASES]);
    double max_err; /* a row with a larger error is FAILED and has no timing */
};

extern const struct bench_case bench_linear, bench_attention, bench_rmsnorm, bench_embed,
    bench_rope, bench_swiglu, bench_sample;
extern const struct bench_case bench_column, bench_merged, bench_row_layer, bench_qkv,
    bench_embedding, bench_head, bench_heads;
extern const struct bench_case bench_pp, bench_tg, bench_load_cold,
    bench_load_warm; /* where there is a model library */
extern const struct bench_case bench_allreduce, bench_allreduce_host, bench_broadcast, bench_gather;

struct bench_suite {
    const struct bench_case *const *cases;
    int n;
};
extern const struct bench_suite bench_all; /* every case of the program */

double bench_now_us(void);

/* Bit of a dtype, and all that a weight can have. */
#define BENCH_DTYPE(d) (1u << (d))
#define BENCH_WEIGHTS                                                         \
    (BENCH_DTYPE(TPCL_F32) | BENCH_DTYPE(TPCL_F16) | BENCH_DTYPE(TPCL_BF16) | \
     BENCH_DTYPE(TPCL_Q8_0) | BENCH_DTYPE(TPCL_Q4_0) | BENCH_DTYPE(TPCL_Q4_1))

#endif
