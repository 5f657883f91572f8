/* Every golden checkpoint at this number of ranks: logits of every position, and greedy tokens. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <tpcl/model.h>

#include "device/device.h"
#include "golden.h"
#include "tpcl_test.h"

enum { PROMPTS = 4, GREEDY = 16 };
static const char *const models[] = {"tiny-qwen3", "tiny-qwen3-tied", "tiny-llama",
                                     "tiny-llama-ropescale", "tiny-qwen2"};

static tpcl_group *group;
static int compared; /* a run that compared nothing has failed */

static void group_open(double w0)
{
    double weights[16] = {w0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE"),
                                        .weights = weights,
                                        .gemm = getenv("TPCL_TEST_CLBLAST") ? TPCL_GEMM_CLBLAST
                                                                            : TPCL_GEMM_AUTO,
                                        .timeout_s = 60};
    assert_ok(tpcl_group_create(MPI_COMM_WORLD, &options, &group));
    /* the kernels for GPUs, on whatever device there is */
    if (getenv("TPCL_TEST_LANES")) tpcl_group_device(group)->info.type = TPCL_DEVICE_GPU;
}

static tpcl_model *load(const char *name, bool f32, int chunk, tpcl_checkpoint **ck)
{
    char path[512];
    tpcl_model *model = NULL;
    snprintf(path, sizeof path, "%s/%s", TPCL_GOLDEN_DIR, name);
    assert_ok(tpcl_checkpoint_open(path, NULL, ck));
    const tpcl_model_options options = {.kv_f32 = f32, .chunk = chunk, .context = 128};
    assert_ok(tpcl_model_load(group, TPCL_OK, *ck, &options, &model));
    return model;
}

struct rows {
    const float *want;
    int first, vocab, seen;
    double tolerance; /* absolute: a share of the largest logit of the prompt */
};

static int compare_row(void *context, int position, const float *logits)
{
    struct rows *r = context;
    if (position < r->first) return 0;
    const float *want = r->want + (size_t)(position - r->first) * (size_t)r->vocab;
    for (int i = 0; i < r->vocab; i++)
        if (!(fabs((double)logits[i] - want[i]) <= r->tolerance)) {
            print_error("position %d, token %d: got %.9g, want %.9g within %.3g\n", position, i,
                        logits[i], want[i], r->tolerance);
            return 1;
        }
    r->seen++;
    return 0;
}

static void check_prompt(tpcl_model *model, const tpcl_checkpoint *ck, const golden *g, int i,
                         bool f32)
{
    int n = 0, n_logits = 0, n_greedy = 0, n_margin = 0;
    const int vocab = tpcl_checkpoint_config(ck)->vocab;
    const int32_t *ids = golden_get(g, i, "ids", &n);
    const float *logits = golden_get(g, i, "logits", &n_logits);
    const int32_t *greedy = golden_get(g, i, "greedy16", &n_greedy);
    const float *margin = golden_get(g, i, "margin16", &n_margin);
    assert_true(ids && logits && greedy && margin && n_greedy == GREEDY && n_margin == GREEDY);
    /* with an f16 cache the README allows 1e-2 */
    float peak = 0.0f;
    for (int k = 0; k < n_logits; k++) peak = fmaxf(peak, fabsf(logits[k]));
    struct rows r = {logits, n - n_logits / vocab, vocab, 0, (f32 ? 1e-4 : 1e-2) * peak};
    assert_ok(tpcl_model_score(model, ids, n, compare_row, &r));
    if (tpcl_group_rank(group) == 0) assert_int_equal(r.seen, n_logits / vocab);

    const tpcl_generate_options o = {.n_predict = GREEDY, .sampling = {.top_p = 1.0f}};
    tpcl_generate_result result;
    assert_ok(tpcl_model_generate(model, ids, n, &o, &result));
    assert_int_equal(result.n, GREEDY);
    assert_int_equal(result.finish, TPCL_FINISH_LENGTH);
    for (int t = 0; t < GREEDY && margin[t] >= (f32 ? 5e-4f : 2e-2f); t++) {
        if (result.ids[t] != greedy[t])
            fail_msg("prompt %d, step %d: got %d, want %d, margin %g", i, t, result.ids[t],
                     greedy[t], (double)margin[t]);
        compared++;
    }
    free(result.ids);
}

static void check_model(const char *name, bool f32, int chunk)
{
    char path[512];
    golden g;
    tpcl_checkpoint *ck = NULL;
    snprintf(path, sizeof path, "%s/%s/golden.safetensors", TPCL_GOLDEN_DIR, name);
    assert_int_equal(golden_open(path, &g), 0);
    tpcl_model *model = load(name, f32, chunk, &ck);
    for (int i = 0; i < PROMPTS; i++) check_prompt(model, ck, &g, i, f32);
    tpcl_model_destroy(&model);
    tpcl_checkpoint_close(&ck);
    golden_close(&g);
}

static void matches_golden(void **state)
{
    group_open(1.0);
    check_model(*state, true, 0);
    tpcl_group_destroy(&group);
}

/* Chunks of 7 cut every prompt but the first two; f16 cache. */
static void matches_golden_in_chunks_f16(void **state)
{
    group_open(1.0);
    check_model(*state, false, 7);
    tpcl_group_destroy(&group);
}

/* Rank 0 has three times the share of the others: nothing divides, some shards are empty. */
static void matches_golden_with_unequal_shares(void **state)
{
    group_open(3.0);
    check_model(*state, true, 0);
    tpcl_group_destroy(&group);
}

/* What `tpcl inspect` promises is what each rank then holds. */
static void holds_what_was_planned(void **state)
{
    tpcl_checkpoint *ck = NULL;
    tpcl_model_share shares[16], plan;
    group_open(3.0);
    const double weights[16] = {3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    tpcl_model *model = load(*state, true, 0, &ck);
    assert_ok(tpcl_model_shares(model, shares));
    const tpcl_model_options options = {.kv_f32 = true, .context = 128};
    for (int r = 0; tpcl_group_rank(group) == 0 && r < tpcl_group_size(group); r++) {
        assert_ok(tpcl_model_plan(ck, tpcl_group_size(group), r, weights, &options, &plan));
        assert_int_equal(shares[r].weight_bytes, plan.weight_bytes);
        assert_int_equal(shares[r].kv_bytes, plan.kv_bytes);
        assert_int_equal(shares[r].scratch_bytes, plan.scratch_bytes);
        assert_memory_equal(&shares[r].vocab, &plan.vocab, sizeof plan.vocab);
        assert_memory_equal(&shares[r].heads, &plan.heads, sizeof plan.heads);
        assert_memory_equal(&shares[r].inter, &plan.inter, sizeof plan.inter);
    }
    tpcl_model_destroy(&model);
    tpcl_checkpoint_close(&ck);
    tpcl_group_destroy(&group);
}

static void compared_something(void **state)
{
    (void)state;
    assert_true(compared > 100);
}

int main(int argc, char **argv)
{
    enum { KINDS = 4 };
    static const CMUnitTestFunction kinds[KINDS] = {matches_golden, matches_golden_in_chunks_f16,
                                                    matches_golden_with_unequal_shares,
                                                    holds_what_was_planned};
    struct CMUnitTest tests[KINDS * COUNT(models) + 1];
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    for (size_t i = 0; i < KINDS * COUNT(models); i++)
        tests[i] = (struct CMUnitTest){.name = models[i % COUNT(models)],
                                       .test_func = kinds[i / COUNT(models)],
                                       .initial_state = (void *)models[i % COUNT(models)]};
    tests[KINDS * COUNT(models)] = (struct CMUnitTest)cmocka_unit_test(compared_something);
    int failed = cmocka_run_group_tests_name("model/golden", tests, NULL, NULL), any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
