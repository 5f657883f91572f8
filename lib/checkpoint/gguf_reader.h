/* Reads a GGUF header front to back through a window; nothing is trusted before it is compared with
 * the bytes that are left. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_GGUF_READER_H
#define TPI_CHECKPOINT_GGUF_READER_H

#include "checkpoint/gguf.h"

typedef struct tpi_gguf_reader {
    const tpi_file *file;
    tpi_arena *arena;
    uint64_t at, end; /* offsets in the file; end: of the file or of the largest header */
    uint64_t window_at;
    size_t window_bytes;
    uint8_t *window;
} tpi_gguf_reader;

tpcl_status tpi_gguf_reader_open(const tpi_file *file, tpi_arena *arena, tpi_gguf_reader *out);
void tpi_gguf_reader_close(tpi_gguf_reader *r);

/* `what` names the field in messages. Little-endian, whatever the host. */
tpcl_status tpi_gguf_read_u32(tpi_gguf_reader *r, const char *what, uint32_t *out);
tpcl_status tpi_gguf_read_u64(tpi_gguf_reader *r, const char *what, uint64_t *out);
tpcl_status tpi_gguf_read_string(tpi_gguf_reader *r, const char *what, uint64_t limit,
                                 tpcl_text *out);
/* type and value; `keep`: an array's elements are stored, otherwise passed over */
tpcl_status tpi_gguf_read_value(tpi_gguf_reader *r, tpi_gguf_value *value, bool keep);

#endif
