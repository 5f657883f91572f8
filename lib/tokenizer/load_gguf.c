/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/text.h"
#include "tokenizer/tokenizer.h"

/* tokenizer.ggml.token_type */
enum { KIND_NORMAL = 1, KIND_UNKNOWN, KIND_CONTROL, KIND_USER_DEFINED, KIND_UNUSED, KIND_BYTE };

/* Rows that the converter padded up to the head's size are no words. Older converters did not mark
 * them unused, but spelled them by their number. */
static bool is_padding(const tpcl_tokenizer_source *source, int id)
{
    char spelling[32];
    const int length = snprintf(spelling, sizeof spelling, "[PAD%d]", id);
    const tpcl_text *text = &source->tokens[id];
    if (!source->kinds || source->kinds[id] == KIND_NORMAL || source->kinds[id] == KIND_CONTROL)
        return false;
    return source->kinds[id] == KIND_UNUSED ||
           (text->length == (size_t)length && memcmp(text->bytes, spelling, text->length) == 0);
}

static int without_padding(const tpcl_tokenizer_source *source)
{
    int n = source->n_tokens;
    while (n > 1 && is_padding(source, n - 1)) n--;
    return n;
}

static tpcl_status add_word(tpcl_tokenizer *tokenizer, const tpcl_tokenizer_source *source, int id)
{
    tpcl_status status = TPCL_OK;
    const tpcl_text *text = &source->tokens[id];
    const int kind = source->kinds ? source->kinds[id] : KIND_NORMAL;

    TPI_REQUIRE(kind >= KIND_NORMAL && kind <= KIND_BYTE, TPCL_ERR_FORMAT,
                "tokenizer.ggml.token_type[%d] is %d, known are 1..6", id, kind);
    TPI_REQUIRE(kind != KIND_BYTE, TPCL_ERR_UNSUPPORTED,
                "tokenizer.ggml.token_type[%d]: byte tokens in a byte-level vocabulary", id);
    if (kind == KIND_UNUSED) goto done;
    if (kind == KIND_NORMAL) {
        TPI_TRY(tpi_vocab_set(&tokenizer->vocab, id, text->bytes, text->length, TPI_WORD_NORMAL));
        goto done;
    }
    const bool special = kind != KIND_USER_DEFINED;
    TPI_TRY(tpi_vocab_set(&tokenizer->vocab, id, text->bytes, text->length,
                          special ? TPI_WORD_SPECIAL : TPI_WORD_ADDED));
    TPI_TRY(tpi_added_push(&tokenizer->added[0], id, special, false, false));
done:
    return status;
}

static tpcl_status check_source(const tpcl_tokenizer_source *source, tpi_split *split)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(strcmp(source->model, "gpt2") == 0, TPCL_ERR_UNSUPPORTED,
                "tokenizer.ggml.model '%s': only byte-level BPE ('gpt2') is supported; "
                "give ids instead of text",
                tpi_quote_z(source->model).text);
    TPI_REQUIRE(tpi_split_from_pre(source->pre, split), TPCL_ERR_UNSUPPORTED,
                "tokenizer.ggml.pre '%s': supported are gpt-2, smollm, qwen2 and llama-bpe",
                tpi_quote_z(source->pre ? source->pre : "").text);
    TPI_REQUIRE(source->tokens && source->n_tokens >= 1, TPCL_ERR_FORMAT,
                "tokenizer.ggml.tokens is missing or empty");
    TPI_REQUIRE(source->merges && source->n_merges >= 1, TPCL_ERR_FORMAT,
                "tokenizer.ggml.merges is missing or empty; a byte-level BPE needs it");
    TPI_REQUIRE(source->eos_id >= -1 && source->eos_id < source->n_tokens, TPCL_ERR_FORMAT,
                "tokenizer.ggml.eos_token_id is %d, there are %d tokens", source->eos_id,
                source->n_tokens);
    TPI_REQUIRE(source->bos_id >= -1 && source->bos_id < source->n_tokens, TPCL_ERR_FORMAT,
                "tokenizer.ggml.bos_token_id is %d, there are %d tokens", source->bos_id,
                source->n_tokens);
done:
    return status;
}

tpcl_status tpi_load_gguf(tpcl_tokenizer *tokenizer, const tpcl_tokenizer_source *source)
{
    tpcl_status status = TPCL_OK;
    tpi_split split = TPI_SPLITS;

    TPI_TRY(check_source(source, &split));
    const int n = without_padding(source);
    TPI_TRY(tpi_vocab_create(&tokenizer->vocab, n));
    for (int id = 0; id < n; id++) TPI_TRY(add_word(tokenizer, source, id));
    TPI_TRY(tpi_vocab_index(&tokenizer->vocab));
    tpi_added_sort(&tokenizer->added[0], &tokenizer->vocab);
    TPI_TRY(tpi_merges_create(&tokenizer->merges, (size_t)source->n_merges));
    for (int i = 0; i < source->n_merges; i++)
        TPI_TRY(tpi_merges_add_line(&tokenizer->merges, &tokenizer->vocab, i,
                                    source->merges[i].bytes, source->merges[i].length));
    TPI_TRY(tpi_splitter_create(split, &tokenizer->splitter));
    /* GGUF does not say these two; they belong to the families' own tokenizer.json. */
    tokenizer->nfc = split == TPI_SPLIT_QWEN2;
    tokenizer->ignore_merges = split == TPI_SPLIT_LLAMA3;
    tokenizer->eos = source->eos_id;
done:
    return status;
}
