/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <tpcl/version.h>

#include "build_info.h"

enum { CELL = 1024 };

/* In the order in which they are printed. */
enum column {
    CASE,
    SHAPE,
    DTYPE,
    RANKS,
    VERDICT,
    MAX_ERR,
    REPS,
    MIN_US,
    MEDIAN_US,
    P90_US,
    SD_US,
    GBPS,
    GFLOPS,
    PEER,
    RATIO,
    REPRO,
    COLUMNS
};

static const struct {
    const char *name, *json; /* json NULL = the same */
    bool text;
    int width; /* in a table; negative = to the left */
} columns[COLUMNS] = {
    [CASE] = {"case", NULL, true, -14},
    [SHAPE] = {"shape", NULL, true, -18},
    [DTYPE] = {"dtype", NULL, true, -5},
    [RANKS] = {"ranks", NULL, false, 5},
    [VERDICT] = {"verdict", NULL, true, -7},
    [MAX_ERR] = {"max_err", NULL, false, 8},
    [REPS] = {"reps", NULL, false, 4},
    [MIN_US] = {"min_us", NULL, false, 10},
    [MEDIAN_US] = {"median_us", NULL, false, 10},
    [P90_US] = {"p90_us", NULL, false, 10},
    [SD_US] = {"sd_us", NULL, false, 9},
    [GBPS] = {"GB/s", "gbps", false, 7},
    [GFLOPS] = {"GFLOP/s", "gflops", false, 8},
    [PEER] = {"peer", NULL, true, -18},
    [RATIO] = {"ratio", NULL, false, 6},
    [REPRO] = {"repro", NULL, true, -1},
};

int bench_case_dims(const struct bench_case *c)
{
    int n = 1;
    for (const char *at = c->dims; *at; at++) n += *at == ',';
    return n;
}

void bench_shape_text(const struct bench_case *c, const long *shape, char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < bench_case_dims(c) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%ld", i ? "x" : "", shape[i]);
}

void bench_version_print(void)
{
    printf("tpcl-bench %s (commit %s), columns version %d\n", tpcl_version_string(), BUILD_COMMIT,
           BENCH_SCHEMA);
}

/* A field of CSV as RFC 4180 has it. */
static void put_csv(FILE *to, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, to);
        return;
    }
    putc('"', to);
    for (; *text; text++) {
        if (*text == '"') putc('"', to);
        putc(*text, to);
    }
    putc('"', to);
}

static void put_json(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20) {
            fprintf(to, "\\u%04x", (unsigned)*text);
            continue;
        }
        if (*text == '"' || *text == '\\') putc('\\', to);
        putc(*text, to);
    }
    putc('"', to);
}

void bench_output_begin(const struct bench_output *o)
{
    const tpcl_device_info *d = &o->env->dev->info;
    if (o->format == BENCH_JSONL) return; /* every line says it all */
    fprintf(o->to, "# tpcl-bench %d  device=%s  driver=%s %s  git=%s  ranks=%d\n", BENCH_SCHEMA,
            d->name, d->platform, d->driver, BUILD_COMMIT, o->env->size);
    for (int i = 0; i < COLUMNS; i++)
        if (o->format == BENCH_CSV)
            fprintf(o->to, "%s%s", i ? "," : "", columns[i].name);
        else
            fprintf(o->to, "%s%*s", i ? " " : "", columns[i].width, columns[i].name);
    putc('\n', o->to);
}

/* For a shell: as it is where that is safe, else in single quotes. */
static void append_word(char *out, size_t size, const char *word)
{
    size_t used = strlen(out);
    const bool plain = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyz"
                                                   "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._,:/-")];
    if (plain) {
        snprintf(out + used, size - used, "%s", word);
        return;
    }
    snprintf(out + used, size - used, "'");
    for (; *word; word++) {
        used = strlen(out);
        snprintf(out + used, size - used, *word == '\'' ? "'\\''" : "%c", *word);
    }
    used = strlen(out);
    snprintf(out + used, size - used, "'");
}

static void make_repro(const struct bench_output *o, const struct bench_case *c, const char *shape,
                       const char *dtype, int reps, char out[CELL])
{
    *out = '\0';
    if (o->env->size > 1) snprintf(out, CELL, "mpiexec -n %d ", o->env->size);
    const size_t used = strlen(out);
    snprintf(out + used, CELL - used, "tpcl-bench %s %.128s --dtype %s --reps %d", c->name, shape,
             dtype, reps);
    if (!o->device) return;
    strcat(out, " --device ");
    append_word(out, CELL, o->device);
}

/* Empty where the number means nothing. */
static void set_number(char out[CELL], bool known, const char *fmt, double value)
    __attribute__((format(printf, 3, 0)));

static void set_number(char out[CELL], bool known, const char *fmt, double value)
{
    *out = '\0';
    if (known && !isnan(value)) snprintf(out, CELL, fmt, value);
}

static void put_cells(const struct bench_output *o, char cells[COLUMNS][CELL])
{
    for (int i = 0; i < COLUMNS; i++) {
        if (o->format == BENCH_TABLE) {
            fprintf(o->to, "%s%*s", i ? " " : "", columns[i].width, *cells[i] ? cells[i] : "-");
        } else if (o->format == BENCH_CSV) {
            if (i) putc(',', o->to);
            put_csv(o->to, cells[i]);
        } else {
            const bool null = !*cells[i] || strcmp(cells[i], "inf") == 0;
            fprintf(o->to, "%s\"%s\":", i ? "," : "{",
                    columns[i].json ? columns[i].json : columns[i].name);
            if (columns[i].text && !null)
                put_json(o->to, cells[i]);
            else
                fputs(null ? "null" : cells[i], o->to);
        }
    }
}

static void put_context(const struct bench_output *o)
{
    const tpcl_device_info *d = &o->env->dev->info;
    char driver[sizeof d->platform + sizeof d->driver + 1];
    snprintf(driver, sizeof driver, "%s %s", d->platform, d->driver);
    fprintf(o->to, ",\"version\":%d,\"device\":", BENCH_SCHEMA);
    put_json(o->to, d->name);
    fputs(",\"driver\":", o->to);
    put_json(o->to, driver);
    fputs(",\"git\":", o->to);
    put_json(o->to, BUILD_COMMIT);
    putc('}', o->to);
}

void bench_output_row(const struct bench_output *o, const struct bench_case *c,
                      const struct bench_run *r, int reps, const struct bench_result *result)
{
    char cells[COLUMNS][CELL] = {{0}}, dtype[8];
    const bool timed = result->verdict == BENCH_PASS;
    bench_dtype_text(r->dtype, dtype);
    snprintf(cells[CASE], CELL, "%s", c->name);
    bench_shape_text(c, r->shape, cells[SHAPE], CELL);
    snprintf(cells[DTYPE], CELL, "%s", dtype);
    snprintf(cells[RANKS], CELL, "%d", o->env->size);
    snprintf(cells[VERDICT], CELL, "%s", bench_verdict_name(result->verdict));
    set_number(cells[MAX_ERR], true, "%.3g", result->max_err);
    snprintf(cells[REPS], CELL, "%d", timed ? result->reps : 0);
    set_number(cells[MIN_US], timed, "%.3f", result->us.min);
    set_number(cells[MEDIAN_US], timed, "%.3f", result->us.median);
    set_number(cells[P90_US], timed, "%.3f", result->us.p90);
    set_number(cells[SD_US], timed, "%.3f", result->us.sd);
    set_number(cells[GBPS], timed, "%.3f", result->gbps);
    set_number(cells[GFLOPS], timed, "%.3f", result->gflops);
    snprintf(cells[PEER], CELL, "%s", timed && result->peer ? result->peer : "");
    set_number(cells[RATIO], timed && result->peer, "%.4g", result->ratio);
    make_repro(o, c, cells[SHAPE], dtype, reps, cells[REPRO]);
    put_cells(o, cells);
    if (o->format == BENCH_JSONL) put_context(o);
    putc('\n', o->to);
    fflush(o->to); /* rows take a while: show each as it comes */
}
