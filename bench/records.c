/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

enum { COLUMNS_MAX = 64, KEY = 32, CELL = 1200 };

#define FIELD(column, field)                                                                    \
    {                                                                                           \
        column, offsetof(struct bench_record, field), sizeof(((struct bench_record *)0)->field) \
    }
static const struct field {
    const char *column;
    size_t at, size;
} texts[] = {FIELD("case", name),       FIELD("shape", shape), FIELD("dtype", dtype),
             FIELD("verdict", verdict), FIELD("peer", peer),   FIELD("device", device),
             FIELD("driver", driver),   FIELD("git", git)},
  numbers[] = {FIELD("ranks", ranks),
               FIELD("max_err", max_err),
               FIELD("wrong", wrong),
               FIELD("reps", reps),
               FIELD("min_us", min),
               FIELD("median_us", median),
               FIELD("p90_us", p90),
               FIELD("mean_us", mean),
               FIELD("sd_us", sd),
               FIELD("gbps", gbps),
               FIELD("busbw", busbw),
               FIELD("gflops", gflops),
               FIELD("tps", tps),
               FIELD("tps_sd", tps_sd),
               FIELD("stage_out_us", stage_out),
               FIELD("exchange_us", exchange),
               FIELD("stage_in_us", stage_in),
               FIELD("ratio", ratio)};
enum { TEXTS = sizeof texts / sizeof texts[0], NUMBERS = sizeof numbers / sizeof numbers[0] };

static double *number_at(struct bench_record *row, size_t i)
{
    return (double *)(void *)((char *)row + numbers[i].at);
}

static void clear(struct bench_record *row)
{
    memset(row, 0, sizeof *row);
    for (size_t i = 0; i < NUMBERS; i++) *number_at(row, i) = NAN;
}

/* False: a number that is none. Columns that are not known are passed over. */
static bool set(struct bench_record *row, const char *column, const char *text)
{
    for (size_t i = 0; i < TEXTS; i++)
        if (strcmp(texts[i].column, column) == 0)
            snprintf((char *)row + texts[i].at, texts[i].size, "%s", text);
    for (size_t i = 0; i < NUMBERS; i++) {
        char *end = NULL;
        if (strcmp(numbers[i].column, column) != 0 || !*text) continue;
        *number_at(row, i) = strtod(text, &end);
        if (*end) return false;
    }
    return true;
}

/* One field of CSV from *at, which moves behind its comma; false where it does not end. */
static bool take_csv(const char **at, char out[CELL])
{
    const char *c = *at;
    const bool quoted = *c == '"';
    size_t n = 0;
    if (quoted) c++;
    for (; quoted || (*c && *c != ','); c++) {
        if (!*c) return false;
        if (quoted && *c == '"') {
            c++;
            if (*c != '"') break;
        }
        if (n + 1 < CELL) out[n++] = *c;
    }
    out[n] = '\0';
    if (*c && *c != ',') return false;
    *at = *c ? c + 1 : NULL;
    return true;
}

/* A string of JSON behind its first quote; other escapes than \u00xx and \x keep the letter. */
static bool take_string(const char **at, char *out, size_t size)
{
    size_t n = 0;
    const char *c = *at;
    for (; *c && *c != '"'; c++) {
        char letter = *c;
        if (*c == '\\') {
            c++;
            if (!*c) return false;
            letter = *c == 'n' || *c == 't' ? ' ' : *c;
            if (*c == 'u') {
                for (int i = 0; i < 4; i++)
                    if (!*++c) return false;
                letter = ' ';
            }
        }
        if (n + 1 < size) out[n++] = letter;
    }
    out[n] = '\0';
    if (*c != '"') return false;
    *at = c + 1;
    return true;
}

static bool take_value(const char **at, char out[CELL])
{
    if (**at == '"') {
        ++*at;
        return take_string(at, out, CELL);
    }
    const size_t n = strcspn(*at, ",}");
    snprintf(out, CELL, "%.*s", n < CELL ? (int)n : 0, *at);
    if (strcmp(out, "null") == 0) *out = '\0';
    *at += n;
    return n > 0;
}

/* {"name":value,...}, as this program writes it. */
static bool take_json_line(const char *c, struct bench_record *row)
{
    char key[KEY], value[CELL];
    if (*c++ != '{') return false;
    while (*c == '"') {
        c++;
        if (!take_string(&c, key, sizeof key) || *c++ != ':' || !take_value(&c, value))
            return false;
        if (!set(row, key, value)) return false;
        if (*c == ',') c++;
    }
    return *c == '}';
}

static bool take_csv_line(const char *c, char names[COLUMNS_MAX][KEY], int n,
                          struct bench_record *row)
{
    char value[CELL];
    for (int i = 0; i < n; i++)
        if (!c || !take_csv(&c, value) || !set(row, names[i], value)) return false;
    return !c;
}

static bool take_names(const char *c, char names[COLUMNS_MAX][KEY], int *n)
{
    char value[CELL];
    for (*n = 0; c && *n < COLUMNS_MAX; ++*n) {
        if (!take_csv(&c, value)) return false;
        snprintf(names[*n], KEY, "%.31s", value);
    }
    return !c;
}

static bool append(struct bench_records *to, const struct bench_record *row)
{
    if (to->n == to->room) {
        const int room = to->room ? 2 * to->room : 64;
        struct bench_record *rows = realloc(to->rows, (size_t)room * sizeof *rows);
        if (!rows) return false;
        to->rows = rows;
        to->room = room;
    }
    to->rows[to->n++] = *row;
    return true;
}

static bool take_line(const char *line, char names[COLUMNS_MAX][KEY], int *columns,
                      struct bench_records *to)
{
    struct bench_record row;
    if (*line == '#' || !*line) return true;
    if (*line != '{' && *columns == 0)
        return strncmp(line, "case,", 5) == 0 && take_names(line, names, columns);
    clear(&row);
    const bool good =
        *line == '{' ? take_json_line(line, &row) : take_csv_line(line, names, *columns, &row);
    return good && *row.name && *row.verdict && append(to, &row);
}

int bench_records_read(const char *path, struct bench_records *to, char *message, size_t size)
{
    char names[COLUMNS_MAX][KEY], *line = NULL;
    int columns = 0, code = 0;
    const int before = to->n;
    size_t room = 0;
    FILE *f = fopen(path, "re");
    if (!f) {
        snprintf(message, size, "%s: %s", path, strerror(errno));
        return EX_NOINPUT;
    }
    for (int number = 1; !code && getline(&line, &room, f) > 0; number++) {
        line[strcspn(line, "\r\n")] = '\0';
        if (take_line(line, names, &columns, to)) continue;
        snprintf(message, size, "%s: line %d is no row of tpcl-bench's csv or jsonl", path, number);
        code = EX_DATAERR;
    }
    if (!code && ferror(f)) {
        snprintf(message, size, "%s: %s", path, strerror(errno));
        code = EX_IOERR;
    }
    if (!code && to->n == before) {
        snprintf(message, size, "%s: no rows", path);
        code = EX_DATAERR;
    }
    free(line);
    fclose(f);
    return code;
}

void bench_records_free(struct bench_records *records)
{
    free(records->rows);
    *records = (struct bench_records){0};
}

const struct bench_record *bench_records_find(const struct bench_records *records, const char *name,
                                              const char *shape, const char *dtype, int ranks)
{
    for (int i = records->n - 1; i >= 0; i--) {
        const struct bench_record *row = &records->rows[i];
        if (strcmp(row->name, name) == 0 && strcmp(row->shape, shape) == 0 &&
            strcmp(row->dtype, dtype) == 0 && row->ranks == ranks)
            return row;
    }
    return NULL;
}

struct bench_change bench_compare(const struct bench_stats *now, const struct bench_record *then)
{
    static const double least = 0.05;
    const double sd = hypot(now->sd, isnan(then->sd) ? 0.0 : then->sd);
    return (struct bench_change){.slower = now->median / then->median - 1.0,
                                 .noise = fmax(least, 2.0 * sd / then->median)};
}
