/* A weight in device memory, in panels (cl/panel.clh), packed from parts of host tensors. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_OPS_WEIGHT_H
#define TPI_OPS_WEIGHT_H

#include "device/device.h"

enum { TPI_PANEL = 16 }; /* outputs of a panel */

typedef struct tpi_weight {
    tpcl_device *dev; /* retained */
    cl_mem mem;       /* NULL when n or k is 0 */
    tpcl_dtype dtype;
    int n, k; /* outputs and inputs on this rank */
    size_t bytes;
} tpi_weight;

/* Rows [row0, row1), columns [col0, col1) of a full tensor [out, in]; a 1-D tensor is one row. */
typedef struct tpi_part {
    const tpcl_host_tensor *tensor;
    int64_t row0, row1, col0, col1;
} tpi_part;

/* Stacks the parts' rows, in order, into one weight, reading only those ranges. All parts have the
 * same number of columns. Parts of one dtype keep it; parts of several, and columns that cut a
 * quantisation block, are widened to f32. */
tpcl_status tpi_weight_create(tpcl_device *dev, const tpi_part *parts, int n_parts,
                              tpi_weight **out);
void tpi_weight_destroy(tpi_weight **weight);
/* The dtype that tpi_weight_create would store. */
tpcl_dtype tpi_weight_dtype(const tpi_part *parts, int n_parts);
size_t tpi_weight_panel_bytes(tpcl_dtype dtype, int k);

/* Row-major rows, as stored in files, to one panel. Idle lanes point to a row of zeros. */
void tpi_pack_panel(tpcl_dtype dtype, const uint8_t *const rows[TPI_PANEL], int k, uint8_t *panel);

/* Data, type, shape, and that the part lies inside the tensor. */
tpcl_status tpi_part_check(const tpi_part *part);

/* Reads the part's row `row` (0 = row0), its columns only, as stored. Or widened to f32. */
tpcl_status tpi_part_read(const tpi_part *part, int64_t row, int64_t n_rows, uint8_t *dst);
tpcl_status tpi_part_read_f32(const tpi_part *part, int64_t row, float *dst);

#endif
