/* A plot as SVG: lines or points over two axes, with a legend. Marks and dashes differ as well as
 * colours, so that it can be read in grey. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_FIGURE_H
#define BENCH_FIGURE_H

#include <stdbool.h>
#include <stdio.h>

enum { FIGURE_SERIES = 10 };

struct figure_series {
    char name[96];
    double *x, *y; /* [n], in the order of the line */
    int n;
    bool points; /* no line */
    bool line;   /* no marks */
    bool dashed;
    int style; /* colour and mark; series may share one */
};

struct figure {
    const char *title, *x_label, *y_label;
    bool log_x, log_y, bytes_x;
    bool whole_x; /* ticks at whole numbers only */
    struct figure_series series[FIGURE_SERIES];
    int n;
};

/* Room for `most` points, or NULL: no memory, or no more series. */
struct figure_series *figure_add(struct figure *f, const char *name, int most);
void figure_free(struct figure *f);
void figure_svg(const struct figure *f, FILE *to);

/* Text of XML. */
void figure_text(FILE *to, const char *text);

#endif
