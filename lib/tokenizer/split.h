/* Cutting text into the pieces within which bytes may merge. Patterns are chosen by name. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_TOKENIZER_SPLIT_H
#define TPI_TOKENIZER_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <tpcl/status.h>

typedef enum tpi_split {
    TPI_SPLIT_GPT2,
    TPI_SPLIT_SMOLLM, /* every digit alone, then GPT-2 */
    TPI_SPLIT_QWEN2,
    TPI_SPLIT_LLAMA3,
    TPI_SPLITS
} tpi_split;

/* By tokenizer.json's spelling of a Split regex; false = none of ours. */
bool tpi_split_from_regex(const char *regex, tpi_split *split);
/* By tokenizer.ggml.pre; NULL is an old file's "default". */
bool tpi_split_from_pre(const char *pre, tpi_split *split);

typedef struct tpi_splitter tpi_splitter; /* a compiled pattern; threads may share it */

tpcl_status tpi_splitter_create(tpi_split split, tpi_splitter **out);
void tpi_splitter_destroy(tpi_splitter **splitter);

/* One walk over one text, which must be valid UTF-8. */
typedef struct tpi_pieces {
    const tpi_splitter *splitter;
    const char *text;
    size_t length, at;
    void *match; /* PCRE2's working memory, kept from text to text */
} tpi_pieces;

tpcl_status tpi_pieces_create(const tpi_splitter *splitter, tpi_pieces *out);
void tpi_pieces_free(tpi_pieces *pieces);
void tpi_pieces_start(tpi_pieces *pieces, const char *text, size_t length);
/* The next piece; *length 0 at the end. */
tpcl_status tpi_pieces_next(tpi_pieces *pieces, const char **piece, size_t *length);

#endif
