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
    WRONG,
    REPS,
    MIN_US,
    MEDIAN_US,
    P90_US,
    MEAN_US,
    SD_US,
    GBPS,
    BUSBW,
    GFLOPS,
    TPS,
    TPS_SD,
    STAGE_OUT_US,
    EXCHANGE_US,
    STAGE_IN_US,
    PEER,
    PEER_US,
    RATIO,
    REPRO,
    DEVICE,
    DRIVER,
    GIT,
    COLUMNS
};

static const struct {
    const char *name;
    bool text;
    int width; /* in a table; negative = to the left, 0 = not in tables */
    enum { ALWAYS, WITH_BUS, WITH_TOKENS } when;
} columns[COLUMNS] = {
    [CASE] = {"case", true, -21, ALWAYS},
    [SHAPE] = {"shape", true, -18, ALWAYS},
    [DTYPE] = {"dtype", true, -5, ALWAYS},
    [RANKS] = {"ranks", false, 5, ALWAYS},
    [VERDICT] = {"verdict", true, -7, ALWAYS},
    [MAX_ERR] = {"max_err", false, 8, ALWAYS},
    [WRONG] = {"wrong", false, 6, WITH_BUS},
    [REPS] = {"reps", false, 4, ALWAYS},
    [MIN_US] = {"min_us", false, 10, ALWAYS},
    [MEDIAN_US] = {"median_us", false, 10, ALWAYS},
    [P90_US] = {"p90_us", false, 10, ALWAYS},
    [MEAN_US] = {"mean_us", false, 0, ALWAYS},
    [SD_US] = {"sd_us", false, 9, ALWAYS},
    [GBPS] = {"gbps", false, 7, ALWAYS},
    [BUSBW] = {"busbw", false, 7, WITH_BUS},
    [GFLOPS] = {"gflops", false, 8, ALWAYS},
    [TPS] = {"tps", false, 9, WITH_TOKENS},
    [TPS_SD] = {"tps_sd", false, 8, WITH_TOKENS},
    [STAGE_OUT_US] = {"stage_out_us", false, 12, WITH_BUS},
    [EXCHANGE_US] = {"exchange_us", false, 11, WITH_BUS},
    [STAGE_IN_US] = {"stage_in_us", false, 11, WITH_BUS},
    [PEER] = {"peer", true, -18, ALWAYS},
    [PEER_US] = {"peer_us", false, 0, ALWAYS},
    [RATIO] = {"ratio", false, 6, ALWAYS},
    [REPRO] = {"repro", true, -1, ALWAYS},
    [DEVICE] = {"device", true, 0, ALWAYS},
    [DRIVER] = {"driver", true, 0, ALWAYS},
    [GIT] = {"git", true, 0, ALWAYS},
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

const char *bench_commit(void)
{
    return BUILD_COMMIT;
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

void bench_put_json(FILE *to, const char *text)
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

static bool in_table(const struct bench_output *o, int column)
{
    if (columns[column].when == WITH_BUS && !o->extras.bus) return false;
    if (columns[column].when == WITH_TOKENS && !o->extras.tokens) return false;
    return columns[column].width != 0;
}

static void put_heading(const struct bench_output *o)
{
    const tpcl_device_info *d = &o->env->dev->info;
    fprintf(o->to, "# tpcl-bench %d  device=%s  driver=%s %s  git=%s  ranks=%d\n", BENCH_SCHEMA,
            d->name, d->platform, d->driver, BUILD_COMMIT, o->env->size);
    for (int i = 0; i < COLUMNS; i++)
        if (o->format == BENCH_CSV)
            fprintf(o->to, "%s%s", i ? "," : "", columns[i].name);
        else if (in_table(o, i))
            fprintf(o->to, "%s%*s", i ? " " : "", columns[i].width, columns[i].name);
    putc('\n', o->to);
}

void bench_output_begin(struct bench_output *o)
{
    o->last = NULL;
    if (o->format == BENCH_TABLE || o->format == BENCH_CSV) put_heading(o);
    if (o->format == BENCH_GBENCH) bench_gbench_begin(o);
}

void bench_output_end(struct bench_output *o)
{
    if (o->format == BENCH_GBENCH) bench_gbench_end(o);
    fflush(o->to);
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

static void make_repro(const struct bench_output *o, const struct bench_run *r, const char *shape,
                       const char *dtype, int reps, char out[CELL])
{
    *out = '\0';
    if (o->env->size > 1) snprintf(out, CELL, "mpiexec -n %d ", o->env->size);
    const size_t used = strlen(out);
    snprintf(out + used, CELL - used, "tpcl-bench %s %.128s --dtype %s --reps %d", r->c->name,
             shape, dtype, reps);
    if (r->c->of_model && r->plan) {
        strcat(out, " --shape ");
        append_word(out, CELL, r->plan->model_name);
    }
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

static void put_table(const struct bench_output *o, char cells[COLUMNS][CELL])
{
    for (int i = 0; i < COLUMNS; i++)
        if (in_table(o, i))
            fprintf(o->to, "%s%*s", i ? " " : "", columns[i].width, *cells[i] ? cells[i] : "-");
}

static void put_csv_row(const struct bench_output *o, char cells[COLUMNS][CELL])
{
    for (int i = 0; i < COLUMNS; i++) {
        if (i) putc(',', o->to);
        put_csv(o->to, cells[i]);
    }
}

static void put_json_row(const struct bench_output *o, char cells[COLUMNS][CELL])
{
    fprintf(o->to, "{\"version\":%d", BENCH_SCHEMA);
    for (int i = 0; i < COLUMNS; i++) {
        const bool null = !*cells[i] || strcmp(cells[i], "inf") == 0;
        fprintf(o->to, ",\"%s\":", columns[i].name);
        if (columns[i].text && !null)
            bench_put_json(o->to, cells[i]);
        else
            fputs(null ? "null" : cells[i], o->to);
    }
    putc('}', o->to);
}

static void set_times(char cells[COLUMNS][CELL], const struct bench_run *r,
                      const struct bench_result *result)
{
    const struct bench_case *c = r->c;
    const bool tokens = c->tokens != NULL, bus = c->bus != NULL, peer = result->peer != NULL;
    set_number(cells[MIN_US], true, "%.3f", result->us.min);
    set_number(cells[MEDIAN_US], true, "%.3f", result->us.median);
    set_number(cells[P90_US], true, "%.3f", result->us.p90);
    set_number(cells[MEAN_US], true, "%.3f", result->us.mean);
    set_number(cells[SD_US], true, "%.3f", result->us.sd);
    set_number(cells[GBPS], true, "%.3f", result->gbps);
    set_number(cells[BUSBW], bus, "%.3f", bus ? result->gbps * c->bus(r) : 0.0);
    set_number(cells[GFLOPS], true, "%.3f", result->gflops);
    set_number(cells[TPS], tokens, "%.2f", result->tps.mean);
    set_number(cells[TPS_SD], tokens, "%.2f", result->tps.sd);
    for (int p = 0; p < BENCH_PHASES; p++)
        set_number(cells[STAGE_OUT_US + p], c->split != NULL, "%.3f", result->phases[p]);
    snprintf(cells[PEER], CELL, "%s", peer ? result->peer : "");
    set_number(cells[PEER_US], peer, "%.3f", result->peer_us);
    set_number(cells[RATIO], peer, "%.4g", result->ratio);
}

static void set_cells(const struct bench_output *o, const struct bench_run *r, int reps,
                      const struct bench_result *result, char cells[COLUMNS][CELL])
{
    const struct bench_case *c = r->c;
    const tpcl_device_info *d = &o->env->dev->info;
    const bool timed = result->verdict == BENCH_PASS;
    char dtype[8];
    bench_dtype_text(r->dtype, dtype);
    snprintf(cells[CASE], CELL, "%s", c->name);
    bench_shape_text(c, r->shape, cells[SHAPE], CELL);
    snprintf(cells[DTYPE], CELL, "%s", dtype);
    snprintf(cells[RANKS], CELL, "%d", o->env->size);
    snprintf(cells[VERDICT], CELL, "%s", bench_verdict_name(result->verdict));
    set_number(cells[MAX_ERR], true, "%.3g", result->max_err);
    if (c->bus) snprintf(cells[WRONG], CELL, "%ld", result->wrong);
    snprintf(cells[REPS], CELL, "%d", timed ? result->reps : 0);
    if (timed) set_times(cells, r, result);
    make_repro(o, r, cells[SHAPE], dtype, reps, cells[REPRO]);
    snprintf(cells[DEVICE], CELL, "%s", d->name);
    snprintf(cells[DRIVER], CELL, "%s %s", d->platform, d->driver);
    snprintf(cells[GIT], CELL, "%s", BUILD_COMMIT);
}

void bench_output_row(struct bench_output *o, const struct bench_run *r, int reps,
                      const struct bench_result *result)
{
    char cells[COLUMNS][CELL] = {{0}};
    set_cells(o, r, reps, result, cells);
    switch (o->format) {
    case BENCH_TABLE:
        put_table(o, cells);
        break;
    case BENCH_CSV:
        put_csv_row(o, cells);
        break;
    case BENCH_JSONL:
        put_json_row(o, cells);
        break;
    case BENCH_GBENCH:
        bench_gbench_row(o, r, result);
        break;
    case BENCH_OSU:
        bench_osu_row(o, r, result);
        break;
    }
    o->last = r->c;
    if (o->format <= BENCH_JSONL) putc('\n', o->to);
    fflush(o->to); /* rows take a while: show each as it comes */
}
