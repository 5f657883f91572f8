/* UTF-8, white space, and byte-level BPE's spelling of bytes as characters. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_TOKENIZER_TEXT_H
#define TPI_TOKENIZER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tpcl/status.h>

#include "tokenizer/buffer.h"

typedef enum tpi_utf8 {
    TPI_UTF8_VALID,
    TPI_UTF8_INVALID,   /* a maximal subpart: one U+FFFD stands for it */
    TPI_UTF8_INCOMPLETE /* the text ends within what may still become a character */
} tpi_utf8;

#define TPI_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The bytes of the first character of text[0..length), length >= 1, and the verdict on them. */
size_t tpi_utf8_step(const char *text, size_t length, tpi_utf8 *verdict);

/* Appends the text with U+FFFD for every maximal subpart that is not UTF-8. */
tpcl_status tpi_utf8_repair(const char *text, size_t length, tpi_strbuf *out);

bool tpi_utf8_is_valid(const char *text, size_t length);

/* The code point of a valid character. */
uint32_t tpi_utf8_decode(const char *text, size_t length);

/* Bytes of white space (Unicode White_Space) at the start or the end of valid UTF-8. `python` adds
 * U+001C..U+001F, which Python's str.strip removes too. */
size_t tpi_space_at_start(const char *text, size_t length, bool python);
size_t tpi_space_at_end(const char *text, size_t length, bool python);

/* Undoes GPT-2's mapping of the 256 bytes to printable characters; out has room for `length` bytes.
 * False where the text has a character that stands for no byte. */
bool tpi_unmap_bytes(const char *text, size_t length, char *out, size_t *out_length);

/* A short printable form for messages, which are one line and go to terminals. */
typedef struct tpi_quoted {
    char text[64];
} tpi_quoted;
tpi_quoted tpi_quote(const char *text, size_t length);
tpi_quoted tpi_quote_z(const char *text);

#endif
