/* Growable arrays of bytes and ids. A zeroed one is empty; free the data. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_TOKENIZER_BUFFER_H
#define TPI_TOKENIZER_BUFFER_H

#include <stddef.h>
#include <stdint.h>
#include <tpcl/status.h>

typedef struct tpi_strbuf {
    char *data;
    size_t length, capacity;
} tpi_strbuf;

typedef struct tpi_idbuf {
    int32_t *data;
    size_t n, capacity;
} tpi_idbuf;

tpcl_status tpi_strbuf_append(tpi_strbuf *buffer, const void *bytes, size_t length);
void tpi_strbuf_free(tpi_strbuf *buffer);

tpcl_status tpi_idbuf_push(tpi_idbuf *buffer, int32_t id);

#endif
