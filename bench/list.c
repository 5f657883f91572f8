/* SPDX-License-Identifier: Apache-2.0 */
#include "list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 512 };

/* What one item means. */
struct range {
    long first, last, step, factor; /* step 0: times factor */
};

/* A number at *at, which moves behind it. */
static bool take_number(const char **at, long *out)
{
    static const struct {
        char letter;
        int shift;
    } units[] = {{'k', 10}, {'K', 10}, {'m', 20}, {'M', 20}, {'g', 30}, {'G', 30}};
    char *end = NULL;
    if (**at < '0' || **at > '9') return false;
    errno = 0;
    long value = strtol(*at, &end, 10);
    if (errno) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (*end != units[i].letter) continue;
        if (value >> (62 - units[i].shift)) return false;
        value <<= units[i].shift;
        end++;
        break;
    }
    *at = end;
    *out = value;
    return true;
}

static bool take_item(const char *at, struct range *out)
{
    *out = (struct range){.step = 1, .factor = 1};
    if (!take_number(&at, &out->first)) return false;
    out->last = out->first;
    if (*at == '\0') return true;
    if (*at++ != '-' || !take_number(&at, &out->last) || out->last < out->first) return false;
    if (*at == '\0') return true;
    const char sign = *at++;
    if (sign == '+') return take_number(&at, &out->step) && *at == '\0' && out->step > 0;
    out->step = 0;
    return sign == '*' && take_number(&at, &out->factor) && *at == '\0' && out->factor > 1 &&
           out->first > 0;
}

/* False: there are too many. */
static bool add_range(const struct range *r, struct bench_list *out)
{
    for (long v = r->first; v <= r->last;) {
        if (out->n == BENCH_LIST) return false;
        out->v[out->n++] = v;
        const long limit = r->step ? r->last - r->step : r->last / r->factor;
        if (v > limit) break;
        v = r->step ? v + r->step : v * r->factor;
    }
    return true;
}

bool bench_list_parse(const char *text, long min, long max, struct bench_list *out, char *message,
                      size_t size)
{
    char copy[TEXT_MAX], *rest = copy;
    out->n = 0;
    if (snprintf(copy, sizeof copy, "%s", text) >= TEXT_MAX) {
        snprintf(message, size, "a list of more than %d characters", TEXT_MAX - 1);
        return false;
    }
    for (char *word; (word = strsep(&rest, ","));) {
        struct range r;
        if (!take_item(word, &r)) {
            snprintf(message, size,
                     "'%.60s' is not a number or a range (as in 1,256 or 1-8 or 0-100+25 or "
                     "4-64M*4)",
                     word);
            return false;
        }
        if (r.first < min || r.last > max) {
            snprintf(message, size, "'%.60s': numbers from %ld to %ld", word, min, max);
            return false;
        }
        if (!add_range(&r, out)) {
            snprintf(message, size, "'%.60s' makes more than %d numbers", word, BENCH_LIST);
            return false;
        }
    }
    return true;
}
