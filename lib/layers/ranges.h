/* The cuts that a caller chose, checked, or those of the group's weights. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_LAYERS_RANGES_H
#define TPI_LAYERS_RANGES_H

#include "layers/group.h"

/* out [size] = given, which must be consecutive and cover [0, total); or, where given is NULL,
 * tpcl_shard_split. `what` names it in messages. */
tpcl_status tpi_ranges_take(const tpcl_group *group, const char *what, const tpcl_range *given,
                            int64_t total, int granule, tpcl_range *out);

/* out [size] = given, whose q ranges must be consecutive and cover the heads, and whose kv ranges
 * must hold what they read; or tpcl_shard_heads with granule 1. */
tpcl_status tpi_head_ranges_take(const tpcl_group *group, const tpcl_head_range *given, int heads,
                                 int kv_heads, tpcl_head_range *out);

#endif
