/* Man pages: the few macros of man(7) that ours need. All write to stdout. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_ROFF_H
#define TOOLS_ROFF_H

/* `date` as 2026-12-31. */
void roff_title(const char *page, int section, const char *date);
void roff_section(const char *name);
/* The page and what it is: the first section, from which whatis is made. */
void roff_name(const char *page, const char *what);
/* Text that is filled; an empty line begins a paragraph. */
void roff_text(const char *text);
/* A command's name, then its arguments; words in capitals stand for something. */
void roff_synopsis(const char *command, const char *arguments);
/* An entry of a list; `argument` may be NULL. roff_text() follows. */
void roff_item(const char *term, const char *argument);
/* Lines as they are; the two blanks before each are dropped. */
void roff_example(const char *lines);
/* "tpcl(1), tpcl-run(1)": `pages` is separated by blanks; `own` is left out. */
void roff_see_also(const char *pages, const char *own);

#endif
