/* What must end on all ranks together: errors brought, calls that disagree, ranks that stop. Every
 * case makes its own communicator and ruins it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm_test.h"

#include "base/error.h"

static const double short_s = 1.0; /* the deadline where a rank is meant to miss it */

static tpcl_comm *open_row(void **state, double timeout_s)
{
    const bool *force_mpi = *state;
    MPI_Barrier(MPI_COMM_WORLD); /* a rank that was late in the case before must not be so here */
    return open_comm(
        &(tpcl_comm_options){.timeout_s = timeout_s, .chunk_bytes = 4096, .force_mpi = *force_mpi});
}

static void check_failed(const tpcl_comm *comm, int want_rank, tpcl_status want_code)
{
    int rank = -1;
    tpcl_status code = TPCL_OK;
    assert_true(tpcl_comm_failed(comm, &rank, &code));
    assert_int_equal(rank, want_rank);
    assert_int_equal(code, want_code);
    assert_true(tpcl_comm_failed(comm, NULL, NULL));
    checks++;
}

/* Every call on a failed communicator returns at once and repeats why. */
static void check_refuses(tpcl_comm *comm, const char *reason)
{
    float f[2] = {0};
    int64_t i = 0;
    size_t bytes[8] = {0};
    const double start = now_s();
    assert_int_equal(tpcl_comm_agree(comm, TPCL_OK, "x"), TPCL_ERR_GROUP_FAILED);
    if (reason && !strstr(tpcl_last_error(), reason))
        fail_msg("'%s' is not in '%s'", reason, tpcl_last_error());
    assert_int_equal(tpcl_comm_agree(comm, TPCL_ERR_IO, "x"), TPCL_ERR_GROUP_FAILED);
    assert_int_equal(tpcl_comm_allreduce_sum(comm, TPCL_OK, f, f, 2), TPCL_ERR_GROUP_FAILED);
    assert_int_equal(tpcl_comm_allreduce_min(comm, TPCL_OK, &i, 1), TPCL_ERR_GROUP_FAILED);
    assert_int_equal(tpcl_comm_allreduce_max(comm, TPCL_OK, &i, 1), TPCL_ERR_GROUP_FAILED);
    assert_int_equal(tpcl_comm_broadcast(comm, TPCL_OK, f, 8, 0), TPCL_ERR_GROUP_FAILED);
    assert_int_equal(tpcl_comm_gather(comm, TPCL_OK, f, bytes, f, 0), TPCL_ERR_GROUP_FAILED);
    assert_true(now_s() - start < 0.4);
}

/* After a refusal: nothing has failed, whose it was is known, and the next calls are right. */
static void check_usable(tpcl_comm *comm, int want_rank, tpcl_status want_code)
{
    int rank = -1;
    tpcl_status code = TPCL_OK;
    float f[2] = {1, 2};
    int64_t least = world_rank;
    assert_false(tpcl_comm_failed(comm, NULL, NULL));
    tpcl_last_failure(&rank, &code);
    assert_int_equal(rank, want_rank);
    assert_int_equal(code, want_code);
    assert_ok(tpcl_comm_allreduce_sum(comm, TPCL_OK, f, f, 2));
    assert_true(f[0] == (float)world_size && f[1] == 2 * (float)world_size);
    assert_ok(tpcl_comm_allreduce_min(comm, TPCL_OK, &least, 1));
    assert_int_equal(least, 0);
    checks++;
}

/* Creating a window costs MPI tens of milliseconds where ranks outnumber cores. There, a sample of
 * the combinations that 1 and 2 ranks try in full. */
static bool in_sample(int row, int column)
{
    return world_size <= 2 || column == row % world_size;
}

static void assert_message(const char *want)
{
    checks++;
    if (strcmp(tpcl_last_error(), want) != 0)
        fail_msg("rank %d: message '%s', want '%s'", world_rank, tpcl_last_error(), want);
}

enum { CALLS = 12 };

/* One of the calls that ranks may disagree about. Each differs from all the others. */
static tpcl_status call_number(tpcl_comm *comm, int which, tpcl_status local)
{
    static float f[40000];
    static int64_t v[600];
    size_t bytes[8] = {0};
    switch (which) {
    case 0:
        return tpcl_comm_agree(comm, local, "load");
    case 1:
        return tpcl_comm_agree(comm, local, "build");
    case 2:
        return tpcl_comm_allreduce_sum(comm, local, f, f, 5);
    case 3:
        return tpcl_comm_allreduce_sum(comm, local, f, f, 6);
    case 4:
        return tpcl_comm_allreduce_sum(comm, local, f, f, 40000); /* many chunks */
    case 5:
        return tpcl_comm_allreduce_min(comm, local, v, 5);
    case 6:
        return tpcl_comm_allreduce_max(comm, local, v, 5);
    case 7:
        return tpcl_comm_broadcast(comm, local, f, 100000, 0);
    case 8:
        return tpcl_comm_broadcast(comm, local, f, 100000, world_size - 1);
    case 9:
        bytes[0] = 9000, bytes[world_size - 1] += 5;
        return tpcl_comm_gather(comm, local, f, bytes, f + 10000, -1);
    case 10: /* the same total as 9 */
        bytes[0] = 5, bytes[world_size - 1] += 9000;
        return tpcl_comm_gather(comm, local, f, bytes, f + 10000, -1);
    default:
        bytes[0] = 9000, bytes[world_size - 1] += 5;
        return tpcl_comm_gather(comm, local, f, bytes, f + 10000, 0);
    }
}

/* Whichever rank, whichever call: its own code and message there, its message everywhere else. */
static void a_rank_brings_an_error(void **state)
{
    for (int bad = 0; bad < world_size; bad++)
        for (int which = 0; which < CALLS; which++) {
            if (!in_sample(which, bad)) continue;
            tpcl_comm *comm = open_row(state, 20);
            tpcl_status local = TPCL_OK;
            char want[80];
            assert_ok(tpcl_comm_agree(comm, TPCL_OK, "before"));
            if (world_rank == bad) local = tpi_fail(TPCL_ERR_OPEN, "cannot open model.gguf");
            assert_int_equal(call_number(comm, which, local),
                             world_rank == bad ? TPCL_ERR_OPEN : TPCL_ERR_PEER);
            snprintf(want, sizeof want, "rank %d: cannot open model.gguf", bad);
            assert_message(world_rank == bad ? "cannot open model.gguf" : want);
            check_failed(comm, bad, TPCL_ERR_OPEN);
            check_refuses(comm, want);
            tpcl_comm_destroy(&comm);
        }
}

/* Refused by any rank in any call, which then ends everywhere; the same call succeeds after it. */
static void a_refusal_leaves_it_usable(void **state)
{
    static const tpcl_status codes[] = {TPCL_ERR_ARG, TPCL_ERR_SHAPE, TPCL_ERR_UNSUPPORTED};
    tpcl_comm *comm = open_row(state, 20);
    for (int bad = 0; bad < world_size; bad++)
        for (int which = 0; which < CALLS; which++) {
            const tpcl_status code = codes[which % 3];
            tpcl_status local = TPCL_OK;
            char want[80];
            if (world_rank == bad) local = tpi_fail(code, "call %d is refused", which);
            assert_int_equal(call_number(comm, which, local),
                             world_rank == bad ? code : TPCL_ERR_PEER);
            snprintf(want, sizeof want, "rank %d: call %d is refused", bad, which);
            assert_message(world_rank == bad ? want + strlen("rank 0: ") : want);
            check_usable(comm, bad, code);
            assert_ok(call_number(comm, which, TPCL_OK));
        }
    tpcl_comm_destroy(&comm);
}

/* Refusals behind one another, without a call between them that would keep the ranks together: a
 * fast rank's next words must not reach a rank that still reads the last. */
static void refusals_in_a_row(void **state)
{
    tpcl_comm *comm = open_row(state, 20);
    uint32_t seed = 7;
    for (int i = 0; i < 400; i++) {
        const uint32_t who =
            1 + draw(&seed, (1u << world_size) - 1); /* a set of ranks, not empty */
        int first = 0;
        tpcl_status local = TPCL_OK;
        char want[80];
        while (!(who >> first & 1)) first++;
        const bool mine = who >> world_rank & 1;
        if (mine) local = tpi_fail(TPCL_ERR_SHAPE, "refusal %d of rank %d", i, world_rank);
        if (i % 50 == world_rank) usleep(2000); /* now and then somebody is late */
        assert_int_equal(tpcl_comm_agree(comm, local, "row"),
                         mine ? TPCL_ERR_SHAPE : TPCL_ERR_PEER);
        if (mine)
            snprintf(want, sizeof want, "refusal %d of rank %d", i, world_rank);
        else
            snprintf(want, sizeof want, "rank %d: refusal %d of rank %d", first, i, first);
        assert_message(want);
    }
    assert_ok(tpcl_comm_agree(comm, TPCL_OK, "end"));
    tpcl_comm_destroy(&comm);
}

/* One rank refuses, another fails: that is a failure, for all. */
static void a_failure_beside_a_refusal(void **state)
{
    const int bad = world_size - 1;
    if (world_size < 2) return;
    tpcl_comm *comm = open_row(state, 20);
    tpcl_status local = TPCL_OK;
    if (world_rank == 0) local = tpi_fail(TPCL_ERR_ARG, "not so");
    if (world_rank == bad) local = tpi_fail(TPCL_ERR_DEVICE, "lost");
    const tpcl_status got = tpcl_comm_agree(comm, local, "both");
    assert_int_equal(got, local == TPCL_OK ? TPCL_ERR_PEER : local);
    check_failed(comm, 0, TPCL_ERR_ARG); /* the lowest that brought an error */
    check_refuses(comm, NULL);
    tpcl_comm_destroy(&comm);
}

/* The error wins over the disagreement that it causes: the failing rank calls what it can. */
static void an_error_explains_a_mismatch(void **state)
{
    const int bad = world_size - 1;
    tpcl_comm *comm = open_row(state, 20);
    tpcl_status local = TPCL_OK;
    if (world_rank == bad) local = tpi_fail(TPCL_ERR_FORMAT, "damaged");
    assert_int_equal(call_number(comm, world_rank == bad ? 0 : 4, local),
                     world_rank == bad ? TPCL_ERR_FORMAT : TPCL_ERR_PEER);
    check_failed(comm, bad, TPCL_ERR_FORMAT);
    tpcl_comm_destroy(&comm);
}

static void several_ranks_fail(void **state)
{
    tpcl_comm *comm = open_row(state, 20);
    tpcl_status local = TPCL_OK, want = TPCL_ERR_PEER;
    char message[80];
    if (world_size < 3) {
        tpcl_comm_destroy(&comm);
        return;
    }
    if (world_rank >= 1)
        local = tpi_fail(world_rank == 1 ? TPCL_ERR_IO : TPCL_ERR_NOMEM, "trouble %d", world_rank);
    if (world_rank >= 1) want = local;
    assert_int_equal(tpcl_comm_agree(comm, local, "load"), want);
    snprintf(message, sizeof message, "trouble %d", world_rank);
    assert_message(world_rank == 0 ? "rank 1: trouble 1" : message);
    check_failed(comm, 1, TPCL_ERR_IO);
    check_refuses(comm, "rank 1: trouble 1");
    tpcl_comm_destroy(&comm);
}

/* An error without a message still says something; a long one stays one bounded line. */
static void odd_messages(void **state)
{
    char longest[TPI_MESSAGE_MAX];
    tpcl_comm *comm = open_row(state, 20);
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    (void)tpi_fail(TPCL_OK, "%s", "");
    if (world_rank == 0) {
        assert_int_equal(tpcl_comm_agree(comm, TPCL_ERR_IO, "a"), TPCL_ERR_IO);
        assert_message("read or write failed");
    } else {
        assert_int_equal(tpcl_comm_agree(comm, TPCL_OK, "a"), TPCL_ERR_PEER);
        assert_message("rank 0: read or write failed");
    }
    tpcl_comm_destroy(&comm);
    comm = open_row(state, 20);
    const tpcl_status local = world_rank == 0 ? tpi_fail(TPCL_ERR_IO, "%s", longest) : TPCL_OK;
    assert_int_equal(tpcl_comm_agree(comm, local, "b"),
                     world_rank == 0 ? TPCL_ERR_IO : TPCL_ERR_PEER);
    assert_true(strlen(tpcl_last_error()) > 400);
    assert_int_equal(tpcl_comm_agree(comm, TPCL_OK, "b"), TPCL_ERR_GROUP_FAILED);
    tpcl_comm_destroy(&comm);
}

static void calls_disagree(void **state)
{
    const int odd_one = world_size - 1;
    if (world_size == 1) return;
    for (int a = 0; a < CALLS; a++)
        for (int b = 0; b < CALLS; b++) {
            if (a == b || (world_size > 2 ? b != (a + 1) % CALLS : b < a)) continue;
            tpcl_comm *comm = open_row(state, 20);
            const int mine = world_rank == odd_one ? b : a;
            assert_int_equal(call_number(comm, mine, TPCL_OK), TPCL_ERR_MISMATCH);
            check_failed(comm, odd_one, TPCL_ERR_MISMATCH);
            if (!strstr(tpcl_last_error(), "at call #1: rank 0 calls"))
                fail_msg("message '%s'", tpcl_last_error());
            check_refuses(comm, "ranks disagree");
            tpcl_comm_destroy(&comm);
        }
}

static void disagreement_names_both_calls(void **state)
{
    tpcl_comm *comm = open_row(state, 20);
    char want[200];
    const int odd_one = world_size - 1;
    float f[8] = {0};
    if (world_size > 1) {
        for (int i = 0; i < 3; i++) assert_ok(tpcl_comm_agree(comm, TPCL_OK, "load"));
        assert_int_equal(world_rank == odd_one ? tpcl_comm_broadcast(comm, TPCL_OK, f, 20, 0)
                                               : tpcl_comm_allreduce_sum(comm, TPCL_OK, f, f, 5),
                         TPCL_ERR_MISMATCH);
        snprintf(want, sizeof want,
                 "ranks disagree at call #4: rank 0 calls all-reduce sum of 5 f32 values, "
                 "rank %d broadcast of 20 bytes from rank 0",
                 odd_one);
        assert_message(want);
    }
    tpcl_comm_destroy(&comm);
}

/* A bad argument on one rank is that rank's error, and the others do not wait for it. */
static void bad_arguments_arrive(void **state)
{
    for (int which = 0; which < 9; which++) {
        tpcl_comm *comm = open_row(state, 20);
        const bool bad = world_rank == world_size - 1;
        static float f[4096];
        float *stage = tpcl_comm_stage(comm);
        const size_t most = tpcl_comm_chunk(comm);
        size_t bytes[8] = {0}, huge[8] = {SIZE_MAX};
        tpcl_status got;
        bytes[world_size - 1] = 4;
        switch (which) {
        case 0:
            got = tpcl_comm_allreduce_sum(comm, TPCL_OK, f, bad ? NULL : f, 4);
            break;
        case 1:
            got = tpcl_comm_allreduce_sum(comm, TPCL_OK, f, bad ? stage : f, 4);
            break;
        case 2: /* more from the stage than it holds */
            got = tpcl_comm_allreduce_sum(comm, TPCL_OK, bad ? stage : f, f, most / 4 + 1);
            break;
        case 3:
            got = tpcl_comm_broadcast(comm, TPCL_OK, f, 4, bad ? world_size : 0);
            break;
        case 4:
            got = tpcl_comm_broadcast(comm, TPCL_OK, bad ? NULL : f, 4, 0);
            break;
        case 5:
            got = tpcl_comm_gather(comm, TPCL_OK, bad ? NULL : f, bytes, f, -1);
            break;
        case 6:
            got = tpcl_comm_gather(comm, TPCL_OK, f, bytes, f, bad ? -2 : -1);
            break;
        case 7: /* a count that no address space holds, and no memory is touched */
            got = tpcl_comm_allreduce_sum(comm, TPCL_OK, f, f, bad ? SIZE_MAX / 4 : 4);
            break;
        default:
            got = tpcl_comm_gather(comm, TPCL_OK, f, bad ? huge : bytes, f, -1);
            break;
        }
        assert_int_equal(got, bad ? TPCL_ERR_ARG : TPCL_ERR_PEER);
        check_usable(comm, world_size - 1, TPCL_ERR_ARG);
        tpcl_comm_destroy(&comm);
    }
}

/* A rank that does not come: the others leave at the deadline and name it; when it comes at last it
 * learns why nobody waits. Through messages it may first complete the call it missed. */
static void a_rank_stops(void **state)
{
    const bool *force_mpi = *state;
    tpcl_comm *comm = open_row(state, short_s);
    const int stopped = world_size - 1;
    char want[200];
    float f[8] = {0};
    if (world_size > 1) {
        assert_ok(tpcl_comm_agree(comm, TPCL_OK, "load"));
        if (world_rank == stopped) usleep((useconds_t)(short_s * 2e6));
        const double start = now_s();
        tpcl_status got = tpcl_comm_allreduce_sum(comm, TPCL_OK, f, f, 5);
        if (*force_mpi && world_rank == stopped && got == TPCL_OK)
            got = tpcl_comm_allreduce_sum(comm, TPCL_OK, f, f, 5);
        const double took = now_s() - start;
        assert_int_equal(got, TPCL_ERR_TIMEOUT);
        snprintf(want, sizeof want,
                 "all-reduce sum of 5 f32 values (call #2): no answer within 1 s from rank(s) %d",
                 stopped);
        assert_message(want);
        if (world_rank == stopped)
            assert_true(took < 0.3);
        else
            assert_true(took >= short_s - 0.01 && took < short_s + 1.5);
        check_failed(comm, stopped, TPCL_ERR_TIMEOUT);
        check_refuses(comm, want);
    }
    tpcl_comm_destroy(&comm);
}

/* The failing rank's own error is what it reports, also when nobody hears it. */
static void an_error_nobody_hears(void **state)
{
    tpcl_comm *comm = open_row(state, short_s);
    if (world_size > 1) {
        if (world_rank == world_size - 1) {
            usleep((useconds_t)(short_s * 2e6));
        } else {
            tpcl_status local = TPCL_OK;
            if (world_rank == 0) local = tpi_fail(TPCL_ERR_DEVICE, "device lost");
            const tpcl_status got = tpcl_comm_agree(comm, local, "load");
            if (world_rank == 0) {
                assert_int_equal(got, TPCL_ERR_DEVICE);
                assert_message("device lost");
                check_failed(comm, 0, TPCL_ERR_DEVICE);
            } else {
                assert_true(got == TPCL_ERR_TIMEOUT || got == TPCL_ERR_PEER);
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (world_rank == world_size - 1) { /* too late, but it hears the reason */
            assert_int_equal(tpcl_comm_agree(comm, TPCL_OK, "load"), TPCL_ERR_PEER);
            assert_message("rank 0: device lost");
        }
    }
    tpcl_comm_destroy(&comm);
}

/* Rank 0 is interrupted while it waits; the others learn it from their next step. */
static void an_interrupt_ends_the_wait(void **state)
{
    static volatile int flag;
    tpcl_comm *comm = open_row(state, 20);
    const int late = world_size - 1;
    if (world_size > 1) {
        flag = world_rank == 0;
        tpcl_comm_set_interrupt(comm, &flag);
        assert_int_equal(tpcl_comm_rank(comm), world_rank);
        if (world_rank == late) usleep(300000);
        const double start = now_s();
        tpcl_status got = tpcl_comm_agree(comm, TPCL_OK, "go");
        if (world_rank != 0 && got == TPCL_OK) got = tpcl_comm_agree(comm, TPCL_OK, "go");
        assert_true(now_s() - start < 2.0);
        assert_int_equal(got, world_rank == 0 ? TPCL_ERR_INTERRUPTED : TPCL_ERR_PEER);
        assert_message(world_rank == 0 ? "interrupted in agreement 'go' (call #1)"
                                       : "rank 0: interrupted in agreement 'go' (call #1)");
        check_failed(comm, 0, TPCL_ERR_INTERRUPTED);
    }
    tpcl_comm_destroy(&comm);
}

/* An interrupt flag that is never set, and none at all, change nothing. */
static void a_quiet_flag(void **state)
{
    static volatile int flag;
    tpcl_comm *comm = open_row(state, 20);
    tpcl_comm_set_interrupt(comm, &flag);
    for (int i = 0; i < 50; i++) {
        if (world_rank == i % world_size) usleep(100);
        assert_ok(tpcl_comm_agree(comm, TPCL_OK, "go"));
    }
    tpcl_comm_set_interrupt(comm, NULL);
    if (world_rank == 0) usleep(50000); /* long enough for the others to sleep */
    assert_ok(tpcl_comm_agree(comm, TPCL_OK, "go"));
    checks++;
    tpcl_comm_destroy(&comm);
}

/* One rank leaves while the others compute: they hear it, and it does not block. */
static void a_rank_leaves_early(void **state)
{
    tpcl_comm *comm = open_row(state, 20);
    const double start = now_s();
    if (world_size > 1 && world_rank != world_size - 1) {
        float f[8] = {0};
        assert_int_equal(tpcl_comm_allreduce_sum(comm, TPCL_OK, f, f, 8), TPCL_ERR_MISMATCH);
        assert_non_null(strstr(tpcl_last_error(), "end of the group"));
    }
    (void)tpi_fail(TPCL_OK, "kept");
    tpcl_comm_destroy(&comm);
    assert_message("kept"); /* the caller's message outlives the clean-up */
    assert_true(now_s() - start < 5.0);
}

static void destroy_does_not_wait_for_the_stopped(void **state)
{
    tpcl_comm *comm = open_row(state, short_s);
    const double start = now_s();
    if (world_size > 1 && world_rank == 0) {
        MPI_Barrier(MPI_COMM_WORLD); /* rank 0 is busy until all others have gone */
    } else {
        tpcl_comm_destroy(&comm);
        if (world_size > 1) MPI_Barrier(MPI_COMM_WORLD);
    }
    tpcl_comm_destroy(&comm);
    assert_true(now_s() - start < 5.0);
    checks++;
}

static void options_disagree(void **state)
{
    const bool *force_mpi = *state;
    const bool odd = world_rank == world_size - 1;
    tpcl_comm *comm = (tpcl_comm *)(void *)&comm; /* must be cleared */
    char want[120];
    tpcl_comm_options options = {.chunk_bytes = odd ? 8192 : 4096, .force_mpi = *force_mpi};
    if (world_size == 1) return;
    assert_int_equal(tpcl_comm_create(MPI_COMM_WORLD, &options, &comm), TPCL_ERR_MISMATCH);
    assert_null(comm);
    snprintf(want, sizeof want, "chunk_bytes is 4096 on rank 0 but 8192 on rank %d",
             world_size - 1);
    assert_message(want);
    options = (tpcl_comm_options){.force_mpi = odd};
    assert_int_equal(tpcl_comm_create(MPI_COMM_WORLD, &options, &comm), TPCL_ERR_MISMATCH);
    snprintf(want, sizeof want, "force_mpi is 0 on rank 0 but 1 on rank %d", world_size - 1);
    assert_message(want);
}

static void bad_options(void **state)
{
    static const tpcl_comm_options bad[] = {
        {.timeout_s = -1}, {.timeout_s = NAN}, {.timeout_s = INFINITY}, {.chunk_bytes = SIZE_MAX}};
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        tpcl_comm *comm = NULL;
        const bool odd = world_rank == world_size - 1;
        assert_int_equal(tpcl_comm_create(MPI_COMM_WORLD, odd ? &bad[i] : NULL, &comm),
                         odd ? TPCL_ERR_ARG : TPCL_ERR_PEER);
        assert_null(comm);
        checks++;
    }
    tpcl_comm *comm = NULL;
    assert_int_equal(tpcl_comm_create(MPI_COMM_NULL, NULL, &comm), TPCL_ERR_ARG);
    assert_int_equal(tpcl_comm_create(MPI_COMM_WORLD, NULL, NULL), TPCL_ERR_ARG);
    /* Less than a slot can be: raised, not refused. */
    assert_ok(tpcl_comm_create(MPI_COMM_WORLD, &(tpcl_comm_options){.chunk_bytes = 1}, &comm));
    assert_in_range(tpcl_comm_chunk(comm), 512, 4096);
    tpcl_comm_destroy(&comm);
}

/* The deadline holds from the first call on. */
static void a_rank_misses_create(void **state)
{
    const bool *force_mpi = *state;
    const tpcl_comm_options options = {.timeout_s = short_s, .force_mpi = *force_mpi};
    tpcl_comm *comm = NULL;
    if (world_size == 1) return;
    MPI_Barrier(MPI_COMM_WORLD);
    if (world_rank == world_size - 1) usleep((useconds_t)(short_s * 2e6));
    const double start = now_s();
    assert_int_equal(tpcl_comm_create(MPI_COMM_WORLD, &options, &comm), TPCL_ERR_TIMEOUT);
    assert_null(comm);
    assert_true(now_s() - start < short_s + 1.5);
    assert_non_null(strstr(tpcl_last_error(), "not all ranks came within 1 s"));
    checks++;
}

static int run(void)
{
    static bool transports[] = {false, true};
    int failures = 0;
    for (size_t i = 0; i < COUNT(transports); i++) {
        void *s = &transports[i];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(a_quiet_flag, s),
            cmocka_unit_test_prestate(a_rank_brings_an_error, s),
            cmocka_unit_test_prestate(a_refusal_leaves_it_usable, s),
            cmocka_unit_test_prestate(refusals_in_a_row, s),
            cmocka_unit_test_prestate(a_failure_beside_a_refusal, s),
            cmocka_unit_test_prestate(an_error_explains_a_mismatch, s),
            cmocka_unit_test_prestate(several_ranks_fail, s),
            cmocka_unit_test_prestate(odd_messages, s),
            cmocka_unit_test_prestate(calls_disagree, s),
            cmocka_unit_test_prestate(disagreement_names_both_calls, s),
            cmocka_unit_test_prestate(bad_arguments_arrive, s),
            cmocka_unit_test_prestate(a_rank_stops, s),
            cmocka_unit_test_prestate(an_error_nobody_hears, s),
            cmocka_unit_test_prestate(an_interrupt_ends_the_wait, s),
            cmocka_unit_test_prestate(a_rank_leaves_early, s),
            cmocka_unit_test_prestate(destroy_does_not_wait_for_the_stopped, s),
            cmocka_unit_test_prestate(options_disagree, s),
            cmocka_unit_test_prestate(bad_options, s),
            cmocka_unit_test_prestate(a_rank_misses_create, s),
        };
        failures +=
            cmocka_run_group_tests_name(transports[i] ? "mpi" : "window", tests, NULL, NULL);
    }
    return failures;
}

int main(void)
{
    return run_on_all_ranks(run);
}
