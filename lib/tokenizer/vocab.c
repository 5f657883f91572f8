/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "tokenizer/text.h"
#include "tokenizer/vocab.h"

tpcl_status tpi_vocab_create(tpi_vocab *vocab, int n)
{
    tpcl_status status = TPCL_OK;
    *vocab = (tpi_vocab){.n = n};
    TPI_REQUIRE(n >= 1, TPCL_ERR_FORMAT, "tokenizer: the vocabulary is empty");
    TPI_REQUIRE(n <= TPI_MAX_VOCAB, TPCL_ERR_FORMAT, "tokenizer: %d tokens, the limit is %d", n,
                TPI_MAX_VOCAB);
    vocab->words = calloc((size_t)n, sizeof *vocab->words);
    TPI_REQUIRE(vocab->words, TPCL_ERR_NOMEM, "tokenizer: table of %d tokens", n);
done:
    return status;
}

void tpi_vocab_free(tpi_vocab *vocab)
{
    free(vocab->words);
    free(vocab->slots);
    tpi_strbuf_free(&vocab->text);
    *vocab = (tpi_vocab){0};
}

/* Printable ASCII: the plain spelling and the byte characters are the same. */
static bool spells_itself(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] <= 0x20 || text[i] >= 0x7f) return false;
    return true;
}

tpcl_status tpi_vocab_set(tpi_vocab *vocab, int64_t id, const char *spelling, size_t length,
                          tpi_word_kind kind)
{
    tpcl_status status = TPCL_OK;
    const size_t offset = vocab->text.length;

    TPI_REQUIRE(id >= 0 && id < vocab->n, TPCL_ERR_FORMAT,
                "tokenizer: token '%s' has id %lld, outside 0..%d",
                tpi_quote(spelling, length).text, (long long)id, vocab->n - 1);
    tpi_word *word = &vocab->words[id];
    TPI_REQUIRE(word->kind == TPI_WORD_NONE, TPCL_ERR_FORMAT,
                "tokenizer: id %lld is given to two tokens, '%s' is the second", (long long)id,
                tpi_quote(spelling, length).text);
    TPI_REQUIRE(length > 0 || kind == TPI_WORD_NORMAL, TPCL_ERR_FORMAT,
                "tokenizer: added token %lld is empty", (long long)id);
    if (length == 0) goto done;
    TPI_REQUIRE(length <= UINT32_MAX && !memchr(spelling, 0, length) &&
                    tpi_utf8_is_valid(spelling, length),
                TPCL_ERR_FORMAT, "tokenizer: token %lld '%s' is not UTF-8 text", (long long)id,
                tpi_quote(spelling, length).text);

    TPI_TRY(tpi_strbuf_append(&vocab->text, spelling, length));
    size_t bytes = length;
    const bool reachable =
        kind == TPI_WORD_NORMAL
            ? tpi_unmap_bytes(spelling, length, vocab->text.data + offset, &bytes)
            : spells_itself(spelling, length);
    if (kind == TPI_WORD_NORMAL && !reachable) { /* the attempt overwrote the spelling */
        memcpy(vocab->text.data + offset, spelling, length);
        bytes = length;
    }
    vocab->text.length = offset + bytes;
    *word = (tpi_word){offset, (uint32_t)bytes, (uint8_t)kind, reachable};
done:
    return status;
}

static size_t slot_of(const tpi_vocab *vocab, const char *bytes, size_t length)
{
    size_t i = (size_t)XXH3_64bits(bytes, length) & vocab->mask;
    while (vocab->slots[i] >= 0) {
        const tpi_word *word = &vocab->words[vocab->slots[i]];
        if (word->length == length && memcmp(vocab->text.data + word->offset, bytes, length) == 0)
            break;
        i = (i + 1) & vocab->mask;
    }
    return i;
}

static size_t table_size(size_t n)
{
    size_t size = 16;
    while (size < 2 * n) size *= 2;
    return size;
}

tpcl_status tpi_vocab_index(tpi_vocab *vocab)
{
    tpcl_status status = TPCL_OK;
    const size_t size = table_size((size_t)vocab->n);

    vocab->slots = malloc(size * sizeof *vocab->slots);
    TPI_REQUIRE(vocab->slots, TPCL_ERR_NOMEM, "tokenizer: index of %d tokens", vocab->n);
    for (size_t i = 0; i < size; i++) vocab->slots[i] = -1;
    vocab->mask = size - 1;
    for (int32_t id = 0; id < vocab->n; id++) {
        const tpi_word *word = &vocab->words[id];
        if (!word->reachable) continue;
        const char *bytes = tpi_vocab_bytes(vocab, id);
        const size_t slot = slot_of(vocab, bytes, word->length);
        TPI_REQUIRE(vocab->slots[slot] < 0, TPCL_ERR_FORMAT,
                    "tokenizer: token '%s' has two ids, %d and %d",
                    tpi_quote(bytes, word->length).text, vocab->slots[slot], id);
        vocab->slots[slot] = id;
    }
    for (int b = 0; b < 256; b++) {
        const char byte = (char)b;
        vocab->byte_ids[b] = tpi_vocab_find(vocab, &byte, 1);
    }
done:
    return status;
}

int32_t tpi_vocab_find(const tpi_vocab *vocab, const char *bytes, size_t length)
{
    return vocab->slots[slot_of(vocab, bytes, length)];
}

tpcl_status tpi_merges_create(tpi_merges *merges, size_t n)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(n >= 1, TPCL_ERR_FORMAT,
                "tokenizer: no merges; a byte-level BPE without them would make one token a byte");
    TPI_REQUIRE(n <= (size_t)8 * TPI_MAX_VOCAB, TPCL_ERR_FORMAT,
                "tokenizer: %zu merges, the limit is %d", n, 8 * TPI_MAX_VOCAB);
    const size_t size = table_size(n);
    merges->slots = malloc(size * sizeof *merges->slots);
    TPI_REQUIRE(merges->slots, TPCL_ERR_NOMEM, "tokenizer: table of %zu merges", n);
    for (size_t i = 0; i < size; i++) merges->slots[i].pair = UINT64_MAX;
    merges->mask = size - 1;
done:
    return status;
}

void tpi_merges_free(tpi_merges *merges)
{
    free(merges->slots);
    *merges = (tpi_merges){0};
}

static tpi_merge *merge_slot(const tpi_merges *merges, uint64_t pair)
{
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    size_t i = (size_t)h & merges->mask;
    while (merges->slots[i].pair != pair && merges->slots[i].pair != UINT64_MAX)
        i = (i + 1) & merges->mask;
    return &merges->slots[i];
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* The id of a word from the file's spelling; `bytes` has room for it. */
static int32_t find_spelled(const tpi_vocab *vocab, const char *spelling, size_t length,
                            char *bytes, size_t *n)
{
    return tpi_unmap_bytes(spelling, length, bytes, n) ? tpi_vocab_find(vocab, bytes, *n) : -1;
}

tpcl_status tpi_merges_add(tpi_merges *merges, const tpi_vocab *vocab, int rank, const char *left,
                           size_t left_length, const char *right, size_t right_length)
{
    tpcl_status status = TPCL_OK;
    size_t nl = 0, nr = 0;
    char local[256];
    char *bytes = local;

    TPI_REQUIRE(left_length > 0 && right_length > 0, TPCL_ERR_FORMAT,
                "tokenizer: merge %d ('%s' + '%s') has an empty part", rank,
                tpi_quote(left, left_length).text, tpi_quote(right, right_length).text);
    if (left_length > sizeof local || right_length > sizeof local - left_length) {
        bytes = malloc(left_length + right_length);
        TPI_REQUIRE(bytes, TPCL_ERR_NOMEM, "tokenizer: merge %d", rank);
    }
    const int32_t l = find_spelled(vocab, left, left_length, bytes, &nl);
    TPI_REQUIRE(l >= 0, TPCL_ERR_FORMAT, "tokenizer: merge %d names '%s', which is no token", rank,
                tpi_quote(left, left_length).text);
    const int32_t r = find_spelled(vocab, right, right_length, bytes + nl, &nr);
    TPI_REQUIRE(r >= 0, TPCL_ERR_FORMAT, "tokenizer: merge %d names '%s', which is no token", rank,
                tpi_quote(right, right_length).text);
    const int32_t id = tpi_vocab_find(vocab, bytes, nl + nr);
    TPI_REQUIRE(id >= 0, TPCL_ERR_FORMAT,
                "tokenizer: merge %d ('%s' + '%s') makes what is no token", rank,
                tpi_quote(left, left_length).text, tpi_quote(right, right_length).text);
    tpi_merge *slot = merge_slot(merges, pair_of(l, r));
    TPI_REQUIRE(slot->pair == UINT64_MAX, TPCL_ERR_FORMAT,
                "tokenizer: merge %d ('%s' + '%s') repeats merge %d", rank,
                tpi_quote(left, left_length).text, tpi_quote(right, right_length).text, slot->rank);
    *slot = (tpi_merge){pair_of(l, r), rank, id};
done:
    if (bytes != local) free(bytes);
    return status;
}

tpcl_status tpi_merges_add_line(tpi_merges *merges, const tpi_vocab *vocab, int rank,
                                const char *line, size_t length)
{
    tpcl_status status = TPCL_OK;
    const char *space = memchr(line, ' ', length);
    const size_t left = space ? (size_t)(space - line) : 0, right = length - left - (space != NULL);

    TPI_REQUIRE(space && !memchr(space + 1, ' ', right), TPCL_ERR_FORMAT,
                "tokenizer: merge %d ('%s') is not two tokens with a space between", rank,
                tpi_quote(line, length).text);
    TPI_TRY(tpi_merges_add(merges, vocab, rank, line, left, space + 1, right));
done:
    return status;
}

const tpi_merge *tpi_merges_find(const tpi_merges *merges, int32_t left, int32_t right)
{
    const tpi_merge *slot = merge_slot(merges, pair_of(left, right));
    return slot->pair == UINT64_MAX ? NULL : slot;
}
