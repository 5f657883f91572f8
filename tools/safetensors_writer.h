/* One F32 matrix into a safetensors file, row by row; the file appears whole or not at all. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_SAFETENSORS_WRITER_H
#define TOOLS_SAFETENSORS_WRITER_H

#include <stddef.h>
#include <stdint.h>

typedef struct safetensors_writer safetensors_writer;

/* Creates a temporary file beside `path` and writes the header. All return 0 or an exit code with
 * the message recorded. */
int safetensors_writer_create(const char *path, const char *tensor, const int64_t shape[2],
                              safetensors_writer **out);
int safetensors_writer_append(safetensors_writer *writer, const float *values, size_t n);
/* Checks that every value came, syncs and renames. */
int safetensors_writer_finish(safetensors_writer *writer);
/* Removes the temporary file unless finished. NULL and *NULL are no-ops. */
void safetensors_writer_destroy(safetensors_writer **writer);

#endif
