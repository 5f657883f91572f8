/* Bad arguments of every model call: refused on all ranks alike, and the model goes on as before.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <string.h>
#include <tpcl/model.h>

#include "golden.h"
#include "tpcl_test.h"

enum { CONTEXT = 64, VOCAB = 151 };
static const char folder[] = TPCL_GOLDEN_DIR "/tiny-qwen3";
static tpcl_group *group;
static tpcl_checkpoint *checkpoint;
static tpcl_model *model;
static golden want;
static int rank, size;

static int open_all(void **state)
{
    (void)state;
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 60};
    const tpcl_model_options m = {.kv_f32 = true, .context = CONTEXT};
    tpcl_status status = tpcl_group_create(MPI_COMM_WORLD, &options, &group);
    if (status == TPCL_OK) status = tpcl_checkpoint_open(folder, NULL, &checkpoint);
    if (status == TPCL_OK) status = tpcl_model_load(group, TPCL_OK, checkpoint, &m, &model);
    if (status != TPCL_OK) {
        print_error("%s: %s\n", folder, tpcl_last_error());
        return -1;
    }
    rank = tpcl_group_rank(group);
    size = tpcl_group_size(group);
    return golden_open(TPCL_GOLDEN_DIR "/tiny-qwen3/golden.safetensors", &want);
}

static int close_all(void **state)
{
    (void)state;
    tpcl_model_destroy(&model);
    tpcl_checkpoint_close(&checkpoint);
    tpcl_group_destroy(&group);
    golden_close(&want);
    return 0;
}

/* The golden tokens of a prompt: what every refusal is followed by. */
static void generates_as_before(void)
{
    int n = 0, n_greedy = 0, n_margin = 0;
    const int32_t *ids = golden_get(&want, 1, "ids", &n);
    const int32_t *greedy = golden_get(&want, 1, "greedy16", &n_greedy);
    const float *margin = golden_get(&want, 1, "margin16", &n_margin);
    const tpcl_generate_options o = {.n_predict = 4, .sampling = {.top_p = 1.0f}};
    tpcl_generate_result result;
    assert_true(ids && greedy && margin && n + 4 <= CONTEXT && n_greedy >= 4 && n_margin >= 4);
    assert_ok(tpcl_model_generate(model, ids, n, &o, &result));
    assert_int_equal(result.n, 4);
    for (int t = 0; t < 4 && margin[t] >= 5e-4f; t++) assert_int_equal(result.ids[t], greedy[t]);
    free(result.ids);
}

/* `bad`: this rank's arguments were the bad ones; the others hear of it. */
static void refused(tpcl_status got, bool bad, tpcl_status code, const char *message)
{
    assert_int_equal(got, bad ? code : TPCL_ERR_PEER);
    if (!strstr(tpcl_last_error(), message))
        fail_msg("rank %d: '%s' does not say '%s'", rank, tpcl_last_error(), message);
    tpcl_status whose = TPCL_OK;
    tpcl_last_failure(NULL, &whose);
    assert_int_equal(whose, code);
}

struct generate_case {
    const char *message;
    tpcl_generate_options o;
    const int32_t *ids;
    int n;
};
static const int32_t fine[3] = {5, 6, 7}, over[3] = {5, VOCAB, 7}, under[3] = {5, 6, -1};
static const int32_t many[CONTEXT + 1] = {0};
#define SAMPLING      \
    {                 \
        .top_p = 1.0f \
    }
static const struct generate_case generate_cases[] = {
    {"-1 tokens to generate: need 0", {.n_predict = -1, .sampling = SAMPLING}, fine, 3},
    {"temperature -1: need", {.sampling = {.temperature = -1, .top_p = 1}}, fine, 3},
    {"top-p 1.5: need 0 to 1", {.sampling = {.top_p = 1.5f}}, fine, 3},
    {"min-p 2: need 0", {.sampling = {.top_p = 1, .min_p = 2}}, fine, 3},
    {"repetition penalty -2", {.sampling = {.top_p = 1, .repetition_penalty = -2}}, fine, 3},
    {"the last -3 tokens", {.sampling = {.top_p = 1, .penalty_last = -3}}, fine, 3},
    {"-1 stop ids: need 0", {.sampling = SAMPLING, .n_stop_ids = -1}, fine, 3},
    {"stop_ids is NULL, of 2 ids", {.sampling = SAMPLING, .n_stop_ids = 2}, fine, 3},
    {"stop id 151 (entry 1) is outside the vocabulary of 0 to 150",
     {.sampling = SAMPLING, .stop_ids = over, .n_stop_ids = 3},
     fine,
     3},
    {"stop id -1 (entry 2)", {.sampling = SAMPLING, .stop_ids = under, .n_stop_ids = 3}, fine, 3},
    {"token 1 of the prompt is id 151, outside the vocabulary of 0 to 150",
     {.n_predict = 1, .sampling = SAMPLING},
     over,
     3},
    {"token 2 of the prompt is id -1", {.n_predict = 1, .sampling = SAMPLING}, under, 3},
    {"the prompt is empty", {.n_predict = 1, .sampling = SAMPLING}, fine, 0},
    {"the prompt has -1 tokens", {.n_predict = 1, .sampling = SAMPLING}, fine, -1},
    {"the prompt of 3 tokens is NULL", {.n_predict = 1, .sampling = SAMPLING}, NULL, 3},
    {"the prompt has 65 tokens, the context holds 64",
     {.n_predict = 1, .sampling = SAMPLING},
     many,
     CONTEXT + 1},
};

static void generate_refuses(void **state)
{
    (void)state;
    const tpcl_generate_options good = {.n_predict = 1, .sampling = SAMPLING};
    for (size_t i = 0; i < COUNT(generate_cases); i++) {
        const struct generate_case *c = &generate_cases[i];
        for (int culprit = -1; culprit < size; culprit++) { /* all ranks alike, then one alone */
            const bool bad = culprit < 0 || culprit == rank;
            tpcl_generate_result result;
            memset(&result, 0x55, sizeof result);
            const tpcl_status got = tpcl_model_generate(model, bad ? c->ids : fine, bad ? c->n : 3,
                                                        bad ? &c->o : &good, &result);
            refused(got, bad, TPCL_ERR_ARG, c->message);
            assert_true(!result.ids && result.n == 0 && result.finish == TPCL_FINISH_ERROR);
        }
        if (i % 4 == 0) generates_as_before();
    }
    generates_as_before();
}

static void generate_refuses_null(void **state)
{
    (void)state;
    const tpcl_generate_options good = {.n_predict = 1, .sampling = SAMPLING};
    tpcl_generate_result result;
    const bool bad = rank == size - 1;
    assert_int_equal(tpcl_model_generate(NULL, fine, 3, &good, &result), TPCL_ERR_ARG);
    assert_non_null(strstr(tpcl_last_error(), "model is NULL"));
    refused(tpcl_model_generate(model, fine, 3, bad ? NULL : &good, &result), bad, TPCL_ERR_ARG,
            "options is NULL");
    refused(tpcl_model_generate(model, fine, 3, &good, bad ? NULL : &result), bad, TPCL_ERR_ARG,
            "out is NULL");
    generates_as_before();
}

/* Nobody's arguments are wrong, but they are not the same. */
static void ranks_must_agree(void **state)
{
    (void)state;
    if (size == 1) return;
    const tpcl_generate_options o = {.n_predict = rank == 1 ? 2 : 3, .sampling = SAMPLING};
    const tpcl_generate_options same = {.n_predict = 2, .sampling = SAMPLING};
    static const int32_t other[3] = {5, 6, 8};
    tpcl_generate_result result;
    refused(tpcl_model_generate(model, fine, 3, &o, &result), true, TPCL_ERR_MISMATCH,
            "ranks disagree");
    refused(tpcl_model_generate(model, rank == 1 ? other : fine, 3, &same, &result), true,
            TPCL_ERR_MISMATCH, "ranks disagree");
    refused(tpcl_model_generate(model, fine, rank == 1 ? 2 : 3, &same, &result), true,
            TPCL_ERR_MISMATCH, "ranks disagree");
    generates_as_before();
}

/* The smallest and the largest that are allowed. */
static void accepts_the_limits(void **state)
{
    (void)state;
    static const int32_t ends[2] = {0, VOCAB - 1};
    tpcl_generate_options o = {.sampling = SAMPLING, .stop_ids = ends, .n_stop_ids = 2};
    tpcl_generate_result result;
    assert_ok(tpcl_model_generate(model, ends, 2, &o, &result));
    assert_true(result.n == 0 && result.finish == TPCL_FINISH_LENGTH);
    free(result.ids);
    o.n_stop_ids = 0;
    o.n_predict = 5;
    assert_ok(tpcl_model_generate(model, many, CONTEXT, &o, &result)); /* no room to generate */
    assert_true(result.n == 0 && result.finish == TPCL_FINISH_LENGTH);
    free(result.ids);
    assert_ok(tpcl_model_generate(model, many, CONTEXT - 1, &o, &result)); /* room for one */
    assert_true(result.n == 1 && result.finish == TPCL_FINISH_LENGTH);
    free(result.ids);
    assert_int_equal(tpcl_model_context(model), CONTEXT);
    assert_int_equal(tpcl_model_context(NULL), 0);
    generates_as_before();
}

/* The history is the prompt and what was generated: an endless penalty allows no id twice. */
static void the_penalty_sees_prompt_and_answer(void **state)
{
    (void)state;
    enum { N = 24 };
    const tpcl_generate_options o = {.n_predict = N,
                                     .sampling = {.top_p = 1, .repetition_penalty = 1e6f}};
    tpcl_generate_result result;
    bool seen[VOCAB] = {false};
    assert_ok(tpcl_model_generate(model, fine, 3, &o, &result));
    assert_int_equal(result.n, N);
    for (int i = 0; i < 3; i++) seen[fine[i]] = true;
    for (int i = 0; i < N; i++) {
        assert_false(seen[result.ids[i]]);
        seen[result.ids[i]] = true;
    }
    free(result.ids);
}

static int count_row(void *context, int position, const float *logits)
{
    int *rows = context;
    (void)logits;
    return (*rows)++ != position;
}

static void score_refuses(void **state)
{
    (void)state;
    int rows = 0;
    assert_int_equal(tpcl_model_score(NULL, fine, 3, count_row, &rows), TPCL_ERR_ARG);
    refused(tpcl_model_score(model, fine, 3, rank == 0 ? NULL : count_row, &rows), rank == 0,
            TPCL_ERR_ARG, "row is NULL on rank 0");
    refused(tpcl_model_score(model, over, 3, count_row, &rows), true, TPCL_ERR_ARG,
            "token 1 of the prompt is id 151");
    refused(tpcl_model_score(model, fine, 0, count_row, &rows), true, TPCL_ERR_ARG, "empty");
    refused(tpcl_model_score(model, many, CONTEXT + 1, count_row, &rows), true, TPCL_ERR_ARG,
            "65 tokens, the context holds 64");
    assert_int_equal(rows, 0);
    assert_ok(tpcl_model_score(model, fine, 3, rank == 0 ? count_row : NULL, &rows));
    assert_int_equal(rows, rank == 0 ? 3 : 0);
    generates_as_before();
}

static void shares_refuses(void **state)
{
    (void)state;
    tpcl_model_share shares[16];
    assert_int_equal(tpcl_model_shares(NULL, shares), TPCL_ERR_ARG);
    refused(tpcl_model_shares(model, NULL), rank == 0, TPCL_ERR_ARG, "out is NULL");
    assert_ok(tpcl_model_shares(model, rank == 0 ? shares : NULL));
    generates_as_before();
}

static const struct {
    const char *message;
    tpcl_model_options o;
} load_cases[] = {
    {"context -1: the model allows 1 to 32768", {.context = -1}},
    {"context 32769: the model allows 1 to 32768", {.context = 32769}},
    {"chunk -1: need 1 or more", {.chunk = -1}},
    {"-1 valid words: the model has 1 to 151", {.valid_vocab = -1}},
    {"152 valid words: the model has 1 to 151", {.valid_vocab = VOCAB + 1}},
};

static void load_refuses(void **state)
{
    (void)state;
    const tpcl_model_options good = {.context = 16};
    tpcl_model *m = (tpcl_model *)&m;
    for (size_t i = 0; i < COUNT(load_cases); i++) {
        for (int culprit = -1; culprit < size; culprit++) {
            const bool bad = culprit < 0 || culprit == rank;
            const tpcl_status got =
                tpcl_model_load(group, TPCL_OK, checkpoint, bad ? &load_cases[i].o : &good, &m);
            refused(got, bad, TPCL_ERR_ARG, load_cases[i].message);
            assert_null(m);
        }
    }
    const bool bad = rank == size - 1;
    refused(tpcl_model_load(group, TPCL_OK, bad ? NULL : checkpoint, &good, &m), bad, TPCL_ERR_ARG,
            "checkpoint is NULL");
    refused(tpcl_model_load(group, TPCL_OK, checkpoint, &good, bad ? NULL : &m), bad, TPCL_ERR_ARG,
            "out is NULL");
    assert_int_equal(tpcl_model_load(NULL, TPCL_OK, checkpoint, &good, &m), TPCL_ERR_ARG);
    assert_null(m);
    tpcl_model_destroy(&m);
    tpcl_model_destroy(NULL);
    generates_as_before();
}

static void plan_refuses(void **state)
{
    (void)state;
    tpcl_model_share share;
    const double weights[2] = {1, -1};
    for (size_t i = 0; i < COUNT(load_cases); i++) {
        assert_int_equal(tpcl_model_plan(checkpoint, 2, 0, NULL, &load_cases[i].o, &share),
                         TPCL_ERR_ARG);
        assert_non_null(strstr(tpcl_last_error(), load_cases[i].message));
    }
    assert_int_equal(tpcl_model_plan(NULL, 2, 0, NULL, NULL, &share), TPCL_ERR_ARG);
    assert_int_equal(tpcl_model_plan(checkpoint, 2, 0, NULL, NULL, NULL), TPCL_ERR_ARG);
    assert_int_equal(tpcl_model_plan(checkpoint, 2, 2, NULL, NULL, &share), TPCL_ERR_ARG);
    assert_non_null(strstr(tpcl_last_error(), "rank 2 of 2"));
    assert_int_equal(tpcl_model_plan(checkpoint, 2, -1, NULL, NULL, &share), TPCL_ERR_ARG);
    assert_int_equal(tpcl_model_plan(checkpoint, 0, 0, NULL, NULL, &share), TPCL_ERR_ARG);
    assert_int_equal(tpcl_model_plan(checkpoint, 2, 0, weights, NULL, &share), TPCL_ERR_ARG);
    assert_non_null(strstr(tpcl_last_error(), "weight -1 of rank 1"));
    assert_ok(tpcl_model_plan(checkpoint, 2, 1, NULL, NULL, &share));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generate_refuses),
        cmocka_unit_test(generate_refuses_null),
        cmocka_unit_test(ranks_must_agree),
        cmocka_unit_test(accepts_the_limits),
        cmocka_unit_test(the_penalty_sees_prompt_and_answer),
        cmocka_unit_test(score_refuses),
        cmocka_unit_test(shares_refuses),
        cmocka_unit_test(load_refuses),
        cmocka_unit_test(plan_refuses),
    };
    int provided = 0, any = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    int failed = cmocka_run_group_tests_name("model/arguments", tests, open_all, close_all);
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
