/* The words of --help, which the man pages share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_HELP_H
#define TOOLS_HELP_H

#include "options.h"

struct help_command {
    const char *arguments, *what, *more, *examples;
};
extern const struct help_command help_commands[VERBS];

struct help_code {
    int code;
    const char *meaning;
};
extern const struct help_code help_codes[];
extern const size_t help_code_count;
extern const char help_code_note[];

#endif
