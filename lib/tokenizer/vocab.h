/* Words by id and by bytes, merges by pair, added tokens by text. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_TOKENIZER_VOCAB_H
#define TPI_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tpcl/status.h>

#include "tokenizer/buffer.h"

/* Twenty times today's largest vocabulary; a file that claims more is damaged or hostile. */
enum { TPI_MAX_VOCAB = 1 << 22 };

typedef enum tpi_word_kind {
    TPI_WORD_NONE,    /* a hole in the ids, or a padding row: stands for no text */
    TPI_WORD_NORMAL,  /* what merges can make */
    TPI_WORD_ADDED,   /* matched in the text before it is split, always */
    TPI_WORD_SPECIAL, /* as added, but only where the caller trusts the text */
} tpi_word_kind;

typedef struct tpi_word {
    size_t offset; /* in vocab->text */
    uint32_t length;
    uint8_t kind;   /* tpi_word_kind */
    bool reachable; /* spelled in the 256 byte characters: stored as those bytes, and indexed */
} tpi_word;

typedef struct tpi_vocab {
    int n;
    tpi_word *words; /* [n] */
    tpi_strbuf text;
    int32_t *slots; /* open addressing over the bytes, -1 = empty; [mask + 1] */
    size_t mask;
    int32_t byte_ids[256]; /* -1: no word for that byte alone; its bytes are dropped */
} tpi_vocab;

tpcl_status tpi_vocab_create(tpi_vocab *vocab, int n);
void tpi_vocab_free(tpi_vocab *vocab);

/* Sets a word that must not be set yet. `spelling` as the file has it; added and special tokens are
 * spelled plainly, normal ones in byte characters. An empty normal word leaves a hole. */
tpcl_status tpi_vocab_set(tpi_vocab *vocab, int64_t id, const char *spelling, size_t length,
                          tpi_word_kind kind);

/* After all words: index by bytes. Two ids for one word are an error. */
tpcl_status tpi_vocab_index(tpi_vocab *vocab);

/* -1 = no such word. */
int32_t tpi_vocab_find(const tpi_vocab *vocab, const char *bytes, size_t length);

static inline const char *tpi_vocab_bytes(const tpi_vocab *vocab, int32_t id)
{
    return vocab->text.data + vocab->words[id].offset;
}

/* ---- merges ---- */

typedef struct tpi_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX = empty slot */
    int32_t rank, id;
} tpi_merge;

typedef struct tpi_merges {
    tpi_merge *slots;
    size_t mask;
} tpi_merges;

tpcl_status tpi_merges_create(tpi_merges *merges, size_t n);
void tpi_merges_free(tpi_merges *merges);

/* Adds merge number `rank`, its parts as the file spells them. */
tpcl_status tpi_merges_add(tpi_merges *merges, const tpi_vocab *vocab, int rank, const char *left,
                           size_t left_length, const char *right, size_t right_length);

/* As above, from "left right". */
tpcl_status tpi_merges_add_line(tpi_merges *merges, const tpi_vocab *vocab, int rank,
                                const char *line, size_t length);

/* NULL = the pair does not merge. */
const tpi_merge *tpi_merges_find(const tpi_merges *merges, int32_t left, int32_t right);

/* ---- added tokens ---- */

typedef struct tpi_added_token {
    const char *text;
    size_t length;
    int32_t id;
    bool special, lstrip, rstrip;
} tpi_added_token;

typedef struct tpi_added {
    tpi_added_token *tokens; /* by first byte, then the longest first, once sorted */
    size_t n, capacity;
    size_t first[257]; /* tokens[first[b] .. first[b + 1]) begin with byte b */
} tpi_added;

tpcl_status tpi_added_push(tpi_added *added, int32_t id, bool special, bool lstrip, bool rstrip);
/* After all words and tokens. */
void tpi_added_sort(tpi_added *added, const tpi_vocab *vocab);
void tpi_added_free(tpi_added *added);

/* Where special tokens may be recognised: sorted, not touching. */
typedef struct tpi_span {
    size_t start, end;
} tpi_span;

typedef struct tpi_match {
    size_t start, end; /* white space that the token swallows included */
    int32_t id;
} tpi_match;

/* The leftmost, then longest, added token of text[from .. end). */
bool tpi_added_find(const tpi_added *added, const char *text, size_t from, size_t end,
                    const tpi_span *trusted, size_t n_trusted, tpi_match *match);

#endif
