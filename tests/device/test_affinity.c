/* SPDX-License-Identifier: Apache-2.0 */
#include "tpcl_test.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "device/affinity.h"
#include "device/device.h"

enum { RANKS = 4, WIDTH = 8 };

/* -1 ends a list of CPUs. */
static const struct plan {
    const char *why;
    int size;
    int mask[RANKS][WIDTH], want[RANKS][WIDTH];
    bool shared[RANKS];
} plans[] = {
    {"alone", 1, {{0, 1, -1}}, {{0, 1, -1}}, {0}},
    {"alone on part of the machine", 1, {{3, 5, -1}}, {{3, 5, -1}}, {0}},
    {"two of two", 2, {{0, 1, -1}, {0, 1, -1}}, {{0, -1}, {1, -1}}, {0, 0}},
    {"uneven slices",
     3,
     {{0, 1, 2, 3, -1}, {0, 1, 2, 3, -1}, {0, 1, 2, 3, -1}},
     {{0, -1}, {1, -1}, {2, 3, -1}},
     {0, 0, 0}},
    {"holes in the mask",
     2,
     {{1, 4, 6, 7, -1}, {1, 4, 6, 7, -1}},
     {{1, 4, -1}, {6, 7, -1}},
     {0, 0}},
    {"fewer CPUs than ranks",
     3,
     {{0, 1, -1}, {0, 1, -1}, {0, 1, -1}},
     {{0, -1}, {0, -1}, {1, -1}},
     {1, 1, 0}},
    {"four on two",
     4,
     {{0, 1, -1}, {0, 1, -1}, {0, 1, -1}, {0, 1, -1}},
     {{0, -1}, {0, -1}, {1, -1}, {1, -1}},
     {1, 1, 1, 1}},
    {"one CPU for all", 2, {{2, -1}, {2, -1}}, {{2, -1}, {2, -1}}, {1, 1}},
    {"bound by the launcher", 2, {{0, -1}, {1, -1}}, {{0, -1}, {1, -1}}, {0, 0}},
    {"bound, overlapping", 2, {{0, 1, -1}, {1, 2, -1}}, {{0, 1, -1}, {1, 2, -1}}, {1, 1}},
    {"bound to sockets",
     4,
     {{0, 1, -1}, {0, 1, -1}, {2, 3, -1}, {2, 3, -1}},
     {{0, -1}, {1, -1}, {2, -1}, {3, -1}},
     {0, 0, 0, 0}},
    {"same count, other CPUs", 2, {{0, 2, -1}, {0, 3, -1}}, {{0, 2, -1}, {0, 3, -1}}, {1, 1}},
    {"unknown masks", 2, {{-1}, {-1}}, {{-1}, {-1}}, {0, 0}},
    {"order of cores is kept",
     2,
     {{0, 4, 1, 5, -1}, {0, 4, 1, 5, -1}},
     {{0, 4, -1}, {1, 5, -1}},
     {0, 0}},
};

static void to_cpus(const int *list, tpi_cpus *out)
{
    memset(out, 0, sizeof *out);
    while (list[out->n] >= 0) out->cpu[out->n] = list[out->n], out->n++;
}

static void plans_cpus(void **state)
{
    const struct plan *p = *state;
    tpi_cpus masks[RANKS], mine, want;
    bool shared;
    for (int r = 0; r < p->size; r++) to_cpus(p->mask[r], &masks[r]);
    for (int r = 0; r < p->size; r++) {
        memset(&mine, 0x55, sizeof mine);
        tpi_affinity_plan(masks, p->size, r, &mine, &shared);
        to_cpus(p->want[r], &want);
        assert_int_equal(mine.n, want.n);
        assert_memory_equal(mine.cpu, want.cpu, (size_t)want.n * sizeof want.cpu[0]);
        assert_int_equal(shared, p->shared[r]);
    }
}

/* For every k and size: slices cover the mask once, sizes differ by one at most. */
static void slices_partition(void **state)
{
    (void)state;
    static tpi_cpus masks[40];
    for (int k = 1; k <= 40; k++)
        for (int size = 1; size <= k; size += 3) {
            int next = 0;
            for (int r = 0; r < size; r++) {
                masks[r].n = k;
                for (int i = 0; i < k; i++) masks[r].cpu[i] = 2 * i;
            }
            for (int r = 0; r < size; r++) {
                tpi_cpus mine;
                bool shared;
                tpi_affinity_plan(masks, size, r, &mine, &shared);
                assert_false(shared);
                assert_in_range(mine.n, k / size, k / size + (k % size != 0));
                for (int i = 0; i < mine.n; i++) assert_int_equal(mine.cpu[i], 2 * next++);
            }
            assert_int_equal(next, k);
        }
}

static void get_is_the_mask(void **state)
{
    (void)state;
    tpi_cpus cpus;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    tpi_affinity_get(&cpus);
    assert_int_equal(cpus.n, CPU_COUNT(&set));
    for (int i = 0; i < cpus.n; i++) {
        assert_true(CPU_ISSET(cpus.cpu[i], &set));
        CPU_CLR(cpus.cpu[i], &set);
    }
}

static void *wait_for(void *barrier)
{
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

static int cpus_of(pid_t tid, int *first)
{
    cpu_set_t set;
    if (sched_getaffinity(tid, sizeof set, &set) != 0) return 0;
    *first = 0;
    while (!CPU_ISSET(*first, &set)) (*first)++;
    return CPU_COUNT(&set);
}

/* Calls `check` with the CPUs of every thread of this process; returns how many there are. */
static int each_thread(void (*check)(int cpus, int first, int want), int want)
{
    int n = 0, first = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *e = readdir(tasks); e; e = readdir(tasks))
        if (e->d_name[0] != '.') {
            const int cpus = cpus_of((pid_t)atoi(e->d_name), &first);
            check(cpus, first, want);
            n++;
        }
    closedir(tasks);
    return n;
}

static void bound_to(int cpus, int first, int want)
{
    assert_int_equal(cpus, 1);
    assert_int_equal(first, want);
}

/* A thread that was there before moves along; one that somebody bound elsewhere stays. */
static void bind_moves_inheritors(void **state)
{
    (void)state;
    tpi_cpus all, last = {.n = 1}, first = {.n = 1};
    pthread_barrier_t barrier;
    pthread_t thread;
    tpi_affinity_get(&all);
    if (all.n < 2) skip();
    first.cpu[0] = all.cpu[0];
    last.cpu[0] = all.cpu[all.n - 1];
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, wait_for, &barrier), 0);
    pthread_barrier_wait(&barrier);
    assert_ok(tpi_affinity_bind(&last));
    assert_true(each_thread(bound_to, last.cpu[0]) >= 2);

    cpu_set_t other;
    CPU_ZERO(&other);
    CPU_SET(first.cpu[0], &other);
    assert_int_equal(pthread_setaffinity_np(thread, sizeof other, &other), 0);
    assert_ok(tpi_affinity_bind(&all));
    assert_int_equal(pthread_getaffinity_np(thread, sizeof other, &other), 0);
    assert_int_equal(CPU_COUNT(&other), 1); /* not the caller's mask: left alone */
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&barrier);
}

/* The driver's threads exist since the list was made; they must follow, too. */
static void bind_moves_the_driver(void **state)
{
    (void)state;
    tpcl_device_options options = {.select = getenv("TPCL_TEST_DEVICE"), .units = 1};
    tpcl_device *dev = NULL;
    tpi_cpus all, last = {.n = 1};
    tpi_affinity_get(&all);
    last.cpu[0] = all.cpu[all.n - 1];
    assert_ok(tpcl_device_open(&options, &dev));
    assert_ok(tpi_affinity_bind(&last));
    each_thread(bound_to, last.cpu[0]);
    assert_ok(tpi_affinity_bind(&all));
    tpcl_device_close(&dev);
}

static void bind_refuses(void **state)
{
    (void)state;
    static const tpi_cpus none, absent = {.n = 1, .cpu = {TPI_MAX_CPUS - 1}};
    tpi_cpus before, after;
    tpi_affinity_get(&before);
    assert_int_equal(tpi_affinity_bind(&none), TPCL_ERR_UNSUPPORTED);
    assert_int_equal(tpi_affinity_bind(&absent), TPCL_ERR_UNSUPPORTED);
    tpi_affinity_get(&after);
    assert_memory_equal(&before, &after, sizeof before);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(plans) + 5];
    size_t n = 0;
    for (size_t i = 0; i < COUNT(plans); i++)
        tests[n++] = (struct CMUnitTest){
            .name = plans[i].why, .test_func = plans_cpus, .initial_state = (void *)&plans[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(slices_partition);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(get_is_the_mask);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(bind_moves_inheritors);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(bind_moves_the_driver);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(bind_refuses);
    return cmocka_run_group_tests_name("device/affinity", tests, NULL, NULL);
}
