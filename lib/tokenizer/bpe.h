/* Merging the bytes of one piece into words. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_TOKENIZER_BPE_H
#define TPI_TOKENIZER_BPE_H

#include "tokenizer/buffer.h"
#include "tokenizer/vocab.h"

/* Working memory, reused from piece to piece; zeroed = empty. */
typedef struct tpi_bpe {
    struct tpi_symbol *symbols;
    struct tpi_candidate *heap;
    size_t capacity; /* of symbols; the heap holds three times as many */
    size_t n_heap;
} tpi_bpe;

void tpi_bpe_free(tpi_bpe *bpe);

/* Appends the ids of a piece. Merges apply lowest rank first, leftmost first among equals, in
 * O(n log n). Bytes that have no word of their own are left out, and their neighbours may merge. */
tpcl_status tpi_bpe_encode(tpi_bpe *bpe, const tpi_vocab *vocab, const tpi_merges *merges,
                           const char *piece, size_t length, tpi_idbuf *ids);

#endif
