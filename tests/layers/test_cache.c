/* The paged cache and its batches: shapes, blocks taken and given back, what is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <string.h>
#include <tpcl/attention.h>

#include "layers/kv_cache.h"
#include "tpcl_test.h"

static tpcl_group *group;

static int open_group(void **state)
{
    (void)state;
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 30};
    return tpcl_group_create(MPI_COMM_WORLD, &options, &group) == TPCL_OK ? 0 : -1;
}

static int close_group(void **state)
{
    (void)state;
    tpcl_group_destroy(&group);
    return 0;
}

/* Qwen3-0.6B: 16 q and 8 kv heads of 128, 28 layers. At 2 ranks (2, 28, blocks, 256, 4, 128). */
static void qwen3_shape(void **state)
{
    (void)state;
    enum { LAYERS = 28 };
    const int size = tpcl_group_size(group), rank = tpcl_group_rank(group);
    tpcl_head_range all[16], mine[LAYERS];
    int64_t shape[6];
    tpcl_kv_cache *cache = NULL;
    assert_ok(tpcl_shard_heads(16, 8, 1, size, NULL, 0, all));
    for (int l = 0; l < LAYERS; l++) mine[l] = all[rank];
    const tpcl_kv_cache_desc desc = {.layers = LAYERS,
                                     .head_dim = 128,
                                     .blocks = 2,
                                     .block_size = 256,
                                     .max_sequences = 1,
                                     .heads = mine};
    assert_ok(tpcl_kv_cache_create(group, &desc, &cache));
    tpcl_kv_cache_shape(cache, shape);
    const int64_t kv = tpcl_range_size(all[rank].kv);
    const int64_t want[6] = {2, LAYERS, 2, 256, kv, 128};
    assert_memory_equal(shape, want, sizeof want);
    if (size <= 2) assert_int_equal(kv, 8 / size);
    assert_int_equal(tpcl_kv_cache_bytes(cache), 2u * LAYERS * 2 * 256 * (uint64_t)kv * 128 * 2);
    tpcl_kv_cache_destroy(&cache);
}

static void blocks_are_taken_and_given_back(void **state)
{
    (void)state;
    const tpcl_head_range heads = {{0, 1}, {0, 1}};
    const tpcl_kv_cache_desc desc = {.layers = 1,
                                     .head_dim = 16,
                                     .blocks = 5,
                                     .block_size = 16,
                                     .max_sequences = 2,
                                     .f32 = true,
                                     .heads = &heads};
    static const int lengths[] = {1, 15, 16, 17, 31, 32, 33, 48};
    int32_t ids[80] = {0};
    tpcl_kv_cache *cache = NULL;
    tpcl_batch *batch = NULL;
    assert_ok(tpcl_kv_cache_create(group, &desc, &cache));
    assert_ok(tpcl_batch_create(group, cache, 80, &batch));
    for (size_t i = 0; i < COUNT(lengths); i++) {
        tpcl_batch_clear(batch);
        assert_ok(tpcl_batch_add(batch, 1, ids, lengths[i]));
        assert_int_equal(tpcl_kv_cache_length(cache, 1), lengths[i]);
        assert_int_equal(tpcl_kv_cache_blocks_used(cache, 1), (lengths[i] + 15) / 16);
        tpcl_kv_cache_free(cache, 1);
    }
    /* 5 blocks: 33 tokens take 3, then 32 fit and 33 do not; a refusal changes nothing. */
    tpcl_batch_clear(batch);
    assert_ok(tpcl_batch_add(batch, 0, ids, 33));
    assert_int_equal(tpcl_batch_add(batch, 1, ids, 33), TPCL_ERR_SHAPE);
    assert_non_null(strstr(tpcl_last_error(), "33"));
    assert_int_equal(tpcl_batch_tokens(batch), 33);
    assert_int_equal(tpcl_kv_cache_length(cache, 1), 0);
    assert_ok(tpcl_batch_add(batch, 1, ids, 32));
    assert_ok(tpcl_batch_add(batch, 0, ids, 15)); /* up to the end of its third block */
    assert_int_equal(tpcl_batch_add(batch, 0, ids, 1), TPCL_ERR_ARG); /* the batch holds 80 */
    /* No block belongs to two sequences. */
    bool taken[5] = {false};
    for (int s = 0; s < 2; s++)
        for (int b = 0; b < cache->sequences[s].n_blocks; b++) {
            assert_false(taken[cache->sequences[s].blocks[b]]);
            taken[cache->sequences[s].blocks[b]] = true;
        }
    assert_int_equal(tpcl_batch_add(batch, 2, ids, 1), TPCL_ERR_ARG);
    tpcl_batch_destroy(&batch);
    tpcl_kv_cache_destroy(&cache);
}

static void refuses_what_it_cannot_hold(void **state)
{
    (void)state;
    const tpcl_head_range heads = {{0, 1}, {0, 1}};
    const tpcl_kv_cache_desc good = {.layers = 1,
                                     .head_dim = 16,
                                     .blocks = 1,
                                     .block_size = 16,
                                     .max_sequences = 1,
                                     .heads = &heads};
    tpcl_kv_cache_desc bad[] = {good, good, good, good, good, good};
    tpcl_kv_cache *cache = NULL;
    bad[0].layers = 0;
    bad[1].head_dim = 320;
    bad[2].head_dim = 63;
    bad[3].block_size = 257;
    bad[4].blocks = 0;
    bad[5].max_sequences = 0;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(tpcl_kv_cache_create(group, &bad[i], &cache), TPCL_ERR_ARG);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen3_shape),
        cmocka_unit_test(blocks_are_taken_and_given_back),
        cmocka_unit_test(refuses_what_it_cannot_hold),
    };
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    int failed = cmocka_run_group_tests_name("layers/cache", tests, open_group, close_group),
        any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
