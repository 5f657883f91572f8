/* Who holds what of a model: the shards of one layer, and their bytes. Integers only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_MODEL_PLAN_H
#define TPI_MODEL_PLAN_H

#include <tpcl/model.h>

/* All arrays [size]. Rows and columns are in the whole model's numbers. */
typedef struct tpi_layer_plan {
    tpcl_head_range *heads;
    tpcl_range *q_rows, *kv_rows; /* of the q and of the k and v weights; o's columns are q_rows */
    tpcl_range *inter;            /* gate and up rows, down columns */
    bool o_widened;               /* the o-projection's cut goes through quantisation blocks */
} tpi_layer_plan;

tpcl_status tpi_layer_plan_create(const tpcl_checkpoint *checkpoint, int layer, int size,
                                  const double *weights, tpi_layer_plan *out);
void tpi_layer_plan_free(tpi_layer_plan *plan);

/* Context and block layout that the options mean for this model. */
typedef struct tpi_cache_plan {
    int context, blocks, block_size, chunk;
} tpi_cache_plan;
tpcl_status tpi_cache_plan_make(const tpcl_model_config *config, const tpcl_model_options *options,
                                tpi_cache_plan *out);

#endif
