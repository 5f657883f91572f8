/** @file ops.h  What a block needs between its sharded layers: norms, activations, additions. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_OPS_H
#define TPCL_OPS_H

#include <stddef.h>
#include <tpcl/status.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Operations of one rank on its own tensors: no rank waits for another. They are put into the
 * device's in-order queue, after the layers called before, and read or written by those called
 * after. All tensors are f32, row-major, of one device, and may be larger than what is used of
 * them; none may overlap a tensor that is written, except where a parameter says so. Zero tokens or
 * elements are legal and do nothing. A refused call has changed nothing.
 *
 * Every one of them has its reference in tpcl/reference.h.
 */

/**
 * A vector that every rank holds whole, widened to f32: a norm's weight, a bias after a sum.
 *
 *            whole model    on rank r
 * tensor in  [n]            read here, and not kept
 * out        [n]            [n], the same on every rank
 *
 * @param device  in   tpcl_group_device(group), or any device
 * @param tensor  in   one dimension; any dtype that a weight may have
 * @param out     out  the caller's, to be freed with tpcl_tensor_destroy(); NULL on failure
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_UNSUPPORTED (dtype), TPCL_ERR_IO,
 * TPCL_ERR_NOMEM, TPCL_ERR_DEVICE_MEM, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_vector_create(tpcl_device *device, const tpcl_host_tensor *tensor,
                                              tpcl_tensor **out);

/**
 * h = h + add, then y = h / sqrt(mean(h^2) + eps) * w, row by row: the residual sum of a block and
 * the norm that follows it, in one pass.
 *
 *             whole model      on rank r
 * h    inout  [tokens, dim]    the same on every rank; untouched where add is NULL
 * add  in     [tokens, dim]    the same on every rank; NULL = nothing to add
 * w    in     [dim]            the same on every rank
 * y    out    [tokens, dim]    the same on every rank; may be h where add is NULL
 *
 * @param dim  in  1 or more
 * @param eps  in  0 or more, finite
 * Collective: no.  Blocks: no.  Allocates: no (the first call on a device compiles).
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_rmsnorm(tpcl_tensor *h, const tpcl_tensor *add,
                                        const tpcl_tensor *w, tpcl_tensor *y, int tokens, int dim,
                                        float eps);

/**
 * y = silu(gate) * up, of rows in which gate and up lie one behind the other: what a merged
 * gate-and-up layer leaves.
 *
 *         whole model           on rank r
 * x  in   [tokens, 2 * inter]   [tokens, its gate rows, then its up rows]: 2 * inter_r
 * y  out  [tokens, inter]       [tokens, inter_r]
 *
 * @param inter  in  of this rank; 0 where it has none
 * Collective: no.  Blocks: no.  Allocates: no (the first call on a device compiles).
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_swiglu(const tpcl_tensor *x, tpcl_tensor *y, int tokens, int inter);

/**
 * y = silu(x) = x / (1 + exp(-x)), and y = gelu(x) in its tanh form, x / 2 * (1 + tanh(sqrt(2 / pi)
 * * (x + 0.044715 x^3))). The first @p elements of x and y; on a rank's own columns as on whole
 * rows. y may be x.
 *
 * Collective: no.  Blocks: no.  Allocates: no (the first call on a device compiles).
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_silu(const tpcl_tensor *x, tpcl_tensor *y, size_t elements);
TPCL_NODISCARD tpcl_status tpcl_gelu(const tpcl_tensor *x, tpcl_tensor *y, size_t elements);

/**
 * y = y + x: a residual sum, where no norm follows to take it. The first @p elements of both.
 *
 * Collective: no.  Blocks: no.  Allocates: no (the first call on a device compiles).
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_add(tpcl_tensor *y, const tpcl_tensor *x, size_t elements);

/**
 * y[t] = y[t] + bias, every row.
 *
 *              whole model      on rank r
 * y     inout  [tokens, dim]    whole rows: the same on every rank; columns: [tokens, dim_r]
 * bias  in     [dim]            its part of the same columns
 *
 * Collective: no.  Blocks: no.  Allocates: no (the first call on a device compiles).
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_add_bias(tpcl_tensor *y, const tpcl_tensor *bias, int tokens,
                                         int dim);

#ifdef __cplusplus
}
#endif
#endif
