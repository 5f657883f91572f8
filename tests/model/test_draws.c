/* Drawn tokens: the same on every rank, twice, and as one rank alone draws them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <string.h>
#include <tpcl/model.h>

#include "tpcl_test.h"

enum { TOKENS = 48 };

static void draw_all(tpcl_model *model, const tpcl_sampling *kinds, int n, int32_t (*ids)[TOKENS])
{
    static const int32_t prompt[3] = {5, 6, 7};
    for (int k = 0; k < n; k++) {
        const tpcl_generate_options o = {.n_predict = TOKENS, .sampling = kinds[k]};
        tpcl_generate_result result;
        assert_ok(tpcl_model_generate(model, prompt, 3, &o, &result));
        assert_int_equal(result.n, TOKENS);
        memcpy(ids[k], result.ids, sizeof ids[k]);
        free(result.ids);
    }
}

static void draw_on(MPI_Comm comm, const tpcl_sampling *kinds, int n, int32_t (*ids)[TOKENS],
                    int32_t (*again)[TOKENS])
{
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 60};
    const tpcl_model_options m = {.kv_f32 = true, .context = 128};
    tpcl_group *group = NULL;
    tpcl_checkpoint *checkpoint = NULL;
    tpcl_model *model = NULL;
    assert_ok(tpcl_group_create(comm, &options, &group));
    assert_ok(tpcl_checkpoint_open(TPCL_GOLDEN_DIR "/tiny-llama", NULL, &checkpoint));
    assert_ok(tpcl_model_load(group, TPCL_OK, checkpoint, &m, &model));
    draw_all(model, kinds, n, ids);
    draw_all(model, kinds, n, again);
    tpcl_model_destroy(&model);
    tpcl_checkpoint_close(&checkpoint);
    tpcl_group_destroy(&group);
}

static void draws_do_not_depend_on_ranks(void **state)
{
    (void)state;
    enum { SEEDS = 5, KINDS = SEEDS + 2 };
    tpcl_sampling kinds[KINDS] = {
        [SEEDS] = {.temperature = 0.8f, .top_k = 40, .top_p = 1, .seed = 9, .min_p = 0.05f},
        [SEEDS + 1] = {.temperature = 1,
                       .top_p = 1,
                       .seed = 9,
                       .repetition_penalty = 1.3f,
                       .penalty_last = 16},
    };
    for (int i = 0; i < SEEDS; i++)
        kinds[i] = (tpcl_sampling){.temperature = 1, .top_p = 0.9f, .seed = (uint64_t)i + 1};
    int32_t alone[KINDS][TOKENS], ids[KINDS][TOKENS], again[KINDS][TOKENS], first[KINDS][TOKENS];
    draw_on(MPI_COMM_SELF, kinds, KINDS, alone, again);
    assert_memory_equal(again, alone, sizeof alone);
    draw_on(MPI_COMM_WORLD, kinds, KINDS, ids, again);
    assert_memory_equal(again, ids, sizeof ids);
    memcpy(first, ids, sizeof first);
    MPI_Bcast(first, (int)sizeof first, MPI_BYTE, 0, MPI_COMM_WORLD);
    assert_memory_equal(ids, first, sizeof ids);
    assert_memory_equal(ids, alone, sizeof ids);
    for (int i = 1; i < KINDS; i++) assert_memory_not_equal(ids[i], ids[0], sizeof ids[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(draws_do_not_depend_on_ranks)};
    int provided = 0, any = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    int failed = cmocka_run_group_tests_name("model/draws", tests, NULL, NULL);
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
