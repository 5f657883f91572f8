/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/error.h"
#include "tokenizer/bpe.h"
#include "tokenizer/text.h"
#include "tokenizer/tokenizer.h"

/* Far beyond any context, and every index of a piece fits 32 bits. */
static const size_t MAX_TEXT = (size_t)1 << 29;

typedef struct encoder {
    const tpcl_tokenizer *tokenizer;
    tpi_bpe bpe;
    tpi_pieces pieces;
    const tpi_span *trusted; /* in the whole text */
    size_t n_trusted;
    tpi_idbuf *ids;
} encoder;

static tpcl_status encode_piece(encoder *e, const char *piece, size_t length)
{
    tpcl_status status = TPCL_OK;
    const tpcl_tokenizer *t = e->tokenizer;
    if (t->ignore_merges) {
        const int32_t id = tpi_vocab_find(&t->vocab, piece, length);
        if (id >= 0 && t->vocab.words[id].kind == TPI_WORD_NORMAL) {
            TPI_TRY(tpi_idbuf_push(e->ids, id));
            goto done;
        }
    }
    TPI_TRY(tpi_bpe_encode(&e->bpe, &t->vocab, &t->merges, piece, length, e->ids));
done:
    return status;
}

static bool is_ascii(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] >= 0x80) return false;
    return true;
}

static tpcl_status encode_pieces(encoder *e, const char *text, size_t length)
{
    tpcl_status status = TPCL_OK;
    const char *piece;
    size_t n;

    tpi_pieces_start(&e->pieces, text, length);
    for (;;) {
        TPI_TRY(tpi_pieces_next(&e->pieces, &piece, &n));
        if (n == 0) break;
        TPI_TRY(encode_piece(e, piece, n));
    }
done:
    return status;
}

/* text[at .. end) between the tokens that are matched in it as it stands. */
static tpcl_status encode_stretch(encoder *e, const char *text, size_t at, size_t end)
{
    tpcl_status status = TPCL_OK;
    utf8proc_uint8_t *composed = NULL;
    const tpi_added *added = &e->tokenizer->added[1];
    size_t n_trusted = e->n_trusted;

    if (e->tokenizer->nfc && !is_ascii(text + at, end - at)) {
        const utf8proc_ssize_t rc =
            utf8proc_map((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(end - at),
                         &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        TPI_REQUIRE(rc >= 0, TPCL_ERR_NOMEM, "encode: NFC of %zu bytes: %s", end - at,
                    utf8proc_errmsg(rc));
        text = (const char *)composed;
        at = 0;
        end = (size_t)rc;
        n_trusted = 0; /* the loader lets no special token be matched in normalised text */
    }
    while (at < end) {
        tpi_match match;
        const bool found = tpi_added_find(added, text, at, end, e->trusted, n_trusted, &match);
        TPI_TRY(encode_pieces(e, text + at, (found ? match.start : end) - at));
        if (!found) break;
        TPI_TRY(tpi_idbuf_push(e->ids, match.id));
        at = match.end;
    }
done:
    free(composed);
    return status;
}

tpcl_status tpi_encode(const tpcl_tokenizer *tokenizer, const char *text, size_t length,
                       const tpi_span *trusted, size_t n_trusted, tpi_idbuf *ids)
{
    tpcl_status status = TPCL_OK;
    encoder e = {.tokenizer = tokenizer, .trusted = trusted, .n_trusted = n_trusted, .ids = ids};
    const tpi_added *added = &tokenizer->added[0];
    size_t at = 0;

    TPI_REQUIRE(length <= MAX_TEXT, TPCL_ERR_ARG, "encode: a text of %zu bytes, the limit is %zu",
                length, MAX_TEXT);
    TPI_TRY(tpi_pieces_create(tokenizer->splitter, &e.pieces));
    while (at < length) {
        tpi_match match;
        const bool found = tpi_added_find(added, text, at, length, trusted, n_trusted, &match);
        TPI_TRY(encode_stretch(&e, text, at, found ? match.start : length));
        if (!found) break;
        TPI_TRY(tpi_idbuf_push(ids, match.id));
        at = match.end;
    }
done:
    tpi_bpe_free(&e.bpe);
    tpi_pieces_free(&e.pieces);
    return status;
}

tpcl_status tpcl_tokenizer_encode(const tpcl_tokenizer *tokenizer, const char *text, size_t length,
                                  bool special, int32_t **ids, size_t *n)
{
    tpcl_status status = TPCL_OK;
    tpi_strbuf repaired = {0};
    tpi_idbuf out = {0};

    TPI_REQUIRE(ids && n, TPCL_ERR_ARG, "encode: no place for the ids");
    *ids = NULL;
    *n = 0;
    TPI_REQUIRE(tokenizer && (text || length == 0), TPCL_ERR_ARG, "encode: a pointer is NULL");
    TPI_TRY(tpi_utf8_repair(text, length, &repaired));
    const tpi_span all = {0, repaired.length};
    TPI_TRY(tpi_encode(tokenizer, repaired.data, repaired.length, &all, special ? 1 : 0, &out));
    *ids = out.data;
    *n = out.n;
    out = (tpi_idbuf){0}; /* ownership moved to the caller */
done:
    free(out.data);
    tpi_strbuf_free(&repaired);
    return status;
}
