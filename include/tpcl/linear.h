/** @file linear.h  Sharded linear layers: column, merged-column, QKV, row, replicated. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_LINEAR_H
#define TPCL_LINEAR_H

#include <tpcl/group.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** y = x W^T (+ bias) with this rank's part of W on its device. Opaque. */
typedef struct tpcl_linear tpcl_linear;

/** One of the tensors that a column-parallel layer stacks. */
typedef struct tpcl_linear_part {
    const tpcl_host_tensor *weight; /**< [out, in], the whole model's */
    const tpcl_host_tensor *bias;   /**< [out], or NULL */
    const tpcl_range *rows;         /**< [size] each rank's rows; NULL = by the group's weights */
} tpcl_linear_part;

/**
 * Column-parallel: each rank holds rows of W. Several parts are merged: a rank's outputs are its
 * rows of the first part, then of the second, ... (gate and up; q, k and v). No communication.
 *
 *           whole model                on rank r
 * weight    [out, in] of each part     its rows, stacked
 * x   in    [tokens, in]               the same on every rank
 * y   out   [tokens, sum of outs]      [tokens, sum of its rows]
 *
 * Host tensors are read here, by range, and not kept.
 *
 * @param n_parts  in   1 to 8
 * @param out      out  NULL on failure; release with tpcl_linear_destroy()
 * Collective: no.  Blocks: yes (upload).  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_UNSUPPORTED, TPCL_ERR_IO, TPCL_ERR_NOMEM,
 * TPCL_ERR_DEVICE_MEM, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_column_linear_create(tpcl_group *group,
                                                     const tpcl_linear_part *parts, int n_parts,
                                                     tpcl_linear **out);

/**
 * Row-parallel: each rank holds columns of W. The partial products are summed over the ranks, in
 * rank order, and the bias is added once, after the sum.
 *
 *           whole model        on rank r
 * weight    [out, in]          [out, its columns]
 * x   in    [tokens, in]       [tokens, its columns]
 * y   out   [tokens, out]      the same on every rank
 *
 * @param bias     in   [out], or NULL
 * @param columns  in   [size] ranges of the input, as the layer before was cut; NULL = by the
 * group's weights, in whole quantisation blocks. A cut inside a block widens the weight to f32.
 * @param out      out  NULL on failure; release with tpcl_linear_destroy()
 * Collective: no (the forward call is).  Blocks: yes (upload).  Allocates: yes.
 * Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_row_linear_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                                  const tpcl_host_tensor *bias,
                                                  const tpcl_range *columns, tpcl_linear **out);

/**
 * Replicated: every rank holds all of W and computes all of y. No communication.
 *
 *           whole model        on rank r
 * weight    [out, in]          the same on every rank
 * x   in    [tokens, in]       the same on every rank
 * y   out   [tokens, out]      the same on every rank
 *
 * Collective: no.  Blocks: yes (upload).  Allocates: yes.
 * Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_replicated_linear_create(tpcl_group *group,
                                                         const tpcl_host_tensor *weight,
                                                         const tpcl_host_tensor *bias,
                                                         tpcl_linear **out);
/**
 * NULL and *NULL are no-ops; sets *layer to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_linear_destroy(tpcl_linear **layer);

/**
 * The product; for shapes see the create functions. y must not overlap x.
 * Collective: only a row-parallel layer.  Blocks: only a row-parallel layer of several ranks.
 * Allocates: no.  Errors: TPCL_ERR_SHAPE, TPCL_ERR_DEVICE, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_linear_forward(tpcl_linear *layer, const tpcl_tensor *x,
                                               tpcl_tensor *y, int tokens);

/**
 * Inputs and outputs on this rank, and the bytes of its weight and bias on the device.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_linear_in(const tpcl_linear *layer);
int tpcl_linear_out(const tpcl_linear *layer);
uint64_t tpcl_linear_bytes(const tpcl_linear *layer);

#ifdef __cplusplus
}
#endif
#endif
