/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/buffer.h"

tpcl_status tpi_strbuf_append(tpi_strbuf *buffer, const void *bytes, size_t length)
{
    tpcl_status status = TPCL_OK;
    if (length > buffer->capacity - buffer->length) {
        TPI_REQUIRE(length <= SIZE_MAX / 4 && buffer->capacity <= SIZE_MAX / 4, TPCL_ERR_NOMEM,
                    "text of %zu + %zu bytes", buffer->length, length);
        const size_t capacity = (buffer->length + length) * 2 + 64;
        char *data = realloc(buffer->data, capacity);
        TPI_REQUIRE(data, TPCL_ERR_NOMEM, "text of %zu bytes", capacity);
        buffer->data = data;
        buffer->capacity = capacity;
    }
    if (length > 0) memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
done:
    return status;
}

void tpi_strbuf_free(tpi_strbuf *buffer)
{
    free(buffer->data);
    *buffer = (tpi_strbuf){0};
}

tpcl_status tpi_idbuf_push(tpi_idbuf *buffer, int32_t id)
{
    tpcl_status status = TPCL_OK;
    if (buffer->n == buffer->capacity) {
        const size_t capacity = buffer->capacity * 2 + 32;
        int32_t *data = realloc(buffer->data, capacity * sizeof *data);
        TPI_REQUIRE(data, TPCL_ERR_NOMEM, "list of %zu ids", capacity);
        buffer->data = data;
        buffer->capacity = capacity;
    }
    buffer->data[buffer->n++] = id;
done:
    return status;
}
