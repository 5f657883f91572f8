/* The words of --help, which the man page shares. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_HELP_H
#define BENCH_HELP_H

#include <stddef.h>

extern const char bench_arguments[], bench_what[], bench_columns[], bench_examples[];

struct bench_code {
    int code;
    const char *meaning;
};
extern const struct bench_code bench_codes[];
extern const size_t bench_code_count;

void bench_help_print(void);

#endif
