/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tpcl/sampling.h>

#include "base/error.h"

/* Below this a temperature only overflows the division: it means greedy. */
static const float GREEDY_BELOW = 1e-5f;

tpcl_status tpcl_sampling_check(const tpcl_sampling *s)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(s, TPCL_ERR_ARG, "sampling is NULL");
    TPI_REQUIRE(isfinite(s->temperature) && s->temperature >= 0.0f, TPCL_ERR_ARG,
                "temperature %g: need a finite number >= 0 (0 = greedy)", (double)s->temperature);
    TPI_REQUIRE(s->top_k >= 0, TPCL_ERR_ARG, "top-k %d: need 0 (off) or more", s->top_k);
    TPI_REQUIRE(s->top_p >= 0.0f && s->top_p <= 1.0f, TPCL_ERR_ARG,
                "top-p %g: need 0 to 1 (1 = off)", (double)s->top_p);
    TPI_REQUIRE(s->min_p >= 0.0f && s->min_p <= 1.0f, TPCL_ERR_ARG, "min-p %g: need 0 (off) to 1",
                (double)s->min_p);
    TPI_REQUIRE(isfinite(s->repetition_penalty) && s->repetition_penalty >= 0.0f, TPCL_ERR_ARG,
                "repetition penalty %g: need a finite number >= 0 (0 or 1 = off)",
                (double)s->repetition_penalty);
    TPI_REQUIRE(s->penalty_last >= 0, TPCL_ERR_ARG,
                "penalty over the last %d tokens: need 0 (all) or more", s->penalty_last);
done:
    return status;
}

/* A masked one stays in the list: it is the worst, its probability is 0, and every other beats it.
 */
typedef struct candidate {
    double logit; /* f64, so that no penalty makes an infinity of a finite logit */
    int32_t id;
} candidate;

/* Best first; the lower id first on a tie. A total order, so every rank count sorts alike. */
static int by_logit(const void *pa, const void *pb)
{
    const candidate *a = pa, *b = pb;
    if (a->logit != b->logit) return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
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

static bool greedy(const tpcl_sampling *s)
{
    return s->temperature < GREEDY_BELOW;
}

static bool penalised(const tpcl_sample_input *in, const tpcl_sampling *s)
{
    return s->repetition_penalty != 0.0f && s->repetition_penalty != 1.0f && in->n_history > 0;
}

static tpcl_status check(const tpcl_sample_input *in, const tpcl_sampling *s, int valid)
{
    tpcl_status status = TPCL_OK;
    int open = 0;
    TPI_TRY(tpcl_sampling_check(s));
    TPI_REQUIRE(in->logits, TPCL_ERR_ARG, "sample: logits is NULL");
    TPI_REQUIRE(in->n >= 1, TPCL_ERR_ARG, "sample: %d logits, need 1 or more", in->n);
    TPI_REQUIRE(valid >= 1 && valid <= in->n, TPCL_ERR_ARG, "sample: %d valid of %d logits", valid,
                in->n);
    TPI_REQUIRE(in->n_history >= 0, TPCL_ERR_ARG, "sample: a history of %d ids", in->n_history);
    TPI_REQUIRE(in->history || in->n_history == 0, TPCL_ERR_ARG,
                "sample: history of %d ids is NULL", in->n_history);
    for (int i = 0; i < in->n_history; i++)
        TPI_REQUIRE(in->history[i] >= 0 && in->history[i] < in->n, TPCL_ERR_ARG,
                    "sample: entry %d of the history is id %d, outside the vocabulary of 0 to %d",
                    i, in->history[i], in->n - 1);
    for (int i = 0; i < valid; i++) {
        const float v = in->logits[i];
        TPI_REQUIRE(!isnan(v) && v != INFINITY, TPCL_ERR_NONFINITE, "logit of token %d is %g", i,
                    (double)v);
        open += v != -INFINITY;
    }
    TPI_REQUIRE(open > 0, TPCL_ERR_NONFINITE,
                "logits of tokens 0 to %d are all masked (-infinity): none can be chosen",
                valid - 1);
done:
    return status;
}

/* Step 2. Here candidate i is token i. A candidate's own id marks it as done: its complement. */
static void penalise(candidate *c, int valid, const tpcl_sample_input *in, const tpcl_sampling *s)
{
    const double penalty = s->repetition_penalty;
    const int last = s->penalty_last;
    for (int i = last > 0 && last < in->n_history ? in->n_history - last : 0; i < in->n_history;
         i++) {
        const int32_t id = in->history[i];
        if (id >= valid || c[id].id < 0) continue;
        c[id].logit = c[id].logit > 0.0 ? c[id].logit / penalty : c[id].logit * penalty;
        c[id].id = ~c[id].id;
    }
    for (int i = 0; i < valid; i++) c[i].id = i;
}

/* Restores the heap of n candidates, the worst on top, from `at` down. */
static void sift(candidate *heap, int n, int at)
{
    const candidate moved = heap[at];
    for (int child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && by_logit(&heap[child + 1], &heap[child]) > 0) child++;
        if (by_logit(&moved, &heap[child]) >= 0) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* Moves the k best to the front: nearly all of a large vocabulary is compared once and left. */
static void bring_best(candidate *c, int n, int k)
{
    for (int i = k / 2 - 1; i >= 0; i--) sift(c, k, i);
    for (int i = k; i < n; i++) {
        if (by_logit(&c[i], &c[0]) > 0) continue;
        const candidate worse = c[0];
        c[0] = c[i];
        c[i] = worse;
        sift(c, k, 0);
    }
}

/* How likely `c` is beside one whose logit is `best`. */
static double relative(const candidate *c, double best, const tpcl_sampling *s)
{
    return exp((c->logit - best) / s->temperature);
}

/* Step 6: the shortest head whose mass reaches p. It is mostly short, so few are sorted at first.
 */
static int keep_top_p(candidate *c, int n, double best, const tpcl_sampling *s)
{
    enum { FIRST = 256, GROWTH = 16 };
    double total = 0.0;
    for (int i = 0; i < n; i++) total += relative(&c[i], best, s);
    for (int head = n < FIRST ? n : FIRST;; head = n / GROWTH < head ? n : head * GROWTH) {
        double mass = 0.0;
        bring_best(c, n, head);
        qsort(c, (size_t)head, sizeof *c, by_logit);
        for (int i = 0; i < head; i++) {
            mass += relative(&c[i], best, s);
            if (mass >= (double)s->top_p * total) return i + 1;
        }
        if (head == n) return n;
    }
}

static int keep_min_p(candidate *c, int n, double best, const tpcl_sampling *s)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (relative(&c[i], best, s) >= (double)s->min_p) c[kept++] = c[i];
    return kept;
}

/* Steps 5 to 7. Returns how many of n are left, at least one. */
static int narrow(candidate *c, int n, const tpcl_sampling *s)
{
    double best = -INFINITY;
    for (int i = 0; i < n; i++) best = fmax(best, c[i].logit);
    if (s->top_k > 0 && s->top_k < n) {
        bring_best(c, n, s->top_k);
        n = s->top_k;
    }
    if (s->top_p < 1.0f) n = keep_top_p(c, n, best, s);
    if (s->min_p > 0.0f) n = keep_min_p(c, n, best, s);
    return n;
}

/* Step 8; for greedy, step 3, without noise. */
static int32_t best_of(const candidate *c, int n, const tpcl_sampling *s, uint64_t step)
{
    double best = -INFINITY;
    int32_t id = -1;
    for (int i = 0; i < n; i++) {
        const double score =
            greedy(s) ? c[i].logit : c[i].logit / s->temperature + gumbel(s->seed, step, c[i].id);
        if (score > best || (score == best && c[i].id < id)) {
            best = score;
            id = c[i].id;
        }
    }
    return id;
}

static int32_t argmax(const float *logits, int valid)
{
    int best = 0;
    for (int i = 1; i < valid; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

tpcl_status tpcl_sample(const tpcl_sample_input *in, const tpcl_sampling *s, int32_t *id)
{
    tpcl_status status = TPCL_OK;
    candidate *c = NULL;

    TPI_REQUIRE(in && s && id, TPCL_ERR_ARG, "sample: %s is NULL",
                !in  ? "input"
                : !s ? "sampling"
                     : "id");
    const int valid = in->valid ? in->valid : in->n;
    TPI_TRY(check(in, s, valid));
    if (greedy(s) && !penalised(in, s)) {
        *id = argmax(in->logits, valid);
        goto done;
    }
    c = malloc((size_t)valid * sizeof *c);
    TPI_REQUIRE(c, TPCL_ERR_NOMEM, "sampling %d candidates", valid);
    for (int i = 0; i < valid; i++) c[i] = (candidate){in->logits[i], i};
    if (penalised(in, s)) penalise(c, valid, in, s);
    const int kept = greedy(s) ? valid : narrow(c, valid, s);
    *id = best_of(c, kept, s, in->step);
done:
    free(c);
    return status;
}
