/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 * 1024 };

struct tpi_arena_chunk {
    struct tpi_arena_chunk *next;
    size_t size, used;
    char bytes[];
};

static char *take(tpi_arena *arena, size_t bytes, size_t align)
{
    struct tpi_arena_chunk *c = arena->chunks;
    if (c) {
        /* Alignment is of the address, since the bytes of a chunk start after its header. */
        const size_t skip = (size_t)(-(uintptr_t)(c->bytes + c->used) & (align - 1));
        if (skip <= c->size - c->used && bytes <= c->size - c->used - skip) {
            char *p = c->bytes + c->used + skip;
            c->used += skip + bytes;
            return p;
        }
    }
    if (bytes > SIZE_MAX - CHUNK - sizeof *c) return NULL;
    const size_t size = bytes > CHUNK / 4 ? bytes + align : CHUNK;
    c = malloc(sizeof *c + size);
    if (!c) return NULL;
    c->size = size;
    c->used = 0;
    /* A big request gets a chunk to itself, behind the one still being filled. */
    if (size != CHUNK && arena->chunks) {
        c->next = arena->chunks->next;
        arena->chunks->next = c;
    } else {
        c->next = arena->chunks;
        arena->chunks = c;
    }
    const size_t skip = (size_t)(-(uintptr_t)c->bytes & (align - 1));
    c->used = skip + bytes;
    return c->bytes + skip;
}

void *tpi_arena_alloc(tpi_arena *arena, size_t bytes)
{
    void *p = take(arena, bytes, _Alignof(max_align_t));
    return p ? memset(p, 0, bytes) : NULL;
}

char *tpi_arena_text(tpi_arena *arena, size_t bytes)
{
    char *p = bytes < SIZE_MAX ? take(arena, bytes + 1, 1) : NULL;
    if (p) p[bytes] = '\0';
    return p;
}

char *tpi_arena_copy(tpi_arena *arena, const char *bytes, size_t length)
{
    char *p = tpi_arena_text(arena, length);
    return p ? memcpy(p, bytes, length) : NULL;
}

void tpi_arena_free(tpi_arena *arena)
{
    while (arena->chunks) {
        struct tpi_arena_chunk *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}
