/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/gguf_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    WINDOW = 64 * 1024,
    MAX_HEADER = 256 * 1024 * 1024, /* everything before the tensors' data */
    MAX_STRING = 16 * 1024 * 1024,
    MAX_KEPT = 4 * 1024 * 1024, /* elements of an array that is kept */
    PREVIEW = 4,                /* elements of an array shown to people */
    PREVIEW_BYTES = 400
};

static const struct type {
    const char *name;
    int bytes; /* 0: not of a fixed size */
} types[TPI_GGUF_TYPES] = {
    [TPI_GGUF_U8] = {"u8", 1},         [TPI_GGUF_I8] = {"i8", 1},       [TPI_GGUF_U16] = {"u16", 2},
    [TPI_GGUF_I16] = {"i16", 2},       [TPI_GGUF_U32] = {"u32", 4},     [TPI_GGUF_I32] = {"i32", 4},
    [TPI_GGUF_F32] = {"f32", 4},       [TPI_GGUF_BOOL] = {"bool", 1},   [TPI_GGUF_U64] = {"u64", 8},
    [TPI_GGUF_STRING] = {"string", 0}, [TPI_GGUF_ARRAY] = {"array", 0}, [TPI_GGUF_I64] = {"i64", 8},
    [TPI_GGUF_F64] = {"f64", 8},
};

const char *tpi_gguf_type_name(tpi_gguf_type type)
{
    return types[type].name;
}

tpcl_status tpi_gguf_reader_open(const tpi_file *file, tpi_arena *arena, tpi_gguf_reader *out)
{
    tpcl_status status = TPCL_OK;
    *out = (tpi_gguf_reader){.file = file, .arena = arena};
    out->end = file->size < MAX_HEADER ? file->size : MAX_HEADER;
    out->window = malloc(WINDOW);
    TPI_REQUIRE(out->window, TPCL_ERR_NOMEM, "%s: out of memory for a read buffer", file->path);
done:
    return status;
}

void tpi_gguf_reader_close(tpi_gguf_reader *r)
{
    free(r->window);
    r->window = NULL;
}

static tpcl_status check_left(const tpi_gguf_reader *r, const char *what, uint64_t bytes)
{
    tpcl_status status = TPCL_OK;
    if (bytes <= r->end - r->at) goto done;
    TPI_REQUIRE(r->end == r->file->size, TPCL_ERR_UNSUPPORTED,
                "%s: %s at byte %" PRIu64 ": the header is longer than %d bytes", r->file->path,
                what, r->at, MAX_HEADER);
    TPI_FAIL(TPCL_ERR_FORMAT,
             "%s: truncated or damaged: %s at byte %" PRIu64 " needs %" PRIu64 " bytes, %" PRIu64
             " are left",
             r->file->path, what, r->at, bytes, r->end - r->at);
done:
    return status;
}

static tpcl_status take(tpi_gguf_reader *r, const char *what, uint64_t bytes, void *dst)
{
    tpcl_status status = TPCL_OK;
    char *out = dst;
    TPI_TRY(check_left(r, what, bytes));
    while (bytes > 0) {
        if (r->at < r->window_at || r->at - r->window_at >= r->window_bytes) {
            const uint64_t left = r->end - r->at;
            const size_t fill = left < WINDOW ? (size_t)left : WINDOW;
            r->window_bytes = 0;
            TPI_TRY(tpi_file_read(r->file, r->at, fill, r->window));
            r->window_at = r->at;
            r->window_bytes = fill;
        }
        const size_t from = (size_t)(r->at - r->window_at), have = r->window_bytes - from;
        const size_t step = bytes < have ? (size_t)bytes : have;
        memcpy(out, r->window + from, step);
        out += step;
        r->at += step;
        bytes -= step;
    }
done:
    return status;
}

static uint64_t little_endian(const uint8_t *bytes, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++) v |= (uint64_t)bytes[i] << (8 * i);
    return v;
}

tpcl_status tpi_gguf_read_u32(tpi_gguf_reader *r, const char *what, uint32_t *out)
{
    uint8_t bytes[4] = {0};
    const tpcl_status status = take(r, what, sizeof bytes, bytes);
    *out = (uint32_t)little_endian(bytes, 4);
    return status;
}

tpcl_status tpi_gguf_read_u64(tpi_gguf_reader *r, const char *what, uint64_t *out)
{
    uint8_t bytes[8] = {0};
    const tpcl_status status = take(r, what, sizeof bytes, bytes);
    *out = little_endian(bytes, 8);
    return status;
}

static tpcl_status read_length(tpi_gguf_reader *r, const char *what, uint64_t limit, uint64_t *out)
{
    tpcl_status status = TPCL_OK;
    const uint64_t at = r->at;
    TPI_TRY(tpi_gguf_read_u64(r, what, out));
    TPI_TRY(check_left(r, what, *out));
    TPI_REQUIRE(*out <= limit, TPCL_ERR_FORMAT,
                "%s: %s at byte %" PRIu64 " is %" PRIu64 " bytes long, at most %" PRIu64
                " make sense",
                r->file->path, what, at, *out, limit);
done:
    return status;
}

tpcl_status tpi_gguf_read_string(tpi_gguf_reader *r, const char *what, uint64_t limit,
                                 tpcl_text *out)
{
    tpcl_status status = TPCL_OK;
    uint64_t length;
    TPI_TRY(read_length(r, what, limit, &length));
    char *bytes = tpi_arena_text(r->arena, (size_t)length);
    TPI_REQUIRE(bytes, TPCL_ERR_NOMEM, "%s: out of memory for %s", r->file->path, what);
    TPI_TRY(take(r, what, length, bytes));
    *out = (tpcl_text){bytes, (size_t)length};
done:
    return status;
}

/* A scalar of fixed size as a number, and as people read it. */
static tpcl_status read_scalar(tpi_gguf_reader *r, tpi_gguf_value *v, tpi_gguf_type type,
                               char *shown, size_t room)
{
    tpcl_status status = TPCL_OK;
    uint8_t bytes[8] = {0};
    const int size = types[type].bytes;
    TPI_TRY(take(r, v->key, (uint64_t)size, bytes));
    const uint64_t raw = little_endian(bytes, size);
    if (type == TPI_GGUF_F32 || type == TPI_GGUF_F64) {
        float single;
        const uint32_t raw32 = (uint32_t)raw;
        memcpy(&single, &raw32, sizeof single);
        memcpy(&v->number, &raw, sizeof v->number);
        if (type == TPI_GGUF_F32) v->number = single;
        snprintf(shown, room, "%.*g", type == TPI_GGUF_F32 ? 7 : 16, v->number);
        goto done;
    }
    TPI_REQUIRE(type != TPI_GGUF_BOOL || raw <= 1, TPCL_ERR_FORMAT,
                "%s: '%s' is a boolean of value %" PRIu64, r->file->path, v->key, raw);
    const uint64_t sign = type == TPI_GGUF_I8    ? 0x80
                          : type == TPI_GGUF_I16 ? 0x8000
                          : type == TPI_GGUF_I32 ? 0x80000000u
                                                 : 0;
    v->integer = (int64_t)((raw ^ sign) - sign); /* extends the sign of the narrow types */
    v->too_big = type == TPI_GGUF_U64 && raw > INT64_MAX;
    if (type == TPI_GGUF_BOOL)
        snprintf(shown, room, "%s", raw ? "true" : "false");
    else if (v->too_big)
        snprintf(shown, room, "%" PRIu64, raw);
    else
        snprintf(shown, room, "%" PRId64, v->integer);
done:
    return status;
}

/* Text of at most PREVIEW_BYTES that grows element by element. */
typedef struct preview {
    char text[PREVIEW_BYTES];
    size_t length;
} preview;

static void preview_add(preview *p, const char *text, size_t length)
{
    const size_t left = sizeof p->text - p->length;
    const size_t n = length < left ? length : left;
    memcpy(p->text + p->length, text, n);
    p->length += n;
}

static tpcl_status read_strings(tpi_gguf_reader *r, tpi_gguf_value *v, bool keep, preview *p)
{
    tpcl_status status = TPCL_OK;
    tpcl_text *texts = NULL;
    if (keep) {
        texts = tpi_arena_alloc(r->arena, (size_t)v->count * sizeof *texts);
        TPI_REQUIRE(texts, TPCL_ERR_NOMEM, "%s: out of memory for '%s'", r->file->path, v->key);
    }
    for (uint64_t i = 0; i < v->count; i++) {
        tpcl_text text = {"", 0};
        if (keep || i < PREVIEW) {
            TPI_TRY(tpi_gguf_read_string(r, v->key, MAX_STRING, &text));
        } else {
            uint64_t length;
            TPI_TRY(read_length(r, v->key, MAX_STRING, &length));
            r->at += length;
        }
        if (keep) texts[i] = text;
        if (i >= PREVIEW) continue;
        preview_add(p, i ? ", \"" : " \"", i ? 3 : 2);
        preview_add(p, text.bytes, text.length < 64 ? text.length : 64);
        preview_add(p, "\"", 1);
    }
    v->texts = texts;
done:
    return status;
}

static tpcl_status read_numbers(tpi_gguf_reader *r, tpi_gguf_value *v, bool keep, preview *p)
{
    tpcl_status status = TPCL_OK;
    int32_t *ints = NULL;
    tpi_gguf_value element = {.key = v->key};
    if (keep && v->element == TPI_GGUF_I32) {
        ints = tpi_arena_alloc(r->arena, (size_t)v->count * sizeof *ints);
        TPI_REQUIRE(ints, TPCL_ERR_NOMEM, "%s: out of memory for '%s'", r->file->path, v->key);
    }
    const uint64_t looked_at = ints || v->count < PREVIEW ? v->count : PREVIEW;
    for (uint64_t i = 0; i < looked_at; i++) {
        char shown[32];
        TPI_TRY(read_scalar(r, &element, v->element, shown, sizeof shown));
        if (ints) ints[i] = (int32_t)element.integer;
        if (i >= PREVIEW) continue;
        preview_add(p, i ? ", " : " ", i ? 2 : 1);
        preview_add(p, shown, strlen(shown));
    }
    r->at += (v->count - looked_at) * (uint64_t)types[v->element].bytes;
    v->ints = ints;
done:
    return status;
}

static tpcl_status read_array(tpi_gguf_reader *r, tpi_gguf_value *v, bool keep)
{
    tpcl_status status = TPCL_OK;
    uint32_t element;
    uint64_t bytes;
    preview p = {.length = 0};
    char head[48];

    TPI_TRY(tpi_gguf_read_u32(r, v->key, &element));
    TPI_REQUIRE(element < TPI_GGUF_TYPES, TPCL_ERR_FORMAT,
                "%s: '%s' is an array of elements of unknown type %" PRIu32, r->file->path, v->key,
                element);
    TPI_REQUIRE(element != TPI_GGUF_ARRAY, TPCL_ERR_UNSUPPORTED, "%s: '%s' is an array of arrays",
                r->file->path, v->key);
    v->element = (tpi_gguf_type)element;
    TPI_TRY(tpi_gguf_read_u64(r, v->key, &v->count));
    /* A string takes at least its length word. */
    const uint64_t least = types[element].bytes ? (uint64_t)types[element].bytes : 8;
    if (__builtin_mul_overflow(v->count, least, &bytes)) bytes = UINT64_MAX;
    TPI_TRY(check_left(r, v->key, bytes));
    TPI_REQUIRE(!keep || v->count <= MAX_KEPT, TPCL_ERR_UNSUPPORTED,
                "%s: '%s' has %" PRIu64 " elements, tpcl takes at most %d", r->file->path, v->key,
                v->count, MAX_KEPT);
    snprintf(head, sizeof head, "[%s, %" PRIu64 "]", types[element].name, v->count);
    preview_add(&p, head, strlen(head));
    if (v->element == TPI_GGUF_STRING)
        TPI_TRY(read_strings(r, v, keep, &p));
    else
        TPI_TRY(read_numbers(r, v, keep, &p));
    if (v->count > PREVIEW) preview_add(&p, ", ...", 5);
    v->text = (tpcl_text){tpi_arena_copy(r->arena, p.text, p.length), p.length};
    TPI_REQUIRE(v->text.bytes, TPCL_ERR_NOMEM, "%s: out of memory for '%s'", r->file->path, v->key);
done:
    return status;
}

tpcl_status tpi_gguf_read_value(tpi_gguf_reader *r, tpi_gguf_value *v, bool keep)
{
    tpcl_status status = TPCL_OK;
    uint32_t type;
    char shown[32];

    TPI_TRY(tpi_gguf_read_u32(r, v->key, &type));
    TPI_REQUIRE(type < TPI_GGUF_TYPES, TPCL_ERR_FORMAT,
                "%s: '%s' has a value of unknown type %" PRIu32, r->file->path, v->key, type);
    v->type = (tpi_gguf_type)type;
    if (v->type == TPI_GGUF_ARRAY) {
        TPI_TRY(read_array(r, v, keep));
        goto done;
    }
    if (v->type == TPI_GGUF_STRING) {
        TPI_TRY(tpi_gguf_read_string(r, v->key, MAX_STRING, &v->text));
        goto done;
    }
    TPI_TRY(read_scalar(r, v, v->type, shown, sizeof shown));
    v->text = (tpcl_text){tpi_arena_copy(r->arena, shown, strlen(shown)), strlen(shown)};
    TPI_REQUIRE(v->text.bytes, TPCL_ERR_NOMEM, "%s: out of memory for '%s'", r->file->path, v->key);
done:
    return status;
}
