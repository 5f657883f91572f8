/* The load, shown on stderr. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

struct progress {
    enum progress_mode mode; /* BAR, PLAIN or NONE */
    double started_s, shown_s;
    int width;
    bool drawn;
};

void progress_begin(struct progress *p, const struct settings *settings, bool visible);
/* Has the signature of tpcl_model_options.progress. */
void progress_update(void *context, uint64_t done, uint64_t total);
/* Wipes the bar: what follows starts on a clean line. */
void progress_end(struct progress *p);

/* Whether stderr takes colour. */
bool progress_color(const struct settings *settings);

#endif
