/* tpcl tokenize and detokenize: text to ids and back, without MPI. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <tpcl/tokenizer.h>

#include "commands.h"
#include "parse.h"
#include "report.h"
#include "text.h"

static void log_warning(void *context, tpcl_log_level level, const char *line)
{
    (void)context;
    if (level == TPCL_LOG_WARN) report_warning("%s", line);
}

static int open_tokenizer(const char *model, tpcl_tokenizer **tokenizer)
{
    const tpcl_log log = {.write = log_warning};
    tpcl_checkpoint *checkpoint = NULL;
    int code = report_status(tpcl_checkpoint_open(model, &log, &checkpoint));
    if (code) return code;
    const tpcl_tokenizer_source *source = tpcl_checkpoint_tokenizer(checkpoint);
    if (!source->present)
        code = report_fail(EX_NOINPUT, "%s has no tokenizer (tokenizer.json)", model);
    else
        code = report_status(tpcl_tokenizer_create(source, tokenizer));
    tpcl_checkpoint_close(&checkpoint);
    return code;
}

static int read_stdin(struct text_buffer *text)
{
    const int err = text_read_all(stdin, text);
    return err ? report_fail(EX_IOERR, "standard input: %s", strerror(err)) : 0;
}

static int flush_stdout(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    return report_fail(EX_IOERR, "standard output: %s", strerror(errno ? errno : EIO));
}

int tokenize_command(const struct settings *s)
{
    tpcl_tokenizer *tokenizer = NULL;
    struct text_buffer text = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    int code = open_tokenizer(s->model, &tokenizer);
    if (!code) code = read_stdin(&text);
    if (!code && text.length > 0)
        code = report_status(
            tpcl_tokenizer_encode(tokenizer, text.bytes, text.length, s->special, &ids, &n));
    if (!code) {
        putchar('[');
        for (size_t i = 0; i < n; i++) printf("%s%" PRId32, i ? "," : "", ids[i]);
        puts("]");
        code = flush_stdout();
    }
    free(ids);
    free(text.bytes);
    tpcl_tokenizer_destroy(&tokenizer);
    return code;
}

static int read_ids(const struct settings *s, int32_t **ids, size_t *n)
{
    struct text_buffer text = {0};
    if (s->ids) return parse_ids("--ids", s->ids, strlen(s->ids), ids, n);
    int code = read_stdin(&text);
    text_append(&text, "", 1); /* parse_ids() quotes what it finds */
    if (!code && text.failed) code = report_fail(EX_OSERR, "standard input: out of memory");
    if (!code) code = parse_ids("standard input", text.bytes, text.length - 1, ids, n);
    free(text.bytes);
    return code;
}

int detokenize_command(const struct settings *s)
{
    tpcl_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    char *bytes = NULL;
    size_t n = 0, length = 0;
    int code = open_tokenizer(s->model, &tokenizer);
    if (!code) code = read_ids(s, &ids, &n);
    if (!code && n > 0)
        code = report_status(tpcl_tokenizer_decode(tokenizer, ids, n, s->special, &bytes, &length));
    if (!code) {
        if (length > 0) fwrite(bytes, 1, length, stdout);
        code = flush_stdout();
    }
    free(bytes);
    free(ids);
    tpcl_tokenizer_destroy(&tokenizer);
    return code;
}
