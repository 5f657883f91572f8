/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/gguf.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/gguf_reader.h"
#include "checkpoint/weights.h"

enum {
    MAX_KEY = 65535,
    MAX_NAME = 63,
    LEAST_VALUE = 14,  /* bytes of the shortest key and value: length, one byte, type, one byte */
    LEAST_TENSOR = 25, /* of the shortest tensor record: length, one byte, n_dims, type, offset */
    DEFAULT_ALIGNMENT = 32
};

/* By type id; a hole is an id that was withdrawn. Those that tpcl cannot compute with are here too:
 * their sizes are part of the check that the tensors fill the file without gap or overlap. */
static const struct tensor_type {
    const char *name;
    uint32_t block, bytes;
    tpcl_dtype dtype;
} tensor_types[] = {
    [0] = {"F32", 1, 4, TPCL_F32},           [1] = {"F16", 1, 2, TPCL_F16},
    [2] = {"Q4_0", 32, 18, TPCL_Q4_0},       [3] = {"Q4_1", 32, 20, TPCL_Q4_1},
    [6] = {"Q5_0", 32, 22, TPCL_OTHER},      [7] = {"Q5_1", 32, 24, TPCL_OTHER},
    [8] = {"Q8_0", 32, 34, TPCL_Q8_0},       [9] = {"Q8_1", 32, 36, TPCL_OTHER},
    [10] = {"Q2_K", 256, 84, TPCL_OTHER},    [11] = {"Q3_K", 256, 110, TPCL_OTHER},
    [12] = {"Q4_K", 256, 144, TPCL_OTHER},   [13] = {"Q5_K", 256, 176, TPCL_OTHER},
    [14] = {"Q6_K", 256, 210, TPCL_OTHER},   [15] = {"Q8_K", 256, 292, TPCL_OTHER},
    [16] = {"IQ2_XXS", 256, 66, TPCL_OTHER}, [17] = {"IQ2_XS", 256, 74, TPCL_OTHER},
    [18] = {"IQ3_XXS", 256, 98, TPCL_OTHER}, [19] = {"IQ1_S", 256, 50, TPCL_OTHER},
    [20] = {"IQ4_NL", 32, 18, TPCL_OTHER},   [21] = {"IQ3_S", 256, 110, TPCL_OTHER},
    [22] = {"IQ2_S", 256, 82, TPCL_OTHER},   [23] = {"IQ4_XS", 256, 136, TPCL_OTHER},
    [24] = {"I8", 1, 1, TPCL_OTHER},         [25] = {"I16", 1, 2, TPCL_OTHER},
    [26] = {"I32", 1, 4, TPCL_I32},          [27] = {"I64", 1, 8, TPCL_OTHER},
    [28] = {"F64", 1, 8, TPCL_OTHER},        [29] = {"IQ1_M", 256, 56, TPCL_OTHER},
    [30] = {"BF16", 1, 2, TPCL_BF16},        [34] = {"TQ1_0", 256, 54, TPCL_OTHER},
    [35] = {"TQ2_0", 256, 66, TPCL_OTHER},   [39] = {"MXFP4", 32, 17, TPCL_OTHER},
    [40] = {"NVFP4", 64, 36, TPCL_OTHER},    [41] = {"Q1_0", 128, 18, TPCL_OTHER},
};

static tpcl_status read_head(tpi_gguf_reader *r, tpi_gguf *g)
{
    tpcl_status status = TPCL_OK;
    const char *path = g->file->path;
    uint32_t magic;

    TPI_REQUIRE(g->file->size >= 24, TPCL_ERR_FORMAT,
                "%s: not a GGUF file: %" PRIu64 " bytes, a GGUF header alone has 24", path,
                g->file->size);
    TPI_TRY(tpi_gguf_read_u32(r, "the magic", &magic));
    TPI_REQUIRE(magic == 0x46554747u, TPCL_ERR_FORMAT,
                "%s: not a GGUF file: it starts with 0x%08" PRIx32
                " instead of \"GGUF\" (for safetensors, give the folder)",
                path, magic);
    TPI_TRY(tpi_gguf_read_u32(r, "the version", &g->version));
    TPI_REQUIRE((g->version & 0xffffu) != 0, TPCL_ERR_UNSUPPORTED,
                "%s: GGUF version word 0x%08" PRIx32 ": a big-endian file, or damage", path,
                g->version);
    TPI_REQUIRE(g->version == 2 || g->version == 3, TPCL_ERR_UNSUPPORTED,
                "%s: GGUF version %" PRIu32 ", tpcl reads 2 and 3", path, g->version);
    TPI_TRY(tpi_gguf_read_u64(r, "the tensor count", &g->n_tensors));
    TPI_TRY(tpi_gguf_read_u64(r, "the metadata count", &g->n_values));
    const uint64_t left = g->file->size - r->at;
    TPI_REQUIRE(g->n_values <= left / LEAST_VALUE, TPCL_ERR_FORMAT,
                "%s: %" PRIu64 " metadata values cannot fit in %" PRIu64 " bytes", path,
                g->n_values, left);
    TPI_REQUIRE(g->n_tensors <= left / LEAST_TENSOR, TPCL_ERR_FORMAT,
                "%s: %" PRIu64 " tensors cannot fit in %" PRIu64 " bytes", path, g->n_tensors,
                left);
    TPI_REQUIRE(
        g->n_values <= TPI_MAX_METADATA && g->n_tensors <= TPI_MAX_TENSORS, TPCL_ERR_UNSUPPORTED,
        "%s: %" PRIu64 " metadata values and %" PRIu64 " tensors, tpcl takes at most %d and %d",
        path, g->n_values, g->n_tensors, TPI_MAX_METADATA, TPI_MAX_TENSORS);
done:
    return status;
}

static bool plain_text(tpcl_text text)
{
    for (size_t i = 0; i < text.length; i++) {
        const unsigned char c = (unsigned char)text.bytes[i];
        if (c < 0x20 || c == 0x7f) return false;
    }
    return text.length > 0;
}

/* The arrays that are of use; all others are passed over. */
static bool is_kept(const char *key)
{
    return !strcmp(key, "tokenizer.ggml.tokens") || !strcmp(key, "tokenizer.ggml.merges") ||
           !strcmp(key, "tokenizer.ggml.token_type");
}

static int by_key(const void *pa, const void *pb)
{
    const tpi_gguf_value *const *a = pa, *const *b = pb;
    return strcmp((*a)->key, (*b)->key);
}

static tpcl_status read_values(tpcl_checkpoint *cp, tpi_gguf_reader *r, tpi_gguf *g)
{
    tpcl_status status = TPCL_OK;
    const char *path = g->file->path;
    const size_t n = (size_t)g->n_values;

    g->values = tpi_arena_alloc(&cp->arena, n * sizeof *g->values);
    g->by_key = tpi_arena_alloc(&cp->arena, n * sizeof *g->by_key);
    TPI_REQUIRE(g->values && g->by_key, TPCL_ERR_NOMEM, "%s: out of memory for %zu values", path,
                n);
    for (size_t i = 0; i < n; i++) {
        tpi_gguf_value *v = &g->values[i];
        tpcl_text key;
        const uint64_t at = r->at;
        TPI_TRY(tpi_gguf_read_string(r, "a metadata key", MAX_KEY, &key));
        TPI_REQUIRE(plain_text(key), TPCL_ERR_FORMAT,
                    "%s: the metadata key at byte %" PRIu64 " is empty or not plain text", path,
                    at);
        v->key = key.bytes;
        g->by_key[i] = v;
        TPI_TRY(tpi_gguf_read_value(r, v, is_kept(v->key)));
        TPI_TRY(tpi_metadata_add(cp, v->key, v->text.bytes, v->text.length));
    }
    qsort(g->by_key, n, sizeof *g->by_key, by_key);
    for (size_t i = 1; i < n; i++)
        TPI_REQUIRE(strcmp(g->by_key[i - 1]->key, g->by_key[i]->key) != 0, TPCL_ERR_FORMAT,
                    "%s: the metadata key '%s' comes twice", path, g->by_key[i]->key);
done:
    return status;
}

static tpcl_status read_alignment(tpi_gguf *g)
{
    tpcl_status status = TPCL_OK;
    const tpi_gguf_value *v = tpi_gguf_find(g, "general.alignment");
    g->alignment = DEFAULT_ALIGNMENT;
    if (!v) goto done;
    TPI_REQUIRE(v->type == TPI_GGUF_U32, TPCL_ERR_FORMAT,
                "%s: 'general.alignment' is a %s, not a u32", g->file->path,
                tpi_gguf_type_name(v->type));
    g->alignment = (uint64_t)v->integer;
    TPI_REQUIRE(g->alignment != 0 && (g->alignment & (g->alignment - 1)) == 0, TPCL_ERR_FORMAT,
                "%s: 'general.alignment' is %" PRIu64 ", not a power of two", g->file->path,
                g->alignment);
done:
    return status;
}

/* Dimensions and byte size. GGUF writes the contiguous dimension first. */
static tpcl_status read_shape(tpi_gguf_reader *r, tpcl_tensor_info *t)
{
    tpcl_status status = TPCL_OK;
    const char *path = r->file->path;
    uint32_t n_dims, id;
    uint64_t elements = 1, dim, row = 1;

    TPI_TRY(tpi_gguf_read_u32(r, "a tensor's n_dims", &n_dims));
    TPI_REQUIRE(n_dims <= 4, TPCL_ERR_FORMAT,
                "%s: tensor '%s' has %" PRIu32 " dimensions, GGUF has at most 4", path, t->name,
                n_dims);
    t->ndim = (int)n_dims;
    for (int i = 0; i < t->ndim; i++) {
        TPI_TRY(tpi_gguf_read_u64(r, "a tensor's dimension", &dim));
        TPI_REQUIRE(
            dim <= INT64_MAX && tpi_mul_u64(elements, dim, &elements) && elements <= INT64_MAX,
            TPCL_ERR_FORMAT, "%s: tensor '%s': dimension %d is %" PRIu64 ": too many elements",
            path, t->name, i, dim);
        t->shape[t->ndim - 1 - i] = (int64_t)dim;
        if (i == 0) row = dim;
    }
    TPI_TRY(tpi_gguf_read_u32(r, "a tensor's type", &id));
    const bool known = id < sizeof tensor_types / sizeof tensor_types[0] && tensor_types[id].name;
    TPI_REQUIRE(known, TPCL_ERR_FORMAT,
                "%s: tensor '%s' has type id %" PRIu32 ", which tpcl does not know", path, t->name,
                id);
    const struct tensor_type *type = &tensor_types[id];
    t->type = type->name;
    t->dtype = type->dtype;
    TPI_REQUIRE(row % type->block == 0, TPCL_ERR_FORMAT,
                "%s: tensor '%s': rows of %" PRIu64
                " are not a multiple of %s's blocks of %" PRIu32,
                path, t->name, row, type->name, type->block);
    TPI_REQUIRE(tpi_mul_u64(elements / type->block, type->bytes, &t->bytes) &&
                    t->bytes <= INT64_MAX,
                TPCL_ERR_FORMAT, "%s: tensor '%s': %" PRIu64 " elements of %s: too many bytes",
                path, t->name, elements, type->name);
done:
    return status;
}

/* `next` is where the tensor must start, relative to the data; moved behind it. */
static tpcl_status read_tensor(tpcl_checkpoint *cp, tpi_gguf_reader *r, const tpi_gguf *g,
                               uint64_t *next)
{
    tpcl_status status = TPCL_OK;
    const char *path = g->file->path;
    tpi_entry *entry;
    tpcl_text name;
    uint64_t offset, end;

    const uint64_t at = r->at;
    TPI_TRY(tpi_gguf_read_string(r, "a tensor's name", MAX_NAME, &name));
    TPI_REQUIRE(plain_text(name), TPCL_ERR_FORMAT,
                "%s: the tensor name at byte %" PRIu64 " is empty or not plain text", path, at);
    TPI_TRY(tpi_entry_add(cp, &entry));
    entry->file = g->file;
    entry->info.name = name.bytes;
    entry->info.file = path;
    TPI_TRY(read_shape(r, &entry->info));
    TPI_TRY(tpi_gguf_read_u64(r, "a tensor's offset", &offset));
    TPI_REQUIRE(offset == *next, TPCL_ERR_FORMAT,
                "%s: tensor '%s' is at offset %" PRIu64 ", expected %" PRIu64
                " (tensors follow each other, aligned to %" PRIu64 ")",
                path, name.bytes, offset, *next, g->alignment);
    entry->info.offset = offset;
    const bool fits =
        tpi_add_u64(offset, entry->info.bytes, &end) && tpi_add_u64(end, g->alignment - 1, &end);
    TPI_REQUIRE(fits && end <= INT64_MAX, TPCL_ERR_FORMAT,
                "%s: tensor '%s': offset %" PRIu64 " and %" PRIu64 " bytes overflow", path,
                name.bytes, offset, entry->info.bytes);
    *next = end & ~(g->alignment - 1);
done:
    return status;
}

static tpcl_status read_tensors(tpcl_checkpoint *cp, tpi_gguf_reader *r, tpi_gguf *g)
{
    tpcl_status status = TPCL_OK;
    uint64_t next = 0, end;

    for (uint64_t i = 0; i < g->n_tensors; i++) TPI_TRY(read_tensor(cp, r, g, &next));
    g->data = (r->at + g->alignment - 1) & ~(g->alignment - 1); /* both below 2^33 */
    for (int i = 0; i < cp->n_entries; i++) {
        tpcl_tensor_info *t = &cp->entries[i].info;
        TPI_REQUIRE(tpi_add_u64(t->offset, g->data, &t->offset) &&
                        tpi_add_u64(t->offset, t->bytes, &end) && end <= g->file->size,
                    TPCL_ERR_FORMAT,
                    "%s: tensor '%s' takes %" PRIu64 " bytes at byte %" PRIu64
                    ", the file ends at %" PRIu64 " (an incomplete download?)",
                    g->file->path, t->name, t->bytes, t->offset, g->file->size);
    }
done:
    return status;
}

tpcl_status tpi_gguf_open(tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    tpi_gguf_reader reader = {.window = NULL};
    tpi_gguf g = {.file = NULL};
    int parts = 1;

    cp->files = calloc(1, sizeof *cp->files);
    TPI_REQUIRE(cp->files, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
    TPI_TRY(tpi_file_open(cp->path, cp->files));
    cp->n_files = 1;
    g.file = cp->files;
    TPI_TRY(tpi_gguf_reader_open(g.file, &cp->arena, &reader));
    TPI_TRY(read_head(&reader, &g));
    cp->format = g.version == 2 ? "gguf v2" : "gguf v3";
    TPI_TRY(read_values(cp, &reader, &g));
    TPI_TRY(read_alignment(&g));
    TPI_TRY(tpi_gguf_get_int(&g, "split.count", false, &parts));
    TPI_REQUIRE(parts <= 1, TPCL_ERR_UNSUPPORTED,
                "%s: one of %d parts of a split model; tpcl reads whole files: merge them first",
                cp->path, parts);
    TPI_TRY(read_tensors(cp, &reader, &g));
    TPI_TRY(tpi_entries_index(cp));
    TPI_TRY(tpi_gguf_config(cp, &g));
    TPI_TRY(tpi_gguf_tokenizer(cp, &g));
done:
    tpi_gguf_reader_close(&reader);
    return status;
}

const tpi_gguf_value *tpi_gguf_find(const tpi_gguf *g, const char *key)
{
    const tpi_gguf_value wanted = {.key = key}, *p = &wanted;
    const tpi_gguf_value **found = bsearch(&p, g->by_key, (size_t)g->n_values, sizeof p, by_key);
    return found ? *found : NULL;
}

static tpcl_status find(const tpi_gguf *g, const char *key, bool required,
                        const tpi_gguf_value **out)
{
    tpcl_status status = TPCL_OK;
    *out = tpi_gguf_find(g, key);
    TPI_REQUIRE(*out || !required, TPCL_ERR_FORMAT, "%s: the metadata key '%s' is missing",
                g->file->path, key);
done:
    return status;
}

static bool is_integer(tpi_gguf_type type)
{
    return type <= TPI_GGUF_I32 || type == TPI_GGUF_U64 || type == TPI_GGUF_I64;
}

tpcl_status tpi_gguf_get_int(const tpi_gguf *g, const char *key, bool required, int *out)
{
    tpcl_status status = TPCL_OK;
    const tpi_gguf_value *v;
    TPI_TRY(find(g, key, required, &v));
    if (!v) goto done;
    /* Some models write one value a layer where most write one. */
    TPI_REQUIRE(v->type != TPI_GGUF_ARRAY, TPCL_ERR_UNSUPPORTED,
                "%s: '%s' is an array: layers that differ are not supported", g->file->path, key);
    TPI_REQUIRE(is_integer(v->type), TPCL_ERR_FORMAT, "%s: '%s' is a %s, not an integer",
                g->file->path, key, tpi_gguf_type_name(v->type));
    TPI_REQUIRE(!v->too_big && v->integer >= INT_MIN && v->integer <= INT_MAX, TPCL_ERR_FORMAT,
                "%s: '%s' is %s: out of range", g->file->path, key, v->text.bytes);
    *out = (int)v->integer;
done:
    return status;
}

tpcl_status tpi_gguf_get_number(const tpi_gguf *g, const char *key, bool required, double *out)
{
    tpcl_status status = TPCL_OK;
    const tpi_gguf_value *v;
    TPI_TRY(find(g, key, required, &v));
    if (!v) goto done;
    TPI_REQUIRE(v->type == TPI_GGUF_F32 || v->type == TPI_GGUF_F64, TPCL_ERR_FORMAT,
                "%s: '%s' is a %s, not a float", g->file->path, key, tpi_gguf_type_name(v->type));
    *out = v->number;
done:
    return status;
}

tpcl_status tpi_gguf_get_string(const tpi_gguf *g, const char *key, bool required, tpcl_text *out)
{
    tpcl_status status = TPCL_OK;
    const tpi_gguf_value *v;
    TPI_TRY(find(g, key, required, &v));
    if (!v) goto done;
    TPI_REQUIRE(v->type == TPI_GGUF_STRING, TPCL_ERR_FORMAT, "%s: '%s' is a %s, not a string",
                g->file->path, key, tpi_gguf_type_name(v->type));
    *out = v->text;
done:
    return status;
}
