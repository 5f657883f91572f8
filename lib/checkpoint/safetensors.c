/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/json.h"

enum { MAX_HEADER = 100000000, MAX_NDIM = 32, LENGTH_WORD = 8 };

/* Types with a known width are checked against their byte ranges, usable or not. */
static const struct dtype {
    const char *name;
    uint64_t bits;
    tpcl_dtype dtype;
} dtypes[] = {
    {"F32", 32, TPCL_F32},          {"F16", 16, TPCL_F16},      {"BF16", 16, TPCL_BF16},
    {"I32", 32, TPCL_I32},          {"F64", 64, TPCL_OTHER},    {"I64", 64, TPCL_OTHER},
    {"U64", 64, TPCL_OTHER},        {"C64", 64, TPCL_OTHER},    {"U32", 32, TPCL_OTHER},
    {"I16", 16, TPCL_OTHER},        {"U16", 16, TPCL_OTHER},    {"I8", 8, TPCL_OTHER},
    {"U8", 8, TPCL_OTHER},          {"BOOL", 8, TPCL_OTHER},    {"F8_E4M3", 8, TPCL_OTHER},
    {"F8_E5M2", 8, TPCL_OTHER},     {"F8_E8M0", 8, TPCL_OTHER}, {"F8_E4M3FNUZ", 8, TPCL_OTHER},
    {"F8_E5M2FNUZ", 8, TPCL_OTHER}, {"F6_E2M3", 6, TPCL_OTHER}, {"F6_E3M2", 6, TPCL_OTHER},
    {"F4", 4, TPCL_OTHER},
};

static tpcl_status read_header(const tpi_file *file, char **text, uint64_t *length)
{
    tpcl_status status = TPCL_OK;
    uint8_t word[LENGTH_WORD];
    uint64_t n = 0;

    TPI_REQUIRE(file->size >= LENGTH_WORD, TPCL_ERR_FORMAT,
                "%s: not a safetensors file: %" PRIu64 " bytes, the header's length alone takes 8",
                file->path, file->size);
    TPI_TRY(tpi_file_read(file, 0, sizeof word, word));
    for (int i = 0; i < LENGTH_WORD; i++) n |= (uint64_t)word[i] << (8 * i);
    TPI_REQUIRE(n <= file->size - LENGTH_WORD, TPCL_ERR_FORMAT,
                "%s: truncated or damaged: a header of %" PRIu64 " bytes in a file of %" PRIu64,
                file->path, n, file->size);
    TPI_REQUIRE(n <= MAX_HEADER, TPCL_ERR_UNSUPPORTED,
                "%s: a header of %" PRIu64 " bytes, tpcl reads at most %d", file->path, n,
                MAX_HEADER);
    *text = malloc((size_t)n + 1);
    TPI_REQUIRE(*text, TPCL_ERR_NOMEM, "%s: out of memory for a header of %" PRIu64 " bytes",
                file->path, n);
    TPI_TRY(tpi_file_read(file, LENGTH_WORD, n, *text));
    TPI_REQUIRE(n >= 2 && (*text)[0] == '{', TPCL_ERR_FORMAT,
                "%s: not a safetensors file: the header does not start with '{'", file->path);
    *length = n;
done:
    return status;
}

static void check_metadata(const tpcl_checkpoint *cp, const tpi_file *file, const json_t *metadata)
{
    const char *key;
    json_t *value;
    bool strings = json_is_object(metadata);
    json_object_foreach((json_t *)metadata, key, value) strings = strings && json_is_string(value);
    if (!strings)
        tpi_log(cp->log, TPCL_LOG_WARN, "%s: '__metadata__' is not an object of strings; ignored",
                file->path);
}

/* Elements of the tensor. More than four dimensions, in tensors no model here uses, are folded. */
static tpcl_status read_shape(const char *path, tpcl_tensor_info *t, const json_t *shape,
                              uint64_t *elements)
{
    tpcl_status status = TPCL_OK;
    const size_t n = json_array_size(shape);
    TPI_REQUIRE(json_is_array(shape) && n <= MAX_NDIM, TPCL_ERR_FORMAT,
                "%s: tensor '%s': 'shape' is not an array of at most %d numbers", path, t->name,
                MAX_NDIM);
    const size_t folded = n > 4 ? n - 4 : 0;
    t->ndim = (int)(n - folded);
    *elements = 1;
    int64_t leading = 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *dim = json_array_get(shape, i);
        TPI_REQUIRE(json_is_integer(dim) && json_integer_value(dim) >= 0, TPCL_ERR_FORMAT,
                    "%s: tensor '%s': dimension %zu of 'shape' is not a number >= 0", path, t->name,
                    i);
        const uint64_t value = (uint64_t)json_integer_value(dim);
        TPI_REQUIRE(tpi_mul_u64(*elements, value, elements) && *elements <= INT64_MAX,
                    TPCL_ERR_FORMAT, "%s: tensor '%s': 'shape' has too many elements", path,
                    t->name);
        if (i <= folded) leading = (int64_t)*elements;
        t->shape[i <= folded ? 0 : i - folded] = i <= folded ? leading : (int64_t)value;
    }
done:
    return status;
}

static tpcl_status check_size(const char *path, const tpcl_tensor_info *t, uint64_t bits,
                              uint64_t elements)
{
    tpcl_status status = TPCL_OK;
    uint64_t total;
    TPI_REQUIRE(tpi_mul_u64(elements, bits, &total), TPCL_ERR_FORMAT,
                "%s: tensor '%s': %" PRIu64 " elements of %s: too many bytes", path, t->name,
                elements, t->type);
    TPI_REQUIRE(total % 8 == 0, TPCL_ERR_FORMAT,
                "%s: tensor '%s': %" PRIu64 " elements of %s do not fill whole bytes", path,
                t->name, elements, t->type);
    TPI_REQUIRE(total / 8 == t->bytes, TPCL_ERR_FORMAT,
                "%s: tensor '%s': %" PRIu64 " elements of %s are %" PRIu64
                " bytes, but data_offsets span %" PRIu64,
                path, t->name, elements, t->type, total / 8, t->bytes);
done:
    return status;
}

/* t->offset stays relative to the data. */
static tpcl_status read_offsets(const char *path, tpcl_tensor_info *t, const json_t *offsets)
{
    tpcl_status status = TPCL_OK;
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    TPI_REQUIRE(json_array_size(offsets) == 2 && json_is_integer(b) && json_is_integer(e),
                TPCL_ERR_FORMAT, "%s: tensor '%s': 'data_offsets' are not two whole numbers", path,
                t->name);
    const json_int_t begin = json_integer_value(b), end = json_integer_value(e);
    TPI_REQUIRE(begin >= 0 && begin <= end, TPCL_ERR_FORMAT,
                "%s: tensor '%s': 'data_offsets' [%lld, %lld] are no range", path, t->name,
                (long long)begin, (long long)end);
    t->offset = (uint64_t)begin;
    t->bytes = (uint64_t)(end - begin);
done:
    return status;
}

static tpcl_status read_tensor(tpcl_checkpoint *cp, const tpi_file *file, const char *name,
                               const json_t *object)
{
    tpcl_status status = TPCL_OK;
    const char *path = file->path;
    tpi_entry *entry;
    uint64_t elements = 0, bits = 0;

    TPI_REQUIRE(json_is_object(object), TPCL_ERR_FORMAT, "%s: tensor '%s' is not an object", path,
                name);
    const json_t *dtype = json_object_get(object, "dtype");
    TPI_REQUIRE(json_is_string(dtype), TPCL_ERR_FORMAT, "%s: tensor '%s': 'dtype' is not a string",
                path, name);
    TPI_TRY(tpi_entry_add(cp, &entry));
    tpcl_tensor_info *t = &entry->info;
    entry->file = file;
    t->file = path;
    t->name = tpi_arena_copy(&cp->arena, name, strlen(name));
    t->type = tpi_arena_copy(&cp->arena, json_string_value(dtype), json_string_length(dtype));
    TPI_REQUIRE(t->name && t->type, TPCL_ERR_NOMEM, "%s: out of memory for a name", path);
    t->dtype = TPCL_OTHER;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, t->type) != 0) continue;
        t->dtype = dtypes[i].dtype;
        bits = dtypes[i].bits;
    }
    TPI_TRY(read_shape(path, t, json_object_get(object, "shape"), &elements));
    TPI_TRY(read_offsets(path, t, json_object_get(object, "data_offsets")));
    if (bits) TPI_TRY(check_size(path, t, bits, elements));
done:
    return status;
}

static int by_offset(const void *pa, const void *pb)
{
    const tpcl_tensor_info *a = *(tpcl_tensor_info *const *)pa, *b = *(tpcl_tensor_info *const *)pb;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* The tensors fill the data from end to end; then their offsets become those of the file. */
static tpcl_status check_layout(const tpi_file *file, tpi_entry *entries, size_t n, uint64_t data)
{
    tpcl_status status = TPCL_OK;
    const uint64_t size = file->size - data;
    uint64_t next = 0;
    tpcl_tensor_info **sorted = malloc((n + 1) * sizeof *sorted);

    TPI_REQUIRE(sorted, TPCL_ERR_NOMEM, "%s: out of memory for %zu tensors", file->path, n);
    for (size_t i = 0; i < n; i++) sorted[i] = &entries[i].info;
    qsort(sorted, n, sizeof *sorted, by_offset);
    for (size_t i = 0; i < n; i++) {
        const tpcl_tensor_info *t = sorted[i];
        TPI_REQUIRE(t->offset <= size && t->bytes <= size - t->offset, TPCL_ERR_FORMAT,
                    "%s: tensor '%s' takes %" PRIu64 " bytes at byte %" PRIu64
                    " of the data, which has %" PRIu64 " (an incomplete download?)",
                    file->path, t->name, t->bytes, t->offset, size);
    }
    for (size_t i = 0; i < n; i++) {
        tpcl_tensor_info *t = sorted[i];
        TPI_REQUIRE(t->offset >= next, TPCL_ERR_FORMAT, "%s: tensors '%s' and '%s' overlap",
                    file->path, sorted[i - 1]->name, t->name);
        TPI_REQUIRE(t->offset == next, TPCL_ERR_FORMAT,
                    "%s: no tensor claims bytes %" PRIu64 " to %" PRIu64
                    " of the data, before '%s'",
                    file->path, next, t->offset, t->name);
        next = t->offset + t->bytes;
        t->offset += data;
    }
    TPI_REQUIRE(next == size, TPCL_ERR_FORMAT,
                "%s: no tensor claims the last %" PRIu64 " bytes of the data", file->path,
                size - next);
done:
    free(sorted);
    return status;
}

tpcl_status tpi_safetensors_read(tpcl_checkpoint *cp, const tpi_file *file)
{
    tpcl_status status = TPCL_OK;
    char *text = NULL;
    uint64_t length = 0;
    json_t *header = NULL, *value;
    const char *name;
    const int first = cp->n_entries;

    TPI_TRY(read_header(file, &text, &length));
    TPI_TRY(tpi_json_parse(text, (size_t)length, file->path, &header));
    json_object_foreach(header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            check_metadata(cp, file, value);
            continue;
        }
        TPI_TRY(read_tensor(cp, file, name, value));
    }
    const size_t n = (size_t)(cp->n_entries - first);
    TPI_TRY(check_layout(file, n ? cp->entries + first : NULL, n, LENGTH_WORD + length));
done:
    json_decref(header);
    free(text);
    return status;
}
