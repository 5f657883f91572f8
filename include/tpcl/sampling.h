/** @file sampling.h  From logits to a token: greedy, temperature, top-k, top-p; seeded. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_SAMPLING_H
#define TPCL_SAMPLING_H

#include <stdint.h>
#include <tpcl/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tpcl_sampling {
    float temperature; /**< 0 (also tiny and -0) = greedy, the lowest id wins a tie; not negative,
                          finite */
    int top_k;         /**< 0 = off; >= vocab = off */
    float top_p;       /**< in [0, 1]; 1 = off; 0 keeps the best only */
    uint64_t seed;
} tpcl_sampling;

/** TPCL_ERR_ARG with the option and its value when a field is out of range or not a number. */
TPCL_NODISCARD tpcl_status tpcl_sampling_check(const tpcl_sampling *sampling);

/**
 * Chooses one of @p n logits. Order: temperature, top-k, top-p, then a draw by Gumbel-max with
 * counter-based noise keyed by (seed, step, token id): the same token for the same logits, whoever
 * draws it, and however many ranks made them.
 *
 * @param logits  in   [n], f32
 * @param valid   in   ids from here on (padding rows) are never chosen; 1..n
 * @param step    in   number of tokens drawn before in this sequence
 * Errors: TPCL_ERR_NONFINITE (a NaN or infinity among the valid logits, naming its id),
 * TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_sample(const float *logits, int n, int valid,
                                       const tpcl_sampling *sampling, uint64_t step, int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
