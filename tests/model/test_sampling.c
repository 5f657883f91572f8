/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>
#include <tpcl/sampling.h>

#include "tpcl_test.h"

static int32_t draw(const float *logits, int n, tpcl_sampling s, uint64_t step)
{
    int32_t id = -1;
    assert_ok(tpcl_sample(logits, n, n, &s, step, &id));
    return id;
}

static void greedy_takes_the_lowest_of_a_tie(void **state)
{
    (void)state;
    static const float logits[4] = {1, 3, 2, 3}, cold[] = {0.0f, -0.0f, 1e-9f};
    for (size_t t = 0; t < COUNT(cold); t++)
        for (uint64_t seed = 1; seed <= 100; seed++)
            assert_int_equal(draw(logits, 4, (tpcl_sampling){cold[t], 0, 1.0f, seed}, seed), 1);
}

static void refuses_what_is_no_setting(void **state)
{
    (void)state;
    static const tpcl_sampling bad[] = {
        {-1.0f, 0, 1.0f, 0}, {NAN, 0, 1.0f, 0},     {INFINITY, 0, 1.0f, 0}, {1.0f, -1, 1.0f, 0},
        {1.0f, 0, -0.1f, 0}, {1.0f, 0, 1.0001f, 0}, {1.0f, 0, NAN, 0},
    };
    static const float logits[2] = {0, 1};
    int32_t id;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(tpcl_sampling_check(&bad[i]), TPCL_ERR_ARG);
        assert_int_equal(tpcl_sample(logits, 2, 2, &bad[i], 0, &id), TPCL_ERR_ARG);
    }
}

/* Which of four tokens with probabilities .5 .25 .125 .125 ever come in 2,000 draws. */
static int kept(int top_k, float top_p)
{
    const float logits[4] = {logf(0.5f), logf(0.25f), logf(0.125f), logf(0.125f)};
    bool seen[4] = {false};
    for (uint64_t step = 0; step < 2000; step++)
        seen[draw(logits, 4, (tpcl_sampling){1.0f, top_k, top_p, 7}, step)] = true;
    int n = 0;
    for (int i = 0; i < 4; i++) n += seen[i];
    for (int i = 0; i < n; i++) assert_true(seen[i]); /* the best ones, no gap */
    return n;
}

static void top_p_and_top_k_keep_the_right_number(void **state)
{
    (void)state;
    static const struct {
        int k;
        float p;
        int kept;
    } cases[] = {{0, 0.0f, 1}, {0, 0.5f, 1}, {0, 0.6f, 2},  {0, 0.75f, 2}, {0, 1.0f, 4},
                 {1, 1.0f, 1}, {4, 1.0f, 4}, {50, 1.0f, 4}, {2, 1.0f, 2},  {3, 0.6f, 2}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(kept(cases[i].k, cases[i].p), cases[i].kept);
}

/* 40,000 draws at temperature 1 follow the softmax within five standard deviations; at 2 they
 * follow the flattened one. */
static void draws_follow_the_probabilities(void **state)
{
    (void)state;
    enum { N = 5, DRAWS = 40000 };
    static const float logits[N] = {0.3f, -1.2f, 2.0f, 0.0f, 1.1f}, temperatures[] = {1.0f, 2.0f};
    for (size_t t = 0; t < COUNT(temperatures); t++) {
        int count[N] = {0};
        double total = 0.0;
        for (uint64_t step = 0; step < DRAWS; step++)
            count[draw(logits, N, (tpcl_sampling){temperatures[t], 0, 1.0f, 42}, step)]++;
        for (int i = 0; i < N; i++) total += exp(logits[i] / temperatures[t]);
        for (int i = 0; i < N; i++) {
            const double p = exp(logits[i] / temperatures[t]) / total;
            const double sd = sqrt(DRAWS * p * (1 - p));
            assert_true(fabs(count[i] - DRAWS * p) < 5 * sd);
        }
    }
}

static void same_seed_same_token(void **state)
{
    (void)state;
    enum { N = 300 };
    float logits[N];
    int differ = 0;
    fill(logits, N, 3);
    for (uint64_t step = 0; step < 50; step++) {
        const tpcl_sampling s = {0.8f, 40, 0.95f, 11}, other = {0.8f, 40, 0.95f, 12};
        assert_int_equal(draw(logits, N, s, step), draw(logits, N, s, step));
        differ += draw(logits, N, s, step) != draw(logits, N, other, step);
    }
    assert_true(differ > 25);
}

/* Padding rows: all real logits negative, the padding at 0. */
static void padding_never_wins(void **state)
{
    (void)state;
    float logits[16] = {0};
    for (int i = 0; i < 10; i++) logits[i] = i == 7 ? -0.5f : -1.0f;
    int32_t id = -1;
    const tpcl_sampling greedy = {0.0f, 0, 1.0f, 0};
    assert_ok(tpcl_sample(logits, 16, 10, &greedy, 0, &id));
    assert_int_equal(id, 7);
    for (uint64_t seed = 0; seed < 1000; seed++) {
        const tpcl_sampling kinds[] = {
            {1.0f, 0, 1.0f, seed}, {1.0f, 5, 1.0f, seed}, {1.0f, 0, 0.9f, seed}};
        for (size_t k = 0; k < COUNT(kinds); k++) {
            assert_ok(tpcl_sample(logits, 16, 10, &kinds[k], 0, &id));
            assert_in_range(id, 0, 9);
        }
    }
    logits[12] = NAN; /* and what they hold is never looked at */
    assert_ok(tpcl_sample(logits, 16, 10, &greedy, 0, &id));
}

static void a_bad_logit_is_an_error(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < COUNT(bad); b++) {
        for (int at = 0; at < 3; at++) {
            float logits[3] = {1, 2, 3};
            char name[16];
            int32_t id = -1;
            logits[at] = bad[b];
            snprintf(name, sizeof name, "token %d", at);
            for (int hot = 0; hot < 2; hot++) {
                const tpcl_sampling s = {(float)hot, 0, 1.0f, 0};
                assert_int_equal(tpcl_sample(logits, 3, 3, &s, 0, &id), TPCL_ERR_NONFINITE);
                assert_non_null(strstr(tpcl_last_error(), name));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lowest_of_a_tie),
        cmocka_unit_test(refuses_what_is_no_setting),
        cmocka_unit_test(top_p_and_top_k_keep_the_right_number),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(same_seed_same_token),
        cmocka_unit_test(padding_never_wins),
        cmocka_unit_test(a_bad_logit_is_an_error),
    };
    return cmocka_run_group_tests_name("model/sampling", tests, NULL, NULL);
}
