/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/load_json.h"
#include "tokenizer/text.h"
#include "tokenizer/tokenizer.h"

static tpcl_status parse(const char *file, tpcl_text text, json_t **out)
{
    tpcl_status status = TPCL_OK;
    json_error_t error;
    *out = json_loadb(text.bytes, text.length, JSON_REJECT_DUPLICATES, &error);
    TPI_REQUIRE(*out, TPCL_ERR_FORMAT, "%s: line %d, byte %d: %s", file, error.line, error.position,
                tpi_quote_z(error.text).text);
    TPI_REQUIRE(json_is_object(*out), TPCL_ERR_FORMAT, "%s: the top level is not an object", file);
done:
    return status;
}

/* A setting that must be absent, null or empty, or false or 0: we do not do what it asks for. */
static tpcl_status refuse(const json_t *model, const char *key)
{
    tpcl_status status = TPCL_OK;
    const json_t *value = json_object_get(model, key);
    const bool off = !value || json_is_null(value) || json_is_false(value) ||
                     (json_is_string(value) && json_string_length(value) == 0) ||
                     (json_is_number(value) && json_number_value(value) == 0.0);
    TPI_REQUIRE(off, TPCL_ERR_UNSUPPORTED, "tokenizer.json: model.%s is set; it is not supported",
                key);
done:
    return status;
}

static tpcl_status check_model(const json_t *model)
{
    tpcl_status status = TPCL_OK;
    const json_t *type = json_object_get(model, "type");
    TPI_REQUIRE(json_is_object(model), TPCL_ERR_FORMAT, "tokenizer.json: 'model' is no object");
    TPI_REQUIRE(!type || json_is_string(type), TPCL_ERR_FORMAT,
                "tokenizer.json: model.type is no string");
    TPI_REQUIRE(!type || strcmp(json_string_value(type), "BPE") == 0, TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: model type '%s': only byte-level BPE is supported; "
                "give ids instead of text",
                tpi_quote_z(json_string_value(type)).text);
    TPI_TRY(refuse(model, "dropout"));
    TPI_TRY(refuse(model, "continuing_subword_prefix"));
    TPI_TRY(refuse(model, "end_of_word_suffix"));
    TPI_REQUIRE(json_is_object(json_object_get(model, "vocab")), TPCL_ERR_FORMAT,
                "tokenizer.json: model.vocab is no object");
    TPI_REQUIRE(json_is_array(json_object_get(model, "merges")), TPCL_ERR_FORMAT,
                "tokenizer.json: model.merges is no array");
done:
    return status;
}

/* An id of the file, in the range that any vocabulary may have. */
static tpcl_status read_id(const json_t *value, const char *token, int *id)
{
    tpcl_status status = TPCL_OK;
    const json_int_t n = json_integer_value(value);
    TPI_REQUIRE(json_is_integer(value) && n >= 0 && n < TPI_MAX_VOCAB, TPCL_ERR_FORMAT,
                "tokenizer.json: token '%s': its id is not an integer in 0..%d",
                tpi_quote_z(token).text, TPI_MAX_VOCAB - 1);
    *id = (int)n;
done:
    return status;
}

/* One more than the largest id of model.vocab and added_tokens. */
static tpcl_status count_ids(json_t *vocab, const json_t *added, int *n)
{
    tpcl_status status = TPCL_OK;
    const char *token;
    json_t *value;
    size_t i;
    int id = -1;

    *n = 0;
    json_object_foreach(vocab, token, value)
    {
        TPI_TRY(read_id(value, token, &id));
        if (id >= *n) *n = id + 1;
    }
    json_array_foreach(added, i, value)
    {
        const char *content = json_string_value(json_object_get(value, "content"));
        TPI_REQUIRE(content, TPCL_ERR_FORMAT, "tokenizer.json: added_tokens[%zu] has no content",
                    i);
        TPI_TRY(read_id(json_object_get(value, "id"), content, &id));
        if (id >= *n) *n = id + 1;
    }
done:
    return status;
}

static tpcl_status read_flag(const json_t *token, const char *key, bool *out)
{
    tpcl_status status = TPCL_OK;
    const json_t *value = json_object_get(token, key);
    TPI_REQUIRE(!value || json_is_boolean(value), TPCL_ERR_FORMAT,
                "tokenizer.json: added token '%s': %s is not true or false",
                tpi_quote_z(json_string_value(json_object_get(token, "content"))).text, key);
    *out = json_is_true(value);
done:
    return status;
}

static bool is_ascii(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80) return false;
    return true;
}

static tpcl_status add_token(tpcl_tokenizer *tokenizer, const json_t *token)
{
    tpcl_status status = TPCL_OK;
    const json_t *content = json_object_get(token, "content");
    const char *text = json_string_value(content);
    const int id = (int)json_integer_value(json_object_get(token, "id"));
    bool special = false, lstrip = false, rstrip = false, single_word = false, normalized = false;

    TPI_TRY(read_flag(token, "special", &special));
    TPI_TRY(read_flag(token, "lstrip", &lstrip));
    TPI_TRY(read_flag(token, "rstrip", &rstrip));
    TPI_TRY(read_flag(token, "single_word", &single_word));
    TPI_TRY(read_flag(token, "normalized", &normalized));
    TPI_REQUIRE(!single_word, TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: added token '%s' is matched as a single word only; "
                "that is not supported",
                tpi_quote_z(text).text);
    /* In normalised text we would have to normalise the token too, and to find again in it what the
     * caller trusts. Files that combine these are not known. */
    TPI_REQUIRE(!normalized || !tokenizer->nfc || (!special && is_ascii(text)),
                TPCL_ERR_UNSUPPORTED,
                "tokenizer.json: added token '%s' is matched in normalised text; "
                "that is supported for ASCII tokens that are not special",
                tpi_quote_z(text).text);
    TPI_TRY(tpi_vocab_set(&tokenizer->vocab, id, text, json_string_length(content),
                          special ? TPI_WORD_SPECIAL : TPI_WORD_ADDED));
    TPI_TRY(tpi_added_push(&tokenizer->added[normalized], id, special, lstrip, rstrip));
done:
    return status;
}

/* model.vocab may list an added token too, under the same id. */
static bool is_added(const tpi_vocab *vocab, int id, const char *token)
{
    const tpi_word *word = &vocab->words[id];
    return (word->kind == TPI_WORD_ADDED || word->kind == TPI_WORD_SPECIAL) &&
           word->length == strlen(token) &&
           memcmp(tpi_vocab_bytes(vocab, id), token, word->length) == 0;
}

static tpcl_status load_words(tpcl_tokenizer *tokenizer, json_t *vocab, const json_t *added)
{
    tpcl_status status = TPCL_OK;
    const char *token;
    json_t *value;
    size_t i;
    int n;

    TPI_REQUIRE(!added || json_is_null(added) || json_is_array(added), TPCL_ERR_FORMAT,
                "tokenizer.json: added_tokens is no array");
    TPI_TRY(count_ids(vocab, added, &n));
    TPI_TRY(tpi_vocab_create(&tokenizer->vocab, n));
    json_array_foreach(added, i, value) TPI_TRY(add_token(tokenizer, value));
    json_object_foreach(vocab, token, value)
    {
        const int id = (int)json_integer_value(value);
        if (is_added(&tokenizer->vocab, id, token)) continue;
        TPI_TRY(tpi_vocab_set(&tokenizer->vocab, id, token, strlen(token), TPI_WORD_NORMAL));
    }
    TPI_TRY(tpi_vocab_index(&tokenizer->vocab));
    for (int k = 0; k < 2; k++) tpi_added_sort(&tokenizer->added[k], &tokenizer->vocab);
done:
    return status;
}

/* "left right", or since tokenizers 0.20 ["left", "right"]. */
static tpcl_status load_merges(tpcl_tokenizer *tokenizer, const json_t *merges)
{
    tpcl_status status = TPCL_OK;
    json_t *merge;
    size_t i;

    TPI_TRY(tpi_merges_create(&tokenizer->merges, json_array_size(merges)));
    json_array_foreach(merges, i, merge)
    {
        const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
        if (json_is_string(merge)) {
            TPI_TRY(tpi_merges_add_line(&tokenizer->merges, &tokenizer->vocab, (int)i,
                                        json_string_value(merge), json_string_length(merge)));
            continue;
        }
        TPI_REQUIRE(json_array_size(merge) == 2 && json_is_string(left) && json_is_string(right),
                    TPCL_ERR_FORMAT, "tokenizer.json: merge %zu is neither a string nor a pair", i);
        TPI_TRY(tpi_merges_add(&tokenizer->merges, &tokenizer->vocab, (int)i,
                               json_string_value(left), json_string_length(left),
                               json_string_value(right), json_string_length(right)));
    }
done:
    return status;
}

/* What to do with a byte that has no word: we leave it out, which is right only without these. */
static tpcl_status check_missing_bytes(const tpcl_tokenizer *tokenizer, const json_t *model)
{
    tpcl_status status = TPCL_OK;
    bool complete = true;
    for (int b = 0; b < 256; b++) complete = complete && tokenizer->vocab.byte_ids[b] >= 0;
    if (complete) goto done;
    TPI_TRY(refuse(model, "unk_token"));
    TPI_TRY(refuse(model, "byte_fallback"));
done:
    return status;
}

/* tokenizer_config.json's eos_token: a text, or an object with its content. */
static tpcl_status load_eos(tpcl_tokenizer *tokenizer, tpcl_text config_text)
{
    tpcl_status status = TPCL_OK;
    json_t *config = NULL;

    if (config_text.length == 0) goto done;
    TPI_TRY(parse("tokenizer_config.json", config_text, &config));
    const json_t *eos = json_object_get(config, "eos_token");
    if (json_is_object(eos)) eos = json_object_get(eos, "content");
    if (!eos || json_is_null(eos)) goto done;
    TPI_REQUIRE(json_is_string(eos), TPCL_ERR_FORMAT,
                "tokenizer_config.json: eos_token is neither a string nor an object with one");
    const char *text = json_string_value(eos);
    const tpi_added_token *token = tpi_find_added(tokenizer, text, json_string_length(eos));
    tokenizer->eos =
        token ? token->id : tpi_vocab_find(&tokenizer->vocab, text, json_string_length(eos));
    TPI_REQUIRE(tokenizer->eos >= 0, TPCL_ERR_FORMAT,
                "tokenizer_config.json: eos_token '%s' is no token of tokenizer.json",
                tpi_quote_z(text).text);
done:
    json_decref(config);
    return status;
}

tpcl_status tpi_load_json(tpcl_tokenizer *tokenizer, const tpcl_tokenizer_source *source)
{
    tpcl_status status = TPCL_OK;
    json_t *root = NULL;
    tpi_split split = TPI_SPLITS;

    TPI_REQUIRE(source->tokenizer_json.length > 0, TPCL_ERR_ARG,
                "the checkpoint has no tokenizer.json; give ids instead of text");
    TPI_TRY(parse("tokenizer.json", source->tokenizer_json, &root));
    const json_t *model = json_object_get(root, "model");
    TPI_TRY(check_model(model));
    TPI_TRY(tpi_json_normalizer(json_object_get(root, "normalizer"), &tokenizer->nfc));
    TPI_TRY(tpi_json_split(json_object_get(root, "pre_tokenizer"), &split));
    TPI_TRY(tpi_json_decoder(json_object_get(root, "decoder")));
    TPI_TRY(load_words(tokenizer, json_object_get(model, "vocab"),
                       json_object_get(root, "added_tokens")));
    TPI_TRY(check_missing_bytes(tokenizer, model));
    TPI_TRY(load_merges(tokenizer, json_object_get(model, "merges")));
    tokenizer->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    TPI_TRY(tpi_splitter_create(split, &tokenizer->splitter));
    TPI_TRY(load_eos(tokenizer, source->tokenizer_config_json));
done:
    json_decref(root);
    return status;
}
