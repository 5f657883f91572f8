/* The inside of a loaded model. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_MODEL_MODEL_H
#define TPI_MODEL_MODEL_H

#include <tpcl/attention.h>
#include <tpcl/linear.h>
#include <tpcl/model.h>
#include <tpcl/vocab.h>

#include "layers/group.h"
#include "model/plan.h"
#include "ops/ops.h"

typedef struct tpi_layer {
    tpcl_tensor *attn_norm, *ffn_norm; /* [hidden] */
    tpcl_linear *qkv, *o, *gate_up, *down;
    tpcl_attention *attention;
    int inter;      /* of this rank */
    bool like_last; /* stored like the layer before: nothing new to compile */
} tpi_layer;

struct tpcl_model {
    tpcl_group *group;
    tpcl_model_config config;
    tpi_cache_plan plan;
    int valid_vocab;
    tpcl_log log;
    tpcl_model_share share;
    tpcl_embedding *embedding;
    tpcl_lm_head *head;
    tpcl_tensor *out_norm, *rope_table;
    tpi_layer *layers;
    tpcl_kv_cache *cache;
    tpcl_batch *batch;
    /* scratch of one pass, [chunk, ...] */
    tpcl_tensor *h;             /* residual stream [hidden] */
    tpcl_tensor *spare;         /* [1, hidden]: see layers/normed.h */
    tpcl_tensor *x;             /* normed rows [hidden] */
    tpcl_tensor *y;             /* output of o and down [hidden] */
    tpcl_tensor *qkv;           /* this rank's q, k and v heads */
    tpcl_tensor *attention;     /* its q heads' results */
    tpcl_tensor *gate_up, *act; /* [2 inter], [inter] of this rank */
    float *logits;              /* rank 0: LOGIT_ROWS rows of [vocab] */
};
enum { TPI_LOGIT_ROWS = 16 };

/* One pass of the batch: h and x (after the last norm) of its tokens. `every_layer` false skips
 * layers that are stored like the one before (warm-up). Collective; a rank that fails on its own
 * arrives with its error, so that all return together. */
tpcl_status tpi_model_forward(tpcl_model *model, bool every_layer);

/* Resets the sequence and the batch, as before the first token. */
void tpi_model_reset(tpcl_model *model);

#endif
