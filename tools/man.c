/* Writes the man page of the command, or of one of its verbs, from what --help is made of.
 *
 *     tpcl_man DATE [VERB]
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "help.h"
#include "roff.h"

static const char all_pages[] = "tpcl tpcl-run tpcl-score tpcl-tokenize tpcl-detokenize "
                                "tpcl-devices tpcl-inspect tpcl-bench mpiexec";

static void put_option(const struct option_row *row)
{
    char term[64], twin[64], text[400];
    if (row->letter)
        snprintf(term, sizeof term, "-%c, --%s", row->letter, row->name);
    else
        snprintf(term, sizeof term, "--%s", row->name);
    roff_item(term, row->argument);
    snprintf(text, sizeof text, "%s%s%s%s\n", row->help, row->fallback ? " (default: " : "",
             row->fallback ? row->fallback : "", row->fallback ? ")" : "");
    roff_text(text);
    option_twin(row, twin, sizeof twin);
    if (row->twin) printf("[\\fB%s\\fR]\n", twin);
}

/* The twins of the options of `verb`, or of all of them. */
static void put_environment(enum verb verb)
{
    roff_section("ENVIRONMENT");
    roff_text("Each option has a twin here: TPCL_ and its name in capitals. A flag is 1 or 0. The\n"
              "command line outweighs the environment.\n");
    for (size_t i = 0; i < option_count; i++) {
        char twin[64], text[80];
        if (!option_table[i].twin || (verb < VERBS && !(option_table[i].verbs & 1u << verb)))
            continue;
        option_twin(&option_table[i], twin, sizeof twin);
        snprintf(text, sizeof text, "as --%s", option_table[i].name);
        roff_item(twin, NULL);
        roff_text(text);
    }
    for (size_t i = 0; i < option_other_count; i++) {
        roff_item(option_others[i].name, NULL);
        roff_text(option_others[i].help);
    }
}

static void put_codes(void)
{
    roff_section("EXIT STATUS");
    for (size_t i = 0; i < help_code_count; i++) {
        char code[16];
        snprintf(code, sizeof code, "%d", help_codes[i].code);
        roff_item(code, NULL);
        roff_text(help_codes[i].meaning);
    }
    printf(".PP\n");
    roff_text(help_code_note);
}

static void put_overview(const char *date)
{
    roff_title("tpcl", 1, date);
    roff_name("tpcl", "run one language model on several OpenCL devices");
    roff_section("SYNOPSIS");
    roff_synopsis("tpcl", "COMMAND [ARGUMENT]...");
    roff_section("DESCRIPTION");
    roff_text("Runs a decoder model over the ranks of an MPI job, one OpenCL device each. A rank\n"
              "holds its part of every weight and of the key and value cache; sums go through the\n"
              "memory of the host, in the order of the ranks, so that a run gives the same tokens\n"
              "again, on any number of ranks.\n");
    roff_section("COMMANDS");
    for (int v = 0; v < VERBS; v++) {
        roff_item(verb_name((enum verb)v), NULL);
        roff_text(help_commands[v].what);
    }
    roff_section("OPTIONS");
    roff_item("-h, --help", NULL);
    roff_text("show the help; after a command, its own");
    roff_item("-V, --version", NULL);
    roff_text("show the versions of tpcl and of what it was built with");
    put_environment(VERBS);
    put_codes();
    roff_section("FILES");
    roff_item("~/.cache/tpcl", NULL);
    roff_text(
        "Compiled kernels, or in $XDG_CACHE_HOME/tpcl. They are checked before use, and may be\n"
        "removed at any time.\n");
    roff_section("EXAMPLES");
    char lines[1000] = "";
    for (int v = 0; v < VERBS; v++) {
        const char *examples = help_commands[v].examples;
        const size_t used = strlen(lines);
        snprintf(lines + used, sizeof lines - used, "%.*s\n", (int)strcspn(examples, "\n"),
                 examples);
    }
    roff_example(lines);
    roff_see_also(all_pages, "tpcl");
}

static void put_verb(enum verb verb, const char *date)
{
    const struct help_command *help = &help_commands[verb];
    char page[40], command[40];
    snprintf(page, sizeof page, "tpcl-%s", verb_name(verb));
    snprintf(command, sizeof command, "tpcl %s", verb_name(verb));
    roff_title(page, 1, date);
    roff_name(page, help->what);
    roff_section("SYNOPSIS");
    roff_synopsis(command, help->arguments);
    roff_section("DESCRIPTION");
    roff_text(help->more);
    roff_section("OPTIONS");
    for (size_t i = 0; i < option_count; i++)
        if (option_table[i].verbs & 1u << verb) put_option(&option_table[i]);
    put_environment(verb);
    put_codes();
    roff_section("EXAMPLES");
    roff_example(help->examples);
    roff_see_also(all_pages, page);
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        put_overview(argv[1]);
        return ferror(stdout) || fflush(stdout);
    }
    for (int v = 0; argc == 3 && v < VERBS; v++) {
        if (strcmp(argv[2], verb_name((enum verb)v)) != 0) continue;
        put_verb((enum verb)v, argv[1]);
        return ferror(stdout) || fflush(stdout);
    }
    fprintf(stderr, "usage: tpcl_man DATE [VERB]\n");
    return 64;
}
