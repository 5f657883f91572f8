/* tpcl score: the logits of every position, into a file. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "commands.h"
#include "parse.h"
#include "report.h"
#include "safetensors_writer.h"
#include "session.h"
#include "signals.h"

struct scoring {
    safetensors_writer *writer;
    int vocab, code;
};

static int write_row(void *context, int position, const float *logits)
{
    struct scoring *w = context;
    (void)position;
    if (*signals_interrupt_flag())
        w->code = session_status(TPCL_ERR_INTERRUPTED);
    else
        w->code = safetensors_writer_append(w->writer, logits, (size_t)w->vocab);
    return w->code;
}

/* Rank 0. The file is created before the model is loaded, so that a bad name costs no time. */
static int prepare(struct session *s, struct scoring *w)
{
    size_t n = 0;
    int code = parse_ids("--ids", s->settings->ids, strlen(s->settings->ids), &s->ids, &n);
    if (!code) code = session_check_prompt(s, s->ids, n);
    if (code) return code;
    s->n_ids = (int)n;
    w->vocab = tpcl_checkpoint_config(s->checkpoint)->vocab;
    const int64_t shape[2] = {s->n_ids, w->vocab};
    return safetensors_writer_create(s->settings->out, "logits", shape, &w->writer);
}

static int score(struct session *s, struct scoring *w)
{
    signals_phase("scoring");
    const tpcl_status status = tpcl_model_score(s->model, s->ids, s->n_ids, write_row, w);
    int code = w->code ? w->code : session_status(status);
    if (!code && w->writer) code = safetensors_writer_finish(w->writer);
    return job_agree(&s->job, code);
}

int score_command(const struct settings *settings, double started_s, int code)
{
    struct session s;
    struct scoring w = {0};
    code = session_begin(&s, settings, started_s, code);
    if (!code) {
        code = session_open(&s);
        if (!code && s.job.rank == 0) code = prepare(&s, &w);
        code = session_share(&s, code);
    }
    if (!code) code = session_load(&s);
    if (!code) code = score(&s, &w);
    safetensors_writer_destroy(&w.writer);
    return session_end(&s, code);
}
