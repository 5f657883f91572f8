/* Lists of numbers on the command line: "1,256", "1-8", "1-9+2", "4-64M*4". */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_LIST_H
#define BENCH_LIST_H

#include <stdbool.h>
#include <stddef.h>

enum { BENCH_LIST = 64 };

struct bench_list {
    long v[BENCH_LIST];
    int n;
};

/* Items are A, A-B (every number), A-B+S (steps of S) or A-B*F (times F), A and B with k, M or G
 * for 2^10, 2^20, 2^30. False: *message says which item is wrong and why. */
bool bench_list_parse(const char *text, long min, long max, struct bench_list *out, char *message,
                      size_t size);

#endif
