/* The communicator among threads of one process, without MPI: what collectives and faults do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "team_test.h"

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tpcl_comm *open_comm(member *me, double timeout_s)
{
    const tpcl_comm_options options = {.timeout_s = timeout_s, .chunk_bytes = 4096};
    tpcl_comm *comm = NULL;
    CHECK(me, tpcl_comm_create_in_team(me->team, me->rank, &options, &comm) == TPCL_OK);
    CHECK(me, tpcl_comm_rank(comm) == me->rank && tpcl_comm_size(comm) == me->size);
    CHECK(me, tpcl_comm_local_rank(comm) == me->rank && tpcl_comm_local_size(comm) == me->size);
    return comm;
}

static float term(int rank, size_t i)
{
    return (float)((i * 2654435761u + (unsigned)rank * 40503u) % 1000u) / 7.0f - 60.0f;
}

static void sum(member *me, tpcl_comm *comm, size_t n)
{
    float *mine = calloc(n + 1, sizeof *mine), *got = malloc(n * sizeof *got + 1);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) mine[i] = term(me->rank, i);
    CHECK(me, tpcl_comm_allreduce_sum(comm, TPCL_OK, mine, got, n) == TPCL_OK);
    for (size_t i = 0; i < n; i++) {
        float want = term(0, i); /* in rank order: the same bits */
        for (int r = 1; r < me->size; r++) want += term(r, i);
        wrong += memcmp(&got[i], &want, sizeof want) != 0;
    }
    CHECK(me, wrong == 0);
    free(mine);
    free(got);
}

static void collect(member *me, tpcl_comm *comm, int root)
{
    size_t bytes[TEAM_MAX], total = 0;
    unsigned char mine[9000], all[TEAM_MAX * 9000];
    for (int r = 0; r < me->size; r++) total += bytes[r] = (size_t)r * 2900 + 11;
    for (size_t i = 0; i < bytes[me->rank]; i++)
        mine[i] = (unsigned char)(i + 31u * (unsigned)me->rank);
    CHECK(me, tpcl_comm_gather(comm, TPCL_OK, mine, bytes, all, root) == TPCL_OK);
    if (root >= 0 && root != me->rank) return;
    size_t wrong = 0, at = 0;
    for (int r = 0; r < me->size; at += bytes[r++])
        for (size_t i = 0; i < bytes[r]; i++)
            wrong += all[at + i] != (unsigned char)(i + 31u * (unsigned)r);
    CHECK(me, wrong == 0 && at == total);
}

static void collectives(member *me)
{
    static const size_t counts[] = {0, 1, 15, 1023, 1024, 1025, 8191, 40001};
    tpcl_comm *comm = open_comm(me, 20);
    for (int turn = 0; turn < 3; turn++) {
        for (size_t i = 0; i < COUNT(counts); i++) sum(me, comm, counts[i]);
        int64_t least = 100 - me->rank, most[2] = {me->rank, -me->rank};
        CHECK(me, tpcl_comm_allreduce_min(comm, TPCL_OK, &least, 1) == TPCL_OK);
        CHECK(me, least == 100 - (me->size - 1));
        CHECK(me, tpcl_comm_allreduce_max(comm, TPCL_OK, most, 2) == TPCL_OK);
        CHECK(me, most[0] == me->size - 1 && most[1] == 0);
        for (int root = 0; root < me->size; root++) {
            float v[3000];
            for (int i = 0; i < 3000; i++) v[i] = me->rank == root ? (float)i : -1.0f;
            CHECK(me, tpcl_comm_broadcast(comm, TPCL_OK, v, sizeof v, root) == TPCL_OK);
            CHECK(me, v[0] == 0.0f && v[1499] == 1499.0f && v[2999] == 2999.0f);
        }
        for (int root = -1; root < me->size; root++) collect(me, comm, root);
    }
    tpcl_comm_destroy(&comm);
    CHECK(me, comm == NULL);
}

static void errors(member *me)
{
    for (int bad = 0; bad < me->size; bad++) {
        tpcl_comm *comm = open_comm(me, 20);
        float f[40] = {0};
        int rank = -1;
        tpcl_status code = TPCL_OK, local = TPCL_OK;
        for (int i = 0; i < 50; i++) { /* refusals in a row, then on */
            local = me->rank == bad ? tpi_fail(TPCL_ERR_SHAPE, "refusal %d", i) : TPCL_OK;
            char want[40];
            snprintf(want, sizeof want, "rank %d: refusal %d", bad, i);
            CHECK(me, tpcl_comm_allreduce_sum(comm, local, f, f, 40) ==
                          (me->rank == bad ? TPCL_ERR_SHAPE : TPCL_ERR_PEER));
            CHECK(me, strcmp(tpcl_last_error(), me->rank == bad ? want + 8 : want) == 0);
        }
        CHECK(me, tpcl_comm_agree(comm, TPCL_OK, "on") == TPCL_OK);
        local = me->rank == bad ? tpi_fail(TPCL_ERR_IO, "no file") : TPCL_OK;
        CHECK(me, tpcl_comm_agree(comm, local, "load") ==
                      (me->rank == bad ? TPCL_ERR_IO : TPCL_ERR_PEER));
        CHECK(me, tpcl_comm_failed(comm, &rank, &code) && rank == bad && code == TPCL_ERR_IO);
        CHECK(me, tpcl_comm_agree(comm, TPCL_OK, "later") == TPCL_ERR_GROUP_FAILED);
        tpcl_comm_destroy(&comm);
    }
}

static void mismatch(member *me)
{
    tpcl_comm *comm = open_comm(me, 20);
    float f[8] = {0};
    const tpcl_status status = tpcl_comm_allreduce_sum(comm, TPCL_OK, f, f, me->rank ? 6 : 5);
    CHECK(me, status == (me->size == 1 ? TPCL_OK : TPCL_ERR_MISMATCH));
    if (me->size > 1) CHECK(me, strstr(tpcl_last_error(), "sum of 5 f32 values") != NULL);
    tpcl_comm_destroy(&comm);
}

/* The last rank comes to neither in time: the others go at the deadline, and all can begin anew. */
static void late(member *me)
{
    const bool last = me->rank == me->size - 1;
    const tpcl_comm_options options = {.timeout_s = 0.4};
    tpcl_comm *comm = NULL;
    if (me->size == 1) {
        CHECK(me, true);
        return;
    }
    double started = now_s();
    if (last) usleep(900000);
    CHECK(me, tpcl_comm_create_in_team(me->team, me->rank, &options, &comm) == TPCL_ERR_TIMEOUT);
    CHECK(me, comm == NULL && strstr(tpcl_last_error(), "missing: rank(s) ") != NULL);
    CHECK(me, now_s() - started < 5);
    if (!last) usleep(1200000); /* until it has missed them, too */
    comm = open_comm(me, 5);
    tpcl_comm_set_timeout(comm, 0.4);
    started = now_s();
    if (last) usleep(1200000);
    CHECK(me, tpcl_comm_agree(comm, TPCL_OK, "late") == TPCL_ERR_TIMEOUT);
    CHECK(me, now_s() - started < 5);
    tpcl_comm_destroy(&comm);
}

static void options_disagree(member *me)
{
    const bool last = me->rank == me->size - 1;
    tpcl_comm *comm = NULL;
    const tpcl_comm_options chunks = {.chunk_bytes = last ? 8192 : 4096};
    tpcl_status status = tpcl_comm_create_in_team(me->team, me->rank, &chunks, &comm);
    if (me->size > 1) {
        CHECK(me, status == TPCL_ERR_MISMATCH && comm == NULL);
        CHECK(me, strstr(tpcl_last_error(), "4096 on rank 0 but 8192 on rank") != NULL);
    }
    tpcl_comm_destroy(&comm);
    const tpcl_comm_options times = {.timeout_s = last ? -1 : 5};
    status = tpcl_comm_create_in_team(me->team, me->rank, &times, &comm);
    CHECK(me, status == (last ? TPCL_ERR_ARG : TPCL_ERR_PEER) && comm == NULL);
    CHECK(me, strstr(tpcl_last_error(), "timeout_s -1") != NULL);
    comm = open_comm(me, 5);
    tpcl_comm_destroy(&comm);
}

/* One after the other; the second ends with the first's memory gone. */
static void again_and_again(member *me)
{
    for (int i = 0; i < 30; i++) {
        tpcl_comm *comm = open_comm(me, 20);
        sum(me, comm, 100 + (size_t)i);
        tpcl_comm_destroy(&comm);
    }
}

static void all_sizes(void **state)
{
    void (*const *run)(member *) = (void (*const *)(member *)) * state;
    for (int size = 1; size <= TEAM_MAX; size++) run_team(size, *run, NULL);
}

static void refuses_wrong_ranks(void **state)
{
    (void)state;
    tpcl_team *team = NULL;
    tpcl_comm *comm = NULL, *second = NULL;
    assert_int_equal(tpcl_team_create(0, &team), TPCL_ERR_ARG);
    assert_null(team);
    assert_int_equal(tpcl_team_create(INT_MAX, &team), TPCL_ERR_ARG);
    assert_int_equal(tpcl_team_create(1, NULL), TPCL_ERR_ARG);
    assert_ok(tpcl_team_create(1, &team));
    assert_int_equal(tpcl_team_size(team), 1);
    assert_int_equal(tpcl_team_size(NULL), 0);
    assert_int_equal(tpcl_comm_create_in_team(team, 1, NULL, &comm), TPCL_ERR_ARG);
    assert_non_null(strstr(tpcl_last_error(), "rank 1, the team has 0 to 0"));
    assert_int_equal(tpcl_comm_create_in_team(team, -1, NULL, &comm), TPCL_ERR_ARG);
    assert_int_equal(tpcl_comm_create_in_team(NULL, 0, NULL, &comm), TPCL_ERR_ARG);
    assert_int_equal(tpcl_comm_create_in_team(team, 0, NULL, NULL), TPCL_ERR_ARG);
    assert_ok(tpcl_comm_create_in_team(team, 0, NULL, &comm));
    assert_int_equal(tpcl_comm_create_in_team(team, 0, NULL, &second), TPCL_ERR_ARG);
    assert_non_null(strstr(tpcl_last_error(), "rank 0 of the team is another thread's"));
    assert_null(second);
    tpcl_team_destroy(&team); /* the communicator lives on */
    assert_null(team);
    assert_ok(tpcl_comm_agree(comm, TPCL_OK, "alone"));
    tpcl_comm_destroy(&comm);
    tpcl_team_destroy(&team);
    tpcl_team_destroy(NULL);
}

int main(void)
{
    static void (*const runs[])(member *) = {collectives, errors,           mismatch,
                                             late,        options_disagree, again_and_again};
    static const char *const names[] = {"collectives", "errors",           "mismatch",
                                        "late",        "options_disagree", "again_and_again"};
    struct CMUnitTest tests[COUNT(runs) + 1];
    for (size_t i = 0; i < COUNT(runs); i++)
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = all_sizes, .initial_state = (void *)(uintptr_t)&runs[i]};
    tests[COUNT(runs)] = (struct CMUnitTest)cmocka_unit_test(refuses_wrong_ranks);
    return cmocka_run_group_tests_name("comm/team", tests, NULL, NULL);
}
