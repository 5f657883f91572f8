/* Which tensor plays which role, and whether it fits. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_WEIGHTS_H
#define TPI_CHECKPOINT_WEIGHTS_H

#include "checkpoint/checkpoint.h"

/* The tensor of this role in the file, needed or not; NULL when there is none. */
const tpi_entry *tpi_weight_lookup(const tpcl_checkpoint *cp, tpcl_weight_role role, int layer);
/* Whether any layer has it. */
bool tpi_weight_present(const tpcl_checkpoint *cp, tpcl_weight_role role);
/* Finds every weight that the configuration needs and checks its type and shape. */
tpcl_status tpi_weights_resolve(tpcl_checkpoint *cp);

#endif
