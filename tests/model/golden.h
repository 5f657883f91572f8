/* Reads arrays of a golden.safetensors file: its own small reader, not the library's. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct golden {
    json_t *header;
    uint8_t *data;
} golden;

static inline int golden_open(const char *path, golden *g)
{
    uint64_t length = 0;
    memset(g, 0, sizeof *g);
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    g->data = malloc((size_t)size);
    const int ok = g->data && fread(g->data, 1, (size_t)size, f) == (size_t)size;
    fclose(f);
    if (!ok) return -1;
    memcpy(&length, g->data, 8);
    g->header = json_loadb((const char *)g->data + 8, (size_t)length, 0, NULL);
    memmove(g->data, g->data + 8 + length, (size_t)size - 8 - (size_t)length);
    return g->header ? 0 : -1;
}

static inline void golden_close(golden *g)
{
    json_decref(g->header);
    free(g->data);
}

/* The array `prompt{i}.{what}`; NULL when there is none. @p n elements of 4 bytes. */
static inline const void *golden_get(const golden *g, int i, const char *what, int *n)
{
    char key[64];
    snprintf(key, sizeof key, "prompt%d.%s", i, what);
    const json_t *t = json_object_get(g->header, key);
    const json_t *at = json_object_get(t, "data_offsets");
    if (!at) return NULL;
    const json_int_t begin = json_integer_value(json_array_get(at, 0));
    *n = (int)((json_integer_value(json_array_get(at, 1)) - begin) / 4);
    return g->data + begin;
}

#endif
