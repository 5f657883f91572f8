/* The real checkpoint at this number of ranks: 48 greedy tokens of four prompts, their logits, and
 * a context that fills up. Exit code 77 (skipped) where scripts/fetch-model.sh has not run. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <tpcl/model.h>
#include <unistd.h>

#include "golden.h"
#include "tpcl_test.h"

enum { PROMPTS = 4, GREEDY = 48, SKIPPED = 77 };
static const char model_path[] = TPCL_MODEL_DIR "/SmolLM2-135M-Instruct.Q4_1.gguf";

static tpcl_group *group;
static tpcl_checkpoint *checkpoint;
static tpcl_model *model;
static golden expected;

static int load(void **state)
{
    (void)state;
    const tpcl_group_options g = {.device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 120};
    const tpcl_model_options m = {.kv_f32 = true, .context = 128, .chunk = 20};
    if (golden_open(TPCL_GOLDEN_DIR "/smollm2-135m/golden.safetensors", &expected) != 0) return -1;
    tpcl_status status = tpcl_group_create(MPI_COMM_WORLD, &g, &group);
    if (status == TPCL_OK) status = tpcl_checkpoint_open(model_path, NULL, &checkpoint);
    if (status == TPCL_OK) status = tpcl_model_load(group, TPCL_OK, checkpoint, &m, &model);
    if (status != TPCL_OK) print_error("%s\n", tpcl_last_error());
    return status == TPCL_OK ? 0 : -1;
}

static int unload(void **state)
{
    (void)state;
    tpcl_model_destroy(&model);
    tpcl_checkpoint_close(&checkpoint);
    tpcl_group_destroy(&group);
    golden_close(&expected);
    return 0;
}

static void every_greedy_token_matches(void **state)
{
    (void)state;
    for (int i = 0; i < PROMPTS; i++) {
        int n = 0, n_want = 0;
        const int32_t *ids = golden_get(&expected, i, "ids", &n);
        const int32_t *want = golden_get(&expected, i, "greedy48", &n_want);
        const tpcl_generate_options o = {.n_predict = GREEDY, .sampling = {.top_p = 1.0f}};
        tpcl_generate_result result;
        assert_true(ids && n_want == GREEDY);
        assert_ok(tpcl_model_generate(model, ids, n, &o, &result));
        assert_int_equal(result.n, GREEDY);
        for (int t = 0; t < GREEDY; t++)
            if (result.ids[t] != want[t])
                fail_msg("prompt %d, step %d: got %d, want %d", i, t, result.ids[t], want[t]);
        free(result.ids);
    }
}

static int keep_last(void *context, int position, const float *logits)
{
    (void)position;
    memcpy(context, logits, 49152 * sizeof *logits);
    return 0;
}

static void last_logits_match(void **state)
{
    (void)state;
    float *got = malloc(49152 * sizeof *got);
    for (int i = 0; i < PROMPTS; i++) {
        int n = 0, n_want = 0;
        const int32_t *ids = golden_get(&expected, i, "ids", &n);
        const float *want = golden_get(&expected, i, "last_logits", &n_want);
        float peak = 0.0f;
        assert_ok(tpcl_model_score(model, ids, n, keep_last, got));
        if (tpcl_group_rank(group) != 0) continue;
        for (int k = 0; k < n_want; k++) peak = fmaxf(peak, fabsf(want[k]));
        assert_close(got, want, (size_t)n_want, 0.0, 1e-4 * peak);
    }
    free(got);
}

/* A stop id ends generation and is not among the ids; without it the same tokens go on. */
static void stop_ids_end_generation(void **state)
{
    (void)state;
    int n = 0, n_want = 0;
    const int32_t *ids = golden_get(&expected, 1, "ids", &n);
    const int32_t *want = golden_get(&expected, 1, "greedy48", &n_want);
    int first = 9; /* a step whose token did not come before */
    for (int t = 0; t < first; t++)
        if (want[t] == want[first]) first++, t = -1;
    const tpcl_generate_options o = {.n_predict = GREEDY,
                                     .sampling = {.top_p = 1.0f},
                                     .stop_ids = &want[first],
                                     .n_stop_ids = 1};
    tpcl_generate_result result;
    assert_ok(tpcl_model_generate(model, ids, n, &o, &result));
    assert_int_equal(result.finish, TPCL_FINISH_STOP);
    assert_int_equal(result.n, first);
    free(result.ids);
}

/* Context 128: 120 tokens leave room for 8, 128 for none, 129 are refused with both numbers. */
static void the_context_ends_generation(void **state)
{
    (void)state;
    int32_t ids[129];
    const tpcl_generate_options o = {.n_predict = 40, .sampling = {.top_p = 1.0f}};
    tpcl_generate_result result;
    for (int i = 0; i < 129; i++) ids[i] = 100 + i;
    assert_ok(tpcl_model_generate(model, ids, 120, &o, &result));
    assert_int_equal(result.n, 8);
    assert_int_equal(result.finish, TPCL_FINISH_LENGTH);
    free(result.ids);
    assert_ok(tpcl_model_generate(model, ids, 128, &o, &result));
    assert_int_equal(result.n, 0);
    assert_int_equal(result.finish, TPCL_FINISH_LENGTH);
    free(result.ids);
}

/* Last: a refused input is an error of the whole group. */
static void a_long_prompt_is_refused(void **state)
{
    (void)state;
    int32_t ids[129] = {0};
    const tpcl_generate_options o = {.n_predict = 1, .sampling = {.top_p = 1.0f}};
    tpcl_generate_result result;
    assert_int_equal(tpcl_model_generate(model, ids, 129, &o, &result), TPCL_ERR_ARG);
    assert_non_null(strstr(tpcl_last_error(), "129"));
    assert_non_null(strstr(tpcl_last_error(), "128"));
    free(result.ids);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_greedy_token_matches), cmocka_unit_test(last_logits_match),
        cmocka_unit_test(stop_ids_end_generation),    cmocka_unit_test(the_context_ends_generation),
        cmocka_unit_test(a_long_prompt_is_refused),
    };
    if (access(model_path, R_OK) != 0) {
        print_message("skipped: %s is missing, run scripts/fetch-model.sh\n", model_path);
        return SKIPPED;
    }
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    int failed = cmocka_run_group_tests_name("model/smollm2", tests, load, unload), any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
