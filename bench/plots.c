/* SPDX-License-Identifier: Apache-2.0 */
#include "plots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const plot_names[PLOTS] = {"roofline", "scaling", "collectives"};
const char *const plot_captions[PLOTS] = {
    "Each point is a row of the fewest ranks: what one of them computes a second over the "
    "arithmetic of a byte that it must move. The slope is the highest read bandwidth that a row of "
    "these runs was compared with, the "
    "top the highest rate that any row reached; both are measured, neither is a "
    "data sheet's. What lies above the slope came out of caches.",
    "Time of one rank over the time of N, of rows that ran with several numbers of ranks: N is "
    "ideal where each rank has its own hardware.",
    "Median time of a message; dashed: MPI's own call on host memory, timed in turn with ours.",
};
const char *const plot_hints[PLOTS] = {
    "No row with both bytes and arithmetic.",
    "No row of model, layers or load with one rank and with more: give the report files of "
    "mpiexec -n 1, -n 2, ... runs.",
    "No collectives: mpiexec -n 2 tpcl-bench collectives --format jsonl.",
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool good(const struct bench_record *r)
{
    return strcmp(r->verdict, "PASS") == 0 && r->median > 0.0;
}

static struct figure_series *find_series(struct figure *f, const char *name, int most)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->series[i].name, name) == 0) return &f->series[i];
    return figure_add(f, name, most);
}

static void put(struct figure_series *s, double x, double y)
{
    s->x[s->n] = x;
    s->y[s->n++] = y;
}

/* The two limits, over the intensities that there are. */
static void add_roof(struct figure *f, double bandwidth, double peak, double low, double high)
{
    char name[96];
    if (peak > 0.0) {
        snprintf(name, sizeof name, "highest rate, %.3g GFLOP/s", peak);
        struct figure_series *s = figure_add(f, name, 2);
        if (!s) return;
        put(s, bandwidth > 0.0 && peak / bandwidth > low ? peak / bandwidth : low, peak);
        put(s, high > s->x[0] ? high : 2.0 * s->x[0], peak);
        s->line = s->dashed = true;
        s->style = 6;
    }
    if (bandwidth > 0.0) {
        snprintf(name, sizeof name, "read bandwidth, %.3g GB/s", bandwidth);
        struct figure_series *s = figure_add(f, name, 2);
        if (!s) return;
        const double end = peak / bandwidth > low ? peak / bandwidth : 2.0 * low;
        put(s, low, low * bandwidth);
        put(s, end, end * bandwidth);
        s->line = true;
        s->style = 6;
    }
}

static void roofline(const struct bench_records *rows, struct figure *f)
{
    double bandwidth = 0.0, peak = 0.0, low = INFINITY, high = 0.0, least = INFINITY;
    for (int i = 0; i < rows->n; i++) least = fmin(least, rows->rows[i].ranks);
    for (int i = 0; i < rows->n; i++) {
        const struct bench_record *r = &rows->rows[i];
        if (!good(r) || r->ranks > least) continue;
        if (strcmp(r->peer, "read:GB/s") == 0 && r->ratio > 0.0)
            bandwidth = fmax(bandwidth, r->gbps / r->ratio);
        if (!(r->gflops > 0.0 && r->gbps > 0.0) || begins(r->name, "collectives/")) continue;
        if (f->n == FIGURE_SERIES - 2 && !find_series(f, r->name, 0)) continue;
        struct figure_series *s = find_series(f, r->name, rows->n);
        if (!s) continue;
        const double intensity = r->gflops / r->gbps;
        s->points = true;
        put(s, intensity, r->gflops);
        peak = fmax(peak, r->gflops);
        low = fmin(low, intensity);
        high = fmax(high, intensity);
    }
    if (f->n > 0) add_roof(f, bandwidth, peak, low, high);
}

static bool same_row(const struct bench_record *a, const struct bench_record *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->shape, b->shape) == 0 &&
           strcmp(a->dtype, b->dtype) == 0;
}

/* The row with the fewest ranks of those that are the same but for them, and how many there are. */
static const struct bench_record *fewest(const struct bench_records *rows, int i, int *n)
{
    const struct bench_record *least = &rows->rows[i];
    *n = 0;
    for (int k = 0; k < rows->n; k++) {
        const struct bench_record *r = &rows->rows[k];
        if (!good(r) || !same_row(r, &rows->rows[i])) continue;
        ++*n;
        if (r->ranks < least->ranks) least = r;
    }
    return least;
}

static void sort_points(struct figure_series *s)
{
    for (int i = 1; i < s->n; i++)
        for (int k = i; k > 0 && s->x[k] < s->x[k - 1]; k--) {
            const double x = s->x[k], y = s->y[k];
            s->x[k] = s->x[k - 1];
            s->y[k] = s->y[k - 1];
            s->x[k - 1] = x;
            s->y[k - 1] = y;
        }
}

/* Rows of one suite; the rest of the series are for the next. */
static void scaling_of(const struct bench_records *rows, const char *suite, struct figure *f,
                       double *most)
{
    for (int i = 0; i < rows->n; i++) {
        const struct bench_record *r = &rows->rows[i];
        char name[96];
        int n = 0;
        if (!good(r) || !begins(r->name, suite)) continue;
        const struct bench_record *base = fewest(rows, i, &n);
        if (n < 2 || base->ranks > 1.0) continue;
        snprintf(name, sizeof name, "%.20s %.34s %s", r->name, r->shape, r->dtype);
        if (f->n == FIGURE_SERIES - 1 && !find_series(f, name, 0)) continue;
        struct figure_series *s = find_series(f, name, rows->n);
        if (!s) continue;
        put(s, r->ranks, base->median / r->median);
        *most = fmax(*most, r->ranks);
    }
}

static void scaling(const struct bench_records *rows, struct figure *f)
{
    double most = 0.0;
    scaling_of(rows, "model/", f, &most);
    scaling_of(rows, "layers/", f, &most);
    scaling_of(rows, "load/", f, &most);
    for (int i = 0; i < f->n; i++) sort_points(&f->series[i]);
    struct figure_series *ideal = f->n > 0 ? figure_add(f, "ideal", 2) : NULL;
    if (!ideal) return;
    put(ideal, 1.0, 1.0);
    put(ideal, most, most);
    ideal->line = ideal->dashed = true;
    ideal->style = 6;
}

static void add_collective(struct figure *f, const struct bench_record *r, int most)
{
    char name[96], theirs[96];
    snprintf(name, sizeof name, "%.24s, %g ranks", r->name + strlen("collectives/"), r->ranks);
    snprintf(theirs, sizeof theirs, "MPI, for %.24s", name);
    struct figure_series *s = find_series(f, name, most);
    if (!s) return;
    put(s, atof(r->shape), r->median);
    const int style = s->style;
    struct figure_series *t = r->ratio > 0.0 ? find_series(f, theirs, most) : NULL;
    if (!t) return;
    if (t->n == 0) t->style = style;
    put(t, atof(r->shape), r->median * r->ratio);
    t->dashed = true;
}

/* The sum in device memory first: it is what the layers wait for. Then what there is room for. */
static void collectives(const struct bench_records *rows, struct figure *f)
{
    for (int others = 0; others < 2; others++)
        for (int i = 0; i < rows->n; i++) {
            const struct bench_record *r = &rows->rows[i];
            const bool other = strcmp(r->name, "collectives/allreduce") != 0;
            if (good(r) && begins(r->name, "collectives/") && other == others && r->ranks > 1.0)
                add_collective(f, r, 2 * rows->n);
        }
    for (int i = 0; i < f->n; i++) sort_points(&f->series[i]);
}

void plot_make(enum plot plot, const struct bench_records *rows, struct figure *out)
{
    *out = (struct figure){.log_x = true, .log_y = true};
    switch (plot) {
    case PLOT_ROOFLINE:
        out->title = "Roofline, one rank";
        out->x_label = "arithmetic intensity (FLOP/byte)";
        out->y_label = "rate (GFLOP/s)";
        roofline(rows, out);
        break;
    case PLOT_SCALING:
        out->title = "Speed-up over ranks";
        out->x_label = "ranks";
        out->y_label = "speed-up (times one rank)";
        out->log_x = out->log_y = false;
        out->whole_x = true;
        scaling(rows, out);
        break;
    default:
        out->title = "Collectives, slowest rank";
        out->x_label = "message (bytes)";
        out->y_label = "median time (us)";
        out->bytes_x = true;
        collectives(rows, out);
    }
}
