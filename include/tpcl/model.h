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

typedef struct tpcl_model tpcl_model;

typedef struct tpcl_model_options {
    int context;     /**< KV cache positions; 0 = the smaller of the model's and 4096 */
    int chunk;       /**< prompt tokens per forward pass; 0 = 256 */
    bool kv_f32;     /**< store K and V as f32 instead of f16 */
    int valid_vocab; /**< rows from here on never win a sample (padding); 0 = vocab */
    /** Called on every rank now and then while weights load; may be NULL. */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_context;
    tpcl_log log;
} tpcl_model_options;

/** What one rank holds. */
typedef struct tpcl_model_share {
    char device[256], platform[256], host[64];
    int pid;
    uint64_t weight_bytes, kv_bytes, scratch_bytes;
    tpcl_range vocab, inter; /**< of layer 0 */
    tpcl_head_range heads;   /**< of layer 0 */
} tpcl_model_share;

/** Plans rank @p rank of @p size without a device: shards and bytes. Errors: TPCL_ERR_ARG. */
TPCL_NODISCARD tpcl_status tpcl_model_plan(const tpcl_checkpoint *checkpoint, int size, int rank,
                                           const double *weights, const tpcl_model_options *options,
                                           tpcl_model_share *out);

/**
 * Loads this rank's part of every weight and compiles every kernel. @p checkpoint may be NULL on a
 * rank that failed to open it, with that rank's @p local status: then all ranks fail together.
 *
 * Collective: yes.  Blocks: yes.  Allocates: yes.
 * Errors: agreed by all ranks, see tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_model_load(tpcl_group *group, tpcl_status local,
                                           const tpcl_checkpoint *checkpoint,
                                           const tpcl_model_options *options, tpcl_model **out);
void tpcl_model_destroy(tpcl_model **model);

int tpcl_model_context(const tpcl_model *model);
/** The shares of all ranks. @p out [size] on rank 0, ignored elsewhere. Collective. */
TPCL_NODISCARD tpcl_status tpcl_model_shares(tpcl_model *model, tpcl_model_share *out);

typedef enum tpcl_finish { TPCL_FINISH_STOP, TPCL_FINISH_LENGTH, TPCL_FINISH_ERROR } tpcl_finish;

typedef struct tpcl_generate_options {
    int n_predict; /**< >= 0 */
    tpcl_sampling sampling;
    const int32_t *stop_ids;
    int n_stop_ids; /**< 0: generate on whatever comes */
    /** Rank 0 only: each generated id that is not a stop id, as it comes. Nonzero return = stop. */
    int (*token)(void *context, int32_t id);
    void *token_context;
    const volatile int *interrupt; /**< checked at each token on every rank; may be NULL */
} tpcl_generate_options;

typedef struct tpcl_generate_result {
    int32_t *ids; /**< malloc'ed; the same on every rank; without the stop id */
    int n;
    tpcl_finish finish;
    double first_token_s; /**< submit to first logits */
    double generation_s;  /**< first to last token */
} tpcl_generate_result;

/**
 * Generates from @p ids, [n], the same on every rank. Rank 0 samples and tells the others.
 * Collective: yes.  Blocks: yes.
 * Errors: TPCL_ERR_ARG (empty prompt, id outside the vocabulary, prompt longer than the context),
 * TPCL_ERR_NONFINITE (naming step and rank), TPCL_ERR_INTERRUPTED, and those of tpcl_comm.
 */
TPCL_NODISCARD tpcl_status tpcl_model_generate(tpcl_model *model, const int32_t *ids, int n,
                                               const tpcl_generate_options *options,
                                               tpcl_generate_result *out);

/**
 * Logits of every position, unmasked, padding rows too.
 * @param row  in  rank 0 only: receives one row [vocab] at a time, in order; nonzero = give up
 *                 (TPCL_ERR_IO on all ranks)
 */
TPCL_NODISCARD tpcl_status tpcl_model_score(tpcl_model *model, const int32_t *ids, int n,
                                            int (*row)(void *context, int position,
                                                       const float *logits),
                                            void *context);

#ifdef __cplusplus
}
#endif
#endif
