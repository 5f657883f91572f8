/* The checks that a configuration must pass, whichever format it came from. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_CONFIG_H
#define TPI_CHECKPOINT_CONFIG_H

#include "checkpoint/checkpoint.h"

/* `where`: the file that the message names. */
tpcl_status tpi_config_check(const tpcl_model_config *c, const char *where);
/* Adds a stop id unless it is there; refuses ids outside the vocabulary. `key` is for the message.
 */
tpcl_status tpi_config_add_stop(tpcl_model_config *c, int64_t id, const char *where,
                                const char *key);
/* An id outside the vocabulary is TPCL_ERR_FORMAT. */
tpcl_status tpi_config_check_id(const tpcl_model_config *c, int64_t id, const char *where,
                                const char *key);

#endif
