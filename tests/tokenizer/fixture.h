/* Tokenizers to test with: the checkpoint folder's, the demo model's, and damaged ones. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOKENIZER_FIXTURE_H
#define TOKENIZER_FIXTURE_H

#include <jansson.h>
#include <string.h>
#include <tpcl/checkpoint.h>
#include <tpcl/tokenizer.h>

#include "tpcl_test.h"

#define QWEN_DIR TPCL_GOLDEN_DIR "/tiny-qwen3-tied/"
#define SMOLLM2_GGUF TPCL_GOLDEN_DIR "/../../models/SmolLM2-135M-Instruct.Q4_1.gguf"

static inline char *read_file(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    char *bytes = NULL;
    *length = 0;
    for (size_t got = 1; got > 0; *length += got) {
        bytes = realloc(bytes, *length + 65536 + 1);
        assert_non_null(bytes);
        got = fread(bytes + *length, 1, 65536, f);
    }
    bytes[*length] = '\0';
    fclose(f);
    return bytes;
}

static inline json_t *read_json(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!json) fail_msg("cannot read %s: line %d: %s", path, error.line, error.text);
    return json;
}

static inline tpcl_tokenizer_source json_source(const char *text, size_t length)
{
    return (tpcl_tokenizer_source){
        .present = true, .tokenizer_json = {text, length}, .bos_id = -1, .eos_id = -1};
}

/* From a parsed tokenizer.json, maybe changed by the test. */
static inline tpcl_status create_from(const json_t *root, tpcl_tokenizer **out)
{
    char *text = json_dumps(root, JSON_COMPACT);
    assert_non_null(text);
    const tpcl_tokenizer_source source = json_source(text, strlen(text));
    const tpcl_status status = tpcl_tokenizer_create(&source, out);
    free(text);
    return status;
}

static inline tpcl_tokenizer *qwen_tokenizer(void)
{
    tpcl_tokenizer *tokenizer = NULL;
    tpcl_tokenizer_source source = {.present = true, .bos_id = -1, .eos_id = -1};
    char *json = read_file(QWEN_DIR "tokenizer.json", &source.tokenizer_json.length);
    char *config =
        read_file(QWEN_DIR "tokenizer_config.json", &source.tokenizer_config_json.length);
    json_t *parsed = json_loads(config, 0, NULL);
    assert_non_null(parsed);
    source.tokenizer_json.bytes = json;
    source.tokenizer_config_json.bytes = config;
    source.chat_template.bytes = json_string_value(json_object_get(parsed, "chat_template"));
    source.chat_template.length = strlen(source.chat_template.bytes);
    assert_ok(tpcl_tokenizer_create(&source, &tokenizer));
    json_decref(parsed);
    free(json);
    free(config);
    return tokenizer;
}

/* NULL where the demo model has not been fetched. */
static inline tpcl_tokenizer *smollm2_tokenizer(void)
{
    tpcl_tokenizer *tokenizer = NULL;
    tpcl_checkpoint *checkpoint = NULL;
    FILE *f = fopen(SMOLLM2_GGUF, "rb");
    if (!f) {
        print_message("SKIPPED: %s is not there; scripts/test.sh fetches it\n", SMOLLM2_GGUF);
        return NULL;
    }
    fclose(f);
    assert_ok(tpcl_checkpoint_open(SMOLLM2_GGUF, NULL, &checkpoint));
    assert_ok(tpcl_tokenizer_create(tpcl_checkpoint_tokenizer(checkpoint), &tokenizer));
    tpcl_checkpoint_close(&checkpoint); /* the tokenizer must not need it any more */
    return tokenizer;
}

/* For a message: "1 2 3 ...". */
static inline const char *list_ids(const int32_t *ids, size_t n, char *out, size_t room)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < n && at + 16 < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%d ", ids[i]);
    return out;
}

static inline void assert_ids(const char *what, const int32_t *got, size_t n_got,
                              const int32_t *want, size_t n_want)
{
    char g[512], w[512];
    if (n_got != n_want || (n_got > 0 && memcmp(got, want, n_got * sizeof *got) != 0))
        fail_msg("'%s': got %zu ids: %s, want %zu: %s", what, n_got,
                 list_ids(got, n_got, g, sizeof g), n_want, list_ids(want, n_want, w, sizeof w));
}

static inline void assert_encodes(const tpcl_tokenizer *tokenizer, const char *text, size_t length,
                                  bool special, const int32_t *want, size_t n_want)
{
    int32_t *ids = NULL;
    size_t n = 0;
    assert_ok(tpcl_tokenizer_encode(tokenizer, text, length, special, &ids, &n));
    assert_ids(text, ids, n, want, n_want);
    free(ids);
}

/* One id at a time, as a program prints an answer. */
static inline char *stream(const tpcl_tokenizer *tokenizer, const int32_t *ids, size_t n,
                           bool special)
{
    tpcl_decoder *decoder = NULL;
    const char *text;
    char *all = calloc(1, 1);
    size_t length = 0;
    assert_ok(tpcl_decoder_create(tokenizer, special, &decoder));
    for (size_t i = 0; i <= n; i++) {
        if (i < n)
            assert_ok(tpcl_decoder_push(decoder, ids[i], &text));
        else
            assert_ok(tpcl_decoder_finish(decoder, &text));
        all = realloc(all, length + strlen(text) + 1);
        assert_non_null(all);
        memcpy(all + length, text, strlen(text) + 1);
        length += strlen(text);
    }
    tpcl_decoder_destroy(&decoder);
    return all;
}
#endif
