/* The sizes of a model, from a data file of name=value lines. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SHAPES_H
#define BENCH_SHAPES_H

#include <stdbool.h>
#include <stddef.h>

struct model_shape {
    long vocab, hidden, inter, heads, kv_heads, head_dim, layers;
};

/* `name` is that of a shape that is built in, else a file. False: *message says what is wrong. */
bool shapes_load(const char *name, struct model_shape *out, char *message, size_t size);

/* The whole text, decimal digits only, in range. */
bool parse_long(const char *text, long min, long max, long *out);

#endif
