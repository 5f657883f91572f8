/** @file linear.h  Sharded linear layers: column, merged-column, QKV, row, replicated. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_LINEAR_H
#define TPCL_LINEAR_H

#include <tpcl/group.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * y = x W^T (+ bias) with this rank's part of W on its device. Opaque.
 *
 * What the create functions share. Weights are [out, in], F32, F16, BF16, Q8_0, Q4_0 or Q4_1, and
 * stay as they are stored; tensors of unlike types in one layer, and a cut inside a quantisation
 * block, are widened to f32. A rank reads its own part only, by range, and keeps no host tensor.
 * Biases are [out], of any of these types. Ranges are one a rank, consecutive and covering, as
 * tpcl_shard_split() makes them; empty ones are legal. Where a range array is NULL, the split
 * follows the group's weights.
 *
 * Arguments must be the same on every rank; then what is wrong with them is refused on all alike.
 * What only one rank meets (its `read` fails, its device is full) fails create on that rank alone:
 * agree with tpcl_comm_agree() before the first forward call.
 */
typedef struct tpcl_linear tpcl_linear;

/** One of the matrices that a column-parallel layer stacks. */
typedef struct tpcl_linear_part {
    const tpcl_host_tensor
        *weight; /**< [out, in] of the whole model, or a fused one with more rows */
    const tpcl_host_tensor *bias; /**< [rows of `weight`], or NULL */
    const tpcl_range *rows;       /**< [size] each rank's rows inside the part; NULL = by weights */
    int64_t first;                /**< the part is rows [first, first + out) of `weight` */
    int64_t out;                  /**< 0 = all from `first` on */
} tpcl_linear_part;

/** Zero = default; the same on every rank. */
typedef struct tpcl_column_linear_options {
    bool gather_output; /**< every rank gets all outputs, in the order of one rank */
} tpcl_column_linear_options;

/**
 * Column-parallel: each rank holds rows of W. Several parts are merged: a rank's outputs are its
 * rows of the first part, then of the second, ... (gate and up). Without gather_output there is no
 * communication; with it the outputs go through the host, and come in the order of one rank: all of
 * part 0, then all of part 1, ...
 *
 *           whole model                on rank r
 * weight    [out, in] of each part     its rows, stacked
 * x   in    [tokens, in]               the same on every rank
 * y   out   [tokens, sum of outs]      [tokens, sum of its rows]; gathered: as the whole model
 *
 * @param n_parts  in  1 to 8
 * @param options  in  NULL = defaults
 * @param out      out  NULL on failure; release with tpcl_linear_destroy()
 * Collective: no.  Blocks: yes (upload).  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_UNSUPPORTED, TPCL_ERR_NOMEM, TPCL_ERR_DEVICE_MEM,
 * TPCL_ERR_DEVICE, and what a `read` function returns.
 */
TPCL_NODISCARD tpcl_status tpcl_column_linear_create(tpcl_group *group,
                                                     const tpcl_linear_part *parts, int n_parts,
                                                     const tpcl_column_linear_options *options,
                                                     tpcl_linear **out);

/** How the rows of a fused q, k, v tensor are ordered. */
typedef enum tpcl_qkv_layout {
    TPCL_QKV_STACKED,   /**< all of q, then all of k, then all of v */
    TPCL_QKV_BY_KV_HEAD /**< for each kv head: the q heads that read it, its k, its v */
} tpcl_qkv_layout;

/** Either q, k and v, or `fused`. Zero = default; the same on every rank. */
typedef struct tpcl_qkv_linear_desc {
    int heads;                          /**< q heads of the whole model, a multiple of kv_heads */
    int kv_heads;                       /**< of the whole model */
    int head_dim;                       /**< of q and k */
    int v_head_dim;                     /**< 0 = head_dim */
    const tpcl_host_tensor *q;          /**< [heads * head_dim, in] */
    const tpcl_host_tensor *k;          /**< [kv_heads * head_dim, in] */
    const tpcl_host_tensor *v;          /**< [kv_heads * v_head_dim, in] */
    const tpcl_host_tensor *q_bias;     /**< [rows of q], or NULL */
    const tpcl_host_tensor *k_bias;     /**< [rows of k], or NULL */
    const tpcl_host_tensor *v_bias;     /**< [rows of v], or NULL */
    const tpcl_host_tensor *fused;      /**< [rows of q, k and v together, in] */
    const tpcl_host_tensor *fused_bias; /**< [rows of `fused`], or NULL */
    tpcl_qkv_layout layout;             /**< of `fused` and `fused_bias` */
    const tpcl_head_range *ranges;      /**< [size] as tpcl_shard_heads() makes them; NULL = that,
                                             with granule 1 and the group's weights */
} tpcl_qkv_linear_desc;

/**
 * q, k and v in one product, split by heads: h = heads, g = kv_heads, d = head_dim, e = v_head_dim;
 * a rank has h_r and g_r of them. Where ranks outnumber kv heads, several store the same one.
 *
 *           whole model                       on rank r
 * weight    [h d + g d + g e, in]             rows of its q heads, its k heads, its v heads
 * x   in    [tokens, in]                      the same on every rank
 * y   out   [tokens, h d + g d + g e]         [tokens, h_r d + g_r d + g_r e]: q, then k, then v
 *
 * Collective: no.  Blocks: yes (upload).  Allocates: yes.  Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_qkv_linear_create(tpcl_group *group,
                                                  const tpcl_qkv_linear_desc *desc,
                                                  tpcl_linear **out);

/** Zero = default; the same on every rank. */
typedef struct tpcl_row_linear_options {
    const tpcl_range *columns; /**< [size] cuts of the input, as the layer before was cut; NULL =
                                    by the group's weights, in whole quantisation blocks */
    bool whole_input;          /**< x is the whole model's; each rank takes its columns of it */
    bool partial;              /**< leave this rank's part of the sum: no reduction, no bias */
} tpcl_row_linear_options;

/**
 * Row-parallel: each rank holds columns of W. The partial products are summed over the ranks, in
 * rank order, and the bias is added once, after the sum.
 *
 *           whole model        on rank r
 * weight    [out, in]          [out, its columns]
 * bias      [out]              the same on every rank
 * x   in    [tokens, in]       [tokens, its columns]; whole_input: [tokens, in]
 * y   out   [tokens, out]      the same on every rank; partial: this rank's term of the sum
 *
 * @param bias     in  or NULL; with `partial` TPCL_ERR_UNSUPPORTED: it belongs after the sum
 * @param options  in  NULL = defaults
 * Collective: no (the forward call is, unless partial).  Blocks: yes (upload).  Allocates: yes.
 * Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_row_linear_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                                  const tpcl_host_tensor *bias,
                                                  const tpcl_row_linear_options *options,
                                                  tpcl_linear **out);

/**
 * Replicated: every rank holds all of W and computes all of y. No communication.
 *
 *           whole model        on rank r
 * weight    [out, in]          all of it
 * x   in    [tokens, in]       the same on every rank
 * y   out   [tokens, out]      the same on every rank
 *
 * @param bias  in  or NULL
 * Collective: no.  Blocks: yes (upload).  Allocates: yes.  Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_replicated_linear_create(tpcl_group *group,
                                                         const tpcl_host_tensor *weight,
                                                         const tpcl_host_tensor *bias,
                                                         tpcl_linear **out);

/**
 * NULL and *NULL are no-ops; sets *layer to NULL.
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_linear_destroy(tpcl_linear **layer);

/**
 * The product; for shapes see the create functions. y must not overlap x. A collective layer, with
 * several ranks, is a row-parallel one that is not partial, and one with gather_output: there a bad
 * argument of one rank ends the call on all of them.
 *
 * @param tokens  in  >= 0, the same on every rank
 * Collective: only such a layer.  Blocks: only such a layer.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, dtype, device, overlap, tokens), TPCL_ERR_SHAPE (too small; both
 * numbers), TPCL_ERR_DEVICE, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_linear_forward(tpcl_linear *layer, const tpcl_tensor *x,
                                               tpcl_tensor *y, int tokens);

/**
 * Inputs and outputs of this rank's weight, those of the whole model, and the bytes that weight and
 * bias take on this rank's device. x is [tokens, in_total] with whole_input and [tokens, in] else;
 * y [tokens, out_total] with gather_output and [tokens, out] else.
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_linear_in(const tpcl_linear *layer);
int tpcl_linear_out(const tpcl_linear *layer);
int tpcl_linear_in_total(const tpcl_linear *layer);
int tpcl_linear_out_total(const tpcl_linear *layer);
uint64_t tpcl_linear_bytes(const tpcl_linear *layer);

#ifdef __cplusplus
}
#endif
#endif
