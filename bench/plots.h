/* What is drawn of the rows of runs. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PLOTS_H
#define BENCH_PLOTS_H

#include "figure.h"
#include "records.h"

enum plot { PLOT_ROOFLINE, PLOT_SCALING, PLOT_COLLECTIVES, PLOTS };

/* Its file's name, without the ending; what it shows; what to run where there is nothing to show.
 */
extern const char *const plot_names[PLOTS], *const plot_captions[PLOTS], *const plot_hints[PLOTS];

/* A figure with n = 0 where the rows have nothing for it. To be freed with figure_free. */
void plot_make(enum plot plot, const struct bench_records *rows, struct figure *out);

#endif
