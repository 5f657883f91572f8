/** @file model.h  A whole decoder over the ranks of a group: load, forward, generate. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_MODEL_H
#define TPCL_MODEL_H

#include <tpcl/checkpoint.h>
#include <tpcl/group.h>
#include <tpcl/sampling.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Arguments are checked on every rank before anything is computed, and the ranks agree on the
 * result: if one refuses its own, its call fails with TPCL_ERR_ARG and the others' with
 * TPCL_ERR_PEER and that rank's message (tpcl_last_failure() tells which). Only a NULL group or
 * model cannot be told to the others, and fails alone.
 */

/** A model's weights and cache on this rank. Opaque; one sequence at a time. */
typedef struct tpcl_model tpcl_model;

/** How to load a model. All zero is the default; all ranks give the same. */
typedef struct tpcl_model_options {
    int context;     /**< KV cache positions, 1..max_context of the model; 0 = the smaller of that
                        and 4096 */
    int chunk;       /**< prompt tokens per forward pass, at most context; 0 = 256 */
    bool kv_f32;     /**< store K and V as f32 instead of f16 */
    int valid_vocab; /**< rows from here on never win a sample (padding), 1..vocab; 0 = vocab */
    /** Called on every rank now and then while weights load; may be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_context; /**< given to progress */
    tpcl_log log;           /**< warnings and notes of the load */
} tpcl_model_options;

/** What one rank holds. */
typedef struct tpcl_model_share {
    char device[256];       /**< the device's name; "" in a plan */
    char platform[256];     /**< its OpenCL platform's */
    char host[64];          /**< the machine's */
    int pid;                /**< of the rank's process; 0 in a plan */
    uint64_t weight_bytes;  /**< of weights, on the device */
    uint64_t kv_bytes;      /**< of the KV cache */
    uint64_t scratch_bytes; /**< of the buffers of a forward pass */
    tpcl_range vocab;       /**< words whose embedding and logits are this rank's */
    tpcl_range inter;       /**< of layer 0: columns of its MLP */
    tpcl_head_range heads;  /**< of layer 0: its attention heads */
} tpcl_model_share;

/**
 * Plans rank @p rank of @p size without a device: shards and bytes, as a load would make them.
 *
 * @param size     in   ranks, 1..TPCL_MAX_RANKS
 * @param rank     in   0..size-1
 * @param weights  in   [size] share of each rank; NULL = equal
 * @param options  in   as for the load; NULL = defaults
 * Collective: no.  Blocks: no.  Allocates: and frees.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_model_plan(const tpcl_checkpoint *checkpoint, int size, int rank,
                                           const double *weights, const tpcl_model_options *options,
                                           tpcl_model_share *out);

/**
 * Loads this rank's part of every weight, by range, and compiles every kernel. Nothing of the
 * checkpoint is kept.
 *
 *           whole model            on rank r
 * weights   as in the checkpoint   rows, columns and heads of tpcl_model_plan()
 * KV cache  [layers, context,      its kv heads of each layer
 *           kv_heads, head_dim]
 *
 * @param group       in   must outlive the model
 * @param local       in   TPCL_OK, or why this rank could not open the checkpoint: then all fail
 * @param checkpoint  in   may be NULL on a rank whose @p local is an error
 * @param options     in   NULL = defaults
 * @param out         out  NULL on failure, on all ranks
 * Collective: yes.  Blocks: yes.  Allocates: yes.
 * Errors: agreed by all ranks: TPCL_ERR_ARG, TPCL_ERR_MISMATCH (ranks were given different models
 * or options), TPCL_ERR_IO, TPCL_ERR_NOMEM, TPCL_ERR_DEVICE_MEM, TPCL_ERR_DEVICE, TPCL_ERR_PEER and
 * those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_model_load(tpcl_group *group, tpcl_status local,
                                           const tpcl_checkpoint *checkpoint,
                                           const tpcl_model_options *options, tpcl_model **out);
/** Frees what this rank holds. NULL and *NULL are no-ops; sets *model to NULL.
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_model_destroy(tpcl_model **model);

/** Positions of the KV cache: the most that prompt and generated tokens may be together; 0 for
 * NULL. Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_model_context(const tpcl_model *model);
/**
 * The shares of all ranks.
 *
 * @param out  out  [size] on rank 0, ignored elsewhere
 * Collective: yes.  Blocks: yes.  Allocates: and frees.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM, TPCL_ERR_PEER and those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_model_shares(tpcl_model *model, tpcl_model_share *out);

/** Why a generation ended. */
typedef enum tpcl_finish {
    TPCL_FINISH_STOP,   /**< a stop id came */
    TPCL_FINISH_LENGTH, /**< n_predict tokens, a full context, or the token callback's wish */
    TPCL_FINISH_ERROR   /**< the call failed */
} tpcl_finish;

/** How to generate. n_predict is the same on all ranks; the rest matters on rank 0. */
typedef struct tpcl_generate_options {
    int n_predict;           /**< most tokens, >= 0; the context may end it earlier */
    tpcl_sampling sampling;  /**< its history is the prompt and what was generated */
    const int32_t *stop_ids; /**< [n_stop_ids], each of the vocabulary */
    int n_stop_ids;          /**< 0: generate on whatever comes */
    /** Rank 0 only: each generated id that is not a stop id, as it comes. Nonzero return = stop. */
    int (*token)(void *context, int32_t id);
    void *token_context;           /**< given to token */
    const volatile int *interrupt; /**< checked at each token on rank 0; may be NULL */
} tpcl_generate_options;

/** What came of it. */
typedef struct tpcl_generate_result {
    int32_t *ids; /**< [n] malloc'ed, to be freed by the caller, or NULL; the same on every rank;
                     without the stop id; what there was before a failure */
    int n;        /**< generated tokens */
    tpcl_finish finish;   /**< why it ended */
    double first_token_s; /**< seconds from the call to the first logits */
    double generation_s;  /**< seconds from the first to the last token */
} tpcl_generate_result;

/**
 * Generates from @p ids, the same on every rank. Rank 0 samples and tells the others.
 *
 *              whole model           on rank r
 * ids     in   [n]                   the same on every rank
 * logits       [1, vocab] a token    its words; gathered to rank 0
 * ids     out  [out->n]              the same on every rank
 *
 * A refused call (TPCL_ERR_ARG, TPCL_ERR_MISMATCH) has changed nothing; any other that begins
 * replaces the sequence before.
 *
 * @param n    in   prompt tokens, 1..context
 * @param out  out  set in any case
 * Collective: yes.  Blocks: yes.  Allocates: the result.
 * Errors: TPCL_ERR_ARG (an option, an empty prompt, an id outside the vocabulary, a prompt longer
 * than the context), TPCL_ERR_MISMATCH (ranks were given different prompts or n_predict),
 * TPCL_ERR_NONFINITE (naming step and rank), TPCL_ERR_INTERRUPTED, TPCL_ERR_NOMEM, TPCL_ERR_DEVICE,
 * TPCL_ERR_PEER and those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_model_generate(tpcl_model *model, const int32_t *ids, int n,
                                               const tpcl_generate_options *options,
                                               tpcl_generate_result *out);

/**
 * Logits of every position, unmasked, padding rows too.
 *
 *              whole model           on rank r
 * ids     in   [n]                   the same on every rank
 * logits       [n, vocab]            its words; row by row to rank 0
 *
 * @param n        in  tokens, 1..context
 * @param row      in  rank 0 only: receives one row [vocab] at a time, in order; nonzero = give up
 *                     (TPCL_ERR_IO on rank 0, TPCL_ERR_PEER elsewhere; the group has then failed)
 * @param context  in  given to row
 * Collective: yes.  Blocks: yes.  Allocates: no.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_MISMATCH, TPCL_ERR_IO, TPCL_ERR_DEVICE, TPCL_ERR_PEER and those of
 * tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_model_score(tpcl_model *model, const int32_t *ids, int n,
                                            int (*row)(void *context, int position,
                                                       const float *logits),
                                            void *context);

#ifdef __cplusplus
}
#endif
#endif
