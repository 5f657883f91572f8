/* Model files: opened once, read by range. Never mapped: a file that shrinks is an error, no
 * signal. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_FILE_H
#define TPI_CHECKPOINT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tpcl/status.h>

#include "checkpoint/arena.h"

typedef struct tpi_file {
    char *path;
    int fd;
    uint64_t size; /* when opened */
} tpi_file;

/* Regular files only. Errors: TPCL_ERR_OPEN with the path and the system's reason. */
tpcl_status tpi_file_open(const char *path, tpi_file *out);
void tpi_file_close(tpi_file *file);
/* All of `bytes` or TPCL_ERR_IO with path and offset. Thread-safe. */
tpcl_status tpi_file_read(const tpi_file *file, uint64_t offset, uint64_t bytes, void *dst);

/* folder/name, malloc'ed; NULL when memory is out. */
char *tpi_path_join(const char *folder, const char *name);
bool tpi_path_is_folder(const char *path);
bool tpi_path_exists(const char *path);

/* The whole of a small file, terminated; more than `limit` bytes is TPCL_ERR_UNSUPPORTED. */
tpcl_status tpi_file_load(tpi_arena *arena, const char *path, uint64_t limit, const char **bytes,
                          size_t *length);

#endif
