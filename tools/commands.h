/* The commands. Each returns the exit code; its message has been printed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_COMMANDS_H
#define TOOLS_COMMANDS_H

#include "options.h"

/* `code`: what parsing the command line gave; the ranks agree on it first. Inside a launcher, or
 * alone. */
int run_command(const struct settings *settings, double started_s, int code);
int score_command(const struct settings *settings, double started_s, int code);

/* These return a code that is recorded, not printed. */
int tokenize_command(const struct settings *settings);
int detokenize_command(const struct settings *settings);
int inspect_command(const struct settings *settings);
int devices_command(const struct settings *settings);

/* Help on stdout; VERBS = the overview. */
void help_print(enum verb verb);
void version_print(void);

#endif
