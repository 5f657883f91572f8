/* Text for terminals and JSON: neither lets the bytes of a file act on the reader. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Copies with control characters (C0, DEL, C1) and bytes that are not UTF-8 spelled as \n, \t or
 * \xNN. Cuts at `size`, between characters. */
void text_escape(const char *bytes, size_t length, char *out, size_t size);

/* Length of `bytes` without C0 (but newline and tab), DEL and C1, filtered in place. */
size_t text_strip(char *bytes, size_t length);

/* A JSON string; bytes that are not UTF-8 become U+FFFD. NULL when memory ends. */
json_t *text_json(const char *bytes, size_t length);

/* "49.1 MiB" */
const char *text_bytes(uint64_t bytes, char *out, size_t size);

/* Growing text. `failed` sticks. */
struct text_buffer {
    char *bytes;
    size_t length, room;
    int failed;
};
void text_append(struct text_buffer *buffer, const char *bytes, size_t length);

/* Everything of a stream. 0, or the errno. */
int text_read_all(FILE *stream, struct text_buffer *buffer);

#endif
