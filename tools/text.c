/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 character at `at`, its code point in *point; 0 when it is none. */
static size_t character(const char *at, size_t left, uint32_t *point)
{
    const unsigned char *b = (const unsigned char *)at;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (b[0] < 0x80) {
        *point = b[0];
        return 1;
    }
    const size_t n = b[0] >= 0xF0 ? 4 : b[0] >= 0xE0 ? 3 : 2;
    if (b[0] < 0xC2 || b[0] > 0xF4 || left < n) return 0;
    uint32_t value = b[0] & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((b[i] & 0xC0) != 0x80) return 0;
        value = value << 6 | (b[i] & 0x3Fu);
    }
    if (value < least[n] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return 0;
    *point = value;
    return n;
}

static bool is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point < 0xA0);
}

void text_escape(const char *bytes, size_t length, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        uint32_t point = 0;
        const size_t n = character(bytes + i, length - i, &point);
        const size_t step = n ? n : 1;
        char piece[20];
        size_t m = step;
        if (n && !is_control(point))
            memcpy(piece, bytes + i, n);
        else if (point == '\n' || point == '\t')
            m = (size_t)snprintf(piece, sizeof piece, "\\%c", point == '\n' ? 'n' : 't');
        else
            for (size_t k = m = 0; k < step; k++)
                m += (size_t)snprintf(piece + m, sizeof piece - m, "\\x%02x",
                                      (unsigned char)bytes[i + k]);
        if (used + m >= size) break;
        memcpy(out + used, piece, m);
        used += m;
        i += step;
    }
    out[used] = '\0';
}

size_t text_strip(char *bytes, size_t length)
{
    size_t kept = 0;
    for (size_t i = 0; i < length;) {
        uint32_t point = 0;
        const size_t n = character(bytes + i, length - i, &point);
        const bool keep = n && (!is_control(point) || point == '\n' || point == '\t');
        const size_t step = n ? n : 1;
        if (keep) memmove(bytes + kept, bytes + i, step);
        kept += keep ? step : 0;
        i += step;
    }
    return kept;
}

json_t *text_json(const char *bytes, size_t length)
{
    struct text_buffer clean = {0};
    for (size_t i = 0; i < length;) {
        uint32_t point = 0;
        const size_t n = character(bytes + i, length - i, &point);
        text_append(&clean, n ? bytes + i : "\xEF\xBF\xBD", n ? n : 3);
        i += n ? n : 1;
    }
    json_t *text = clean.failed ? NULL : json_stringn(clean.bytes ? clean.bytes : "", clean.length);
    free(clean.bytes);
    return text;
}

const char *text_bytes(uint64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t u = 0;
    while (value >= 1024 && u + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        u++;
    }
    snprintf(out, size, u ? "%.1f %s" : "%.0f %s", value, units[u]);
    return out;
}

void text_append(struct text_buffer *buffer, const char *bytes, size_t length)
{
    if (buffer->failed || length == 0) return;
    if (buffer->room - buffer->length < length) {
        const size_t room = 2 * buffer->room + length + 256;
        char *grown = realloc(buffer->bytes, room);
        if (!grown) {
            buffer->failed = 1;
            return;
        }
        buffer->bytes = grown;
        buffer->room = room;
    }
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
}

int text_read_all(FILE *stream, struct text_buffer *buffer)
{
    char block[65536];
    for (;;) {
        errno = 0;
        const size_t n = fread(block, 1, sizeof block, stream);
        text_append(buffer, block, n);
        if (buffer->failed) return ENOMEM;
        if (n < sizeof block) return ferror(stream) ? (errno ? errno : EIO) : 0;
    }
}
