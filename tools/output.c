/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "launch.h"
#include "report.h"

static const char *const finish_names[] = {"stop", "length", "error"};

int output_begin(struct output *out, const struct session *s, const tpcl_tokenizer *tokenizer)
{
    const struct settings *o = s->settings;
    *out = (struct output){.settings = o, .visible = s->job.rank == 0};
    out->strip = launch_stdout_may_be_terminal();
    if (!out->visible) return 0;
    out->ids = malloc(((size_t)session_context(s) + 1) * sizeof *out->ids);
    if (!out->ids) return report_fail(EX_OSERR, "out of memory for %d ids", session_context(s));
    if (tokenizer && !o->print_ids)
        return report_status(tpcl_decoder_create(tokenizer, o->special, &out->decoder));
    if (!tokenizer && !o->print_ids && !o->json)
        report_warning("%s has no tokenizer: printing ids", o->model);
    return 0;
}

void output_submit(struct output *out)
{
    out->submitted_s = seconds_now();
}

/* Every byte for stdout goes through here. MPI may have made the stream unbuffered, so the cause of
 * a failure is known only right after the write. */
static void put(struct output *out, const char *bytes, size_t length)
{
    if (out->code) return;
    errno = 0;
    if (fwrite(bytes, 1, length, stdout) != length || fflush(stdout) != 0)
        out->code = report_fail(EX_IOERR, "standard output: %s", strerror(errno ? errno : EIO));
}

static void put_text(struct output *out, const char *text)
{
    const size_t length = strlen(text);
    if (!out->settings->json && !out->strip) {
        put(out, text, length);
        return;
    }
    text_append(&out->text, text, length);
    if (out->settings->json || out->text.length == 0) return;
    put(out, out->text.bytes, text_strip(out->text.bytes, out->text.length));
    out->text.length = 0;
}

int output_token(void *context, int32_t id)
{
    struct output *out = context;
    const char *text = "";
    char number[16];
    if (out->n == 0) out->first_s = seconds_now();
    out->ids[out->n++] = id;
    if (out->decoder) {
        out->code = report_status(tpcl_decoder_push(out->decoder, id, &text));
        if (!out->code) put_text(out, text);
    } else if (!out->settings->json) {
        snprintf(number, sizeof number, "%s%" PRId32, out->n > 1 ? "," : "", id);
        put(out, number, strlen(number));
    }
    return out->code;
}

static double rate(double count, double seconds)
{
    return count > 0 && seconds > 0 ? count / seconds : 0;
}

static double first_token_s(const struct output *out, const tpcl_generate_result *result)
{
    return out->n > 0 ? out->first_s - out->submitted_s : result->first_token_s;
}

static json_t *json_ranks(const struct session *s)
{
    json_t *ranks = json_array();
    for (int r = 0; r < s->job.size; r++) {
        const tpcl_model_share *h = &s->shares[r];
        json_array_append_new(ranks, json_pack("{s:o*, s:I, s:I}", "device",
                                               text_json(h->device, strlen(h->device)),
                                               "weight_bytes", (json_int_t)h->weight_bytes,
                                               "kv_bytes", (json_int_t)h->kv_bytes));
    }
    return ranks;
}

static void put_json(struct output *out, const struct session *s, const tpcl_generate_result *r)
{
    json_t *object = json_object(), *ids = json_array();
    for (int i = 0; i < out->n; i++) json_array_append_new(ids, json_integer(out->ids[i]));
    json_object_set_new(object, "ids", ids);
    json_object_set_new(object, "text",
                        out->decoder
                            ? text_json(out->text.bytes ? out->text.bytes : "", out->text.length)
                            : json_null());
    json_object_set_new(object, "prompt_tokens", json_integer(s->n_ids));
    json_object_set_new(object, "prompt_tok_s", json_real(rate(s->n_ids, r->first_token_s)));
    json_object_set_new(object, "gen_tokens", json_integer(out->n));
    json_object_set_new(object, "gen_tok_s", json_real(rate(out->n - 1, r->generation_s)));
    json_object_set_new(object, "load_s", json_real(s->load_s));
    json_object_set_new(object, "ttft_s", json_real(first_token_s(out, r)));
    json_object_set_new(object, "finish_reason", json_string(finish_names[r->finish]));
    json_object_set_new(object, "ranks", json_ranks(s));
    char *line = json_dumps(object, JSON_REAL_PRECISION(6));
    if (line)
        put(out, line, strlen(line));
    else if (!out->code)
        out->code = report_fail(EX_OSERR, "out of memory for the JSON object");
    free(line);
    json_decref(object);
}

int output_finish(struct output *out, const struct session *s, const tpcl_generate_result *result)
{
    const char *rest = "";
    if (!out->visible) return 0;
    if (out->decoder && !out->code) {
        out->code = report_status(tpcl_decoder_finish(out->decoder, &rest));
        if (!out->code) put_text(out, rest);
    }
    if (out->settings->json) put_json(out, s, result);
    if (out->text.failed && !out->code) out->code = report_fail(EX_OSERR, "out of memory for text");
    put(out, "\n", 1);
    return out->code;
}

void output_statistics(const struct output *out, const struct session *s,
                       const tpcl_generate_result *r)
{
    const bool color = progress_color(out->settings);
    char weights[32], kv[32], scratch[32];
    if (!out->visible) return;
    if (color) fputs("\033[2m", stderr);
    fprintf(stderr, "load        %.2f s\n", s->load_s);
    fprintf(stderr, "prompt      %d tokens in %.3f s, %.1f tokens/s; first token after %.3f s\n",
            s->n_ids, r->first_token_s, rate(s->n_ids, r->first_token_s), first_token_s(out, r));
    fprintf(stderr, "generation  %d tokens in %.3f s, %.1f tokens/s; finish: %s\n", out->n,
            r->generation_s, rate(out->n - 1, r->generation_s), finish_names[r->finish]);
    for (int i = 0; i < s->job.size; i++) {
        const tpcl_model_share *h = &s->shares[i];
        fprintf(stderr, "rank %-6d %s: weights %s, kv cache %s, scratch %s\n", i, h->device,
                text_bytes(h->weight_bytes, weights, sizeof weights),
                text_bytes(h->kv_bytes, kv, sizeof kv),
                text_bytes(h->scratch_bytes, scratch, sizeof scratch));
    }
    if (color) fputs("\033[0m", stderr);
    fflush(stderr);
}

void output_free(struct output *out)
{
    tpcl_decoder_destroy(&out->decoder);
    free(out->text.bytes);
    free(out->ids);
    out->text = (struct text_buffer){0};
    out->ids = NULL;
}
