/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/model.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tpcl_status check_ids(const tpcl_model *m, const int32_t *ids, int n)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(n >= 0, TPCL_ERR_ARG, "the prompt has %d tokens: need 1 or more", n);
    TPI_REQUIRE(n > 0, TPCL_ERR_ARG, "the prompt is empty: no token to start from");
    TPI_REQUIRE(ids, TPCL_ERR_ARG, "the prompt of %d tokens is NULL", n);
    TPI_REQUIRE(n <= m->plan.context, TPCL_ERR_ARG,
                "the prompt has %d tokens, the context holds %d; shorten it or raise --ctx (the "
                "model allows %d)",
                n, m->plan.context, m->config.max_context);
    for (int i = 0; i < n; i++)
        TPI_REQUIRE(ids[i] >= 0 && ids[i] < m->config.vocab, TPCL_ERR_ARG,
                    "token %d of the prompt is id %d, outside the vocabulary of 0 to %d", i, ids[i],
                    m->config.vocab - 1);
done:
    return status;
}

static tpcl_status check_options(const tpcl_model *m, const tpcl_generate_options *o)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(o, TPCL_ERR_ARG, "generate: options is NULL");
    TPI_TRY(tpcl_sampling_check(&o->sampling));
    TPI_REQUIRE(o->n_predict >= 0, TPCL_ERR_ARG, "%d tokens to generate: need 0 or more",
                o->n_predict);
    TPI_REQUIRE(o->n_stop_ids >= 0, TPCL_ERR_ARG, "%d stop ids: need 0 or more", o->n_stop_ids);
    TPI_REQUIRE(o->stop_ids || o->n_stop_ids == 0, TPCL_ERR_ARG, "stop_ids is NULL, of %d ids",
                o->n_stop_ids);
    for (int i = 0; i < o->n_stop_ids; i++)
        TPI_REQUIRE(o->stop_ids[i] >= 0 && o->stop_ids[i] < m->config.vocab, TPCL_ERR_ARG,
                    "stop id %d (entry %d) is outside the vocabulary of 0 to %d", o->stop_ids[i], i,
                    m->config.vocab - 1);
done:
    return status;
}

/* FNV-1a of what every rank must have been given alike: it decides how many collectives follow. */
static int64_t fingerprint(const int32_t *ids, int n, int n_predict)
{
    uint64_t hash = 0xcbf29ce484222325u ^ (uint32_t)n_predict;
    for (int i = 0; i < n; i++) hash = (hash ^ (uint32_t)ids[i]) * 0x100000001b3u;
    return (int64_t)(hash >> 1);
}

/* Checks the input on every rank, and that all were given the same. */
static tpcl_status begin(tpcl_model *m, tpcl_status local, const int32_t *ids, int n, int n_predict)
{
    tpcl_status status = local;
    if (status == TPCL_OK) status = check_ids(m, ids, n);
    TPI_TRY(tpcl_comm_agree(m->group->comm, status, "arguments"));
    int64_t low = fingerprint(ids, n, n_predict), high = low;
    TPI_TRY(tpcl_comm_allreduce_min(m->group->comm, TPCL_OK, &low, 1));
    TPI_TRY(tpcl_comm_allreduce_max(m->group->comm, TPCL_OK, &high, 1));
    TPI_REQUIRE(low == high, TPCL_ERR_MISMATCH,
                "ranks disagree: they were given different prompts, or token counts");
    tpi_model_reset(m);
done:
    return status;
}

/* The next n <= chunk tokens through every layer. */
static tpcl_status advance(tpcl_model *m, const int32_t *ids, int n)
{
    tpcl_batch_clear(m->batch);
    const tpcl_status status = tpcl_batch_add(m->batch, 0, ids, n);
    if (status != TPCL_OK) return tpcl_comm_agree(m->group->comm, status, "batch");
    return tpi_model_forward(m, true);
}

/* What rank 0 tells the others after each token. */
typedef struct verdict {
    int32_t id;
    enum { GO_ON, STOP, ENDED_BY_CALLER, INTERRUPTED } next;
} verdict;

/* A bad logit is one rank's: name it, and the step. -infinity is bad only where all are. */
static tpcl_status name_bad_logit(const tpcl_model *m, int step)
{
    const int size = m->group->size;
    int bad = 0;
    while (bad < m->valid_vocab && m->logits[bad] < INFINITY) bad++;
    if (bad == m->valid_vocab) bad = 0;
    tpcl_range *rows = malloc((size_t)size * sizeof *rows);
    int owner = 0;
    if (rows && tpcl_shard_split(m->config.vocab, 1, size, m->group->weights, 0, rows) == TPCL_OK)
        while (owner < size - 1 && bad >= rows[owner].end) owner++;
    free(rows);
    return tpi_fail(
        TPCL_ERR_NONFINITE,
        "step %d: the logit of token %d, from rank %d, is %g: the weights or the device are faulty",
        step, bad, owner, (double)m->logits[bad]);
}

/* A sequence in the making: the prompt, then what was generated. */
typedef struct sequence {
    const tpcl_generate_options *options;
    int32_t *ids;
    int n, prompt;
} sequence;

static tpcl_status decide(tpcl_model *m, const sequence *q, verdict *v)
{
    const tpcl_generate_options *o = q->options;
    const int step = q->n - q->prompt;
    const tpcl_sample_input in = {.logits = m->logits,
                                  .n = m->config.vocab,
                                  .valid = m->valid_vocab,
                                  .history = q->ids,
                                  .n_history = q->n,
                                  .step = (uint64_t)step};
    const tpcl_status status = tpcl_sample(&in, &o->sampling, &v->id);
    if (status == TPCL_ERR_NONFINITE) return name_bad_logit(m, step);
    if (status != TPCL_OK) return status;
    v->next = GO_ON;
    for (int i = 0; i < o->n_stop_ids; i++)
        if (o->stop_ids[i] == v->id) v->next = STOP;
    if (o->interrupt && *o->interrupt) v->next = INTERRUPTED;
    if (v->next == GO_ON && o->token && o->token(o->token_context, v->id) != 0)
        v->next = ENDED_BY_CALLER;
    return status;
}

static tpcl_status next_token(tpcl_model *m, const sequence *q, verdict *v)
{
    tpcl_status status = TPCL_OK;
    memset(v, 0, sizeof *v);
    if (m->group->rank == 0) status = decide(m, q, v);
    return tpcl_comm_broadcast(m->group->comm, status, v, sizeof *v, 0);
}

static tpcl_status logits_of_last(tpcl_model *m)
{
    int row = 0, n = 0; /* of one sequence */
    const tpcl_status status = tpcl_batch_last_rows(m->batch, &row, &n);
    if (status != TPCL_OK) return status;
    return tpcl_lm_head_forward(m->head, m->x, &row, n, m->logits);
}

static tpcl_status decode(tpcl_model *m, sequence *q, int room, tpcl_generate_result *out)
{
    tpcl_status status = TPCL_OK;
    const double first = now();
    out->finish = TPCL_FINISH_LENGTH;
    while (out->n < room) {
        verdict v;
        TPI_TRY(next_token(m, q, &v));
        TPI_REQUIRE(v.next != INTERRUPTED, TPCL_ERR_INTERRUPTED, "interrupted after %d tokens",
                    out->n);
        if (v.next == STOP) {
            out->finish = TPCL_FINISH_STOP;
            break;
        }
        q->ids[q->n++] = out->ids[out->n++] = v.id;
        out->generation_s = now() - first;
        if (v.next == ENDED_BY_CALLER || out->n == room) break;
        TPI_TRY(advance(m, &v.id, 1));
        TPI_TRY(logits_of_last(m));
    }
done:
    return status;
}

tpcl_status tpcl_model_generate(tpcl_model *m, const int32_t *ids, int n,
                                const tpcl_generate_options *o, tpcl_generate_result *out)
{
    tpcl_status status = TPCL_OK;
    sequence q = {.options = o, .n = n, .prompt = n};
    if (out) *out = (tpcl_generate_result){.finish = TPCL_FINISH_ERROR};
    TPI_REQUIRE(m, TPCL_ERR_ARG, "generate: model is NULL");
    status = out ? check_options(m, o) : tpi_fail(TPCL_ERR_ARG, "generate: out is NULL");
    TPI_TRY(begin(m, status, ids, n, o ? o->n_predict : 0));
    const int space = m->plan.context - n;
    const int room = o->n_predict < space ? o->n_predict : space;
    out->ids = malloc(((size_t)room + 1) * sizeof *out->ids);
    q.ids = malloc((size_t)(n + room) * sizeof *q.ids);
    if (!out->ids || !q.ids) TPI_FAIL(TPCL_ERR_NOMEM, "%d tokens", room);
    TPI_TRY(tpcl_comm_agree(m->group->comm, status, "generation"));
    memcpy(q.ids, ids, (size_t)n * sizeof *ids);

    const double start = now();
    for (int at = 0; at < n; at += m->plan.chunk)
        TPI_TRY(advance(m, ids + at, n - at < m->plan.chunk ? n - at : m->plan.chunk));
    TPI_TRY(logits_of_last(m));
    out->first_token_s = now() - start;
    TPI_TRY(decode(m, &q, room, out));
done:
    if (status != TPCL_OK && out) out->finish = TPCL_FINISH_ERROR;
    free(q.ids);
    return status;
}

static tpcl_status score_rows(tpcl_model *m, int first, int n,
                              int (*row)(void *context, int position, const float *logits),
                              void *context)
{
    tpcl_status status = TPCL_OK;
    for (int at = 0; at < n; at += TPI_LOGIT_ROWS) {
        const int rows = n - at < TPI_LOGIT_ROWS ? n - at : TPI_LOGIT_ROWS;
        int which[TPI_LOGIT_ROWS];
        for (int i = 0; i < rows; i++) which[i] = at + i;
        TPI_TRY(tpcl_lm_head_forward(m->head, m->x, which, rows, m->logits));
        for (int i = 0; m->group->rank == 0 && i < rows && status == TPCL_OK; i++)
            if (row(context, first + at + i, m->logits + (size_t)i * (size_t)m->config.vocab) != 0)
                TPI_FAIL(TPCL_ERR_IO, "the logits of position %d could not be stored",
                         first + at + i);
        TPI_TRY(tpcl_comm_agree(m->group->comm, status, "storing logits"));
    }
done:
    return status;
}

tpcl_status tpcl_model_score(tpcl_model *m, const int32_t *ids, int n,
                             int (*row)(void *context, int position, const float *logits),
                             void *context)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(m, TPCL_ERR_ARG, "score: model is NULL");
    if (m->group->rank == 0 && !row) TPI_FAIL(TPCL_ERR_ARG, "score: row is NULL on rank 0");
    TPI_TRY(begin(m, status, ids, n, 0));
    for (int at = 0; at < n; at += m->plan.chunk) {
        const int rows = n - at < m->plan.chunk ? n - at : m->plan.chunk;
        TPI_TRY(advance(m, ids + at, rows));
        TPI_TRY(score_rows(m, at, rows, row, context));
    }
done:
    return status;
}
