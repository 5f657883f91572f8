/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* A file may call its template's markers ordinary added tokens. They steer the model all the same,
 * so a user must not be able to type them, and answers must not show them. Special tokens are
 * matched before the text is normalised, where it is known which parts of it are trusted. */
static tpcl_status guard_markers(tpcl_tokenizer *tokenizer)
{
    tpcl_status status = TPCL_OK;
    tpi_added *before = &tokenizer->added[0], *after = &tokenizer->added[1];
    size_t kept = 0;
    for (size_t i = 0; i < before->n; i++) {
        tpi_added_token *token = &before->tokens[i];
        if (!tpi_chat_is_marker(tokenizer->chat.family, token->text, token->length)) continue;
        token->special = true;
        tokenizer->vocab.words[token->id].kind = TPI_WORD_SPECIAL;
    }
    for (size_t i = 0; i < after->n; i++) {
        const tpi_added_token token = after->tokens[i];
        if (!tpi_chat_is_marker(tokenizer->chat.family, token.text, token.length)) {
            after->tokens[kept++] = token;
            continue;
        }
        TPI_TRY(tpi_added_push(before, token.id, true, token.lstrip, token.rstrip));
        tokenizer->vocab.words[token.id].kind = TPI_WORD_SPECIAL;
    }
    after->n = kept;
    tpi_added_sort(before, &tokenizer->vocab);
    tpi_added_sort(after, &tokenizer->vocab);
done:
    return status;
}

tpcl_status tpcl_tokenizer_create(const tpcl_tokenizer_source *source, tpcl_tokenizer **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_tokenizer *tokenizer = NULL;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "tokenizer: no place for it");
    *out = NULL;
    TPI_REQUIRE(source && source->present, TPCL_ERR_ARG,
                "the checkpoint has no tokenizer; give ids instead of text");
    tokenizer = calloc(1, sizeof *tokenizer);
    TPI_REQUIRE(tokenizer, TPCL_ERR_NOMEM, "tokenizer");
    tokenizer->eos = -1;
    TPI_TRY(source->model ? tpi_load_gguf(tokenizer, source) : tpi_load_json(tokenizer, source));
    tokenizer->chat = tpi_chat_recognise(source->chat_template.bytes, source->chat_template.length);
    TPI_TRY(guard_markers(tokenizer));
    *out = tokenizer;
    tokenizer = NULL; /* ownership moved to the caller */
done:
    tpcl_tokenizer_destroy(&tokenizer);
    return status;
}

void tpcl_tokenizer_destroy(tpcl_tokenizer **tokenizer)
{
    if (!tokenizer || !*tokenizer) return;
    tpi_vocab_free(&(*tokenizer)->vocab);
    tpi_merges_free(&(*tokenizer)->merges);
    tpi_added_free(&(*tokenizer)->added[0]);
    tpi_added_free(&(*tokenizer)->added[1]);
    tpi_splitter_destroy(&(*tokenizer)->splitter);
    free(*tokenizer);
    *tokenizer = NULL;
}

int tpcl_tokenizer_vocab(const tpcl_tokenizer *tokenizer)
{
    return tokenizer ? tokenizer->vocab.n : 0;
}

int tpcl_tokenizer_eos(const tpcl_tokenizer *tokenizer)
{
    return tokenizer ? tokenizer->eos : -1;
}

tpi_added_token *tpi_find_added(const tpcl_tokenizer *tokenizer, const char *text, size_t length)
{
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < tokenizer->added[k].n; i++) {
            tpi_added_token *token = &tokenizer->added[k].tokens[i];
            if (token->length == length && memcmp(token->text, text, length) == 0) return token;
        }
    return NULL;
}

int tpcl_tokenizer_find_special(const tpcl_tokenizer *tokenizer, const char *text)
{
    if (!tokenizer || !text) return -1;
    const tpi_added_token *token = tpi_find_added(tokenizer, text, strlen(text));
    return token ? token->id : -1;
}
