/* config.json and generation_config.json, in the spellings before and after transformers 5. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_CONFIG_JSON_H
#define TPI_CHECKPOINT_CONFIG_JSON_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/json.h"

/* `file` is for messages. Checks every field of *c, which comes in zeroed. */
tpcl_status tpi_config_from_json(const json_t *root, const char *file, tpcl_model_config *c);
/* generation_config.json: its stop ids. */
tpcl_status tpi_config_add_generation(const json_t *root, const char *file, tpcl_model_config *c);

#endif
