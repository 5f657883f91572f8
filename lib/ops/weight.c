/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/weight.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "ops/gemm.h"

static int64_t tensor_columns(const tpcl_host_tensor *t)
{
    return t->ndim >= 1 ? t->shape[t->ndim - 1] : 1;
}

static int64_t tensor_rows(const tpcl_host_tensor *t)
{
    return t->ndim >= 2 ? t->shape[t->ndim - 2] : 1;
}

/* Types, and sizes that 64 bits hold: what a host tensor must be before a part of it is asked for.
 */
static tpcl_status tensor_check(const tpcl_host_tensor *t)
{
    tpcl_status status = TPCL_OK;
    uint64_t bytes = 0;
    TPI_REQUIRE(t && t->name, TPCL_ERR_ARG, "weight: the host tensor or its name is NULL");
    TPI_REQUIRE(t->data || t->read, TPCL_ERR_ARG,
                "%s was never loaded: it has neither data nor a read function", t->name);
    TPI_REQUIRE(t->dtype != TPCL_I32 && tpcl_dtype_block_bytes(t->dtype) > 0, TPCL_ERR_UNSUPPORTED,
                "%s: stored as %s, which no layer can use", t->name, tpcl_dtype_name(t->dtype));
    TPI_REQUIRE(t->ndim >= 0 && t->ndim <= 2, TPCL_ERR_SHAPE, "%s: %d dimensions, need 1 or 2",
                t->name, t->ndim);
    const int64_t columns = tensor_columns(t), rows = tensor_rows(t);
    TPI_REQUIRE(rows >= 0 && columns >= 0, TPCL_ERR_SHAPE, "%s: shape [%lld, %lld]", t->name,
                (long long)rows, (long long)columns);
    TPI_REQUIRE(columns % tpcl_dtype_block(t->dtype) == 0, TPCL_ERR_SHAPE,
                "%s: rows of %lld are not whole %s blocks of %d", t->name, (long long)columns,
                tpcl_dtype_name(t->dtype), tpcl_dtype_block(t->dtype));
    TPI_REQUIRE(tpi_mul_u64((uint64_t)rows, (uint64_t)columns, &bytes) &&
                    tpi_mul_u64(bytes, (uint64_t)tpcl_dtype_block_bytes(t->dtype), &bytes) &&
                    bytes <= INT64_MAX,
                TPCL_ERR_SHAPE, "%s: [%lld, %lld] is more than 64 bits can count", t->name,
                (long long)rows, (long long)columns);
done:
    return status;
}

tpcl_status tpi_part_check(const tpi_part *p)
{
    tpcl_status status = TPCL_OK;
    const tpcl_host_tensor *t = p->tensor;
    TPI_TRY(tensor_check(t));
    const int64_t columns = tensor_columns(t), rows = tensor_rows(t);
    TPI_REQUIRE(0 <= p->row0 && p->row0 <= p->row1 && p->row1 <= rows && 0 <= p->col0 &&
                    p->col0 <= p->col1 && p->col1 <= columns && p->col1 - p->col0 <= INT32_MAX,
                TPCL_ERR_SHAPE, "%s [%lld, %lld]: rows %lld..%lld, columns %lld..%lld wanted",
                t->name, (long long)rows, (long long)columns, (long long)p->row0,
                (long long)p->row1, (long long)p->col0, (long long)p->col1);
done:
    return status;
}

/* A caller's function may fail without a message of ours; then this is its message. */
static tpcl_status call_read(const tpcl_host_tensor *t, uint64_t offset, size_t bytes, void *dst)
{
    int rank = -1, last_rank = -1;
    tpcl_status code = TPCL_OK, last_code = TPCL_OK;
    tpcl_last_failure(&last_rank, &last_code);
    tpi_blame(-1, TPCL_OK);
    const tpcl_status status = t->read(t->context, offset, bytes, dst);
    tpcl_last_failure(&rank, &code);
    if (status != TPCL_OK && code == TPCL_OK)
        return tpi_fail(status, "%s: its read function failed (%s) at byte %llu, %zu bytes wanted",
                        t->name, tpcl_status_text(status), (unsigned long long)offset, bytes);
    if (status == TPCL_OK) tpi_blame(last_rank, last_code);
    return status;
}

static tpcl_status tensor_read(const tpcl_host_tensor *t, uint64_t offset, size_t bytes, void *dst)
{
    if (bytes == 0) return TPCL_OK;
    if (!t->data) return call_read(t, offset, bytes, dst);
    memcpy(dst, (const uint8_t *)t->data + offset, bytes);
    return TPCL_OK;
}

tpcl_status tpi_part_read(const tpi_part *p, int64_t row, int64_t n_rows, uint8_t *dst)
{
    tpcl_status status = TPCL_OK;
    const tpcl_host_tensor *t = p->tensor;
    const uint64_t row_bytes = tpi_dtype_bytes(t->dtype, (size_t)tensor_columns(t));
    const uint64_t skip = tpi_dtype_bytes(t->dtype, (size_t)p->col0);
    const size_t width = tpi_dtype_bytes(t->dtype, (size_t)(p->col1 - p->col0));
    const uint64_t first = (uint64_t)(p->row0 + row) * row_bytes;
    if (width == row_bytes) return tensor_read(t, first, (size_t)n_rows * width, dst);
    for (int64_t r = 0; r < n_rows; r++)
        TPI_TRY(
            tensor_read(t, first + (uint64_t)r * row_bytes + skip, width, dst + (size_t)r * width));
done:
    return status;
}

tpcl_status tpi_part_read_f32(const tpi_part *p, int64_t row, float *dst)
{
    tpcl_status status = TPCL_OK;
    const int block = tpcl_dtype_block(p->tensor->dtype);
    /* The columns may begin and end inside a block: read whole blocks, widen, keep the middle. */
    tpi_part whole = *p;
    whole.col0 = p->col0 / block * block;
    whole.col1 = (p->col1 + block - 1) / block * block;
    const size_t n = (size_t)(whole.col1 - whole.col0);
    uint8_t *raw = malloc(tpi_dtype_bytes(p->tensor->dtype, n) + 1);
    float *wide = malloc(n * sizeof *wide + 1);
    TPI_REQUIRE(raw && wide, TPCL_ERR_NOMEM, "%s: a row of %zu", p->tensor->name, n);
    TPI_TRY(tpi_part_read(&whole, row, 1, raw));
    tpi_widen(p->tensor->dtype, raw, n, wide);
    memcpy(dst, wide + (p->col0 - whole.col0), (size_t)(p->col1 - p->col0) * sizeof *dst);
done:
    free(raw);
    free(wide);
    return status;
}

tpcl_dtype tpi_weight_dtype(const tpi_part *parts, int n_parts)
{
    const tpcl_dtype dtype = n_parts > 0 ? parts[0].tensor->dtype : TPCL_F32;
    for (int i = 0; i < n_parts; i++) {
        const int block = tpcl_dtype_block(dtype);
        if (parts[i].tensor->dtype != dtype) return TPCL_F32;
        if (parts[i].col0 % block != 0 || parts[i].col1 % block != 0) return TPCL_F32;
    }
    return dtype;
}

size_t tpi_weight_panel_bytes(tpcl_dtype dtype, int k)
{
    return tpi_dtype_bytes(dtype, (size_t)k) * TPI_PANEL;
}

/* Where the next row comes from while panels are filled. */
typedef struct row_cursor {
    const tpi_part *parts;
    int n_parts, part;
    int64_t row;
} row_cursor;

/* The next `want` rows or fewer: as many as lie together in one part. */
static tpcl_status next_rows(row_cursor *c, tpcl_dtype dtype, int64_t want, uint8_t *dst,
                             int64_t *got)
{
    while (c->part < c->n_parts && c->row == c->parts[c->part].row1 - c->parts[c->part].row0) {
        c->part++;
        c->row = 0;
    }
    *got = 0;
    if (c->part == c->n_parts) return TPCL_OK;
    const tpi_part *p = &c->parts[c->part];
    const int64_t left = p->row1 - p->row0 - c->row;
    tpcl_status status = TPCL_OK;
    if (p->tensor->dtype == dtype && p->col0 % tpcl_dtype_block(dtype) == 0 &&
        p->col1 % tpcl_dtype_block(dtype) == 0) {
        *got = left < want ? left : want;
        status = tpi_part_read(p, c->row, *got, dst);
    } else {
        *got = 1;
        status = tpi_part_read_f32(p, c->row, (float *)(void *)dst);
    }
    c->row += *got;
    return status;
}

/* `raw` holds the rows of `batch` panels and one row of zeros behind them. */
static tpcl_status fill(tpi_weight *w, const tpi_part *parts, int n_parts, uint8_t *raw,
                        uint8_t *packed, int batch)
{
    tpcl_status status = TPCL_OK;
    const size_t row_bytes = tpi_dtype_bytes(w->dtype, (size_t)w->k);
    const size_t panel_bytes = tpi_weight_panel_bytes(w->dtype, w->k);
    const uint8_t *zeros = raw + panel_bytes * (size_t)batch;
    row_cursor cursor = {.parts = parts, .n_parts = n_parts};
    size_t offset = 0;

    for (int done_rows = 0; done_rows < w->n; done_rows += batch * TPI_PANEL) {
        const int rows =
            w->n - done_rows < batch * TPI_PANEL ? w->n - done_rows : batch * TPI_PANEL;
        for (int64_t have = 0, got = 0; have < rows; have += got)
            TPI_TRY(
                next_rows(&cursor, w->dtype, rows - have, raw + (size_t)have * row_bytes, &got));
        const int panels = (rows + TPI_PANEL - 1) / TPI_PANEL;
        for (int p = 0; p < panels; p++) {
            const uint8_t *lanes[TPI_PANEL];
            for (int i = 0; i < TPI_PANEL; i++) {
                const int row = p * TPI_PANEL + i;
                lanes[i] = row < rows ? raw + (size_t)row * row_bytes : zeros;
            }
            tpi_pack_panel(w->dtype, lanes, w->k, packed + (size_t)p * panel_bytes);
        }
        const size_t bytes = (size_t)panels * panel_bytes;
        TPI_TRY(TPI_CL(clEnqueueWriteBuffer(w->dev->queue, w->mem, CL_TRUE, offset, bytes, packed,
                                            0, NULL, NULL)));
        offset += bytes;
    }
done:
    return status;
}

tpcl_status tpi_weight_create(tpcl_device *dev, const tpi_part *parts, int n_parts,
                              tpi_weight **out)
{
    tpcl_status status = TPCL_OK;
    tpi_weight *w = NULL;
    uint8_t *raw = NULL, *packed = NULL;
    int64_t n = 0;

    *out = NULL;
    for (int i = 0; i < n_parts; i++) {
        TPI_TRY(tpi_part_check(&parts[i]));
        TPI_REQUIRE(parts[i].col1 - parts[i].col0 == parts[0].col1 - parts[0].col0, TPCL_ERR_SHAPE,
                    "%s: %lld columns beside %lld of %s", parts[i].tensor->name,
                    (long long)(parts[i].col1 - parts[i].col0),
                    (long long)(parts[0].col1 - parts[0].col0), parts[0].tensor->name);
        n += parts[i].row1 - parts[i].row0;
        TPI_REQUIRE(n <= INT32_MAX - TPI_PANEL, TPCL_ERR_SHAPE,
                    "%s: %lld rows on one rank, the most are %d", parts[i].tensor->name,
                    (long long)n, INT32_MAX - TPI_PANEL);
    }
    w = calloc(1, sizeof *w);
    TPI_REQUIRE(w, TPCL_ERR_NOMEM, "weight object");
    w->dev = tpi_device_retain(dev);
    w->n = (int)n;
    w->k = n_parts > 0 ? (int)(parts[0].col1 - parts[0].col0) : 0;
    w->dtype = tpi_weight_dtype(parts, n_parts);
    const size_t panel_bytes = tpi_weight_panel_bytes(w->dtype, w->k);
    const int panels = (w->n + TPI_PANEL - 1) / TPI_PANEL;
    w->bytes = panel_bytes * (size_t)panels;
    if (w->bytes > 0) {
        /* About a megabyte at a time: few uploads, little memory. */
        int batch = (int)((1u << 20) / panel_bytes) + 1;
        if (batch > panels) batch = panels;
        TPI_TRY(tpi_buffer_create(dev, w->bytes, parts[0].tensor->name, &w->mem));
        raw = calloc(1, panel_bytes * (size_t)batch + panel_bytes / TPI_PANEL);
        packed = malloc(panel_bytes * (size_t)batch);
        TPI_REQUIRE(raw && packed, TPCL_ERR_NOMEM, "%s: staging of %zu bytes",
                    parts[0].tensor->name, 2 * panel_bytes * (size_t)batch);
        TPI_TRY(fill(w, parts, n_parts, raw, packed, batch));
        TPI_TRY(tpi_gemm_reserve(w));
    }
    *out = w;
    w = NULL;
done:
    free(raw);
    free(packed);
    tpi_weight_destroy(&w);
    return status;
}

void tpi_weight_destroy(tpi_weight **weight)
{
    if (!weight || !*weight) return;
    tpi_buffer_release(&(*weight)->mem);
    tpcl_device_close(&(*weight)->dev);
    free(*weight);
    *weight = NULL;
}
