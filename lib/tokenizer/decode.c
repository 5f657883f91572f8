/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/text.h"
#include "tokenizer/tokenizer.h"

/* The bytes an id stands for; *length 0 for holes, and for special tokens unless asked for. */
static const char *bytes_of(const tpcl_tokenizer *tokenizer, int32_t id, bool special,
                            size_t *length)
{
    const tpi_word *word = &tokenizer->vocab.words[id];
    const bool shown = word->kind != TPI_WORD_NONE && (special || word->kind != TPI_WORD_SPECIAL);
    *length = shown ? word->length : 0;
    return shown ? tpi_vocab_bytes(&tokenizer->vocab, id) : "";
}

tpcl_status tpcl_tokenizer_decode(const tpcl_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                  bool special, char **bytes, size_t *length)
{
    tpcl_status status = TPCL_OK;
    tpi_strbuf out = {0};

    TPI_REQUIRE(bytes && length, TPCL_ERR_ARG, "decode: no place for the text");
    *bytes = NULL;
    *length = 0;
    TPI_REQUIRE(tokenizer && (ids || n == 0), TPCL_ERR_ARG, "decode: a pointer is NULL");
    for (size_t i = 0; i < n; i++) {
        size_t word_length;
        TPI_REQUIRE(ids[i] >= 0 && ids[i] < tokenizer->vocab.n, TPCL_ERR_ARG,
                    "id %d (number %zu) is outside the vocabulary 0..%d", ids[i], i,
                    tokenizer->vocab.n - 1);
        const char *word = bytes_of(tokenizer, ids[i], special, &word_length);
        TPI_TRY(tpi_strbuf_append(&out, word, word_length));
    }
    *bytes = out.data;
    *length = out.length;
    out = (tpi_strbuf){0}; /* ownership moved to the caller */
done:
    tpi_strbuf_free(&out);
    return status;
}

struct tpcl_decoder {
    const tpcl_tokenizer *tokenizer;
    bool special;
    char pending[4]; /* the start of a character whose rest has not come yet */
    size_t n_pending;
    tpi_strbuf text; /* what the last call returned, terminated */
};

tpcl_status tpcl_decoder_create(const tpcl_tokenizer *tokenizer, bool special, tpcl_decoder **out)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "decoder: no place for it");
    *out = NULL;
    TPI_REQUIRE(tokenizer, TPCL_ERR_ARG, "decoder: no tokenizer");
    tpcl_decoder *decoder = calloc(1, sizeof *decoder);
    TPI_REQUIRE(decoder, TPCL_ERR_NOMEM, "decoder");
    decoder->tokenizer = tokenizer;
    decoder->special = special;
    *out = decoder;
done:
    return status;
}

void tpcl_decoder_destroy(tpcl_decoder **decoder)
{
    if (!decoder || !*decoder) return;
    tpi_strbuf_free(&(*decoder)->text);
    free(*decoder);
    *decoder = NULL;
}

/* Takes one byte: at most a finished character and, before it, U+FFFD for what it cut short. */
static tpcl_status take_byte(tpcl_decoder *decoder, char byte)
{
    tpcl_status status = TPCL_OK;
    decoder->pending[decoder->n_pending++] = byte;
    while (decoder->n_pending > 0) {
        tpi_utf8 verdict;
        const size_t n = tpi_utf8_step(decoder->pending, decoder->n_pending, &verdict);
        if (verdict == TPI_UTF8_INCOMPLETE) break;
        /* A C string cannot hold NUL: it is shown as U+FFFD too. */
        const bool good = verdict == TPI_UTF8_VALID && decoder->pending[0] != '\0';
        TPI_TRY(tpi_strbuf_append(&decoder->text, good ? decoder->pending : TPI_REPLACEMENT,
                                  good ? n : 3));
        decoder->n_pending -= n;
        memmove(decoder->pending, decoder->pending + n, decoder->n_pending);
    }
done:
    return status;
}

tpcl_status tpcl_decoder_push(tpcl_decoder *decoder, int32_t id, const char **text)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(decoder && text, TPCL_ERR_ARG, "decoder: a pointer is NULL");
    *text = "";
    TPI_REQUIRE(id >= 0, TPCL_ERR_ARG, "decoder: id %d is negative", id);
    decoder->text.length = 0;
    if (id < decoder->tokenizer->vocab.n) {
        size_t length;
        const char *bytes = bytes_of(decoder->tokenizer, id, decoder->special, &length);
        for (size_t i = 0; i < length; i++) TPI_TRY(take_byte(decoder, bytes[i]));
    }
    TPI_TRY(tpi_strbuf_append(&decoder->text, "", 1));
    *text = decoder->text.data;
done:
    return status;
}

tpcl_status tpcl_decoder_finish(tpcl_decoder *decoder, const char **text)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(decoder && text, TPCL_ERR_ARG, "decoder: a pointer is NULL");
    *text = decoder->n_pending > 0 ? TPI_REPLACEMENT : "";
    decoder->n_pending = 0;
done:
    return status;
}
