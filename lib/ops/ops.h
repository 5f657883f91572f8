/* Single-device operations beside those of tpcl/ops.h: checks and launch; each has its reference in
 * tpcl/reference.h. They enqueue on the device's in-order queue and never block or allocate (create
 * calls do). Sizes in elements, row-major, f32 unless stated. Errors: TPCL_ERR_SHAPE,
 * TPCL_ERR_DEVICE. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_OPS_OPS_H
#define TPI_OPS_OPS_H

#include <stdint.h>
#include <tpcl/ops.h>
#include <tpcl/reference.h>
#include <tpcl/shard.h>
#include <tpcl/tensor.h>

#include "ops/weight.h"

/* y [tokens, n] = x [tokens, k] W^T + bias [n] (NULL = none). */
tpcl_status tpi_linear(const tpi_weight *w, const tpcl_tensor *x, const tpcl_tensor *bias,
                       tpcl_tensor *y, int tokens);

/* The same for one token on a CPU whose local memory holds a row. */
bool tpi_linear_row_fits(const tpi_weight *w, int tokens);
tpcl_status tpi_linear_row(const tpi_weight *w, const tpcl_tensor *x, const tpcl_tensor *bias,
                           tpcl_tensor *y);

/* A row that is made on the way into a product: h + add, normalised. */
typedef struct tpi_norm_args {
    const tpcl_tensor *h, *add; /* [k]; add may be NULL */
    const tpcl_tensor *norm;    /* [k] */
    tpcl_tensor *sum;           /* [k] h + add, where there is add; neither of them */
    float eps;
} tpi_norm_args;
/* Is there one launch for this? As above; for SwiGLU outputs in whole panels. */
bool tpi_norm_linear_fits(const tpi_weight *w, int tokens, bool swiglu);
/* y [n] = norm(h + add) W^T + bias [n] (NULL = none); with `swiglu` y [n / 2] = SwiGLU of that. */
tpcl_status tpi_norm_linear(const tpi_weight *w, const tpi_norm_args *in, const tpcl_tensor *bias,
                            tpcl_tensor *y, bool swiglu);

/* y [tokens, k] = the weight's rows of the ids: first those of the words `base`, then those of the
 * words `added`; zero rows where another rank owns the word. */
typedef struct tpi_embed_args {
    const tpi_weight *weight;
    const tpcl_tensor *ids; /* [tokens] I32 */
    tpcl_tensor *y;
    int tokens;
    tpcl_range base, added; /* this rank's words, in ids; together the weight's rows */
    int vocab;              /* ids outside [0, vocab) give a row of NaN; 0 = zeros, as any other */
} tpi_embed_args;
tpcl_status tpi_embed(const tpi_embed_args *args);

/* A layer's cache on one rank, and how the head rows go in and out of it. */
typedef struct tpi_kv_layer {
    cl_mem k, v; /* [blocks, kv_heads, block_size, head_dim or v_head_dim]; NULL without heads */
} tpi_kv_layer;

typedef struct tpi_heads {
    int heads, kv_heads; /* on this rank */
    int head_dim, v_head_dim;
    int block_size;
    bool kv_f32, interleaved;
} tpi_heads;
/* Columns of q, k and v together. */
static inline int64_t tpi_qkv_columns(const tpi_heads *h)
{
    return ((int64_t)h->heads + h->kv_heads) * h->head_dim + (int64_t)h->kv_heads * h->v_head_dim;
}
/* Is that a head's size that the kernels take? */
static inline bool tpi_head_dim_ok(int dim)
{
    return dim >= 2 && dim <= 256 && dim % 2 == 0;
}

typedef struct tpi_rope_args {
    tpi_heads heads;
    tpcl_tensor *qkv;                   /* [tokens, tpi_qkv_columns()] */
    const tpcl_tensor *angles;          /* [context, head_dim/2, 2] (cos, sin); NULL = as it is */
    const tpcl_tensor *pos, *slot;      /* [tokens] I32 */
    const tpcl_tensor *q_norm, *k_norm; /* [head_dim], or NULL both */
    const tpi_kv_layer *cache;
    int tokens;
    float eps;
} tpi_rope_args;
tpcl_status tpi_rope_store(const tpi_rope_args *a);

typedef struct tpi_attention_args {
    tpi_heads heads;
    const tpcl_tensor *qkv;        /* as tpi_rope_args */
    tpcl_tensor *out;              /* [tokens, heads * v_head_dim] */
    const tpcl_tensor *pos, *seq;  /* [tokens] I32 */
    const tpcl_tensor *table;      /* [sequences, table_width] I32 */
    const tpcl_tensor *row_tiles;  /* [n_row_tiles, 2] I32 */
    const tpcl_tensor *head_tiles; /* [n_head_tiles, 4] I32 */
    const tpi_kv_layer *cache;
    int tokens, n_row_tiles, n_head_tiles, table_width;
    int pairs;   /* most (token, head) pairs of a tile pair: 1, 2 or 4 */
    int window;  /* keys that a token sees; 0 = all */
    float scale; /* of the scores; 0 = 1 / sqrt(head_dim) */
} tpi_attention_args;
enum { TPI_ATTENTION_PAIRS = 4 };
tpcl_status tpi_attention(const tpi_attention_args *a);

/* Elements [begin, end) of a one-dimensional host tensor, as f32. */
tpcl_status tpi_vector_range(tpcl_device *dev, const tpcl_host_tensor *tensor, int64_t begin,
                             int64_t end, tpcl_tensor **out);

/* Zeroes the first `elements` 4-byte elements. */
tpcl_status tpi_fill_zero(tpcl_device *dev, cl_mem mem, uint64_t elements);

#endif
