/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/text.h"
#include "tokenizer/vocab.h"

tpcl_status tpi_added_push(tpi_added *added, int32_t id, bool special, bool lstrip, bool rstrip)
{
    tpcl_status status = TPCL_OK;
    if (added->n == added->capacity) {
        const size_t capacity = added->capacity * 2 + 32;
        tpi_added_token *tokens = realloc(added->tokens, capacity * sizeof *tokens);
        TPI_REQUIRE(tokens, TPCL_ERR_NOMEM, "tokenizer: %zu added tokens", capacity);
        added->tokens = tokens;
        added->capacity = capacity;
    }
    added->tokens[added->n++] = (tpi_added_token){NULL, 0, id, special, lstrip, rstrip};
done:
    return status;
}

void tpi_added_free(tpi_added *added)
{
    free(added->tokens);
    *added = (tpi_added){0};
}

/* First byte, then longest first, then id: a total order. */
static int by_first_byte(const void *pa, const void *pb)
{
    const tpi_added_token *a = pa, *b = pb;
    const unsigned char ca = (unsigned char)a->text[0], cb = (unsigned char)b->text[0];
    if (ca != cb) return ca < cb ? -1 : 1;
    if (a->length != b->length) return a->length > b->length ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void tpi_added_sort(tpi_added *added, const tpi_vocab *vocab)
{
    for (size_t i = 0; i < added->n; i++) {
        tpi_added_token *token = &added->tokens[i];
        token->text = tpi_vocab_bytes(vocab, token->id);
        token->length = vocab->words[token->id].length;
    }
    if (added->n > 1) qsort(added->tokens, added->n, sizeof *added->tokens, by_first_byte);
    size_t i = 0;
    for (int b = 0; b <= 256; b++) {
        while (i < added->n && (unsigned char)added->tokens[i].text[0] < b) i++;
        added->first[b] = i;
    }
}

static bool within(const tpi_span *spans, size_t n, size_t start, size_t end)
{
    for (size_t i = 0; i < n; i++)
        if (start >= spans[i].start && end <= spans[i].end) return true;
    return false;
}

static const tpi_added_token *token_at(const tpi_added *added, const char *text, size_t at,
                                       size_t end, const tpi_span *trusted, size_t n_trusted)
{
    const unsigned char b = (unsigned char)text[at];
    for (size_t i = added->first[b]; i < added->first[b + 1]; i++) {
        const tpi_added_token *token = &added->tokens[i];
        if (token->length > end - at || memcmp(token->text, text + at, token->length) != 0)
            continue;
        if (!token->special || within(trusted, n_trusted, at, at + token->length)) return token;
    }
    return NULL;
}

bool tpi_added_find(const tpi_added *added, const char *text, size_t from, size_t end,
                    const tpi_span *trusted, size_t n_trusted, tpi_match *match)
{
    if (added->n == 0) return false;
    for (size_t at = from; at < end; at++) {
        const tpi_added_token *token = token_at(added, text, at, end, trusted, n_trusted);
        if (!token) continue;
        *match = (tpi_match){at, at + token->length, token->id};
        if (token->lstrip) match->start -= tpi_space_at_end(text + from, at - from, false);
        if (token->rstrip)
            match->end += tpi_space_at_start(text + match->end, end - match->end, false);
        return true;
    }
    return false;
}
