/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "output.h"
#include "plots.h"

enum { PATH = 4096 };

static const char style[] =
    "body{font:15px/1.5 Helvetica,Arial,sans-serif;color:#222;background:#fff;margin:2rem auto;"
    "max-width:60rem;padding:0 1rem}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}"
    "svg{max-width:100%;height:auto}.scroll{overflow-x:auto}table{border-collapse:collapse;"
    "font-size:13px;font-variant-numeric:tabular-nums}th,td{padding:.2rem .7rem;text-align:right;"
    "border-bottom:1px solid #ddd;white-space:nowrap}th{border-bottom:2px solid #444}"
    "th.t,td.t{text-align:left}.bad{font-weight:bold;color:#a00;text-decoration:underline}"
    "figcaption,.note{color:#555;max-width:45rem}figure{margin:1rem 0}";

static void put_number(FILE *to, const char *fmt, double v) __attribute__((format(printf, 2, 0)));

static void put_number(FILE *to, const char *fmt, double v)
{
    fputs("<td>", to);
    if (!isnan(v)) fprintf(to, fmt, v);
    fputs("</td>", to);
}

static void put_text_cell(FILE *to, const char *text, bool bad)
{
    fprintf(to, "<td class=\"t%s\">", bad ? " bad" : "");
    figure_text(to, text);
    fputs("</td>", to);
}

static void put_row(FILE *to, const struct bench_record *r)
{
    fputs("<tr>", to);
    put_text_cell(to, r->name, false);
    put_text_cell(to, r->shape, false);
    put_text_cell(to, r->dtype, false);
    put_number(to, "%g", r->ranks);
    put_text_cell(to, r->verdict, strcmp(r->verdict, "PASS") != 0);
    put_number(to, "%.2g", r->max_err);
    put_number(to, "%.1f", r->median);
    put_number(to, "%.1f", r->sd);
    put_number(to, "%.2f", r->gbps);
    put_number(to, "%.2f", r->gflops);
    put_number(to, "%.2f", r->tps);
    put_number(to, "%.2f", r->tps_sd);
    put_text_cell(to, r->peer, false);
    put_number(to, "%.3g", r->ratio);
    fputs("</tr>\n", to);
}

static size_t suite_length(const struct bench_record *r)
{
    return strcspn(r->name, "/");
}

/* The rows of the suite of row `first`, which is its first one. */
static void put_suite(FILE *to, const struct bench_records *rows, int first)
{
    static const char *const names[] = {"ranks",  "verdict", "max. error", "median, us",
                                        "sd, us", "GB/s",    "GFLOP/s",    "tokens/s",
                                        "sd",     "peer",    "ratio"};
    const char *suite = rows->rows[first].name;
    const size_t n = suite_length(&rows->rows[first]);
    fprintf(to,
            "<h2>%.*s</h2>\n<div class=\"scroll\"><table>\n<tr><th class=\"t\">case</th>"
            "<th class=\"t\">shape</th><th class=\"t\">type</th>",
            (int)n, suite);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        fprintf(to, "<th%s>%s</th>", i == 1 || i == 9 ? " class=\"t\"" : "", names[i]);
    fputs("</tr>\n", to);
    for (int i = first; i < rows->n; i++)
        if (suite_length(&rows->rows[i]) == n && strncmp(rows->rows[i].name, suite, n) == 0)
            put_row(to, &rows->rows[i]);
    fputs("</table></div>\n", to);
}

static bool suite_is_new(const struct bench_records *rows, int i)
{
    const size_t n = suite_length(&rows->rows[i]);
    for (int k = 0; k < i; k++)
        if (suite_length(&rows->rows[k]) == n &&
            strncmp(rows->rows[k].name, rows->rows[i].name, n) == 0)
            return false;
    return true;
}

/* Devices, drivers and commits, each pair once. */
static void put_machines(FILE *to, const struct bench_records *rows)
{
    fputs("<ul>\n", to);
    for (int i = 0; i < rows->n; i++) {
        const struct bench_record *r = &rows->rows[i];
        bool seen = false;
        for (int k = 0; k < i && !seen; k++)
            seen = strcmp(rows->rows[k].device, r->device) == 0 &&
                   strcmp(rows->rows[k].driver, r->driver) == 0 &&
                   strcmp(rows->rows[k].git, r->git) == 0;
        if (seen) continue;
        fputs("<li>", to);
        figure_text(to, r->device);
        fputs("; ", to);
        figure_text(to, r->driver);
        fputs("; commit ", to);
        figure_text(to, r->git);
        fputs("</li>\n", to);
    }
    fputs("</ul>\n", to);
}

static void put_page(FILE *to, const struct bench_records *rows)
{
    int passed = 0;
    for (int i = 0; i < rows->n; i++) passed += strcmp(rows->rows[i].verdict, "PASS") == 0;
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
            "<meta name=\"viewport\" content=\"width=device-width\"><title>tpcl-bench</title>"
            "<style>%s</style></head><body>\n<h1>tpcl-bench</h1>\n",
            style);
    fprintf(to, "<p>%d rows, %d passed%s</p>\n", rows->n, passed,
            passed < rows->n ? ", <span class=\"bad\">the others are wrong or did not run</span>."
                             : ".");
    put_machines(to, rows);
    for (int p = 0; p < PLOTS; p++) {
        struct figure f;
        plot_make((enum plot)p, rows, &f);
        fputs("<figure>\n", to);
        if (f.n > 0) figure_svg(&f, to);
        fputs("<figcaption>", to);
        figure_text(to, f.n > 0 ? plot_captions[p] : plot_hints[p]);
        fputs("</figcaption></figure>\n", to);
        figure_free(&f);
    }
    fputs(
        "<p class=\"note\">ratio: above 1 is better than the peer. \"time\" peers: their median "
        "over ours; \"GB/s\" peers: our rate over the best of theirs. Both were timed in turn, in "
        "one process.</p>\n",
        to);
    for (int i = 0; i < rows->n; i++)
        if (suite_is_new(rows, i)) put_suite(to, rows, i);
    fputs("</body></html>\n", to);
}

static int close_file(FILE *f, const char *path)
{
    const bool bad = ferror(f) != 0;
    if (fclose(f) == 0 && !bad) return 0;
    bench_say("%s: %s", path, strerror(errno ? errno : EIO));
    return EX_IOERR;
}

static FILE *open_file(const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f) bench_say("%s: %s", path, strerror(errno));
    return f;
}

static int write_page(const char *path, const struct bench_records *rows)
{
    FILE *f = open_file(path);
    if (!f) return EX_CANTCREAT;
    put_page(f, rows);
    return close_file(f, path);
}

static int write_plots(const char *folder, const struct bench_records *rows)
{
    int code = 0;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        bench_say("%s: %s", folder, strerror(errno));
        return EX_CANTCREAT;
    }
    for (int p = 0; p < PLOTS && !code; p++) {
        char path[PATH];
        struct figure f;
        plot_make((enum plot)p, rows, &f);
        snprintf(path, sizeof path, "%.4000s/%s.svg", folder, plot_names[p]);
        FILE *to = f.n > 0 ? open_file(path) : NULL;
        if (f.n == 0)
            bench_say("%s: nothing to draw. %s", plot_names[p], plot_hints[p]);
        else if (!to)
            code = EX_CANTCREAT;
        else
            figure_svg(&f, to);
        if (to) code = close_file(to, path);
        figure_free(&f);
    }
    return code;
}

static int refuse(const char *what)
{
    bench_say("report: %s; tpcl-bench report FILE... [--out FILE] [--plot DIR]", what);
    return EX_USAGE;
}

int bench_report(int argc, char **argv)
{
    static const struct option options[] = {{"out", required_argument, NULL, 'o'},
                                            {"plot", required_argument, NULL, 'p'},
                                            {NULL, 0, NULL, 0}};
    const char *out = NULL, *plot = NULL;
    char message[600];
    struct bench_records rows = {0};
    int code = 0;
    opterr = 0;
    for (int letter; (letter = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (letter == '?') return refuse("no such option, or one without its value");
        if (letter == 'o') out = optarg;
        if (letter == 'p') plot = optarg;
    }
    if (optind == argc) return refuse("no file of results");
    if (!out && !plot) out = "report.html";
    while (!code && optind < argc)
        code = bench_records_read(argv[optind++], &rows, message, sizeof message);
    if (code)
        bench_say("%s", message);
    else if (out)
        code = write_page(out, &rows);
    if (!code && plot) code = write_plots(plot, &rows);
    bench_records_free(&rows);
    return code;
}
