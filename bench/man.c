/* Writes the man page of tpcl-bench from what --help is made of.
 *
 *     tpcl_bench_man DATE
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "help.h"
#include "options.h"
#include "roff.h"

static void put_option(const struct bench_option_row *row)
{
    char term[40], text[400];
    const char *shapes = strcmp(row->name, "shape") == 0 ? bench_shape_names : "";
    if (row->letter)
        snprintf(term, sizeof term, "-%c, --%s", row->code, row->name);
    else
        snprintf(term, sizeof term, "--%s", row->name);
    snprintf(text, sizeof text, "%s%s%s%s%s%s\n", row->help, *shapes ? ": " : "", shapes,
             row->fallback ? " (default: " : "", row->fallback ? row->fallback : "",
             row->fallback ? ")" : "");
    roff_item(term, row->argument);
    roff_text(text);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: tpcl_bench_man DATE\n");
        return 64;
    }
    roff_title("tpcl-bench", 1, argv[1]);
    roff_name("tpcl-bench", "measure the operations of tpcl on OpenCL devices");
    roff_section("SYNOPSIS");
    roff_synopsis("tpcl-bench", bench_arguments);
    roff_section("DESCRIPTION");
    roff_text(bench_what);
    roff_section("OPTIONS");
    for (size_t i = 0; i < bench_option_count; i++) put_option(&bench_option_table[i]);
    roff_section("OUTPUT");
    roff_text(bench_columns);
    roff_section("EXIT STATUS");
    for (size_t i = 0; i < bench_code_count; i++) {
        char code[16];
        snprintf(code, sizeof code, "%d", bench_codes[i].code);
        roff_item(code, NULL);
        roff_text(bench_codes[i].meaning);
    }
    roff_section("EXAMPLES");
    roff_example(bench_examples);
    roff_see_also("tpcl tpcl-devices mpiexec", "tpcl-bench");
    return ferror(stdout) || fflush(stdout);
}
