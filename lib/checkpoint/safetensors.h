/* One safetensors file: its header, checked, becomes entries of the checkpoint. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_SAFETENSORS_H
#define TPI_CHECKPOINT_SAFETENSORS_H

#include "checkpoint/checkpoint.h"

/* `file` is open and outlives the entries. */
tpcl_status tpi_safetensors_read(tpcl_checkpoint *cp, const tpi_file *file);

#endif
