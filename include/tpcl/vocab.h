/** @file vocab.h  The two layers that are split by vocabulary: embedding and LM head. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_VOCAB_H
#define TPCL_VOCAB_H

#include <tpcl/group.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Word vectors, each rank some of them. Opaque.
 *
 * The vocabulary is the base words 0 .. base, and behind them words that were added later, base ..
 * base + n_added: their rows come from a tensor of their own and are split on their own, so that
 * adding words moves no base word to another rank. A rank stores its base rows and behind them its
 * added rows, in one buffer; rows of two types are widened to f32. For types, ranges and what to do
 * where create fails on one rank see tpcl_linear.
 */
typedef struct tpcl_embedding tpcl_embedding;

/** Zero = default; the same on every rank. */
typedef struct tpcl_embedding_desc {
    const tpcl_host_tensor *weight; /**< [base, dim] */
    const tpcl_host_tensor *added;  /**< [n_added, dim], or NULL */
    const tpcl_range *rows;         /**< [size] of `weight`; NULL = by the group's weights */
    const tpcl_range *added_rows;   /**< [size] of `added`, from 0; NULL = likewise */
    int max_tokens;                 /**< most ids of a tpcl_embedding_lookup(); 0 = 4096 */
} tpcl_embedding_desc;

/**
 *            whole model          on rank r
 * weight     [base, dim]          rows [v0, v1)
 * added      [n_added, dim]       rows [a0, a1): words base + a0 .. base + a1
 *
 * @param out  out  NULL on failure; release with tpcl_embedding_destroy()
 * Collective: no (the forward call is).  Blocks: yes (upload).  Allocates: yes.
 * Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_embedding_create(tpcl_group *group, const tpcl_embedding_desc *desc,
                                                 tpcl_embedding **out);
/**
 * NULL and *NULL are no-ops; sets *layer to NULL. Heads that are tied to it go first.
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_embedding_destroy(tpcl_embedding **layer);

/**
 * y = the rows of the ids: own ones from each rank, zeros from the others, then the sum over the
 * ranks, which is exact. An id outside [0, vocab) gives a row of NaN on every rank: on the device
 * nobody can refuse it, but it does not pass unseen.
 *
 *            whole model     on rank r
 * ids  in    [tokens]        the same on every rank; I32
 * y    out   [tokens, dim]   the same on every rank
 *
 * @param tokens  in  >= 0, the same on every rank
 * Collective: yes.  Blocks: with several ranks.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, dtype, device, overlap, tokens), TPCL_ERR_SHAPE (too small; both
 * numbers), TPCL_ERR_DEVICE, those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_embedding_forward(tpcl_embedding *layer, const tpcl_tensor *ids,
                                                  tpcl_tensor *y, int tokens);
/**
 * The same for ids in host memory: each is checked first, and one outside [0, vocab) is refused
 * with its place, and nothing is done.
 *
 * @param ids  in  [tokens], the same on every rank; at most max_tokens of them
 * Collective: yes.  Blocks: yes.  Allocates: no.  Errors: as tpcl_embedding_forward().
 */
TPCL_NODISCARD tpcl_status tpcl_embedding_lookup(tpcl_embedding *layer, const int32_t *ids,
                                                 tpcl_tensor *y, int tokens);
/**
 * What this rank alone contributes, before the sum: its own ids' rows, zeros elsewhere; on rank 0
 * NaN for ids outside [0, vocab). Shapes as tpcl_embedding_forward().
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: as tpcl_embedding_forward().
 */
TPCL_NODISCARD tpcl_status tpcl_embedding_partial(tpcl_embedding *layer, const tpcl_tensor *ids,
                                                  tpcl_tensor *y, int tokens);

/**
 * Words (base and added) and columns of the whole model; the words of rank r, in ids: its base
 * words, its added words (empty where there is no rank r); bytes on this rank's device.
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_embedding_vocab(const tpcl_embedding *layer);
int tpcl_embedding_dim(const tpcl_embedding *layer);
tpcl_range tpcl_embedding_words(const tpcl_embedding *layer, int rank);
tpcl_range tpcl_embedding_added_words(const tpcl_embedding *layer, int rank);
uint64_t tpcl_embedding_bytes(const tpcl_embedding *layer);

/** Logits from hidden rows; split as an embedding is. Opaque. */
typedef struct tpcl_lm_head tpcl_lm_head;

/** Who gets which logits. */
typedef enum tpcl_lm_head_output {
    TPCL_LM_HEAD_GATHER,     /**< rank 0 all */
    TPCL_LM_HEAD_ALL_GATHER, /**< every rank all */
    TPCL_LM_HEAD_SHARDED     /**< each rank those of its own words; no communication */
} tpcl_lm_head_output;

/** Either weight (and added), or tied. Zero = default; the same on every rank. */
typedef struct tpcl_lm_head_desc {
    const tpcl_host_tensor *weight; /**< [base, dim] */
    const tpcl_host_tensor *added;  /**< [n_added, dim], or NULL */
    const tpcl_range *rows;         /**< [size] of `weight`; NULL = by the group's weights */
    const tpcl_range *added_rows;   /**< [size] of `added`, from 0; NULL = likewise */
    const tpcl_embedding *tied;   /**< its rows are the head's, in one buffer; outlives the head */
    const tpcl_host_tensor *bias; /**< [base + n_added], or NULL */
    int valid_vocab; /**< base words from here on are padding: their logits are -INFINITY, so that
                          they never win. 0 = all are words. Added words are always valid */
    tpcl_lm_head_output output; /**< who gets them */
} tpcl_lm_head_desc;

/**
 *            whole model          on rank r
 * weight     [base, dim]          rows [v0, v1)
 * added      [n_added, dim]       rows [a0, a1): words base + a0 .. base + a1
 * bias       [base + n_added]     of its words
 *
 * @param out  out  NULL on failure; release with tpcl_lm_head_destroy()
 * Collective: no (the forward call is).  Blocks: yes (upload).  Allocates: yes.
 * Errors: as tpcl_column_linear_create().
 */
TPCL_NODISCARD tpcl_status tpcl_lm_head_create(tpcl_group *group, const tpcl_lm_head_desc *desc,
                                               tpcl_lm_head **out);
/**
 * NULL and *NULL are no-ops; sets *layer to NULL.
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_lm_head_destroy(tpcl_lm_head **layer);

/**
 * Logits of n rows of x. In prefill a caller that only samples names the last row of each sequence.
 *
 *             whole model       on rank r
 * x      in   [any, dim]        the same on every rank
 * logits out  [n, vocab]        host memory. GATHER: on rank 0, ignored elsewhere (may be NULL);
 *                               ALL_GATHER: on every rank; SHARDED: [n, words of the rank], its
 * base words, then its added ones
 *
 * Gathered logits are in the order of the ids, whatever the shards.
 *
 * @param rows  in  [n] rows of x, in any order, the same on every rank; NULL = 0 .. n
 * @param n     in  >= 0, the same on every rank
 * Collective: yes, unless SHARDED.  Blocks: yes.  Allocates: no.
 * Errors: TPCL_ERR_ARG (NULL, dtype, device, n, a row outside of x), TPCL_ERR_SHAPE (x too small;
 * both numbers), TPCL_ERR_DEVICE, those of tpcl_comm. A bad argument of one rank ends a collective
 * call on all of them.
 */
TPCL_NODISCARD tpcl_status tpcl_lm_head_forward(tpcl_lm_head *layer, const tpcl_tensor *x,
                                                const int *rows, int n, float *logits);

/**
 * Words (base and added) of the whole model and of this rank; the words of rank r, in ids: its base
 * words, its added words (empty where there is no rank r); bytes on this rank's device, without the
 * rows of a tied head.
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_lm_head_vocab(const tpcl_lm_head *layer);
int tpcl_lm_head_n_words(const tpcl_lm_head *layer);
tpcl_range tpcl_lm_head_words(const tpcl_lm_head *layer, int rank);
tpcl_range tpcl_lm_head_added_words(const tpcl_lm_head *layer, int rank);
uint64_t tpcl_lm_head_bytes(const tpcl_lm_head *layer);

#ifdef __cplusplus
}
#endif
#endif
