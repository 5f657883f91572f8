/* Memory that lives as long as a checkpoint: many small texts, freed at once. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_ARENA_H
#define TPI_CHECKPOINT_ARENA_H

#include <stddef.h>

typedef struct tpi_arena {
    struct tpi_arena_chunk *chunks;
} tpi_arena;

/* Zeroed, aligned for any type; NULL when memory is out. */
void *tpi_arena_alloc(tpi_arena *arena, size_t bytes);
/* Unaligned, uninitialised room for `bytes` and a terminating NUL, which is set. */
char *tpi_arena_text(tpi_arena *arena, size_t bytes);
/* A terminated copy. */
char *tpi_arena_copy(tpi_arena *arena, const char *bytes, size_t length);
void tpi_arena_free(tpi_arena *arena);

#endif
