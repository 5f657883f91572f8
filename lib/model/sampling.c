/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <tpcl/sampling.h>

#include "base/error.h"

/* Below this a temperature only overflows the division: it means greedy. */
static const float GREEDY_BELOW = 1e-5f;

tpcl_status tpcl_sampling_check(const tpcl_sampling *s)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(isfinite(s->temperature) && s->temperature >= 0.0f, TPCL_ERR_ARG,
                "temperature %g: need a finite number >= 0 (0 = greedy)", (double)s->temperature);
    TPI_REQUIRE(s->top_k >= 0, TPCL_ERR_ARG, "top-k %d: need 0 (off) or more", s->top_k);
    TPI_REQUIRE(s->top_p >= 0.0f && s->top_p <= 1.0f, TPCL_ERR_ARG,
                "top-p %g: need 0 to 1 (1 = off)", (double)s->top_p);
done:
    return status;
}

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

/* Best first; the lower id first on a tie. A total order, so every rank count sorts alike. */
static int by_logit(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int32_t argmax(const float *logits, int valid)
{
    int best = 0;
    for (int i = 1; i < valid; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Philox-4x32-10: a keyed bijection, so noise needs no state and no order of evaluation. */
static uint64_t philox(uint64_t key, uint64_t step, uint32_t id)
{
    uint32_t c[4] = {id, 0, (uint32_t)step, (uint32_t)(step >> 32)};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xd2511f53u * c[0], p1 = (uint64_t)0xcd9e8d57u * c[2];
        const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1,
                                  (uint32_t)(p0 >> 32) ^ c[3] ^ k1, (uint32_t)p0};
        for (int i = 0; i < 4; i++) c[i] = next[i];
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return (uint64_t)c[1] << 32 | c[0];
}

static double gumbel(uint64_t seed, uint64_t step, int32_t id)
{
    const uint64_t bits = philox(seed, step, (uint32_t)id);
    const double u = ((double)(bits >> 11) + 0.5) * 0x1p-53; /* in (0, 1), never an end */
    return -log(-log(u));
}

/* How many of the sorted candidates top-p keeps: the shortest head whose mass reaches p. */
static int keep_top_p(const candidate *c, int n, const tpcl_sampling *s)
{
    double total = 0.0, mass = 0.0;
    for (int i = 0; i < n; i++) total += exp(((double)c[i].logit - c[0].logit) / s->temperature);
    for (int i = 0; i < n; i++) {
        mass += exp(((double)c[i].logit - c[0].logit) / s->temperature);
        if (mass >= (double)s->top_p * total) return i + 1;
    }
    return n;
}

tpcl_status tpcl_sample(const float *logits, int n, int valid, const tpcl_sampling *sampling,
                        uint64_t step, int32_t *id)
{
    tpcl_status status = TPCL_OK;
    candidate *c = NULL;

    TPI_REQUIRE(logits && sampling && id, TPCL_ERR_ARG, "sample: a pointer is NULL");
    TPI_REQUIRE(valid >= 1 && valid <= n, TPCL_ERR_ARG, "sample: %d valid of %d logits", valid, n);
    TPI_TRY(tpcl_sampling_check(sampling));
    for (int i = 0; i < valid; i++)
        TPI_REQUIRE(isfinite(logits[i]), TPCL_ERR_NONFINITE, "logit of token %d is %g", i,
                    (double)logits[i]);
    if (sampling->temperature < GREEDY_BELOW) {
        *id = argmax(logits, valid);
        goto done;
    }
    c = malloc((size_t)valid * sizeof *c);
    TPI_REQUIRE(c, TPCL_ERR_NOMEM, "sampling %d candidates", valid);
    for (int i = 0; i < valid; i++) c[i] = (candidate){logits[i], i};
    int kept = valid;
    if ((sampling->top_k > 0 && sampling->top_k < valid) || sampling->top_p < 1.0f) {
        qsort(c, (size_t)valid, sizeof *c, by_logit);
        if (sampling->top_k > 0 && sampling->top_k < valid) kept = sampling->top_k;
        if (sampling->top_p < 1.0f) kept = keep_top_p(c, kept, sampling);
    }
    double best = -INFINITY;
    for (int i = 0; i < kept; i++) {
        const double score =
            (double)c[i].logit / sampling->temperature + gumbel(sampling->seed, step, c[i].id);
        if (score > best || (score == best && c[i].id < *id)) {
            best = score;
            *id = c[i].id;
        }
    }
done:
    free(c);
    return status;
}
