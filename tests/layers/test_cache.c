/* The paged cache and its batches: sizes, blocks taken, shared and given back, what is refused. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "layers/kv_cache.h"
#include "layers_test.h"

static const tpcl_head_range one_head = {{0, 1}, {0, 1}};

static tpcl_kv_cache_desc small_desc(int blocks, int block_size, int sequences)
{
    return (tpcl_kv_cache_desc){.layers = 1,
                                .head_dim = 16,
                                .blocks = blocks,
                                .block_size = block_size,
                                .max_sequences = sequences,
                                .f32 = true,
                                .heads = &one_head};
}

static tpcl_batch *make_batch(tpcl_kv_cache *cache, int max_tokens, int vocab)
{
    const tpcl_batch_options options = {.max_tokens = max_tokens, .vocab = vocab};
    tpcl_batch *batch = NULL;
    assert_ok(tpcl_batch_create(group, cache, &options, &batch));
    return batch;
}

/* Qwen3-0.6B: 16 q and 8 kv heads of 128, 28 layers: (2, 28, blocks, 256, 8 / ranks, 128). */
static void has_the_six_dimensions_of_qwen3(void **state)
{
    (void)state;
    enum { LAYERS = 28 };
    tpcl_head_range all[MAX_RANKS], mine[LAYERS];
    for (int ranks = 1; ranks <= 2; ranks++) {
        tpcl_kv_cache_size plan;
        assert_ok(tpcl_shard_heads(16, 8, 1, ranks, NULL, 0, all));
        for (int l = 0; l < LAYERS; l++) mine[l] = all[ranks - 1];
        const tpcl_kv_cache_desc desc = {
            .layers = LAYERS, .head_dim = 128, .blocks = 100, .block_size = 256, .heads = mine};
        assert_ok(tpcl_kv_cache_plan(&desc, &plan));
        const int64_t want[6] = {2, LAYERS, 100, 256, 8 / ranks, 128};
        assert_memory_equal(plan.shape, want, sizeof want);
        /* 2 (K and V) * 28 layers * 8 heads * 128 * 2 bytes = 114688 bytes a token on one rank */
        assert_int_equal(plan.token_bytes, 114688u / (unsigned)ranks);
        assert_int_equal(plan.block_bytes, 256u * 114688u / (unsigned)ranks);
        assert_int_equal(plan.bytes, UINT64_C(25600) * 114688u / (unsigned)ranks);
    }
    int64_t shape[6];
    tpcl_kv_cache *cache = NULL;
    assert_ok(tpcl_shard_heads(16, 8, 1, size, test_weights(), 0, all));
    for (int l = 0; l < LAYERS; l++) mine[l] = all[rank];
    const tpcl_kv_cache_desc desc = {.layers = LAYERS,
                                     .head_dim = 128,
                                     .blocks = 2,
                                     .block_size = 256,
                                     .max_sequences = 1,
                                     .heads = mine};
    tpcl_kv_cache_size plan;
    assert_ok(tpcl_kv_cache_plan(&desc, &plan));
    assert_ok(tpcl_kv_cache_create(group, &desc, &cache));
    tpcl_kv_cache_shape(cache, shape);
    assert_memory_equal(shape, plan.shape, sizeof shape);
    assert_int_equal(tpcl_kv_cache_bytes(cache), plan.bytes);
    assert_int_equal(tpcl_kv_cache_token_bytes(cache), plan.token_bytes);
    assert_int_equal(tpcl_kv_cache_blocks(cache), 2);
    tpcl_kv_cache_destroy(&cache);
}

static void plans_by_memory(void **state)
{
    (void)state;
    tpcl_kv_cache_size plan;
    tpcl_kv_cache_desc d = small_desc(0, 16, 1);
    d.v_head_dim = 48; /* a token: (16 + 48) * 4 bytes = 256 */
    d.memory_bytes = 10 * 16 * 256 + 4095;
    assert_ok(tpcl_kv_cache_plan(&d, &plan));
    assert_int_equal(plan.token_bytes, 256);
    assert_int_equal(plan.shape[2], 10);
    assert_int_equal(plan.bytes, 10 * 16 * 256);
    d.memory_bytes = 4095; /* a byte less than a block */
    assert_ok(tpcl_kv_cache_plan(&d, &plan));
    assert_int_equal(plan.shape[2], 0);
    const tpcl_head_range none = {{0, 0}, {0, 0}};
    d.heads = &none;
    assert_ok(tpcl_kv_cache_plan(&d, &plan));
    assert_int_equal(plan.shape[2], INT32_MAX);
    assert_int_equal(plan.bytes, 0);
    const tpcl_head_range many = {{0, INT_MAX}, {0, INT_MAX}};
    d = small_desc(INT_MAX / 256, 256, 1);
    d.head_dim = 256;
    d.heads = &many;
    assert_refused(tpcl_kv_cache_plan(&d, &plan), TPCL_ERR_SHAPE, "64 bits");
    d = small_desc(0, 16, 1);
    assert_refused(tpcl_kv_cache_plan(&d, &plan), TPCL_ERR_ARG, "0 blocks and 0 bytes");
    assert_refused(tpcl_kv_cache_plan(NULL, &plan), TPCL_ERR_ARG, "desc is NULL");
    assert_refused(tpcl_kv_cache_plan(&d, NULL), TPCL_ERR_ARG, "out is NULL");
}

/* Rank r can hold 10 + r blocks, but one without heads any number; all get the least. */
static void takes_the_least_of_all_ranks(void **state)
{
    (void)state;
    tpcl_head_range all[MAX_RANKS];
    tpcl_kv_cache *cache = NULL;
    assert_ok(tpcl_shard_heads(4, 2, 1, size, test_weights(), 0, all));
    int least = 0;
    while (tpcl_range_size(all[least].kv) == 0) least++;
    for (int r = 0; r < size; r++) { /* fewer bytes a block on ranks with fewer heads */
        if (tpcl_range_size(all[r].kv) == 0) continue;
        if ((10 + r) * 2 / tpcl_range_size(all[r].kv) <
            (10 + least) * 2 / tpcl_range_size(all[least].kv))
            least = r;
    }
    tpcl_kv_cache_desc d = small_desc(0, 16, 3);
    d.heads = &all[rank];
    d.memory_bytes = (uint64_t)(10 + rank) * 2 * 16 * 16 * 2 * 4; /* blocks of two kv heads */
    assert_ok(tpcl_kv_cache_create(group, &d, &cache));
    assert_int_equal(tpcl_kv_cache_blocks(cache),
                     (10 + least) * 2 / tpcl_range_size(all[least].kv));
    tpcl_kv_cache_destroy(&cache);

    d.max_length = 17; /* two blocks of each of three sequences: more would be of no use */
    assert_ok(tpcl_kv_cache_create(group, &d, &cache));
    assert_int_equal(tpcl_kv_cache_blocks(cache), 6);
    tpcl_kv_cache_destroy(&cache);
    d.max_length = 0;

    const uint64_t limit = group->dev->info.max_alloc_bytes; /* K of a layer is one buffer */
    group->dev->info.max_alloc_bytes = 3 * 2 * 16 * 16 * 4;
    assert_ok(tpcl_kv_cache_create(group, &d, &cache));
    assert_in_range(tpcl_kv_cache_blocks(cache), 3, 6);
    tpcl_kv_cache_destroy(&cache);
    group->dev->info.max_alloc_bytes = limit;

    d.memory_bytes = 1;
    assert_refused(tpcl_kv_cache_create(group, &d, &cache), TPCL_ERR_SHAPE,
                   "no room for one block");
    assert_null(cache);
    const tpcl_head_range none = {{0, 0}, {0, 0}};
    d.heads = &none;
    assert_refused(tpcl_kv_cache_create(group, &d, &cache), TPCL_ERR_ARG, "no rank has kv heads");
    assert_null(cache);
    d.heads = &all[rank];
    if (size > 1) {
        d.memory_bytes = 1 << 20;
        d.block_size = rank == size - 1 ? 32 : 16;
        assert_refused(tpcl_kv_cache_create(group, &d, &cache), TPCL_ERR_MISMATCH,
                       "block_size is 16 on one rank, 32 on another");
        assert_null(cache);
    }
    assert_ok(tpcl_comm_agree(tpcl_group_comm(group), TPCL_OK, "the group is as before"));
}

/* Of 101 blocks' bytes that are left, each of the ranks on the device takes nine tenths of a share.
 */
static void takes_nine_tenths_of_what_is_left(void **state)
{
    (void)state;
    enum { BYTES = 16 * 16 * 2 * 4 }; /* of a block */
    tpcl_device *dev = tpcl_group_device(group);
    const uint64_t budget = dev->budget_bytes;
    const int sharers = group->sharers;
    tpcl_kv_cache_desc d = small_desc(0, 16, 1);
    tpcl_kv_cache *cache = NULL;
    assert_true(sharers >= 1);
    for (int ranks = 1; ranks <= 3; ranks++) {
        group->sharers = ranks;
        dev->budget_bytes = tpi_device_used_bytes(dev) + 101 * BYTES;
        assert_ok(tpcl_kv_cache_create(group, &d, &cache));
        assert_int_equal(tpcl_kv_cache_blocks(cache), 90 / ranks);
        tpcl_kv_cache_destroy(&cache);
    }
    dev->budget_bytes = tpi_device_used_bytes(dev); /* nothing left */
    assert_refused(tpcl_kv_cache_create(group, &d, &cache), TPCL_ERR_SHAPE, "no room");
    dev->budget_bytes = budget;
    group->sharers = sharers;
}

static void blocks_are_taken_and_given_back(void **state)
{
    (void)state;
    static const int lengths[] = {1, 15, 16, 17, 31, 32, 33, 48};
    const tpcl_kv_cache_desc desc = small_desc(5, 16, 2);
    int32_t ids[80] = {0};
    tpcl_kv_cache *cache = NULL;
    assert_ok(tpcl_kv_cache_create(group, &desc, &cache));
    tpcl_batch *batch = make_batch(cache, 80, 0);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        tpcl_batch_clear(batch);
        assert_ok(tpcl_batch_add(batch, 1, ids, lengths[i]));
        assert_int_equal(tpcl_kv_cache_length(cache, 1), lengths[i]);
        assert_int_equal(tpcl_kv_cache_blocks_used(cache, 1), (lengths[i] + 15) / 16);
        assert_int_equal(tpcl_kv_cache_free_blocks(cache), 5 - (lengths[i] + 15) / 16);
        tpcl_kv_cache_free(cache, 1);
    }
    /* 5 blocks: 33 tokens take 3, then 32 fit and 33 do not; a refusal changes nothing. */
    tpcl_batch_clear(batch);
    assert_ok(tpcl_batch_add(batch, 0, ids, 33));
    assert_refused(tpcl_batch_add(batch, 1, ids, 33), TPCL_ERR_SHAPE, "33 more, 2 blocks of 16");
    assert_int_equal(tpcl_batch_tokens(batch), 33);
    assert_int_equal(tpcl_kv_cache_length(cache, 1), 0);
    assert_ok(tpcl_batch_add(batch, 1, ids, 32));
    assert_ok(tpcl_batch_add(batch, 0, ids, 15)); /* up to the end of its third block */
    assert_refused(tpcl_batch_add(batch, 0, ids, 1), TPCL_ERR_ARG, "it holds 80");
    assert_refused(tpcl_batch_add(batch, 2, ids, 1), TPCL_ERR_ARG,
                   "sequence 2, the cache has 0 to 1");
    int rows[80], n = 0;
    assert_ok(tpcl_batch_last_rows(batch, rows, &n));
    assert_int_equal(n, 2);
    assert_int_equal(rows[0], 79); /* sequence 0 came first, its last row last */
    assert_int_equal(rows[1], 64);
    tpcl_batch_destroy(&batch);
    tpcl_kv_cache_destroy(&cache);
}

/* What the allocator should have, found by counting instead of keeping. */
static void check_tables(const tpcl_kv_cache *c)
{
    int held = 0;
    int *holders = calloc((size_t)c->desc.blocks, sizeof *holders);
    for (int s = 0; s < c->desc.max_sequences; s++) {
        const tpi_sequence *q = &c->sequences[s];
        assert_int_equal(q->n_blocks, (q->length + c->desc.block_size - 1) / c->desc.block_size);
        for (int i = 0; i < q->n_blocks; i++) {
            assert_in_range(q->blocks[i], 0, c->desc.blocks - 1);
            for (int j = 0; j < i; j++) assert_int_not_equal(q->blocks[i], q->blocks[j]);
            if (holders[q->blocks[i]]++ == 0) held++;
        }
    }
    for (int b = 0; b < c->desc.blocks; b++) assert_int_equal(c->holders[b], holders[b]);
    assert_int_equal(c->n_free, c->desc.blocks - held);
    for (int i = 0; i < c->n_free; i++) {
        assert_int_equal(holders[c->free_blocks[i]], 0);
        holders[c->free_blocks[i]] = -1; /* named twice: then not 0 */
    }
    free(holders);
}

enum { BLOCKS = 13, BLOCK = 3, SEQUENCES = 5 };

static bool try_append(tpcl_kv_cache *c, tpcl_batch *batch, int s, int n)
{
    static const int32_t ids[16];
    const int before = tpcl_kv_cache_length(c, s), free = tpcl_kv_cache_free_blocks(c);
    const int last = tpcl_kv_cache_blocks_used(c, s) - 1;
    const bool shared = n > 0 && before % BLOCK && c->holders[tpcl_kv_cache_block(c, s, last)] > 1;
    const int need = (before + n + BLOCK - 1) / BLOCK - (last + 1) + shared;
    tpcl_batch_clear(batch);
    const tpcl_status status = tpcl_batch_add(batch, s, ids, n);
    assert_int_equal(status, need <= free ? TPCL_OK : TPCL_ERR_SHAPE);
    assert_int_equal(tpcl_kv_cache_length(c, s), status == TPCL_OK ? before + n : before);
    assert_int_equal(tpcl_kv_cache_free_blocks(c), status == TPCL_OK ? free - need : free);
    if (status == TPCL_OK) tpi_batch_stored(batch);
    if (n > 0 && status == TPCL_OK) /* nobody else has the block that was written into */
        assert_int_equal(c->holders[tpcl_kv_cache_block(c, s, tpcl_kv_cache_blocks_used(c, s) - 1)],
                         1);
    return status == TPCL_OK;
}

static bool try_assign(tpcl_kv_cache *c, int s, uint32_t dice)
{
    int32_t blocks[BLOCKS];
    const int from = (int)(dice % SEQUENCES), held = tpcl_kv_cache_blocks_used(c, from);
    int n = 0;
    for (int i = 0; i < held; i++) blocks[n++] = tpcl_kv_cache_block(c, from, i);
    for (int i = 0; i < c->n_free && i < (int)(dice / 8 % 3); i++)
        blocks[n++] = c->free_blocks[c->n_free / 2 + i < c->n_free ? c->n_free / 2 + i : i];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (blocks[i] == blocks[j]) n = i;
    const bool empty = tpcl_kv_cache_length(c, s) == 0;
    const tpcl_status status = tpcl_kv_cache_assign(c, s, blocks, n, n * BLOCK);
    assert_int_equal(status, empty ? TPCL_OK : TPCL_ERR_ARG);
    return empty;
}

static void random_calls_leave_the_tables_right(void **state)
{
    (void)state;
    const tpcl_kv_cache_desc desc = small_desc(BLOCKS, BLOCK, SEQUENCES);
    tpcl_kv_cache *c = NULL;
    int done[5] = {0};
    assert_ok(tpcl_kv_cache_create(group, &desc, &c));
    tpcl_batch *batch = make_batch(c, 16, 0);
    uint32_t x = 12345;
    for (int i = 0; i < 6000; i++) {
        x = x * 1664525u + 1013904223u;
        const uint32_t dice = x >> 8;
        const int s = (int)(dice % SEQUENCES), t = (int)(dice / 5 % SEQUENCES);
        const int length = tpcl_kv_cache_length(c, s), op = (int)(dice / 32 % 8);
        if (op < 4) {
            done[0] += try_append(c, batch, s, (int)(dice / 256 % 8));
        } else if (op == 4) {
            const bool fits = tpcl_kv_cache_length(c, t) == 0;
            assert_int_equal(tpcl_kv_cache_fork(c, s, t), fits ? TPCL_OK : TPCL_ERR_ARG);
            done[1] += fits && length > 0;
        } else if (op == 5) {
            const int keep = (int)(dice / 256 % 8);
            assert_int_equal(tpcl_kv_cache_truncate(c, s, keep),
                             keep <= length ? TPCL_OK : TPCL_ERR_ARG);
            done[2] += keep < length;
        } else if (op == 6) {
            done[3] += try_assign(c, s, dice / 256);
        } else {
            tpcl_kv_cache_free(c, s);
            done[4]++;
        }
        check_tables(c);
    }
    for (size_t k = 0; k < COUNT(done); k++) assert_true(done[k] > 100); /* every op had its turn */
    for (int s = 0; s < SEQUENCES; s++) tpcl_kv_cache_free(c, s);
    assert_int_equal(tpcl_kv_cache_free_blocks(c), BLOCKS);
    tpcl_batch_destroy(&batch);
    tpcl_kv_cache_destroy(&c);
}

static void refuses_what_it_cannot_hold(void **state)
{
    (void)state;
    const tpcl_kv_cache_desc good = small_desc(1, 16, 1);
    tpcl_kv_cache_desc bad[] = {good, good, good, good, good, good, good, good, good, good};
    static const char *const texts[] = {
        "0 layers",        "head_dim 320",  "head_dim 63",   "blocks of 257", "-1 blocks",
        "max_sequences 0", "v_head_dim 15", "max_length -1", "heads is NULL", "blocks of 0 tokens"};
    tpcl_kv_cache *cache = NULL;
    bad[0].layers = 0;
    bad[1].head_dim = 320;
    bad[2].head_dim = 63;
    bad[3].block_size = 257;
    bad[4].blocks = -1;
    bad[5].max_sequences = 0;
    bad[6].v_head_dim = 15;
    bad[7].max_length = -1;
    bad[8].heads = NULL;
    bad[9].block_size = 0;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_refused(tpcl_kv_cache_create(group, &bad[i], &cache), TPCL_ERR_ARG, texts[i]);
        assert_null(cache);
    }
    const tpcl_head_range many = {{0, INT_MAX}, {0, INT_MAX}};
    tpcl_kv_cache_desc huge = small_desc(INT_MAX / 256, 256, 1);
    huge.head_dim = 256; /* 2^72 bytes a layer */
    huge.heads = &many;
    assert_refused(tpcl_kv_cache_create(group, &huge, &cache), TPCL_ERR_SHAPE, "64 bits");
    huge = small_desc(3, 256, 1);
    huge.head_dim = 256;
    huge.heads = &many; /* 1.5 PiB: countable, and too much for a buffer */
    assert_refused(tpcl_kv_cache_create(group, &huge, &cache), TPCL_ERR_SHAPE, "bytes");
    assert_null(cache);
    assert_refused(tpcl_kv_cache_create(NULL, &good, &cache), TPCL_ERR_ARG, "group is NULL");
    assert_refused(tpcl_kv_cache_create(group, NULL, &cache), TPCL_ERR_ARG, "desc is NULL");
    assert_refused(tpcl_kv_cache_create(group, &good, NULL), TPCL_ERR_ARG, "out is NULL");
    tpcl_kv_cache_destroy(NULL);
    tpcl_kv_cache_destroy(&cache);
    assert_int_equal(tpcl_kv_cache_length(NULL, 0), 0);
    assert_int_equal(tpcl_kv_cache_block(NULL, 0, 0), -1);
    assert_int_equal(tpcl_kv_cache_bytes(NULL), 0);
    int64_t shape[6] = {1, 1, 1, 1, 1, 1};
    tpcl_kv_cache_shape(NULL, shape);
    for (int i = 0; i < 6; i++) assert_int_equal(shape[i], 0);
    assert_int_equal(tpcl_kv_cache_blocks(NULL), 0);
    assert_int_equal(tpcl_kv_cache_token_bytes(NULL), 0);
    assert_int_equal(tpcl_kv_cache_blocks_used(NULL, 0), 0);
    assert_int_equal(tpcl_kv_cache_free_blocks(NULL), 0);
}

static void refuses_wrong_sequences_and_blocks(void **state)
{
    (void)state;
    const tpcl_kv_cache_desc desc = small_desc(4, 4, 3);
    static const int32_t ids[8], twice[2] = {1, 1}, far[2] = {0, 4}, negative[2] = {-1, 0};
    tpcl_kv_cache *c = NULL;
    assert_ok(tpcl_kv_cache_create(group, &desc, &c));
    tpcl_batch *b = make_batch(c, 8, 0);
    assert_ok(tpcl_batch_add(b, 0, ids, 5));
    assert_refused(tpcl_kv_cache_fork(c, 0, 1), TPCL_ERR_ARG, "5 tokens, 0 of them stored");
    assert_refused(tpcl_kv_cache_fork(c, 0, 3), TPCL_ERR_ARG, "sequence 3");
    assert_refused(tpcl_kv_cache_fork(c, -1, 1), TPCL_ERR_ARG, "sequence -1");
    assert_refused(tpcl_kv_cache_fork(c, 1, 0), TPCL_ERR_ARG, "has 5 tokens");
    assert_refused(tpcl_kv_cache_fork(NULL, 0, 1), TPCL_ERR_ARG, "cache is NULL");
    assert_refused(tpcl_kv_cache_truncate(c, 0, 6), TPCL_ERR_ARG,
                   "6 tokens of sequence 0, which has 5");
    assert_refused(tpcl_kv_cache_truncate(c, 0, -1), TPCL_ERR_ARG, "-1 tokens");
    assert_refused(tpcl_kv_cache_assign(c, 1, twice, 2, 8), TPCL_ERR_ARG, "both block 1");
    assert_refused(tpcl_kv_cache_assign(c, 1, far, 2, 8), TPCL_ERR_ARG,
                   "block 4, the cache has 0 to 3");
    assert_refused(tpcl_kv_cache_assign(c, 1, negative, 2, 8), TPCL_ERR_ARG, "block -1");
    assert_refused(tpcl_kv_cache_assign(c, 1, twice, 2, 9), TPCL_ERR_ARG,
                   "2 blocks for 9 tokens, need 3");
    assert_refused(tpcl_kv_cache_assign(c, 1, NULL, 2, 8), TPCL_ERR_ARG, "blocks is NULL");
    assert_refused(tpcl_kv_cache_assign(c, 1, twice, 0, -1), TPCL_ERR_ARG, "-1 tokens");
    assert_refused(tpcl_kv_cache_assign(c, 1, twice, 5, 17), TPCL_ERR_SHAPE, "may have 16");
    assert_refused(tpcl_kv_cache_assign(c, 0, twice, 1, 4), TPCL_ERR_ARG, "has 5 tokens");
    check_tables(c);
    assert_int_equal(tpcl_kv_cache_free_blocks(c), 2);
    assert_int_equal(tpcl_kv_cache_length(c, 3), 0);
    assert_int_equal(tpcl_kv_cache_length(c, -1), 0);
    assert_int_equal(tpcl_kv_cache_blocks_used(c, 3), 0);
    assert_int_equal(tpcl_kv_cache_block(c, 0, 2), -1);
    assert_int_equal(tpcl_kv_cache_block(c, 0, -1), -1);
    tpcl_kv_cache_free(c, 7); /* no such sequence: nothing */
    tpcl_kv_cache_free(NULL, 0);
    tpcl_batch_destroy(&b);
    tpcl_kv_cache_destroy(&c);
}

static void batches_refuse_what_does_not_fit(void **state)
{
    (void)state;
    tpcl_kv_cache_desc desc = small_desc(4, 4, 2);
    static const int32_t ids[9] = {0, 9, 10, -1};
    tpcl_kv_cache *c = NULL, *other = NULL;
    tpcl_batch *b = NULL;
    int rows[8], n = -1;
    desc.max_length = 6;
    assert_ok(tpcl_kv_cache_create(group, &desc, &c));
    assert_ok(tpcl_kv_cache_create(group, &desc, &other));
    const tpcl_batch_options none = {0}, negative = {.max_tokens = 1, .vocab = -1};
    assert_refused(tpcl_batch_create(group, c, &none, &b), TPCL_ERR_ARG, "batch of 0 tokens");
    assert_refused(tpcl_batch_create(group, c, &negative, &b), TPCL_ERR_ARG, "vocab -1");
    assert_refused(tpcl_batch_create(group, NULL, &none, &b), TPCL_ERR_ARG, "cache is NULL");
    assert_refused(tpcl_batch_create(NULL, c, &none, &b), TPCL_ERR_ARG, "group is NULL");
    assert_refused(tpcl_batch_create(group, c, NULL, &b), TPCL_ERR_ARG, "options is NULL");
    assert_refused(tpcl_batch_create(group, c, &none, NULL), TPCL_ERR_ARG, "out is NULL");
    b = make_batch(c, 8, 10);
    assert_refused(tpcl_batch_add(NULL, 0, ids, 1), TPCL_ERR_ARG, "batch is NULL");
    assert_refused(tpcl_batch_add(b, 0, NULL, 1), TPCL_ERR_ARG, "ids is NULL");
    assert_refused(tpcl_batch_add(b, 0, ids, -1), TPCL_ERR_ARG, "-1 tokens");
    assert_refused(tpcl_batch_add(b, 0, ids, 3), TPCL_ERR_ARG,
                   "id 10 at place 2, the vocabulary has 0 to 9");
    assert_refused(tpcl_batch_add(b, 0, ids + 3, 1), TPCL_ERR_ARG, "id -1 at place 0");
    assert_int_equal(tpcl_batch_tokens(b), 0);
    assert_int_equal(tpcl_kv_cache_free_blocks(c), 4);
    assert_ok(tpcl_batch_add(b, 0, NULL, 0));
    assert_ok(tpcl_batch_add(b, 0, ids, 2));
    assert_refused(tpcl_batch_add(b, 0, ids + 4, 5), TPCL_ERR_SHAPE, "the longest may have 6");
    assert_ok(tpcl_batch_add(b, 1, ids, 1));
    assert_refused(tpi_batch_check(b, c, "layer"), TPCL_ERR_ARG, "not uploaded");
    assert_ok(tpcl_batch_upload(b));
    assert_ok(tpi_batch_check(b, c, "layer"));
    assert_refused(tpi_batch_check(b, other, "layer"), TPCL_ERR_ARG, "another cache");
    assert_ok(tpcl_kv_cache_truncate(c, 1, 1)); /* takes nothing away */
    assert_ok(tpi_batch_check(b, c, "layer"));
    assert_ok(tpcl_kv_cache_truncate(c, 0, 1));
    assert_refused(tpcl_batch_upload(b), TPCL_ERR_ARG, "sequence 0 was freed or truncated");
    tpcl_batch_clear(b);
    assert_ok(tpcl_batch_add(b, 1, ids, 1));
    assert_ok(tpcl_batch_upload(b));
    tpcl_kv_cache_free(c, 1);
    assert_refused(tpi_batch_check(b, c, "layer"), TPCL_ERR_ARG,
                   "sequence 1 was freed or truncated");
    assert_refused(tpcl_batch_upload(b), TPCL_ERR_ARG, "clear the batch");
    tpcl_batch_clear(b);
    assert_ok(tpcl_batch_upload(b)); /* of nothing */
    assert_ok(tpcl_batch_last_rows(b, rows, &n));
    assert_int_equal(n, 0);
    assert_refused(tpcl_batch_last_rows(b, NULL, &n), TPCL_ERR_ARG, "rows is NULL");
    assert_refused(tpcl_batch_last_rows(NULL, rows, &n), TPCL_ERR_ARG, "batch is NULL");
    assert_refused(tpcl_batch_upload(NULL), TPCL_ERR_ARG, "batch is NULL");
    assert_int_equal(tpcl_batch_tokens(NULL), 0);
    assert_null(tpcl_batch_ids(NULL));
    tpcl_batch_clear(NULL);
    tpcl_batch_destroy(&b);
    tpcl_kv_cache_destroy(&c);
    tpcl_kv_cache_destroy(&other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_six_dimensions_of_qwen3),
        cmocka_unit_test(plans_by_memory),
        cmocka_unit_test(takes_the_least_of_all_ranks),
        cmocka_unit_test(takes_nine_tenths_of_what_is_left),
        cmocka_unit_test(blocks_are_taken_and_given_back),
        cmocka_unit_test(random_calls_leave_the_tables_right),
        cmocka_unit_test(refuses_what_it_cannot_hold),
        cmocka_unit_test(refuses_wrong_sequences_and_blocks),
        cmocka_unit_test(batches_refuse_what_does_not_fit),
    };
    int failed = 0;
    layers_main_begin(&argc, &argv);
    run_layer_tests("layers/cache", tests);
    return layers_main_end(failed);
}
