/** @file vocab.h  The two layers that are split by vocabulary: embedding and LM head. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_VOCAB_H
#define TPCL_VOCAB_H

#include <tpcl/group.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Rows of [vocab, dim]; the embedding of a tied model and its head share one buffer. */
typedef struct tpcl_embedding tpcl_embedding;

/**
 *            whole model     on rank r
 * weight     [vocab, dim]    rows [v0, v1)
 * ids  in    [tokens]        the same on every rank, each in [0, vocab)
 * y    out   [tokens, dim]   the same on every rank: own ids give their row, others a zero row,
 *                            then the sum over the ranks, which is exact
 *
 * @param rows  in   [size] each rank's words; NULL = by the group's weights
 * @param out   out  NULL on failure; release with tpcl_embedding_destroy()
 * Collective: no (the forward call is).  Blocks: yes.  Allocates: yes.
 * Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_embedding_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                                 const tpcl_range *rows, tpcl_embedding **out);
/**
 * A head that is tied to it goes first. NULL and *NULL are no-ops; sets *layer to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_embedding_destroy(tpcl_embedding **layer);
/**
 * Looks ids up, and sums over the ranks; for shapes see the create function.
 *
 * @param ids  in  a TPCL_I32 tensor; an id outside of the vocabulary gives a zero row
 * Collective: yes.  Blocks: with several ranks.  Allocates: no.
 * Errors: TPCL_ERR_SHAPE, TPCL_ERR_DEVICE, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_embedding_forward(tpcl_embedding *layer, const tpcl_tensor *ids,
                                                  tpcl_tensor *y, int tokens);
/**
 * What this rank alone contributes, before the sum: rows of its own words, zero rows for others.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: TPCL_ERR_SHAPE, TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_embedding_partial(tpcl_embedding *layer, const tpcl_tensor *ids,
                                                  tpcl_tensor *y, int tokens);
/**
 * Bytes of this rank's rows on its device.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
uint64_t tpcl_embedding_bytes(const tpcl_embedding *layer);

/** Logits from hidden rows, gathered to rank 0 and concatenated on the vocabulary. */
typedef struct tpcl_lm_head tpcl_lm_head;

/**
 * The head, from a weight of its own or from an embedding.
 *
 *            whole model     on rank r
 * weight     [vocab, dim]    rows [v0, v1)
 *
 * @param weight  in   [vocab, dim]; ignored where @p tied is given
 * @param tied    in   the embedding whose rows are the head's, or NULL; must outlive the head
 * @param rows    in   as in tpcl_embedding_create(); ignored where @p tied is given
 * @param out     out  NULL on failure; release with tpcl_lm_head_destroy()
 * Collective: no (the forward call is).  Blocks: yes.  Allocates: yes.
 * Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_lm_head_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                               tpcl_embedding *tied, const tpcl_range *rows,
                                               tpcl_lm_head **out);
/**
 * NULL and *NULL are no-ops; sets *layer to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_lm_head_destroy(tpcl_lm_head **layer);
/**
 *             whole model    on rank r
 * x      in   [n, dim]       rows @p row .. row + n of a [.., dim] tensor, the same on every rank
 * logits out  [n, vocab]     host memory on rank 0; ignored elsewhere (may be NULL)
 *
 * In prefill a caller that only samples passes the last row of each sequence.
 * Collective: yes.  Blocks: yes.  Allocates: no.
 * Errors: TPCL_ERR_SHAPE, TPCL_ERR_DEVICE, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_lm_head_forward(tpcl_lm_head *layer, const tpcl_tensor *x, int row,
                                                int n, float *logits);
/**
 * Bytes of this rank's rows on its device; 0 where they are the embedding's.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
uint64_t tpcl_lm_head_bytes(const tpcl_lm_head *layer);

#ifdef __cplusplus
}
#endif
#endif
