/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>
#include <tpcl/reference.h>
#include <tpcl/sampling.h>

#include "tpcl_test.h"

static const tpcl_sampling coldest = {.top_p = 1.0f};

static tpcl_sampling warm(float temperature, uint64_t seed)
{
    return (tpcl_sampling){.temperature = temperature, .top_p = 1.0f, .seed = seed};
}

static int32_t draw(const float *logits, int n, tpcl_sampling s, uint64_t step)
{
    int32_t id = -1;
    const tpcl_sample_input in = {.logits = logits, .n = n, .step = step};
    assert_ok(tpcl_sample(&in, &s, &id));
    return id;
}

static int32_t draw_after(const float *logits, int n, const int32_t *history, int n_history,
                          tpcl_sampling s)
{
    int32_t id = -1;
    const tpcl_sample_input in = {
        .logits = logits, .n = n, .history = history, .n_history = n_history};
    assert_ok(tpcl_sample(&in, &s, &id));
    return id;
}

static void refuses(tpcl_status want, const char *message, const tpcl_sample_input *in,
                    const tpcl_sampling *s)
{
    int32_t id = -7;
    assert_int_equal(tpcl_sample(in, s, &id), want);
    if (!strstr(tpcl_last_error(), message))
        fail_msg("'%s' does not say '%s'", tpcl_last_error(), message);
    assert_int_equal(id, -7);
}

static void greedy_takes_the_lowest_of_a_tie(void **state)
{
    (void)state;
    static const float logits[4] = {1, 3, 2, 3}, cold[] = {0.0f, -0.0f, 1e-9f};
    for (size_t t = 0; t < COUNT(cold); t++)
        for (uint64_t seed = 1; seed <= 100; seed++)
            assert_int_equal(draw(logits, 4, warm(cold[t], seed), seed), 1);
}

static void refuses_what_is_no_setting(void **state)
{
    (void)state;
    static const struct {
        tpcl_sampling s;
        const char *message;
    } bad[] = {
        {{.temperature = -1.0f, .top_p = 1}, "temperature -1: need"},
        {{.temperature = NAN, .top_p = 1}, "temperature nan"},
        {{.temperature = INFINITY, .top_p = 1}, "temperature inf"},
        {{.top_k = -1, .top_p = 1}, "top-k -1: need 0"},
        {{.top_p = -0.1f}, "top-p -0.1: need 0 to 1"},
        {{.top_p = 1.0001f}, "top-p 1.0001"},
        {{.top_p = NAN}, "top-p nan"},
        {{.top_p = 1, .min_p = -0.5f}, "min-p -0.5: need 0 (off) to 1"},
        {{.top_p = 1, .min_p = 1.5f}, "min-p 1.5"},
        {{.top_p = 1, .min_p = NAN}, "min-p nan"},
        {{.top_p = 1, .repetition_penalty = -1.1f}, "repetition penalty -1.1: need"},
        {{.top_p = 1, .repetition_penalty = INFINITY}, "repetition penalty inf"},
        {{.top_p = 1, .repetition_penalty = NAN}, "repetition penalty nan"},
        {{.top_p = 1, .penalty_last = -1}, "the last -1 tokens: need 0"},
    };
    static const float logits[2] = {0, 1};
    const tpcl_sample_input in = {.logits = logits, .n = 2};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(tpcl_sampling_check(&bad[i].s), TPCL_ERR_ARG);
        refuses(TPCL_ERR_ARG, bad[i].message, &in, &bad[i].s);
    }
    assert_int_equal(tpcl_sampling_check(NULL), TPCL_ERR_ARG);
    assert_ok(tpcl_sampling_check(&coldest));
}

static void refuses_what_is_no_input(void **state)
{
    (void)state;
    static const float logits[4] = {0, 1, 2, 3};
    static const int32_t over[3] = {0, 3, 4}, under[2] = {2, -1};
    const tpcl_sample_input good = {.logits = logits, .n = 4};
    tpcl_sample_input in = good;
    int32_t id = -7;
    in.logits = NULL;
    refuses(TPCL_ERR_ARG, "logits is NULL", &in, &coldest);
    in = good, in.n = 0;
    refuses(TPCL_ERR_ARG, "0 logits", &in, &coldest);
    in = good, in.valid = 5;
    refuses(TPCL_ERR_ARG, "5 valid of 4", &in, &coldest);
    in.valid = -1;
    refuses(TPCL_ERR_ARG, "-1 valid of 4", &in, &coldest);
    in = good, in.n_history = -1;
    refuses(TPCL_ERR_ARG, "a history of -1 ids", &in, &coldest);
    in.n_history = 2;
    refuses(TPCL_ERR_ARG, "history of 2 ids is NULL", &in, &coldest);
    in.history = over, in.n_history = 3; /* looked at whether or not there is a penalty */
    refuses(TPCL_ERR_ARG, "entry 2 of the history is id 4, outside the vocabulary of 0 to 3", &in,
            &coldest);
    in.history = under, in.n_history = 2;
    refuses(TPCL_ERR_ARG, "entry 1 of the history is id -1", &in, &coldest);
    refuses(TPCL_ERR_ARG, "input is NULL", NULL, &coldest);
    refuses(TPCL_ERR_ARG, "sampling is NULL", &good, NULL);
    assert_int_equal(tpcl_sample(&good, &coldest, NULL), TPCL_ERR_ARG);
    assert_int_equal(id, -7);
}

/* Which of n tokens ever come in 2,000 draws: they must be the first ones, without a gap. */
static int kept(const float *logits, int n, tpcl_sampling s)
{
    bool seen[16] = {false};
    for (uint64_t step = 0; step < 2000; step++) seen[draw(logits, n, s, step)] = true;
    int count = 0;
    for (int i = 0; i < n; i++) count += seen[i];
    for (int i = 0; i < count; i++) assert_true(seen[i]);
    return count;
}

static void cuts_keep_the_right_number(void **state)
{
    (void)state;
    const float logits[4] = {logf(0.5f), logf(0.25f), logf(0.125f), logf(0.125f)};
    static const struct {
        int k;
        float p, min_p;
        int kept;
    } cases[] = {
        {0, 0.0f, 0, 1}, /* never none */
        {0, 0.5f, 0, 1},    {0, 0.6f, 0, 2},    {0, 0.75f, 0, 2},   {0, 1.0f, 0, 4},
        {1, 1.0f, 0, 1},    {4, 1.0f, 0, 4},    {50, 1.0f, 0, 4},   {2, 1.0f, 0, 2},
        {3, 0.6f, 0, 2},    {2, 0.6f, 0, 1},    /* of the two that top-k leaves, the first has 2/3
                                                   already */
        {0, 1.0f, 0.2f, 4}, {0, 1.0f, 0.3f, 2}, /* 0.125 is a quarter of the best */
        {0, 1.0f, 0.6f, 1}, {0, 1.0f, 1.0f, 1}, {3, 1.0f, 0.2f, 3}, /* after top-k */
        {0, 0.8f, 0.2f, 3},                                         /* after top-p */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        tpcl_sampling s = {.temperature = 1,
                           .top_k = cases[i].k,
                           .top_p = cases[i].p,
                           .min_p = cases[i].min_p,
                           .seed = 7};
        const int n = kept(logits, 4, s);
        if (n != cases[i].kept) fail_msg("case %zu keeps %d, not %d", i, n, cases[i].kept);
    }
    /* at temperature 2 the quarter is a half: min-p comes after it */
    tpcl_sampling s = warm(2.0f, 7);
    s.min_p = 0.45f;
    assert_int_equal(kept(logits, 4, s), 4);
    static const float tie[4] = {1, 1, 1, 0};
    s.min_p = 1.0f; /* as likely as the best */
    assert_int_equal(kept(tie, 4, s), 3);
    s.min_p = 0.0f;
    s.top_k = 2; /* of equal ones the lower ids */
    assert_int_equal(kept(tie, 4, s), 2);
}

/* top-k against a plain ranking: what it leaves is drawn as if the rest had been masked. Logits in
 * steps of 1/4, so that ties lie across every cut. */
static void top_k_takes_the_best(void **state)
{
    (void)state;
    enum { N = 97 };
    float logits[N], masked[N];
    fill(logits, N, 5);
    for (int i = 0; i < N; i++) logits[i] = roundf(8 * logits[i]) / 4;
    for (int k = 1; k <= N; k++) {
        tpcl_sampling s = warm(2.0f, 3);
        for (int i = 0; i < N; i++) {
            int better = 0;
            for (int j = 0; j < N; j++)
                better += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
            masked[i] = better < k ? logits[i] : -INFINITY;
        }
        for (uint64_t step = 0; step < 50; step++) {
            s.top_k = 0;
            const int32_t want = draw(masked, N, s, step);
            s.top_k = k;
            assert_int_equal(draw(logits, N, s, step), want);
            s.top_p = 0.999f; /* and the sorted head of it is the same set */
            const int32_t head = draw(logits, N, s, step);
            s.top_k = 0;
            assert_int_equal(draw(masked, N, s, step), head);
            s.top_p = 1.0f;
        }
    }
}

/* top-p over more candidates than are sorted at first: nearly equal ones, so that half the mass is
 * half of them. */
static void top_p_finds_a_long_head(void **state)
{
    (void)state;
    enum { N = 5001 };
    static float logits[N];
    static const float p[] = {0.01f, 0.06f, 0.5f, 0.9f, 0.9999f};
    for (int i = 0; i < N; i++) logits[i] = -1e-6f * (float)(i * 17 % N);
    for (size_t k = 0; k < COUNT(p); k++) {
        const tpcl_sampling s = {.temperature = 1, .top_p = p[k], .seed = 5};
        const int last = (int)(p[k] * N) + 10; /* the mass of one is 1/N, to 0.3 % */
        int seen = 0;
        for (uint64_t step = 0; step < 400; step++) {
            const int place = draw(logits, N, s, step) * 17 % N;
            assert_true(place <= last);
            seen += place > last / 2;
        }
        assert_true(seen > 100); /* the far half is drawn, too */
    }
}

/* Chi-square of 40,000 draws against the softmax; 6 tokens are 5 degrees of freedom, and one fair
 * generator in 100,000 exceeds 30.9. */
static double chi_square(const float *logits, int n, const double *p, tpcl_sampling s)
{
    enum { DRAWS = 40000 };
    int count[16] = {0};
    double sum = 0.0;
    for (uint64_t step = 0; step < DRAWS; step++) count[draw(logits, n, s, step)]++;
    for (int i = 0; i < n; i++) {
        if (p[i] == 0.0) assert_int_equal(count[i], 0);
        if (p[i] == 0.0) continue;
        const double off = count[i] - DRAWS * p[i];
        sum += off * off / (DRAWS * p[i]);
    }
    return sum;
}

static void draws_follow_the_probabilities(void **state)
{
    (void)state;
    enum { N = 6 };
    static const float logits[N] = {0.1f, -0.2f, 1.7f, 0.3f, 1.2f, -0.5f};
    static const float temperatures[] = {0.5f, 1.0f, 2.0f};
    for (size_t t = 0; t < COUNT(temperatures); t++) {
        float scaled[N];
        double p[N];
        for (int i = 0; i < N; i++) scaled[i] = logits[i] / temperatures[t];
        tpcl_ref_softmax(scaled, p, N);
        for (uint64_t seed = 42; seed < 45; seed++) {
            const double chi = chi_square(logits, N, p, warm(temperatures[t], seed));
            if (!(chi < 30.9)) fail_msg("temperature %g: chi-square %g", temperatures[t], chi);
        }
        /* and does see a wrong temperature */
        assert_true(chi_square(logits, N, p, warm(temperatures[t] * 1.2f, 42)) > 100);
    }
    /* what top-k leaves is drawn in its own proportions */
    tpcl_sampling two = warm(1.0f, 42);
    two.top_k = 2;
    const double best = exp(1.7) / (exp(1.7) + exp(1.2)), p[N] = {0, 0, best, 0, 1 - best, 0};
    assert_true(chi_square(logits, N, p, two) < 30.9);
}

/* Computed by another implementation of Philox-4x32-10 and the Gumbel-max rule; a version that
 * draws other tokens breaks everybody's fixed seeds. */
static void draws_never_change(void **state)
{
    (void)state;
    enum { N = 12, STEPS = 16 };
    static const struct {
        uint64_t seed;
        float temperature;
        int32_t want[STEPS];
    } table[] = {
        {0, 1.0f, {10, 1, 3, 1, 5, 10, 3, 5, 3, 5, 7, 1, 7, 6, 10, 1}},
        {1, 1.0f, {8, 8, 5, 10, 10, 5, 3, 5, 1, 5, 9, 5, 6, 5, 8, 5}},
        {42, 1.0f, {10, 1, 4, 10, 4, 10, 10, 5, 5, 6, 1, 10, 10, 3, 5, 10}},
        {0x123456789abcdef0, 1.0f, {5, 3, 8, 5, 5, 1, 10, 5, 10, 11, 1, 10, 10, 1, 6, 10}},
        {7, 0.5f, {10, 8, 5, 8, 10, 8, 1, 10, 5, 3, 8, 6, 10, 8, 8, 5}},
    };
    float logits[N];
    for (int i = 0; i < N; i++) logits[i] = (float)(i * 7 % N) * 0.25f;
    for (size_t row = 0; row < COUNT(table); row++) {
        const tpcl_sampling s = warm(table[row].temperature, table[row].seed);
        for (uint64_t step = 0; step < STEPS; step++)
            assert_int_equal(draw(logits, N, s, step), table[row].want[step]);
    }
    assert_int_equal(draw(logits, N, warm(1.0f, 42), UINT64_C(1) << 40), 1);
    assert_int_equal(draw(logits, N, warm(1.0f, 42), (UINT64_C(1) << 40) + 1), 10);
}

static void same_seed_same_token(void **state)
{
    (void)state;
    enum { N = 300 };
    float logits[N];
    int differ = 0;
    fill(logits, N, 3);
    for (uint64_t step = 0; step < 50; step++) {
        const tpcl_sampling s = {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .seed = 11};
        tpcl_sampling other = s;
        other.seed = 12;
        assert_int_equal(draw(logits, N, s, step), draw(logits, N, s, step));
        differ += draw(logits, N, s, step) != draw(logits, N, other, step);
    }
    assert_true(differ > 25);
}

/* Padding rows: all real logits negative, the padding at 0. */
static void padding_never_wins(void **state)
{
    (void)state;
    float logits[16] = {0}, masked[16];
    for (int i = 0; i < 10; i++) logits[i] = i == 7 ? -0.5f : -1.0f;
    for (int i = 0; i < 16; i++) masked[i] = i < 10 ? logits[i] : -INFINITY;
    const tpcl_sample_input cut = {.logits = logits, .n = 16, .valid = 10};
    const tpcl_sample_input mask = {.logits = masked, .n = 16};
    int32_t id = -1, same = -1;
    assert_ok(tpcl_sample(&cut, &coldest, &id));
    assert_int_equal(id, 7);
    assert_ok(tpcl_sample(&mask, &coldest, &id));
    assert_int_equal(id, 7);
    for (uint64_t seed = 0; seed < 1000; seed++) {
        const tpcl_sampling kinds[] = {
            warm(1, seed),
            {.temperature = 1, .top_k = 5, .top_p = 1, .seed = seed},
            {.temperature = 1, .top_p = 0.9f, .seed = seed},
            {.temperature = 1, .top_k = 5, .top_p = 0.9f, .seed = seed},
            {.temperature = 1, .top_p = 1, .min_p = 0.1f, .seed = seed},
        };
        for (size_t k = 0; k < COUNT(kinds); k++) {
            assert_ok(tpcl_sample(&cut, &kinds[k], &id));
            assert_in_range(id, 0, 9);
            assert_ok(tpcl_sample(&mask, &kinds[k], &same));
            assert_int_equal(id, same); /* whichever way the padding is told */
        }
    }
    logits[12] = NAN; /* and what lies behind `valid` is never looked at */
    assert_ok(tpcl_sample(&cut, &coldest, &id));
}

/* A mask in the middle: the lowest id that is left, not id 0. */
static void masked_ids_are_never_chosen(void **state)
{
    (void)state;
    static const float logits[5] = {-INFINITY, -INFINITY, -3, -INFINITY, -3};
    assert_int_equal(draw(logits, 5, coldest, 0), 2);
    for (uint64_t step = 0; step < 200; step++) {
        const int32_t id = draw(logits, 5, warm(1.0f, 1), step);
        assert_true(id == 2 || id == 4);
    }
    static const float one[3] = {-INFINITY, -3e38f, -INFINITY};
    static const int32_t history[1] = {1};
    tpcl_sampling s = coldest;
    s.repetition_penalty = 1e38f; /* makes of it nothing that f32 holds: still a candidate */
    assert_int_equal(draw_after(one, 3, history, 1, s), 1);
    s.temperature = 1.0f;
    assert_int_equal(draw_after(one, 3, history, 1, s), 1);
}

static void a_bad_logit_is_an_error(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY};
    const tpcl_sampling kinds[] = {coldest, warm(1.0f, 0)};
    for (size_t b = 0; b < COUNT(bad); b++) {
        for (int at = 0; at < 3; at++) {
            float logits[3] = {1, -INFINITY, 3};
            char name[16];
            logits[at] = bad[b];
            snprintf(name, sizeof name, "token %d is", at);
            const tpcl_sample_input in = {.logits = logits, .n = 3};
            for (size_t k = 0; k < COUNT(kinds); k++)
                refuses(TPCL_ERR_NONFINITE, name, &in, &kinds[k]);
        }
    }
    static const float none[3] = {-INFINITY, -INFINITY, -INFINITY}, last[2] = {-INFINITY, 1};
    const tpcl_sample_input masked = {.logits = none, .n = 3};
    const tpcl_sample_input cut = {.logits = last, .n = 2, .valid = 1};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        refuses(TPCL_ERR_NONFINITE, "tokens 0 to 2 are all masked", &masked, &kinds[k]);
        refuses(TPCL_ERR_NONFINITE, "tokens 0 to 0 are all masked", &cut, &kinds[k]);
    }
}

/* Greedy shows where the penalised logits end up. */
static void penalty_divides_above_zero_and_multiplies_below(void **state)
{
    (void)state;
    tpcl_sampling s = coldest;
    s.repetition_penalty = 2.0f;
    static const int32_t zero[1] = {0}, twice[3] = {0, 0, 0}, both[2] = {0, 1};
    assert_int_equal(draw_after((float[]){4, 2.5f, 0}, 3, zero, 1, s), 1);    /* 4 -> 2 */
    assert_int_equal(draw_after((float[]){4, 1.5f, 0}, 3, zero, 1, s), 0);    /* 2 is still more */
    assert_int_equal(draw_after((float[]){4, 1.5f, 0}, 3, twice, 3, s), 0);   /* once, not 0.5 */
    assert_int_equal(draw_after((float[]){4, 2, 0}, 3, zero, 1, s), 0);       /* a tie: lowest id */
    assert_int_equal(draw_after((float[]){-1, -1.5f, -9}, 3, zero, 1, s), 1); /* -1 -> -2 */
    assert_int_equal(draw_after((float[]){-1, -3, -9}, 3, zero, 1, s), 0);
    assert_int_equal(draw_after((float[]){0, -1, -9}, 3, zero, 1, s), 0); /* 0 stays 0 */
    assert_int_equal(draw_after((float[]){4, 3, 1.9f}, 3, both, 2, s), 0);
    assert_int_equal(draw_after((float[]){4, 3, 2.1f}, 3, both, 2, s), 2);
    s.repetition_penalty = 0.5f; /* below 1 repetition becomes likelier */
    assert_int_equal(draw_after((float[]){2, 3, 0}, 3, zero, 1, s), 0);
    s.repetition_penalty = 0.0f;
    assert_int_equal(draw_after((float[]){2, 3, 0}, 3, both, 2, s), 1);
    s.repetition_penalty = 1.0f;
    assert_int_equal(draw_after((float[]){2, 3, 0}, 3, both, 2, s), 1);
}

static void penalty_counts_the_last_ids_only(void **state)
{
    (void)state;
    static const float logits[4] = {4, 3.5f, 3, 2.5f};
    static const int32_t history[4] = {0, 1, 2, 3};
    tpcl_sampling s = coldest;
    s.repetition_penalty = 2.0f;
    static const int32_t want[] = {0, 0, 0, 0, 0, 0}; /* all: 2 1.75 1.5 1.25; else 0 is free */
    for (int last = 0; last < 6; last++) {
        s.penalty_last = last;
        assert_int_equal(draw_after(logits, 4, history, 4, s), want[last]);
    }
    static const int32_t turned[4] = {3, 2, 1, 0};
    static const int32_t then[] = {0, 1, 2, 3, 0, 0}; /* the last n of it are the best n */
    for (int last = 0; last < 6; last++) {
        s.penalty_last = last;
        assert_int_equal(draw_after(logits, 4, turned, 4, s), then[last]);
    }
}

/* The penalised logits are drawn like any: as if they had been given so. Padding ids may be in the
 * history, and then mean nothing. */
static void penalty_comes_before_temperature(void **state)
{
    (void)state;
    static const float logits[5] = {2, 1, -1, 0.5f, 9}, changed[4] = {2 / 1.3f, 1, -1 * 1.3f, 0.5f};
    static const int32_t history[4] = {0, 2, 0, 4};
    for (uint64_t step = 0; step < 500; step++) {
        tpcl_sampling s = warm(0.7f, 5);
        int32_t id = -1;
        s.top_p = 0.9f;
        s.repetition_penalty = 1.3f;
        const tpcl_sample_input in = {
            .logits = logits, .n = 5, .valid = 4, .history = history, .n_history = 4, .step = step};
        assert_ok(tpcl_sample(&in, &s, &id));
        assert_int_equal(id, draw(changed, 4, s, step));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_lowest_of_a_tie),
        cmocka_unit_test(refuses_what_is_no_setting),
        cmocka_unit_test(refuses_what_is_no_input),
        cmocka_unit_test(cuts_keep_the_right_number),
        cmocka_unit_test(top_k_takes_the_best),
        cmocka_unit_test(top_p_finds_a_long_head),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(draws_never_change),
        cmocka_unit_test(same_seed_same_token),
        cmocka_unit_test(padding_never_wins),
        cmocka_unit_test(masked_ids_are_never_chosen),
        cmocka_unit_test(a_bad_logit_is_an_error),
        cmocka_unit_test(penalty_divides_above_zero_and_multiplies_below),
        cmocka_unit_test(penalty_counts_the_last_ids_only),
        cmocka_unit_test(penalty_comes_before_temperature),
    };
    return cmocka_run_group_tests_name("layers/sampling", tests, NULL, NULL);
}
