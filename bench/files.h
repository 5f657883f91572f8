/* Data files that are built in; embed.cmake makes files.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include <stddef.h>

struct bench_file {
    const char *name, *text;
};
extern const struct bench_file bench_shape_files[];
extern const size_t bench_shape_count;
extern const char bench_shape_names[]; /* separated by blanks */
extern const char bench_read_sum_cl[];

#endif
