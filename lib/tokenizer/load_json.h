/* tokenizer.json's processing steps, recognised by structure. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_TOKENIZER_LOAD_JSON_H
#define TPI_TOKENIZER_LOAD_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <tpcl/status.h>

#include "tokenizer/split.h"

/* Each takes the value of its key, NULL where the file has none. What we would do wrong is
 * TPCL_ERR_UNSUPPORTED. */
tpcl_status tpi_json_normalizer(const json_t *normalizer, bool *nfc);
tpcl_status tpi_json_split(const json_t *pre_tokenizer, tpi_split *split);
tpcl_status tpi_json_decoder(const json_t *decoder);

#endif
