/* What run and score share: ranks, checkpoint, group and model. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_SESSION_H
#define TOOLS_SESSION_H

#include <tpcl/model.h>

#include "job.h"
#include "options.h"
#include "progress.h"

struct session {
    const struct settings *settings;
    double started_s; /* when the program began */
    struct job job;
    tpcl_checkpoint *checkpoint;
    int32_t *ids; /* the prompt, on every rank */
    int n_ids;
    int valid_vocab; /* words of the tokenizer, at most the rows of the head */
    int n_stop_ids;
    int32_t stop_ids[TPCL_MAX_STOP_IDS + 1];
    tpcl_group *group;
    tpcl_model *model;
    tpcl_model_share *shares; /* [ranks], rank 0 only */
    struct progress progress;
    double load_s;
};

/* Every function returns 0, or an exit code that all ranks have agreed on and reported. */

/* Starts MPI and compares the command line over the ranks; `code` is what parsing it gave. */
int session_begin(struct session *s, const struct settings *settings, double started_s, int code);

/* Local: opens the checkpoint. Returns this rank's own code, recorded, not yet agreed. */
int session_open(struct session *s);

/* Local, rank 0: checks the prompt against vocabulary and context. */
int session_check_prompt(const struct session *s, const int32_t *ids, size_t n);

/* Agrees on the ranks' codes so far, compares the checkpoints, shares what rank 0 has prepared
 * (s->ids, s->valid_vocab, s->stop_ids). */
int session_share(struct session *s, int code);

/* Makes the group and loads the model. */
int session_load(struct session *s);

/* Frees everything, in step with the other ranks, and leaves MPI. Returns the exit code. */
int session_end(struct session *s, int code);

/* report_status(), where an interrupt reads the same on every rank. */
int session_status(tpcl_status status);

/* The context that this run uses. */
int session_context(const struct session *s);

void session_log(void *context, tpcl_log_level level, const char *line);

#endif
