/* Shards: every small case by brute force, and the worked numbers of the design. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tpcl_test.h"

#include <stdbool.h>
#include <string.h>
#include <tpcl/shard.h>

enum { MAX_SIZE = 9 };

/* NULL = equal. Only the first `size` are used; {0, ...} makes a rank that may hold nothing. */
static const double weight_sets[][MAX_SIZE] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1},
    {1, 2, 3, 4, 5, 6, 7, 8, 9},
    {9, 1, 1, 1, 1, 1, 1, 1, 100},
    {0.5, 0, 0.25, 0, 3, 0, 0.1, 0.7, 0},
    {1e300, 1e299, 1e-300, 1e300, 0, 1, 5e299, 2e299, 7},
};

static int64_t granules_of(tpcl_range r, int64_t granule)
{
    return (tpcl_range_size(r) + granule - 1) / granule;
}

/* Consecutive, covering, whole granules: what every split must be. */
static void check_cover(const tpcl_range *r, int size, int64_t total, int64_t granule)
{
    assert_int_equal(r[0].begin, 0);
    assert_int_equal(r[size - 1].end, total);
    for (int i = 0; i < size; i++) {
        assert_true(r[i].end >= r[i].begin);
        if (i) assert_int_equal(r[i].begin, r[i - 1].end);
        if (r[i].end != total) assert_int_equal(r[i].end % granule, 0);
    }
}

/* Within one granule of the exact share, never more than the exact share rounded up, and nothing
 * for a weight of 0. */
static void check_shares(const tpcl_range *r, int size, int64_t total, int64_t granule,
                         const double *weights)
{
    const int64_t n = (total + granule - 1) / granule;
    double sum = 0;
    for (int i = 0; i < size; i++) sum += weights ? weights[i] : 1;
    for (int i = 0; i < size; i++) {
        const double exact = (double)n * ((weights ? weights[i] : 1) / sum);
        const double got = (double)granules_of(r[i], granule);
        if (fabs(got - exact) >= 1.0 + 1e-6)
            fail_msg("total %lld granule %lld size %d rank %d: %g granules, exact share %g",
                     (long long)total, (long long)granule, size, i, got, exact);
        if (exact == 0) assert_int_equal(tpcl_range_size(r[i]), 0);
    }
}

/* Equal weights: the extra granules go to consecutive ranks from rotate % size on. */
static void check_equal(const tpcl_range *r, int size, int64_t total, int64_t granule, int rotate)
{
    const int64_t n = (total + granule - 1) / granule, base = n / size, extra = n % size;
    for (int i = 0; i < size; i++) {
        const int place = (i - rotate % size + size) % size;
        assert_int_equal(granules_of(r[i], granule), base + (place < extra));
        if (granule == 1 && total % size == 0)
            assert_int_equal(tpcl_range_size(r[i]), total / size);
    }
}

static void every_small_split(void **state)
{
    static const int64_t granules[] = {1, 2, 3, 8, 32, 100};
    int cases = 0;
    (void)state;
    for (int64_t total = 0; total <= 70; total++)
        for (int size = 1; size <= MAX_SIZE; size++)
            for (size_t g = 0; g < COUNT(granules); g++)
                for (int rotate = 0; rotate <= 10; rotate++) {
                    tpcl_range a[MAX_SIZE], b[MAX_SIZE];
                    assert_ok(tpcl_shard_split(total, granules[g], size, NULL, rotate, a));
                    check_cover(a, size, total, granules[g]);
                    check_equal(a, size, total, granules[g], rotate);
                    assert_ok(
                        tpcl_shard_split(total, granules[g], size, weight_sets[0], rotate, b));
                    assert_memory_equal(a, b, sizeof a[0] * (size_t)size);
                    cases++;
                }
    assert_int_equal(cases, 71 * 9 * 6 * 11);
}

static void every_weighted_split(void **state)
{
    int cases = 0;
    (void)state;
    for (size_t w = 0; w < COUNT(weight_sets); w++)
        for (int64_t total = 0; total <= 70; total++)
            for (int size = 1; size <= MAX_SIZE; size++)
                for (int64_t granule = 1; granule <= 7; granule += 2)
                    for (int rotate = 0; rotate <= 4; rotate += 2) {
                        tpcl_range r[MAX_SIZE];
                        const double *weights = weight_sets[w];
                        assert_ok(tpcl_shard_split(total, granule, size, weights, rotate, r));
                        check_cover(r, size, total, granule);
                        check_shares(r, size, total, granule, weights);
                        cases++;
                    }
    assert_int_equal(cases, 5 * 71 * 9 * 4 * 3);
}

/* Over many layers each rank must get the extra granule equally often. */
static void rotation_spreads_the_extra(void **state)
{
    int64_t held[MAX_SIZE + 1][MAX_SIZE] = {{0}};
    (void)state;
    for (int i = 0; i < MAX_SIZE * MAX_SIZE; i++) {
        const int size = i / MAX_SIZE + 1, layer = i % MAX_SIZE;
        tpcl_range r[MAX_SIZE] = {{0, 0}};
        if (layer >= size) continue;
        assert_ok(tpcl_shard_split(7, 1, size, NULL, layer, r));
        for (int k = 0; k < size; k++) held[size][k] += tpcl_range_size(r[k]);
    }
    for (int size = 1; size <= MAX_SIZE; size++)
        for (int k = 0; k < size; k++) assert_int_equal(held[size][k], 7);
}

struct split_case {
    const char *name;
    int64_t total, granule;
    int size, rotate;
    double weights[4]; /* all 0 = NULL */
    int64_t want[5];   /* sizes */
};

static const struct split_case split_cases[] = {
    {"words_5_on_4", 5, 1, 4, 0, {0}, {2, 1, 1, 1}},    /* a ceiling split ends past 5 */
    {"words_3_on_4", 3, 1, 4, 0, {0}, {1, 1, 1, 0}},    /* an empty shard is legal */
    {"words_10_on_4", 10, 1, 4, 0, {0}, {3, 3, 2, 2}},  /* vocabulary refused elsewhere */
    {"words_37_on_4", 37, 1, 4, 0, {0}, {10, 9, 9, 9}}, /* prime */
    {"qwen3_words_on_2", 151936, 1, 2, 0, {0}, {75968, 75968}},
    {"words_250682_on_4", 250682, 1, 4, 0, {0}, {62671, 62671, 62670, 62670}},
    {"k_96_block_32", 96, 32, 2, 0, {0}, {64, 32}}, /* never 48 + 48 */
    {"k_96_block_32_rotated", 96, 32, 2, 1, {0}, {32, 64}},
    {"k_128_on_4", 128, 32, 4, 0, {0}, {32, 32, 32, 32}},
    {"short_last_granule", 70, 32, 2, 0, {0}, {64, 6}},
    {"smollm2_ffn_on_3", 1536, 32, 3, 0, {0}, {512, 512, 512}},
    {"weights_1_3", 8, 1, 2, 0, {1, 3}, {2, 6}},
    {"tie_to_lower", 2, 1, 2, 0, {1, 3}, {1, 1}}, /* quotas .5 and 1.5 */
    {"tie_rotated", 2, 1, 2, 1, {1, 3}, {0, 2}},
    {"larger_remainder_first", 10, 1, 3, 0, {1, 1, 1.5}, {3, 3, 4}}, /* 2.86 2.86 4.29 */
    {"weight_0_gets_none", 7, 1, 3, 2, {1, 1, 0.0}, {4, 3, 0}},
    {"only_one_weight", 7, 2, 3, 0, {0, 5, 0}, {0, 7, 0}},
    {"scale_does_not_matter", 5, 1, 2, 0, {1e-310, 1e-310}, {3, 2}},
    {"largest_total", INT64_MAX, 1LL << 62, 2, 0, {0}, {1LL << 62, INT64_MAX - (1LL << 62)}},
    {"largest_weighted", INT64_MAX, 1, 2, 0, {1, 1}, {(1LL << 62), (1LL << 62) - 1}},
};

static void worked_split(void **state)
{
    const struct split_case *c = *state;
    tpcl_range r[4];
    bool equal = true;
    for (int i = 0; i < 4; i++) equal = equal && c->weights[i] == 0;
    assert_ok(
        tpcl_shard_split(c->total, c->granule, c->size, equal ? NULL : c->weights, c->rotate, r));
    check_cover(r, c->size, c->total, c->granule);
    for (int i = 0; i < c->size; i++) assert_int_equal(tpcl_range_size(r[i]), c->want[i]);
}

struct head_case {
    const char *name;
    int heads, kv_heads, granule, size, rotate;
    double weights[4]; /* all 0 = NULL */
    int want[5][4];    /* q.begin, q.end, kv.begin, kv.end */
};

static const struct head_case head_cases[] = {
    {"smollm2_on_2", 9, 3, 1, 2, 0, {0}, {{0, 5, 0, 2}, {5, 9, 1, 3}}}, /* not 6 and 3 */
    {"smollm2_on_3", 9, 3, 1, 3, 0, {0}, {{0, 3, 0, 1}, {3, 6, 1, 2}, {6, 9, 2, 3}}},
    /* 3 heads at most either way: whole groups, and no kv head is stored twice */
    {"smollm2_on_4", 9, 3, 1, 4, 0, {0}, {{0, 3, 0, 1}, {3, 6, 1, 2}, {6, 9, 2, 3}, {9, 9, 3, 3}}},
    {"kv_2_on_4", 8, 2, 1, 4, 0, {0}, {{0, 2, 0, 1}, {2, 4, 0, 1}, {4, 6, 1, 2}, {6, 8, 1, 2}}},
    {"kv_1_on_4", 8, 1, 1, 4, 0, {0}, {{0, 2, 0, 1}, {2, 4, 0, 1}, {4, 6, 0, 1}, {6, 8, 0, 1}}},
    {"kv_2_on_3", 8, 2, 1, 3, 0, {0}, {{0, 3, 0, 1}, {3, 6, 0, 2}, {6, 8, 1, 2}}},
    {"qwen3_on_2", 16, 8, 1, 2, 0, {0}, {{0, 8, 0, 4}, {8, 16, 4, 8}}},
    {"whole_groups_on_a_tie", 8, 4, 1, 3, 0, {0}, {{0, 3, 0, 2}, {3, 6, 1, 3}, {6, 8, 3, 4}}},
    {"tie", 6, 2, 1, 2, 0, {0}, {{0, 3, 0, 1}, {3, 6, 1, 2}}},
    {"whole_though_uneven",
     6,
     3,
     1,
     4,
     0,
     {0},
     {{0, 2, 0, 1}, {2, 4, 1, 2}, {4, 6, 2, 3}, {6, 6, 3, 3}}},
    {"ranks_beyond_heads",
     2,
     2,
     1,
     4,
     0,
     {0},
     {{0, 1, 0, 1}, {1, 2, 1, 2}, {2, 2, 2, 2}, {2, 2, 2, 2}}},
    {"one_head", 1, 1, 1, 3, 1, {0}, {{0, 0, 0, 0}, {0, 1, 0, 1}, {1, 1, 1, 1}}},
    {"o_projection_blocks", 8, 4, 4, 2, 0, {0}, {{0, 4, 0, 2}, {4, 8, 2, 4}}},
    {"granule_across_groups", 9, 3, 2, 2, 0, {0}, {{0, 6, 0, 2}, {6, 9, 2, 3}}},
    {"granule_leaves_idle", 4, 2, 4, 2, 0, {0}, {{0, 4, 0, 2}, {4, 4, 2, 2}}},
    {"weights_3_1", 8, 2, 1, 2, 0, {3, 1}, {{0, 6, 0, 2}, {6, 8, 1, 2}}},
    {"weights_1_3", 8, 2, 1, 2, 0, {1, 3}, {{0, 2, 0, 1}, {2, 8, 0, 2}}},
    {"weight_0", 8, 2, 1, 3, 0, {1, 0, 1}, {{0, 4, 0, 1}, {4, 4, 1, 1}, {4, 8, 1, 2}}},
};

static void worked_heads(void **state)
{
    const struct head_case *c = *state;
    tpcl_head_range r[4];
    bool equal = true;
    for (int i = 0; i < 4; i++) equal = equal && c->weights[i] == 0;
    assert_ok(tpcl_shard_heads(c->heads, c->kv_heads, c->granule, c->size,
                               equal ? NULL : c->weights, c->rotate, r));
    for (int i = 0; i < c->size; i++) {
        const int got[4] = {(int)r[i].q.begin, (int)r[i].q.end, (int)r[i].kv.begin,
                            (int)r[i].kv.end};
        if (memcmp(got, c->want[i], sizeof got) != 0)
            fail_msg("rank %d: q [%d,%d) kv [%d,%d)", i, got[0], got[1], got[2], got[3]);
    }
}

/* Every head once; each rank holds exactly the kv heads that its q heads read. */
static void every_small_head_count(void **state)
{
    int cases = 0;
    (void)state;
    for (int kv = 1; kv <= 8; kv++)
        for (int group = 1; group <= 8; group++)
            for (int size = 1; size <= MAX_SIZE; size++)
                for (int granule = 1; granule <= 4; granule++) {
                    tpcl_head_range r[MAX_SIZE];
                    tpcl_range q[MAX_SIZE];
                    int64_t most = 0;
                    const int rotate = cases % 11;
                    assert_ok(tpcl_shard_heads(kv * group, kv, granule, size, NULL, rotate, r));
                    for (int i = 0; i < size; i++) {
                        q[i] = r[i].q;
                        if (tpcl_range_size(q[i]) > most) most = tpcl_range_size(q[i]);
                        if (tpcl_range_size(q[i]) == 0) {
                            assert_int_equal(tpcl_range_size(r[i].kv), 0);
                            continue;
                        }
                        assert_int_equal(r[i].kv.begin, q[i].begin / group);
                        assert_int_equal(r[i].kv.end, (q[i].end - 1) / group + 1);
                    }
                    check_cover(q, size, (int64_t)kv * group, granule);
                    const int64_t n = (kv * group + granule - 1) / granule;
                    assert_true(most <= (n + size - 1) / size * granule);
                    cases++;
                }
    assert_int_equal(cases, 8 * 8 * 9 * 4);
}

static void rejects_bad_arguments(void **state)
{
    const double negative[] = {1, -1}, nan_weight[] = {1, NAN}, infinite[] = {INFINITY, 1},
                 zero[] = {0, 0};
    tpcl_range r[2];
    tpcl_head_range h[2];
    (void)state;
    assert_int_equal(tpcl_shard_split(-1, 1, 2, NULL, 0, r), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_split(1, 0, 2, NULL, 0, r), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_split(1, 1, 0, NULL, 0, r), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_split(1, 1, TPCL_MAX_RANKS + 1, NULL, 0, r), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_split(1, 1, 2, NULL, -1, r), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_split(1, 1, 2, NULL, 0, NULL), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_split(1, 1, 2, negative, 0, r), TPCL_ERR_ARG);
    assert_string_equal(tpcl_last_error(),
                        "shard weight -1 of rank 1: must be a finite number >= 0");
    assert_int_equal(tpcl_shard_split(1, 1, 2, nan_weight, 0, r), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_split(1, 1, 2, infinite, 0, r), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_split(1, 1, 2, zero, 0, r), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_heads(9, 2, 1, 2, NULL, 0, h), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_heads(0, 1, 1, 2, NULL, 0, h), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_heads(8, 0, 1, 2, NULL, 0, h), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_heads(8, 2, 0, 2, NULL, 0, h), TPCL_ERR_ARG);
    assert_int_equal(tpcl_shard_heads(8, 2, 1, 2, zero, 0, h), TPCL_ERR_ARG);
}

int main(void)
{
    enum { SPLITS = COUNT(split_cases), HEADS = COUNT(head_cases) };
    struct CMUnitTest tests[SPLITS + HEADS + 5] = {
        cmocka_unit_test(every_small_split),          cmocka_unit_test(every_weighted_split),
        cmocka_unit_test(rotation_spreads_the_extra), cmocka_unit_test(every_small_head_count),
        cmocka_unit_test(rejects_bad_arguments),
    };
    for (size_t i = 0; i < SPLITS; i++)
        tests[5 + i] = (struct CMUnitTest){.name = split_cases[i].name,
                                           .test_func = worked_split,
                                           .initial_state = (void *)&split_cases[i]};
    for (size_t i = 0; i < HEADS; i++)
        tests[5 + SPLITS + i] = (struct CMUnitTest){.name = head_cases[i].name,
                                                    .test_func = worked_heads,
                                                    .initial_state = (void *)&head_cases[i]};
    return cmocka_run_group_tests_name("shard", tests, NULL, NULL);
}
