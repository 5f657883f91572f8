/** @file sampling.h  From logits to a token: greedy, penalty, temperature, top-k, top-p, min-p;
 * seeded.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_SAMPLING_H
#define TPCL_SAMPLING_H

#include <stdint.h>
#include <tpcl/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How to choose. All zero, but for top_p = 1, is greedy without a penalty. */
typedef struct tpcl_sampling {
    float temperature; /**< 0 (also tiny and -0) = greedy, the lowest id wins a tie; not negative,
                          finite */
    int top_k;         /**< 0 = off; >= vocab = off */
    float top_p;       /**< in [0, 1]; 1 = off; 0 keeps the best only */
    uint64_t seed;     /**< of the draws */
    float min_p;       /**< in [0, 1]; 0 = off; 1 keeps what is as likely as the best */
    float
        repetition_penalty; /**< >= 0, finite; 0 or 1 = off; above 1 makes repetition less likely */
    int penalty_last;       /**< how many of the latest ids of the history count; 0 = all */
} tpcl_sampling;

/** What to choose from. */
typedef struct tpcl_sample_input {
    const float *logits;    /**< [n]; -INFINITY = masked, never chosen */
    int n;                  /**< the vocabulary, padding rows too; 1 or more */
    int valid;              /**< ids from here on (padding) are never looked at; 0 = n */
    const int32_t *history; /**< [n_history] ids so far, prompt and generated; for the penalty */
    int n_history;          /**< how many */
    uint64_t step;          /**< number of tokens drawn before in this sequence */
} tpcl_sample_input;

/**
 * Are these settings in range?
 *
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG with the option, its value and its range.
 */
TPCL_NODISCARD tpcl_status tpcl_sampling_check(const tpcl_sampling *sampling);

/**
 * Chooses one of input->n logits, in these steps:
 *
 *  1. Masked entries, and ids from `valid` on, leave.
 *  2. Repetition penalty: the logit of every id in the history's last `penalty_last`, each id once,
 *     is divided by it where it is above 0, and multiplied where it is not.
 *  3. Greedy ends here: the greatest logit, the lowest id of a tie.
 *  4. Temperature: every logit is divided by it.
 *  5. top-k: the k greatest stay, of equal ones the lower ids.
 *  6. top-p: of these, the shortest head, best first, whose share of their probability reaches p.
 *  7. min-p: of these, those that are at least min_p times as likely as the best.
 *  8. A draw among the rest by their probabilities (Gumbel-max), with noise that is a function of
 *     seed, step and token id alone (Philox-4x32-10): the same token for the same logits, whoever
 *     draws it, however many ranks made them, and in every version of this library.
 *
 * @param input     in   what to choose from; the history may hold padding ids
 * @param sampling  in   how
 * @param id        out  the token, in [0, valid)
 * Collective: no.  Blocks: no.  Allocates: and frees; not for greedy without a penalty.
 * Errors: TPCL_ERR_ARG (a setting, a size, an id of the history outside of 0..n-1),
 * TPCL_ERR_NONFINITE (a NaN or +infinity among the valid logits, naming its id, or all of them
 * masked), TPCL_ERR_NOMEM; *id is then untouched.
 */
TPCL_NODISCARD tpcl_status tpcl_sample(const tpcl_sample_input *input,
                                       const tpcl_sampling *sampling, int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
