/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "tokenizer/split.h"

/* Letters and numbers are those of the Unicode version that PCRE2 was built with; text with younger
 * characters may be cut differently by a reference that knows them.
 *
 * Unicode's White_Space inside a class: PCRE2's own \s has U+180E too, the reference's has not. */
#define SPACE                                                                                      \
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
    "\\x{3000}"
#define S "[" SPACE "]"
#define NOT_S "[^" SPACE "]"
#define OTHER "[^" SPACE "\\p{L}\\p{N}]"

#define QWEN2_WITH(digits)                                                           \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?" OTHER \
    "+[\\r\\n]*|" S "*[\\r\\n]+|" S "+(?!" NOT_S ")|" S "+"

static const struct {
    const char *regex;   /* as tokenizer.json spells it; NULL where it takes two steps */
    const char *pattern; /* what we compile: the same language, PCRE2 */
} splits[TPI_SPLITS] = {
    [TPI_SPLIT_GPT2] = {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                        "\\s+(?!\\S)|\\s+",
                        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?" OTHER "+|" S "+(?!" NOT_S
                        ")|" S "+"},
    /* A digit ends the text for what stands before it: white space before one is not cut short. */
    [TPI_SPLIT_SMOLLM] = {NULL, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+|\\p{N}| ?" OTHER "+|" S
                                "+(?![^" SPACE "\\p{N}])|" S "+"},
    [TPI_SPLIT_QWEN2] = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                         "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                         QWEN2_WITH("\\p{N}")},
    [TPI_SPLIT_LLAMA3] = {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                          "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
                          QWEN2_WITH("\\p{N}{1,3}")},
};

static const struct {
    const char *pre;
    tpi_split split;
} pre_names[] = {
    {"default", TPI_SPLIT_GPT2},           {"gpt-2", TPI_SPLIT_GPT2},
    {"smollm", TPI_SPLIT_SMOLLM},          {"qwen2", TPI_SPLIT_QWEN2},
    {"deepseek-r1-qwen", TPI_SPLIT_QWEN2}, {"llama-bpe", TPI_SPLIT_LLAMA3},
    {"llama3", TPI_SPLIT_LLAMA3},          {"llama-v3", TPI_SPLIT_LLAMA3},
};

bool tpi_split_from_regex(const char *regex, tpi_split *split)
{
    for (int i = 0; i < TPI_SPLITS; i++)
        if (splits[i].regex && strcmp(splits[i].regex, regex) == 0) {
            *split = (tpi_split)i;
            return true;
        }
    return false;
}

bool tpi_split_from_pre(const char *pre, tpi_split *split)
{
    if (!pre) pre = "default";
    for (size_t i = 0; i < sizeof pre_names / sizeof *pre_names; i++)
        if (strcmp(pre_names[i].pre, pre) == 0) {
            *split = pre_names[i].split;
            return true;
        }
    return false;
}

struct tpi_splitter {
    pcre2_code *code;
};

tpcl_status tpi_splitter_create(tpi_split split, tpi_splitter **out)
{
    tpcl_status status = TPCL_OK;
    int error = 0;
    PCRE2_SIZE where = 0;
    tpi_splitter *splitter = NULL;

    *out = NULL;
    splitter = calloc(1, sizeof *splitter);
    TPI_REQUIRE(splitter, TPCL_ERR_NOMEM, "tokenizer: splitter");
    splitter->code = pcre2_compile((PCRE2_SPTR)splits[split].pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &where, NULL);
    TPI_REQUIRE(splitter->code, TPCL_ERR_UNSUPPORTED,
                "tokenizer: this PCRE2 rejects split pattern %d at %zu (error %d)", (int)split,
                where, error);
    /* Without a JIT (hardened kernels) the interpreter does the same work on the heap. */
    (void)pcre2_jit_compile(splitter->code, PCRE2_JIT_COMPLETE);
    *out = splitter;
    splitter = NULL;
done:
    tpi_splitter_destroy(&splitter);
    return status;
}

void tpi_splitter_destroy(tpi_splitter **splitter)
{
    if (!*splitter) return;
    pcre2_code_free((*splitter)->code);
    free(*splitter);
    *splitter = NULL;
}

tpcl_status tpi_pieces_create(const tpi_splitter *splitter, tpi_pieces *out)
{
    tpcl_status status = TPCL_OK;
    *out = (tpi_pieces){.splitter = splitter};
    out->match = pcre2_match_data_create_from_pattern(splitter->code, NULL);
    TPI_REQUIRE(out->match, TPCL_ERR_NOMEM, "encode: match data");
done:
    return status;
}

void tpi_pieces_free(tpi_pieces *pieces)
{
    pcre2_match_data_free(pieces->match);
    pieces->match = NULL;
}

void tpi_pieces_start(tpi_pieces *pieces, const char *text, size_t length)
{
    pieces->text = text;
    pieces->length = length;
    pieces->at = 0;
}

tpcl_status tpi_pieces_next(tpi_pieces *pieces, const char **piece, size_t *length)
{
    tpcl_status status = TPCL_OK;
    *piece = pieces->text + pieces->at;
    *length = 0;
    if (pieces->at == pieces->length) goto done;

    /* The text was checked once; checking it again for every piece would be quadratic. */
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(pieces->splitter->code, (PCRE2_SPTR)pieces->text, pieces->length,
                         pieces->at, options, pieces->match, NULL);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(pieces->splitter->code, (PCRE2_SPTR)pieces->text, pieces->length,
                         pieces->at, options | PCRE2_NO_JIT, pieces->match, NULL);
    TPI_REQUIRE(rc != PCRE2_ERROR_NOMEMORY && rc != PCRE2_ERROR_HEAPLIMIT, TPCL_ERR_NOMEM,
                "encode: splitting the text at byte %zu", pieces->at);
    const size_t end = rc > 0 ? pcre2_get_ovector_pointer(pieces->match)[1] : 0;
    TPI_REQUIRE(rc > 0 && end > pieces->at, TPCL_ERR_ARG,
                "encode: cannot split the text at byte %zu (PCRE2 error %d)", pieces->at, rc);
    *length = end - pieces->at;
    pieces->at = end;
done:
    return status;
}
