/* GGUF: the header of a file as read, and look-ups in its metadata. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_GGUF_H
#define TPI_CHECKPOINT_GGUF_H

#include "checkpoint/checkpoint.h"

typedef enum tpi_gguf_type {
    TPI_GGUF_U8,
    TPI_GGUF_I8,
    TPI_GGUF_U16,
    TPI_GGUF_I16,
    TPI_GGUF_U32,
    TPI_GGUF_I32,
    TPI_GGUF_F32,
    TPI_GGUF_BOOL,
    TPI_GGUF_STRING,
    TPI_GGUF_ARRAY,
    TPI_GGUF_U64,
    TPI_GGUF_I64,
    TPI_GGUF_F64,
    TPI_GGUF_TYPES
} tpi_gguf_type;

typedef struct tpi_gguf_value {
    const char *key;
    tpi_gguf_type type;
    /* scalars: whole numbers and booleans, or floats. A u64 above 2^63 - 1 has too_big set. */
    int64_t integer;
    double number;
    bool too_big;
    tpcl_text text; /* a string; of any other type, how people read it */
    /* an array; its elements only where tpi_gguf keeps them (the tokenizer's arrays) */
    tpi_gguf_type element;
    uint64_t count;
    const tpcl_text *texts;
    const int32_t *ints;
} tpi_gguf_value;

typedef struct tpi_gguf {
    const tpi_file *file;
    uint32_t version;
    uint64_t alignment, data; /* data: where the tensors start */
    uint64_t n_tensors, n_values;
    tpi_gguf_value *values;
    const tpi_gguf_value **by_key; /* sorted */
} tpi_gguf;

/* NULL when the key is absent. */
const tpi_gguf_value *tpi_gguf_find(const tpi_gguf *g, const char *key);
const char *tpi_gguf_type_name(tpi_gguf_type type);

/* Typed look-ups. Absent leaves *out alone, or is an error where `required`. */
tpcl_status tpi_gguf_get_int(const tpi_gguf *g, const char *key, bool required, int *out);
tpcl_status tpi_gguf_get_number(const tpi_gguf *g, const char *key, bool required, double *out);
tpcl_status tpi_gguf_get_string(const tpi_gguf *g, const char *key, bool required, tpcl_text *out);

/* From the metadata and the tensors' shapes to a configuration and a tokenizer's source. */
tpcl_status tpi_gguf_config(tpcl_checkpoint *cp, const tpi_gguf *g);
tpcl_status tpi_gguf_tokenizer(tpcl_checkpoint *cp, const tpi_gguf *g);

#endif
