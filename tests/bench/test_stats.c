/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include "tpcl_test.h"

/* Nanoseconds; a one-pass formula in double was off by a factor of 25 here. */
static void large_samples(void **state)
{
    (void)state;
    double samples[] = {12140144300, 12308847400, 12225136900, 12154929400, 11909783400};
    const struct bench_stats s = bench_stats_of(samples, COUNT(samples));
    assert_true(s.mean == 12147768280.0);
    assert_true(fabs(s.sd - 148894758.0) < 1.0);
    assert_true(s.min == 11909783400.0);
    assert_true(s.median == 12154929400.0);
    assert_true(s.p90 == 12308847400.0);
}

static void equal_samples(void **state)
{
    (void)state;
    double samples[] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1}; /* plain sums of 3 or 6 are not 0.3, 0.6 */
    for (size_t n = 2; n <= COUNT(samples); n++) {
        const struct bench_stats s = bench_stats_of(samples, n);
        assert_true(s.sd == 0.0 && s.mean == 0.1);
        assert_true(s.min == 0.1 && s.median == 0.1 && s.p90 == 0.1);
    }
}

static void one_sample(void **state)
{
    (void)state;
    double sample = 3.5;
    const struct bench_stats s = bench_stats_of(&sample, 1);
    assert_true(s.sd == 0.0);
    assert_true(s.min == 3.5 && s.median == 3.5 && s.p90 == 3.5 && s.mean == 3.5);
}

static void two_samples(void **state)
{
    (void)state;
    double samples[] = {3, 1};
    const struct bench_stats s = bench_stats_of(samples, 2);
    assert_true(s.median == 2.0 && s.min == 1.0 && s.p90 == 3.0);
    assert_true(fabs(s.sd - sqrt(2.0)) < 1e-15);
}

/* p90 is the least sample that nine in ten do not exceed: no interpolation, no last element. */
static void ninety_percent(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        double p90;
    } cases[] = {{9, 9}, {10, 9}, {11, 10}, {19, 18}, {20, 18}, {21, 19}, {100, 90}};
    for (size_t c = 0; c < COUNT(cases); c++) {
        double samples[100];
        for (size_t i = 0; i < cases[c].n; i++) samples[i] = (double)(cases[c].n - i);
        assert_true(bench_stats_of(samples, cases[c].n).p90 == cases[c].p90);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_samples),  cmocka_unit_test(equal_samples),
        cmocka_unit_test(one_sample),     cmocka_unit_test(two_samples),
        cmocka_unit_test(ninety_percent),
    };
    return cmocka_run_group_tests_name("bench/stats", tests, NULL, NULL);
}
