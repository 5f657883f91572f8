/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/text.h"

/* Unicode table 3-7: only the second byte's range depends on the first byte. */
static size_t expected_length(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first < 0x80) return 1;
    if (first < 0xc2) return 0;
    if (first < 0xe0) return 2;
    if (first < 0xf0) return 3;
    return first < 0xf5 ? 4 : 0;
}

size_t tpi_utf8_step(const char *text, size_t length, tpi_utf8 *verdict)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char low, high;
    const size_t want = expected_length(s[0], &low, &high);
    *verdict = TPI_UTF8_INVALID;
    if (want == 0) return 1;
    for (size_t i = 1; i < want; i++) {
        if (i == length) {
            *verdict = TPI_UTF8_INCOMPLETE;
            return i;
        }
        if (s[i] < low || s[i] > high) return i;
        low = 0x80;
        high = 0xbf;
    }
    *verdict = TPI_UTF8_VALID;
    return want;
}

tpcl_status tpi_utf8_repair(const char *text, size_t length, tpi_strbuf *out)
{
    tpcl_status status = TPCL_OK;
    size_t good = 0; /* start of the run of valid characters not yet copied */
    for (size_t i = 0; i < length;) {
        tpi_utf8 verdict;
        const size_t n = tpi_utf8_step(text + i, length - i, &verdict);
        if (verdict != TPI_UTF8_VALID) {
            TPI_TRY(tpi_strbuf_append(out, text + good, i - good));
            TPI_TRY(tpi_strbuf_append(out, TPI_REPLACEMENT, 3));
            good = i + n;
        }
        i += n;
    }
    TPI_TRY(tpi_strbuf_append(out, text + good, length - good));
done:
    return status;
}

bool tpi_utf8_is_valid(const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        tpi_utf8 verdict;
        i += tpi_utf8_step(text + i, length - i, &verdict);
        if (verdict != TPI_UTF8_VALID) return false;
    }
    return true;
}

uint32_t tpi_utf8_decode(const char *text, size_t length)
{
    static const unsigned char payload[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)text[0] & payload[length];
    for (size_t i = 1; i < length; i++) code = code << 6 | ((unsigned char)text[i] & 0x3f);
    return code;
}

static bool is_space(uint32_t c, bool python)
{
    if (c >= 0x1c && c <= 0x1f) return python;
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

size_t tpi_space_at_start(const char *text, size_t length, bool python)
{
    size_t i = 0;
    while (i < length) {
        tpi_utf8 verdict;
        const size_t n = tpi_utf8_step(text + i, length - i, &verdict);
        if (!is_space(tpi_utf8_decode(text + i, n), python)) break;
        i += n;
    }
    return i;
}

size_t tpi_space_at_end(const char *text, size_t length, bool python)
{
    size_t end = length;
    while (end > 0) {
        size_t start = end - 1;
        while (start > 0 && ((unsigned char)text[start] & 0xc0) == 0x80) start--;
        if (!is_space(tpi_utf8_decode(text + start, end - start), python)) break;
        end = start;
    }
    return length - end;
}

/* GPT-2: printable Latin-1 stands for itself, the other bytes for U+0100 and up, in order. */
static int byte_of(uint32_t c)
{
    if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff))
        return (int)c;
    if (c < 0x100 || c > 0x143) return -1;
    const int rank = (int)c - 0x100; /* among 00..20, 7f..a0, ad */
    if (rank <= 0x20) return rank;
    return rank <= 0x42 ? rank - 0x21 + 0x7f : 0xad;
}

bool tpi_unmap_bytes(const char *text, size_t length, char *out, size_t *out_length)
{
    size_t written = 0;
    for (size_t i = 0; i < length;) {
        tpi_utf8 verdict;
        const size_t n = tpi_utf8_step(text + i, length - i, &verdict);
        const int byte = verdict == TPI_UTF8_VALID ? byte_of(tpi_utf8_decode(text + i, n)) : -1;
        if (byte < 0) return false;
        out[written++] = (char)byte;
        i += n;
    }
    *out_length = written;
    return true;
}

tpi_quoted tpi_quote(const char *text, size_t length)
{
    tpi_quoted quoted = {""};
    const size_t room = sizeof quoted.text;
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (written > room - 8) {
            snprintf(quoted.text + written, room - written, "...");
            break;
        }
        written += (size_t)snprintf(quoted.text + written, room - written,
                                    c >= 0x20 && c < 0x7f ? "%c" : "\\x%02x", c);
    }
    return quoted;
}

tpi_quoted tpi_quote_z(const char *text)
{
    return tpi_quote(text, strlen(text));
}
