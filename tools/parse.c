/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "report.h"

static const char *skip_digits(const char *at)
{
    return at + strspn(at, "0123456789");
}

bool parse_int(const char *text, int64_t min, int64_t max, int64_t *out)
{
    const char *digits = text + (*text == '-');
    const char *end = skip_digits(digits);
    if (end == digits || *end) return false;
    errno = 0;
    const long long value = strtoll(text, NULL, 10);
    if (errno || value < min || value > max) return false;
    *out = value;
    return true;
}

bool parse_u64(const char *text, uint64_t *out)
{
    const char *end = skip_digits(text);
    if (end == text || *end) return false;
    errno = 0;
    const unsigned long long value = strtoull(text, NULL, 10);
    if (errno) return false;
    *out = value;
    return true;
}

/* [-]digits[.digits][e[+-]digits], with at least one digit before or after the point. */
static bool is_real(const char *text)
{
    const char *at = text + (*text == '-');
    const char *end = skip_digits(at);
    size_t digits = (size_t)(end - at);
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        digits += (size_t)(end - fraction);
    }
    if (digits == 0) return false;
    if (*end == 'e' || *end == 'E') {
        at = end + 1;
        at += *at == '-' || *at == '+';
        end = skip_digits(at);
        if (end == at) return false;
    }
    return *end == '\0';
}

/* The programs never call setlocale(), so strtod() reads a decimal point. */
bool parse_real(const char *text, double min, double max, double *out)
{
    if (!is_real(text)) return false;
    const double value = strtod(text, NULL);
    if (!(value >= min && value <= max)) return false;
    *out = value;
    return true;
}

struct ids {
    const char *what, *at, *end;
    int32_t *ids;
    size_t n, room;
};

static bool is_blank(const struct ids *l)
{
    return l->at < l->end && *l->at && strchr(" \t\r\n", *l->at);
}

static void skip_blanks(struct ids *l)
{
    while (is_blank(l)) l->at++;
}

static bool take(struct ids *l, char wanted)
{
    const bool found = l->at < l->end && *l->at == wanted;
    l->at += found;
    return found;
}

static int take_id(struct ids *l)
{
    char word[24];
    size_t n = 0;
    while (l->at + n < l->end && n < sizeof word - 1 && l->at[n] && strchr("-0123456789", l->at[n]))
        n++;
    memcpy(word, l->at, n);
    word[n] = '\0';
    int64_t id = 0;
    if (!parse_int(word, INT32_MIN, INT32_MAX, &id))
        return report_fail(EX_USAGE, "%s: '%.20s' is not a token id (entry %zu)", l->what,
                           n ? word : (l->at < l->end ? l->at : ""), l->n);
    if (l->n == l->room) {
        const size_t room = l->room ? 2 * l->room : 64;
        int32_t *grown = realloc(l->ids, room * sizeof *grown);
        if (!grown) return report_fail(EX_OSERR, "%s: out of memory", l->what);
        l->ids = grown;
        l->room = room;
    }
    l->ids[l->n++] = (int32_t)id;
    l->at += n;
    return 0;
}

int parse_ids(const char *what, const char *text, size_t length, int32_t **ids, size_t *n)
{
    struct ids l = {.what = what, .at = text, .end = text + length};
    int code = 0;
    *ids = NULL;
    *n = 0;
    skip_blanks(&l);
    const bool array = take(&l, '[');
    skip_blanks(&l);
    bool more = l.at < l.end && !(array && *l.at == ']');
    while (more && !code) {
        code = take_id(&l);
        const char *after = l.at;
        skip_blanks(&l);
        const bool comma = take(&l, ',');
        if (comma) skip_blanks(&l);
        more = comma || (!array && l.at > after && l.at < l.end);
    }
    if (!code && array && !take(&l, ']'))
        code = report_fail(EX_USAGE, "%s: the array of ids has no ] where it should end", what);
    skip_blanks(&l);
    if (!code && l.at < l.end)
        code =
            report_fail(EX_USAGE, "%s: '%.20s' after %zu ids is not a token id", what, l.at, l.n);
    if (code) {
        free(l.ids);
        return code;
    }
    *ids = l.ids;
    *n = l.n;
    return 0;
}
