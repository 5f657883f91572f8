/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <tpcl/version.h>

#include "launch.h"
#include "report.h"
#include "signals.h"

enum { DEFAULT_CONTEXT = 4096 };

static int compare_command_lines(struct session *s)
{
    const struct settings *o = s->settings;
    struct job_term terms[] = {
        {"the version of tpcl", ""},
        {"the command", ""},
        {"--n-predict", ""},
        {"--temp", ""},
        {"--top-k", ""},
        {"--top-p", ""},
        {"--min-p", ""},
        {"--repeat-penalty", ""},
        {"--repeat-last-n", ""},
        {"--seed", ""},
        {"--ctx", ""},
        {"--kv", ""},
        {"--chunk", ""},
        {"--ignore-eos", ""},
    };
    const size_t room = sizeof terms[0].value;
    snprintf(terms[0].value, room, "%s", tpcl_version_string());
    snprintf(terms[1].value, room, "%s", verb_name(o->verb));
    snprintf(terms[2].value, room, "%" PRId64, o->n_predict);
    snprintf(terms[3].value, room, "%.9g", o->temp);
    snprintf(terms[4].value, room, "%" PRId64, o->top_k);
    snprintf(terms[5].value, room, "%.9g", o->top_p);
    snprintf(terms[6].value, room, "%.9g", o->min_p);
    snprintf(terms[7].value, room, "%.9g", o->repeat_penalty);
    snprintf(terms[8].value, room, "%" PRId64, o->repeat_last_n);
    snprintf(terms[9].value, room, "%" PRIu64, o->seed);
    snprintf(terms[10].value, room, "%" PRId64, o->ctx);
    snprintf(terms[11].value, room, "%s", o->kv == KV_F32 ? "f32" : "f16");
    snprintf(terms[12].value, room, "%" PRId64, o->chunk);
    snprintf(terms[13].value, room, "%s", o->ignore_eos ? "on" : "off");
    return job_same(&s->job, terms, sizeof terms / sizeof terms[0]);
}

int session_begin(struct session *s, const struct settings *settings, double started_s, int code)
{
    *s = (struct session){.settings = settings, .started_s = started_s};
    job_begin(&s->job, settings->timeout_s > 0 ? settings->timeout_s : 60);
    signals_phase("reading the command line");
    if (!code && settings->tp > 0 && settings->tp != s->job.size)
        code = report_fail(EX_USAGE,
                           "tp=%" PRId64 " but %d rank%s: give --tp the number of ranks that "
                           "mpiexec starts, or leave it out",
                           settings->tp, s->job.size, s->job.size == 1 ? "" : "s");
    code = job_agree(&s->job, code);
    return code ? code : compare_command_lines(s);
}

void session_log(void *context, tpcl_log_level level, const char *line)
{
    const struct session *s = context;
    if (level == TPCL_LOG_WARN && s->job.rank == 0) report_warning("%s", line);
    if (level == TPCL_LOG_INFO && s->settings->verbose)
        fprintf(stderr, "rank %d: %s\n", s->job.rank, line);
}

static tpcl_log session_logger(struct session *s)
{
    return (tpcl_log){.write = session_log, .context = s};
}

int session_status(tpcl_status status)
{
    const bool peer = exit_code(status) == CODE_PEER;
    if (status == TPCL_ERR_INTERRUPTED || (peer && *signals_interrupt_flag()))
        return report_fail(EXIT_INTERRUPTED, "interrupted");
    return report_status(status);
}

int session_context(const struct session *s)
{
    const int limit = tpcl_checkpoint_config(s->checkpoint)->max_context;
    if (s->settings->ctx > 0) return (int)s->settings->ctx;
    return limit < DEFAULT_CONTEXT ? limit : DEFAULT_CONTEXT;
}

int session_open(struct session *s)
{
    const tpcl_log log = session_logger(s);
    signals_phase("opening the model");
    const int code = report_status(tpcl_checkpoint_open(s->settings->model, &log, &s->checkpoint));
    if (code) return code;
    const tpcl_model_config *config = tpcl_checkpoint_config(s->checkpoint);
    s->valid_vocab = config->vocab;
    if (s->settings->ctx > config->max_context)
        return report_fail(EX_USAGE, "--ctx %" PRId64 " is more than the model's %d (%s)",
                           s->settings->ctx, config->max_context, s->settings->model);
    return 0;
}

int session_check_prompt(const struct session *s, const int32_t *ids, size_t n)
{
    const tpcl_model_config *config = tpcl_checkpoint_config(s->checkpoint);
    const int context = session_context(s);
    if (n == 0)
        return report_fail(EX_USAGE, "the prompt is empty: it needs at least one token (%s)",
                           s->settings->ids    ? "--ids"
                           : s->settings->file ? "--file"
                                               : "--prompt");
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= config->vocab)
            return report_fail(EX_USAGE,
                               "token id %" PRId32 " (entry %zu) is outside the vocabulary of %s: "
                               "0 to %d",
                               ids[i], i, s->settings->model, config->vocab - 1);
    if (n > (size_t)context)
        return report_fail(EX_USAGE,
                           "the prompt has %zu tokens, the context %d: shorten it or raise --ctx "
                           "(this model allows %d)",
                           n, context, config->max_context);
    return 0;
}

int session_share(struct session *s, int code)
{
    code = job_agree(&s->job, code);
    if (code) return code;
    struct job_term same = {.name = "the model (hash of its headers)"};
    snprintf(same.value, sizeof same.value, "%016" PRIx64, tpcl_checkpoint_hash(s->checkpoint));
    code = job_same(&s->job, &same, 1);
    if (code) return code;
    int head[3] = {s->n_ids, s->valid_vocab, s->n_stop_ids};
    job_broadcast(&s->job, head, sizeof head);
    job_broadcast(&s->job, s->stop_ids, sizeof s->stop_ids);
    if (s->job.rank > 0) {
        s->n_ids = head[0];
        s->valid_vocab = head[1];
        s->n_stop_ids = head[2];
        s->ids = malloc((size_t)head[0] * sizeof *s->ids);
        if (!s->ids) code = report_fail(EX_OSERR, "out of memory for %d ids", head[0]);
    }
    code = job_agree(&s->job, code);
    if (!code) job_broadcast(&s->job, s->ids, (size_t)s->n_ids * sizeof *s->ids);
    return code;
}

static int join(struct session *s)
{
    const tpcl_group_options options = {
        .device = s->settings->device,
        .cache_dir = s->settings->cache_dir,
        .timeout_s = s->settings->timeout_s,
        .gemm = (tpcl_gemm)s->settings->gemm,
        .log = session_logger(s),
    };
    signals_phase("opening the OpenCL device");
    const tpcl_status status = tpcl_group_create(s->job.comm, &options, &s->group);
    const int code = job_agree(&s->job, session_status(status));
    if (!code) tpcl_comm_set_interrupt(tpcl_group_comm(s->group), signals_interrupt_flag());
    return code;
}

/* One line a rank, so that a process that dies can be told from the others. */
static void print_ranks(const struct session *s)
{
    for (int r = 0; r < s->job.size; r++) {
        const tpcl_model_share *h = &s->shares[r];
        fprintf(stderr,
                "rank %d/%d: host %s, pid %d, platform %s, device %s, vocab %" PRId64 "..%" PRId64
                ", heads %" PRId64 "..%" PRId64 ", kv heads %" PRId64 "..%" PRId64
                ", inter %" PRId64 "..%" PRId64 "\n",
                r, s->job.size, h->host, h->pid, h->platform, h->device, h->vocab.begin,
                h->vocab.end, h->heads.q.begin, h->heads.q.end, h->heads.kv.begin, h->heads.kv.end,
                h->inter.begin, h->inter.end);
    }
}

static int collect_shares(struct session *s)
{
    int code = 0;
    if (s->job.rank == 0) {
        s->shares = calloc((size_t)s->job.size, sizeof *s->shares);
        if (!s->shares) code = report_fail(EX_OSERR, "out of memory for %d ranks", s->job.size);
    }
    code = job_agree(&s->job, code);
    if (!code) code = job_agree(&s->job, session_status(tpcl_model_shares(s->model, s->shares)));
    if (!code && s->job.rank == 0 && s->settings->verbose) print_ranks(s);
    return code;
}

int session_load(struct session *s)
{
    int code = join(s);
    if (code) return code;
    const tpcl_model_options options = {
        .context = (int)s->settings->ctx,
        .chunk = (int)s->settings->chunk,
        .kv_f32 = s->settings->kv == KV_F32,
        .valid_vocab = s->valid_vocab,
        .progress = progress_update,
        .progress_context = &s->progress,
        .log = session_logger(s),
    };
    signals_phase("loading the model and compiling kernels; if it happens again, remove the caches "
                  "of compiled kernels (--cache-dir, and the driver's own)");
    progress_begin(&s->progress, s->settings, s->job.rank == 0);
    const tpcl_status status =
        tpcl_model_load(s->group, TPCL_OK, s->checkpoint, &options, &s->model);
    signals_install();
    progress_end(&s->progress);
    code = job_agree(&s->job, session_status(status));
    if (!code) code = collect_shares(s);
    s->load_s = seconds_now() - s->started_s;
    return code;
}

int session_end(struct session *s, int code)
{
    tpcl_model_destroy(&s->model);
    tpcl_group_destroy(&s->group);
    tpcl_checkpoint_close(&s->checkpoint);
    free(s->ids);
    free(s->shares);
    s->ids = NULL;
    s->shares = NULL;
    return job_end(&s->job, code);
}
