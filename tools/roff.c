/* SPDX-License-Identifier: Apache-2.0 */
#include "roff.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <tpcl/version.h>

/* Characters that roff would take for its own, or print as others. */
static void put_escaped(const char *text, size_t length, int at_start)
{
    for (size_t i = 0; i < length; i++) {
        static const char special[] = "\\-'`^~";
        static const char *const spelled[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
        const char *found = strchr(special, text[i]);
        if (at_start && text[i] == '.') fputs("\\&", stdout);
        if (found)
            fputs(spelled[found - special], stdout);
        else
            putchar(text[i]);
        at_start = text[i] == '\n';
    }
}

void roff_title(const char *page, int section, const char *date)
{
    printf(".TH ");
    for (const char *c = page; *c; c++) putchar(toupper((unsigned char)*c));
    printf(" %d \"%s\" \"tpcl %s\" \"tpcl\"\n.nh\n", section, date, tpcl_version_string());
}

void roff_section(const char *name)
{
    printf(".SH %s\n", name);
}

void roff_name(const char *page, const char *what)
{
    roff_section("NAME");
    printf("%s \\- %s\n", page, what);
}

void roff_text(const char *text)
{
    while (*text) {
        const size_t line = strcspn(text, "\n");
        if (line == 0) printf(".PP");
        put_escaped(text, line, 1);
        putchar('\n');
        text += line + (text[line] == '\n');
    }
}

/* A placeholder: MODEL, N, FILE. */
static int is_capital(const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isupper((unsigned char)word[i])) return 0;
    return length > 0;
}

void roff_synopsis(const char *command, const char *arguments)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";
    printf(".B %s\n", command);
    while (*arguments) {
        const size_t word = strspn(arguments, letters);
        const char *font = is_capital(arguments, word) ? "\\fI" : *arguments == '-' ? "\\fB" : "";
        fputs(font, stdout);
        put_escaped(arguments, word ? word : 1, 0);
        if (*font) fputs("\\fR", stdout);
        arguments += word ? word : 1;
    }
    putchar('\n');
}

void roff_item(const char *term, const char *argument)
{
    printf(".TP\n\\fB");
    put_escaped(term, strlen(term), 0);
    printf("\\fR");
    if (argument) {
        printf(" \\fI");
        put_escaped(argument, strlen(argument), 0);
        printf("\\fR");
    }
    putchar('\n');
}

void roff_example(const char *lines)
{
    printf(".nf\n");
    while (*lines) {
        const size_t length = strcspn(lines, "\n"), indent = strncmp(lines, "  ", 2) ? 0 : 2;
        put_escaped(lines + indent, length - indent, 1);
        putchar('\n');
        lines += length + (lines[length] == '\n');
    }
    printf(".fi\n");
}

void roff_see_also(const char *pages, const char *own)
{
    const char *comma = "";
    roff_section("SEE ALSO");
    while (*pages) {
        const size_t length = strcspn(pages, " ");
        if (length != strlen(own) || strncmp(pages, own, length) != 0) {
            printf("%s\\fB%.*s\\fR(1)", comma, (int)length, pages);
            comma = ",\n";
        }
        pages += length + (pages[length] == ' ');
    }
    putchar('\n');
}
