/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "launch.h"
#include "parse.h"
#include "text.h"

static const double bar_every_s = 0.05, line_every_s = 5;

static bool is_dumb(void)
{
    const char *term = getenv("TERM");
    return term && strcmp(term, "dumb") == 0;
}

bool progress_color(const struct settings *settings)
{
    const char *off = getenv("NO_COLOR"), *force = getenv("CLICOLOR_FORCE");
    if (settings->color != COLOR_AUTO) return settings->color == COLOR_ALWAYS;
    if (off && *off) return false;
    if (force && *force && strcmp(force, "0") != 0) return true;
    return launch_stderr_is_terminal() && !is_dumb();
}

void progress_begin(struct progress *p, const struct settings *settings, bool visible)
{
    const char *columns = getenv("COLUMNS");
    int64_t width = 80;
    if (columns && !parse_int(columns, 20, 400, &width)) width = 80;
    *p = (struct progress){.mode = (enum progress_mode)settings->progress, .width = (int)width};
    if (p->mode == PROGRESS_AUTO)
        p->mode = launch_stderr_is_terminal() && !is_dumb() ? PROGRESS_BAR : PROGRESS_PLAIN;
    if (!visible) p->mode = PROGRESS_NONE;
    p->started_s = p->shown_s = seconds_now();
}

static void draw_bar(struct progress *p, const char *text, double part)
{
    char cells[128];
    const int room = p->width - (int)strlen(text) - 12;
    const int n = room < 5 ? 5 : room > 40 ? 40 : room;
    for (int i = 0; i < n; i++) cells[i] = i < (int)(part * n + 0.5) ? '#' : '.';
    cells[n] = '\0';
    fprintf(stderr, "\rload [%s] %s\033[K", cells, text);
    p->drawn = true;
}

void progress_update(void *context, uint64_t done, uint64_t total)
{
    struct progress *p = context;
    const double now = seconds_now();
    const double every = p->mode == PROGRESS_BAR ? bar_every_s : line_every_s;
    if (p->mode == PROGRESS_NONE || total == 0) return;
    if (now - p->shown_s < every && !(p->mode == PROGRESS_BAR && done >= total)) return;
    p->shown_s = now;
    const double part = done >= total ? 1 : (double)done / (double)total;
    const double took = now - p->started_s, rate = took > 0 ? (double)done / took : 0;
    char have[32], all[32], text[128];
    snprintf(text, sizeof text, "%3.0f %%  %s of %s, %.1f GB/s", 100 * part,
             text_bytes(done, have, sizeof have), text_bytes(total, all, sizeof all), rate / 1e9);
    if (p->mode == PROGRESS_BAR)
        draw_bar(p, text, part);
    else
        fprintf(stderr, "load %s\n", text);
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->drawn) fputs("\r\033[K", stderr);
    fflush(stderr);
    p->mode = PROGRESS_NONE;
}
