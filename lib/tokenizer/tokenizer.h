/* The parts of a tokenizer, and what its files share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_TOKENIZER_TOKENIZER_H
#define TPI_TOKENIZER_TOKENIZER_H

#include <tpcl/tokenizer.h>

#include "tokenizer/buffer.h"
#include "tokenizer/split.h"
#include "tokenizer/vocab.h"

typedef enum tpi_chat_family {
    TPI_CHAT_NONE,    /* the checkpoint has no template */
    TPI_CHAT_UNKNOWN, /* it has one that we cannot render */
    TPI_CHAT_CHATML,
    TPI_CHAT_SMOLLM2,
    TPI_CHAT_QWEN25,
    TPI_CHAT_QWEN3,
    TPI_CHAT_LLAMA3
} tpi_chat_family;

enum { TPI_DATE_MAX = 32 };

typedef struct tpi_chat {
    tpi_chat_family family;
    bool opens_thinking;   /* the answer starts inside <think> */
    bool knowledge_header; /* Llama-3.1 and later: dates before the system message */
    bool today;            /* its date is today's, else `date` */
    char date[TPI_DATE_MAX];
} tpi_chat;

struct tpcl_tokenizer {
    tpi_vocab vocab;
    tpi_merges merges;
    tpi_added added[2]; /* matched before, and [1] after, the text is normalised */
    tpi_splitter *splitter;
    bool nfc;           /* normalise what lies between added tokens */
    bool ignore_merges; /* a piece that is a word is that word, whatever merges would make */
    int eos;
    tpi_chat chat;
};

/* Fill words, merges, added tokens, split and eos of a zeroed tokenizer. */
tpcl_status tpi_load_json(tpcl_tokenizer *tokenizer, const tpcl_tokenizer_source *source);
tpcl_status tpi_load_gguf(tpcl_tokenizer *tokenizer, const tpcl_tokenizer_source *source);

/* Encodes valid UTF-8; special tokens are recognised inside the trusted spans only. */
tpcl_status tpi_encode(const tpcl_tokenizer *tokenizer, const char *text, size_t length,
                       const tpi_span *trusted, size_t n_trusted, tpi_idbuf *ids);

/* NULL = no added token with this text. */
tpi_added_token *tpi_find_added(const tpcl_tokenizer *tokenizer, const char *text, size_t length);

tpi_chat tpi_chat_recognise(const char *text, size_t length);
/* Whether the text is one of the marks between messages in the family's templates. */
bool tpi_chat_is_marker(tpi_chat_family family, const char *text, size_t length);

#endif
