/* SPDX-License-Identifier: Apache-2.0 */
#include "prompt.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "parse.h"
#include "report.h"
#include "text.h"

static int read_file(const char *path, struct text_buffer *text)
{
    FILE *file = fopen(path, "rb");
    if (!file) return report_fail(EX_NOINPUT, "--file %s: %s", path, strerror(errno));
    const int err = text_read_all(file, text);
    fclose(file);
    return err ? report_fail(EX_IOERR, "--file %s: %s", path, strerror(err)) : 0;
}

static int make_tokenizer(struct session *s, tpcl_tokenizer **tokenizer)
{
    const struct settings *o = s->settings;
    const tpcl_tokenizer_source *source = tpcl_checkpoint_tokenizer(s->checkpoint);
    if (!source->present && o->ids) return 0;
    if (!source->present)
        return report_fail(EX_USAGE, "%s has no tokenizer: give the prompt as --ids", o->model);
    const tpcl_status status = tpcl_tokenizer_create(source, tokenizer);
    if (status == TPCL_ERR_UNSUPPORTED && o->ids) {
        report_warning("%s; going on with ids only", tpcl_last_error());
        return 0;
    }
    return report_status(status);
}

static void collect_stop_ids(struct session *s, const tpcl_tokenizer *tokenizer)
{
    const tpcl_model_config *config = tpcl_checkpoint_config(s->checkpoint);
    const int eos = tokenizer ? tpcl_tokenizer_eos(tokenizer) : -1;
    if (s->settings->ignore_eos) return;
    bool seen = eos < 0;
    for (int i = 0; i < config->n_stop_ids; i++) {
        if (config->stop_ids[i] >= config->vocab) continue; /* it can never come */
        s->stop_ids[s->n_stop_ids++] = config->stop_ids[i];
        seen = seen || config->stop_ids[i] == eos;
    }
    if (!seen && eos < config->vocab) s->stop_ids[s->n_stop_ids++] = eos;
}

static int encode(const struct session *s, const tpcl_tokenizer *tokenizer, const char *text,
                  size_t length, int32_t **ids, size_t *n)
{
    const struct settings *o = s->settings;
    if (length == 0)
        return report_fail(EX_USAGE, "the prompt is empty (%s%s)", o->file ? "--file " : "--prompt",
                           o->file ? o->file : "");
    if (o->raw || !tpcl_chat_has_template(tokenizer))
        return report_status(tpcl_tokenizer_encode(tokenizer, text, length, o->special, ids, n));
    return report_status(tpcl_chat_encode(tokenizer, o->system, text, length, o->special, ids, n));
}

int prompt_prepare(struct session *s, tpcl_tokenizer **tokenizer)
{
    const struct settings *o = s->settings;
    struct text_buffer file = {0};
    size_t n = 0;
    int code = make_tokenizer(s, tokenizer);
    if (code) return code;
    collect_stop_ids(s, *tokenizer);
    if (*tokenizer && tpcl_tokenizer_vocab(*tokenizer) < s->valid_vocab)
        s->valid_vocab = tpcl_tokenizer_vocab(*tokenizer);
    if (o->file) code = read_file(o->file, &file);
    if (code)
        ;
    else if (o->ids)
        code = parse_ids("--ids", o->ids, strlen(o->ids), &s->ids, &n);
    else if (o->file)
        code = encode(s, *tokenizer, file.bytes ? file.bytes : "", file.length, &s->ids, &n);
    else
        code = encode(s, *tokenizer, o->prompt, strlen(o->prompt), &s->ids, &n);
    free(file.bytes);
    if (!code) code = session_check_prompt(s, s->ids, n);
    if (!code) s->n_ids = (int)n;
    return code;
}
