/* SPDX-License-Identifier: Apache-2.0 */
#include "figure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 920, HEIGHT = 430, LEFT = 72, TOP = 44, RIGHT = 600, BOTTOM = 370, LEGEND = 622 };

/* Okabe and Ito's colours, in an order in which neighbours differ in brightness, too. */
static const char *const colours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
                                      "#d55e00", "#56b4e9", "#000000"};
enum { COLOURS = sizeof colours / sizeof colours[0], MARKS = 5 };

struct axis {
    double low, high;
    bool log;
    int from, to; /* pixels */
};

struct figure_series *figure_add(struct figure *f, const char *name, int most)
{
    if (f->n == FIGURE_SERIES || most < 1) return NULL;
    struct figure_series *s = &f->series[f->n];
    *s = (struct figure_series){.style = f->n};
    snprintf(s->name, sizeof s->name, "%s", name);
    s->x = malloc((size_t)most * sizeof *s->x);
    s->y = malloc((size_t)most * sizeof *s->y);
    if (s->x && s->y) {
        f->n++;
        return s;
    }
    free(s->x);
    free(s->y);
    return NULL;
}

void figure_free(struct figure *f)
{
    for (int i = 0; i < f->n; i++) {
        free(f->series[i].x);
        free(f->series[i].y);
    }
    f->n = 0;
}

void figure_text(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", to);
        else if (*text == '>')
            fputs("&gt;", to);
        else if (*text == '&')
            fputs("&amp;", to);
        else if (*text == '"')
            fputs("&quot;", to);
        else if ((unsigned char)*text >= 0x20)
            putc(*text, to);
    }
}

static double place(const struct axis *a, double v)
{
    const double low = a->log ? log10(a->low) : a->low, high = a->log ? log10(a->high) : a->high;
    const double at = ((a->log ? log10(v) : v) - low) / (high - low);
    return a->from + at * (a->to - a->from);
}

/* 1, 2 or 5 times a power of ten: about five of them fit. */
static double nice_step(double span)
{
    const double raw = span / 5.0, power = pow(10.0, floor(log10(raw)));
    const double part = raw / power;
    return power * (part <= 1.0 ? 1.0 : part <= 2.0 ? 2.0 : part <= 5.0 ? 5.0 : 10.0);
}

static void widen(struct axis *a, const double *v, int n)
{
    for (int i = 0; i < n; i++) {
        if (v[i] < a->low) a->low = v[i];
        if (v[i] > a->high) a->high = v[i];
    }
}

static void finish(struct axis *a)
{
    if (a->log) {
        a->low /= 1.4;
        a->high *= 1.4;
        return;
    }
    a->low = 0.0;
    a->high *= 1.08;
}

static void number_text(double v, bool bytes, char out[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    for (; bytes && v >= 1024.0 && unit < 3; unit++) v /= 1024.0;
    if (bytes)
        snprintf(out, 24, "%g %s", v, units[unit]);
    else
        snprintf(out, 24, "%g", v);
}

static void x_tick(const struct axis *x, double v, bool bytes, bool label, FILE *to)
{
    char text[24];
    const double at = place(x, v);
    if (v < x->low || v > x->high) return;
    fprintf(to, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"%s\"/>\n", at, TOP, at,
            BOTTOM, label ? "#d0d0d0" : "#ececec");
    if (!label) return;
    number_text(v, bytes, text);
    fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at, BOTTOM + 18,
            text);
}

static void y_tick(const struct axis *y, double v, bool label, FILE *to)
{
    char text[24];
    const double at = place(y, v);
    if (v < y->low || v > y->high) return;
    fprintf(to, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\"/>\n", LEFT, at,
            RIGHT, at, label ? "#d0d0d0" : "#ececec");
    if (!label) return;
    number_text(v, false, text);
    fprintf(to, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, at + 4.0,
            text);
}

static void tick(const struct axis *a, bool is_x, bool bytes, double v, bool label, FILE *to)
{
    if (is_x)
        x_tick(a, v, bytes, label, to);
    else
        y_tick(a, v, label, to);
}

/* Decades, and where there are few of them their 2 and 5; bytes in powers of four or more. */
static void log_ticks(const struct axis *a, bool is_x, bool bytes, FILE *to)
{
    const double decades = log10(a->high / a->low);
    if (bytes) {
        const double step = decades > 3.5 ? 16.0 : 4.0;
        for (double v = 1.0; v <= a->high; v *= step) tick(a, is_x, true, v, true, to);
        return;
    }
    for (double power = pow(10.0, floor(log10(a->low))); power <= a->high; power *= 10.0)
        for (int digit = 1; digit < 10; digit++) {
            const bool label = digit == 1 || (decades < 2.5 && (digit == 2 || digit == 5));
            tick(a, is_x, false, power * digit, label, to);
        }
}

static void ticks(const struct axis *a, bool is_x, const struct figure *f, FILE *to)
{
    if (a->log) {
        log_ticks(a, is_x, is_x && f->bytes_x, to);
        return;
    }
    double step = nice_step(a->high - a->low);
    if (is_x && f->whole_x && step < 1.0) step = 1.0;
    for (int i = 0; i * step <= a->high; i++) tick(a, is_x, false, i * step, true, to);
}

static void mark(double x, double y, int style, FILE *to)
{
    const char *colour = colours[style % COLOURS];
    switch (style % MARKS) {
    case 0:
        fprintf(to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, colour);
        break;
    case 1:
        fprintf(to, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" fill=\"%s\"/>\n", x - 4.0,
                y - 4.0, colour);
        break;
    case 2:
        fprintf(to, "<path d=\"M%.1f %.1fl5 9h-10z\" fill=\"%s\"/>\n", x, y - 5.5, colour);
        break;
    case 3:
        fprintf(to, "<path d=\"M%.1f %.1fl5.5 5.5l-5.5 5.5l-5.5 -5.5z\" fill=\"%s\"/>\n", x,
                y - 5.5, colour);
        break;
    default:
        fprintf(to,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#fff\" stroke=\"%s\" "
                "stroke-width=\"2\"/>\n",
                x, y, colour);
    }
}

static const char *dash_of(const struct figure_series *s)
{
    return s->dashed ? " stroke-dasharray=\"6 4\"" : "";
}

static void put_series(const struct figure_series *s, const struct axis *x, const struct axis *y,
                       FILE *to)
{
    if (!s->points) {
        fprintf(to, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"",
                colours[s->style % COLOURS], dash_of(s));
        for (int i = 0; i < s->n; i++)
            fprintf(to, "%.1f,%.1f ", place(x, s->x[i]), place(y, s->y[i]));
        fputs("\"/>\n", to);
    }
    for (int i = 0; i < s->n && !s->line; i++)
        mark(place(x, s->x[i]), place(y, s->y[i]), s->style, to);
}

static void put_legend(const struct figure *f, FILE *to)
{
    for (int i = 0; i < f->n; i++) {
        const struct figure_series *s = &f->series[i];
        const int y = TOP + 10 + 22 * i;
        if (!s->points)
            fprintf(to,
                    "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" "
                    "stroke-width=\"2\"%s/>\n",
                    LEGEND, y, LEGEND + 28, y, colours[s->style % COLOURS], dash_of(s));
        if (!s->line) mark(LEGEND + 14, y, s->style, to);
        fprintf(to, "<text x=\"%d\" y=\"%d\">", LEGEND + 36, y + 4);
        figure_text(to, s->name);
        fputs("</text>\n", to);
    }
}

void figure_svg(const struct figure *f, FILE *to)
{
    struct axis x = {INFINITY, -INFINITY, f->log_x, LEFT, RIGHT};
    struct axis y = {INFINITY, -INFINITY, f->log_y, BOTTOM, TOP};
    for (int i = 0; i < f->n; i++) {
        widen(&x, f->series[i].x, f->series[i].n);
        widen(&y, f->series[i].y, f->series[i].n);
    }
    finish(&x);
    finish(&y);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" "
            "fill=\"#222\" role=\"img\">\n<title>",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    figure_text(to, f->title);
    fprintf(to, "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", WIDTH, HEIGHT);
    fprintf(to, "<text x=\"%d\" y=\"24\" font-size=\"16\" font-weight=\"bold\">", LEFT);
    figure_text(to, f->title);
    fputs("</text>\n", to);
    ticks(&x, true, f, to);
    ticks(&y, false, f, to);
    fprintf(to,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#444\"/>\n",
            LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP);
    fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", (LEFT + RIGHT) / 2, BOTTOM + 44);
    figure_text(to, f->x_label);
    fprintf(to, "</text>\n<text transform=\"translate(20 %d) rotate(-90)\" text-anchor=\"middle\">",
            (TOP + BOTTOM) / 2);
    figure_text(to, f->y_label);
    fputs("</text>\n", to);
    for (int i = 0; i < f->n; i++) put_series(&f->series[i], &x, &y, to);
    put_legend(f, to);
    fputs("</svg>\n", to);
}
