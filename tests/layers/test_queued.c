/* Sums in the device's queue: the same bits as those through the host, and every failure. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "layers/group.h"
#include "layers_test.h"

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One rank has nothing to sum; and not every driver runs host functions. PoCL does. */
static void needs_queue(void)
{
    const tpcl_device_info *info = tpcl_device_get_info(tpcl_group_device(group));
    const bool pocl = strstr(info->platform, "Portable") != NULL;
    assert_int_equal(group->queued.possible && size == 1, 0);
    if (pocl && size > 1) assert_true(group->queued.possible);
    if (!group->queued.possible) skip();
    group->queued.wanted = true;
}

static tpcl_tensor *term(int64_t n, uint32_t seed)
{
    float *v = random_floats((size_t)n, seed + 100u * (uint32_t)rank);
    tpcl_tensor *t = tensor_of(v, TPCL_F32, n);
    free(v);
    return t;
}

static void gives_the_bits_of_sums_through_the_host(void **state)
{
    (void)state;
    static const int64_t counts[] = {1,     15,     4097,
                                     70001, 131072, 131072 * 2 + 7}; /* chunk: 131072 */
    needs_queue();
    for (size_t i = 0; i < COUNT(counts); i++) {
        const int64_t n = counts[i];
        float *a = malloc((size_t)n * sizeof *a), *b = malloc((size_t)n * sizeof *b);
        tpcl_tensor *queued = term(n, 7), *host = term(n, 7);
        assert_ok(tpi_reduce(group, TPCL_OK, queued, (size_t)n));
        group->queued.wanted = false;
        assert_ok(tpi_reduce(group, TPCL_OK, host, (size_t)n));
        group->queued.wanted = true;
        assert_ok(tpcl_tensor_read(queued, a, (size_t)n));
        assert_ok(tpcl_tensor_read(host, b, (size_t)n));
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        tpcl_tensor_destroy(&queued);
        tpcl_tensor_destroy(&host);
        free(a);
        free(b);
    }
}

/* Kernels and sums alternate without the host; the ranks meet once, at the end. */
static void follows_the_kernels_before_it(void **state)
{
    (void)state;
    enum { N = 33, TURNS = 12 };
    float got[N];
    needs_queue();
    tpcl_tensor *y = NULL, *one = NULL;
    float ones[N];
    for (int i = 0; i < N; i++) ones[i] = 1.0f;
    y = tensor_of(ones, TPCL_F32, N);
    one = tensor_of(ones, TPCL_F32, N);
    double want = 1.0;
    for (int t = 0; t < TURNS; t++) { /* y = ranks * y + 1 */
        assert_ok(tpi_reduce(group, TPCL_OK, y, N));
        assert_ok(tpcl_add(y, one, N));
        want = size * want + 1.0;
    }
    assert_ok(tpcl_comm_agree(group->comm, TPCL_OK, "end"));
    assert_ok(tpcl_tensor_read(y, got, N));
    for (int i = 0; i < N; i++) assert_float_equal(got[i], (float)want, want * 1e-6);
    tpcl_tensor_destroy(&y);
    tpcl_tensor_destroy(&one);
}

/* The last rank fails after two sums. The others learn of it in their queue, behind which more sums
 * wait; what they get at the next collective names rank and reason. */
static void a_rank_that_fails_ends_it_on_all(void **state)
{
    (void)state;
    needs_queue();
    tpcl_tensor *y = term(100, 3);
    tpcl_status status = TPCL_OK;
    int blamed = -1;
    tpcl_status code = TPCL_OK;
    for (int t = 0; t < 6 && status == TPCL_OK; t++) {
        if (t == 2 && rank == size - 1)
            status = tpi_reduce(group, tpi_fail(TPCL_ERR_DEVICE_MEM, "planted"), y, 100);
        else
            status = tpi_reduce(group, TPCL_OK, y, 100);
    }
    if (status == TPCL_OK) status = tpcl_comm_agree(group->comm, TPCL_OK, "end");
    assert_int_equal(status, rank == size - 1 ? TPCL_ERR_DEVICE_MEM : TPCL_ERR_PEER);
    assert_non_null(strstr(tpcl_last_error(), "planted"));
    tpcl_last_failure(&blamed, &code);
    assert_int_equal(blamed, size - 1);
    assert_int_equal(code, TPCL_ERR_DEVICE_MEM);
    assert_int_equal(tpi_reduce(group, TPCL_OK, y, 100), TPCL_OK); /* queued, and refused there: */
    assert_int_equal(tpcl_comm_agree(group->comm, TPCL_OK, "later"), TPCL_ERR_GROUP_FAILED);
    tpcl_tensor_destroy(&y);
}

static void another_call_is_a_mismatch(void **state)
{
    (void)state;
    needs_queue();
    tpcl_tensor *y = term(100, 3);
    tpcl_status status = tpi_reduce(group, TPCL_OK, y, 100);
    assert_ok(status);
    if (rank != 0) status = tpi_reduce(group, TPCL_OK, y, rank == size - 1 ? 99 : 100);
    assert_ok(status);
    assert_int_equal(tpcl_comm_agree(group->comm, TPCL_OK, "end"), TPCL_ERR_MISMATCH);
    assert_non_null(strstr(tpcl_last_error(), "call #"));
    tpcl_tensor_destroy(&y);
}

static void a_missing_rank_ends_it_within_the_deadline(void **state)
{
    (void)state;
    needs_queue();
    tpcl_tensor *y = term(100, 3);
    const double started = now_s();
    tpcl_comm_set_timeout(group->comm, 0.5);
    if (rank == size - 1) {
        const struct timespec late = {.tv_sec = 2};
        nanosleep(&late, NULL);
    }
    for (int t = 0; t < 3; t++) assert_ok(tpi_reduce(group, TPCL_OK, y, 100));
    const tpcl_status status = tpcl_comm_agree(group->comm, TPCL_OK, "end");
    assert_int_equal(status, TPCL_ERR_TIMEOUT);
    assert_true(now_s() - started < 20);
    tpcl_tensor_destroy(&y);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest fine[] = {
        cmocka_unit_test(gives_the_bits_of_sums_through_the_host),
        cmocka_unit_test(follows_the_kernels_before_it),
    };
    const struct CMUnitTest faults[] = {
        /* each ends its group */
        cmocka_unit_test_setup_teardown(a_rank_that_fails_ends_it_on_all, open_group, close_group),
        cmocka_unit_test_setup_teardown(another_call_is_a_mismatch, open_group, close_group),
        cmocka_unit_test_setup_teardown(a_missing_rank_ends_it_within_the_deadline, open_group,
                                        close_group),
    };
    int failed = 0;
    layers_main_begin(&argc, &argv);
    failed += cmocka_run_group_tests_name("layers/queued", fine, open_group, close_group);
    failed += cmocka_run_group_tests_name("layers/queued faults", faults, NULL, NULL);
    return layers_main_end(failed);
}
