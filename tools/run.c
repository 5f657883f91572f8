/* tpcl run: a prompt in, tokens out. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <tpcl/tokenizer.h>

#include "commands.h"
#include "output.h"
#include "prompt.h"
#include "report.h"
#include "session.h"
#include "signals.h"

static int generate(struct session *s, struct output *out)
{
    const struct settings *o = s->settings;
    tpcl_generate_result result = {.finish = TPCL_FINISH_ERROR};
    const tpcl_generate_options options = {
        .n_predict = (int)o->n_predict,
        .sampling = {.temperature = (float)o->temp,
                     .top_k = (int)o->top_k,
                     .top_p = (float)o->top_p,
                     .seed = o->seed,
                     .min_p = (float)o->min_p,
                     .repetition_penalty = (float)o->repeat_penalty,
                     .penalty_last = (int)o->repeat_last_n},
        .stop_ids = s->stop_ids,
        .n_stop_ids = s->n_stop_ids,
        .token = output_token,
        .token_context = out,
        .interrupt = signals_interrupt_flag(),
    };
    signals_phase("generating");
    output_submit(out);
    const tpcl_status status = tpcl_model_generate(s->model, s->ids, s->n_ids, &options, &result);
    /* a rank's own trouble with its output comes first: it is the cause */
    const int code = out->code ? out->code : session_status(status);
    if (code) result.finish = TPCL_FINISH_ERROR;
    const int written = output_finish(out, s, &result);
    const int agreed = job_agree(&s->job, code ? code : written);
    if (!agreed || agreed == EXIT_INTERRUPTED) output_statistics(out, s, &result);
    free(result.ids);
    return agreed;
}

int run_command(const struct settings *settings, double started_s, int code)
{
    struct session s;
    struct output out = {0};
    tpcl_tokenizer *tokenizer = NULL;
    code = session_begin(&s, settings, started_s, code);
    if (!code) {
        code = session_open(&s);
        if (!code && s.job.rank == 0) code = prompt_prepare(&s, &tokenizer);
        if (!code) code = output_begin(&out, &s, tokenizer);
        code = session_share(&s, code);
    }
    if (!code) code = session_load(&s);
    if (!code) code = generate(&s, &out);
    output_free(&out);
    tpcl_tokenizer_destroy(&tokenizer);
    return session_end(&s, code);
}
