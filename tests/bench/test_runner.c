/* A runner that can be fooled is worse than none: cases that are wrong, late or broken on purpose.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "rows.h"
#include "tpcl_test.h"

static struct bench_env env;

/* How the fake case behaves. */
static struct {
    tpcl_status setup_status, run_status;
    double first_error, last_error; /* as check finds it, before and after the timing */
    int bad_rank;                   /* -1 = all */
    int first_ms, run_ms, queue_ms, peer_ms, reset_ms;
    double tokens; /* of a run */
    int runs, checks, teardowns, resets;
} fake;

static void sleep_ms(int ms)
{
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static void *complete(void *event)
{
    sleep_ms(fake.queue_ms);
    clSetUserEventStatus(event, CL_COMPLETE);
    clReleaseEvent(event);
    return NULL;
}

/* The queue is busy for queue_ms, and this call is not. */
static tpcl_status enqueue_delay(void)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    pthread_t thread;
    cl_event event = clCreateUserEvent(env.dev->context, &err);
    TPI_TRY(TPI_CL(err));
    TPI_TRY(TPI_CL(clEnqueueBarrierWithWaitList(env.dev->queue, 1, &event, NULL)));
    TPI_TRY(TPI_CL(clFlush(env.dev->queue)));
    pthread_create(&thread, NULL, complete, event);
    pthread_detach(thread);
done:
    return status;
}

static bool bad_here(void)
{
    return fake.bad_rank < 0 || fake.bad_rank == env.rank;
}

static int shapes(const struct bench_plan *plan, long (*out)[BENCH_DIMS])
{
    (void)plan;
    out[0][0] = 5;
    return 1;
}

static tpcl_status setup(struct bench_run *r)
{
    (void)r;
    if (fake.setup_status && bad_here()) return tpi_fail(fake.setup_status, "as planned");
    return TPCL_OK;
}

static tpcl_status reset_input(struct bench_run *r)
{
    (void)r;
    fake.resets++;
    sleep_ms(fake.reset_ms);
    return TPCL_OK;
}

static double tokens(const struct bench_run *r)
{
    (void)r;
    return fake.tokens;
}

static tpcl_status run(struct bench_run *r)
{
    (void)r;
    sleep_ms(fake.runs++ == 0 ? fake.first_ms : fake.run_ms);
    if (fake.run_status && bad_here()) return tpi_fail(fake.run_status, "as planned");
    return fake.queue_ms ? enqueue_delay() : TPCL_OK;
}

static tpcl_status check(struct bench_run *r, double *max_err)
{
    (void)r;
    *max_err = fake.checks++ == 0 ? fake.first_error : fake.last_error;
    if (!bad_here()) *max_err = 0.0;
    return TPCL_OK;
}

static tpcl_status run_peer(struct bench_run *r)
{
    (void)r;
    sleep_ms(fake.peer_ms);
    return TPCL_OK;
}

static tpcl_status peer(struct bench_run *r, struct bench_peer *out)
{
    (void)r;
    if (!fake.peer_ms) return TPCL_ERR_UNSUPPORTED;
    *out = (struct bench_peer){.name = "sleep:time", .run = run_peer};
    return TPCL_OK;
}

static void teardown(struct bench_run *r)
{
    (void)r;
    fake.teardowns++;
}

static double thousand(const struct bench_run *r)
{
    (void)r;
    return 1000.0;
}

static const struct bench_case fake_case = {
    .name = "test/fake",
    .dims = "n",
    .dtypes = BENCH_DTYPE(TPCL_F32),
    .shapes = shapes,
    .setup = setup,
    .reset = reset_input,
    .run = run,
    .check = check,
    .peer = peer,
    .teardown = teardown,
    .bytes = thousand,
    .flops = thousand,
    .tokens = tokens,
    .max_err = 1e-3,
};
static const struct bench_case *const fake_cases[] = {&fake_case};
static const struct bench_suite suite = {fake_cases, 1};

/* Runs the case as the program would; what it prints, on rank 0, is in `text`. */
static int run_beside(const struct bench_records *baseline, enum bench_format format, char *text,
                      size_t size)
{
    const struct bench_settings s = {.dtypes = BENCH_WEIGHTS, .reps = 2, .format = format};
    bool lost = false;
    memset(text, 0, size);
    FILE *to = fmemopen(text, size - 1, "w");
    const int code = bench_rows_run(&suite, &s, baseline, &env, to, &lost);
    fclose(to);
    assert_false(lost);
    assert_int_equal(fake.teardowns, 1);
    return code;
}

static int run_suite(enum bench_format format, char *text, size_t size)
{
    return run_beside(NULL, format, text, size);
}

static struct bench_result run_one(int reps)
{
    struct bench_run r = {.env = &env, .shape = {5}};
    struct bench_result result;
    assert_ok(bench_row(&fake_case, &r, reps, &result));
    return result;
}

static int reset(void **state)
{
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.bad_rank = -1;
    return 0;
}

static void judges(void **state)
{
    (void)state;
    assert_int_equal(bench_judge(TPCL_OK, 0.0, 0.0), BENCH_PASS);
    assert_int_equal(bench_judge(TPCL_OK, 1e-3, 1e-3), BENCH_PASS);
    assert_int_equal(bench_judge(TPCL_OK, 1.1e-3, 1e-3), BENCH_FAILED);
    assert_int_equal(bench_judge(TPCL_OK, NAN, 1e-3), BENCH_FAILED);
    assert_int_equal(bench_judge(TPCL_OK, INFINITY, 1e-3), BENCH_FAILED);
    assert_int_equal(bench_judge(TPCL_ERR_DEVICE, 0.0, 1e-3), BENCH_ERROR);
}

static void right_passes(void **state)
{
    (void)state;
    char text[2000];
    fake.first_error = fake.last_error = 5e-4;
    assert_int_equal(run_suite(BENCH_CSV, text, sizeof text), 0);
    if (env.rank == 0) assert_non_null(strstr(text, ",PASS,0.0005,,2,"));
    assert_int_equal(fake.checks, 2);
}

/* FAILED, no timing, exit code 1: whether it is wrong at once, only after many runs, on one rank
 * only, or not a number. */
static void wrong_fails(void **state)
{
    (void)state;
    const struct {
        double first, last;
        int rank;
        const char *csv, *json;
    } cases[] = {
        {2e-3, 2e-3, -1, "test/fake,5,f32,%d,FAILED,0.002,,0,,,,,,,,", "\"max_err\":0.002,"},
        {0.0, 0.5, -1, "test/fake,5,f32,%d,FAILED,0.5,,0,,,,,,,,", "\"max_err\":0.5,"},
        {0.0, INFINITY, 0, "test/fake,5,f32,%d,FAILED,inf,,0,,,,,,,,", "\"max_err\":null,"},
        {1e9, 0.0, env.size - 1, "test/fake,5,f32,%d,FAILED,1e+09,,0,,,,,,,,",
         "\"max_err\":1e+09,"},
        {NAN, 0.0, 0, "test/fake,5,f32,%d,FAILED,,,0,,,,,,,,", "\"max_err\":null,"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[2000], want[100];
        for (int format = BENCH_CSV; format <= BENCH_JSONL; format++) {
            reset(NULL);
            fake.peer_ms = 1;
            fake.first_error = cases[i].first;
            fake.last_error = cases[i].last;
            fake.bad_rank = cases[i].rank;
            assert_int_equal(run_suite((enum bench_format)format, text, sizeof text), 1);
            snprintf(want, sizeof want, format == BENCH_CSV ? cases[i].csv : cases[i].json,
                     env.size);
            if (env.rank == 0 && !strstr(text, want)) fail_msg("no %s in %s", want, text);
        }
        if (env.rank == 0) assert_non_null(strstr(text, "\"verdict\":\"FAILED\","));
        if (env.rank == 0) assert_non_null(strstr(text, "\"median_us\":null,"));
    }
}

static void errors_are_rows(void **state)
{
    (void)state;
    char text[2000];
    fake.bad_rank = env.size - 1;
    fake.setup_status = TPCL_ERR_DEVICE_MEM;
    assert_int_equal(run_suite(BENCH_CSV, text, sizeof text), EX_OSERR);
    if (env.rank == 0) assert_non_null(strstr(text, ",ERROR,,,0,,"));
    assert_int_equal(fake.runs, 0);
    reset(NULL);
    fake.run_status = TPCL_ERR_DEVICE;
    assert_int_equal(run_suite(BENCH_CSV, text, sizeof text), EX_SOFTWARE);
    if (env.rank == 0) assert_non_null(strstr(text, ",ERROR,,,0,,"));
    reset(NULL); /* the ranks still have each other */
    assert_int_equal(run_suite(BENCH_CSV, text, sizeof text), 0);
}

/* 10 ms of work in the queue are 10 ms, for one sample or five. */
static void clock_waits_for_the_queue(void **state)
{
    (void)state;
    static const int reps[] = {1, 5};
    for (size_t i = 0; i < COUNT(reps); i++) {
        reset(NULL);
        fake.queue_ms = 10;
        const struct bench_result result = run_one(reps[i]);
        assert_int_equal(result.verdict, BENCH_PASS);
        assert_int_equal(result.reps, reps[i]);
        if (result.us.min < 9900.0) fail_msg("10 ms took %g us", result.us.min);
        /* bytes and operations of one run by its time */
        assert_true(result.gbps > 0.0 && result.gbps <= 1000.0 / 9900.0 * 1e-3);
        assert_true(result.gflops == result.gbps);
    }
}

/* What happens once, compiling above all, is in no sample. */
static void first_run_is_not_counted(void **state)
{
    (void)state;
    fake.first_ms = 600;
    fake.run_ms = 3;
    const struct bench_result result = run_one(3);
    assert_int_equal(result.verdict, BENCH_PASS);
    assert_true(result.us.median >= 3000.0 && result.us.median < 300e3);
}

/* Putting the input in place is not the work, however long it takes; tokens are those of a run. */
static void input_is_not_counted(void **state)
{
    (void)state;
    fake.reset_ms = 100;
    fake.run_ms = 10;
    fake.tokens = 1.0;
    struct bench_result result = run_one(2);
    assert_int_equal(result.verdict, BENCH_PASS);
    assert_true(fake.resets >= 4); /* two checked runs, two samples */
    if (!(result.us.median >= 10e3 && result.us.median < 60e3))
        fail_msg("10 ms took %g us", result.us.median);
    assert_true(result.tps.mean <= 100.0 && result.tps.mean > 15.0); /* 10 ms a token */
    reset(NULL);
    fake.run_ms = 64; /* a prompt of 64: the same time, other tokens */
    fake.tokens = 64.0;
    result = run_one(2);
    assert_true(result.tps.mean <= 1000.0 && result.tps.mean > 200.0);
}

static void baselines(void **state)
{
    (void)state;
    char text[2000];
    struct bench_record row = {.name = "test/fake", .shape = "5", .dtype = "f32"};
    const struct bench_records one = {&row, 1, 1};
    row.ranks = env.size;
    fake.run_ms = 10;
    static const struct {
        double median, sd;
        int code;
    } cases[] = {
        {1e3, 1.0, 1},  /* ten times as slow */
        {1e3, 1e5, 0},  /* but nobody could tell */
        {1e6, 1.0, 0},  /* faster is no failure */
        {NAN, 1.0, 65}, /* it was not timed: nothing is compared */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fake.teardowns = 0;
        row.median = cases[i].median;
        row.sd = cases[i].sd;
        const int code = run_beside(&one, BENCH_CSV, text, sizeof text);
        assert_int_equal(code, env.rank == 0 ? cases[i].code : 0);
    }
    fake.teardowns = 0;
    row.ranks = 77; /* another number of ranks is another row */
    assert_int_equal(run_beside(&one, BENCH_CSV, text, sizeof text), env.rank == 0 ? 65 : 0);
}

static void ratio_above_one_is_better(void **state)
{
    (void)state;
    fake.run_ms = 3;
    fake.peer_ms = 120;
    const struct bench_result result = run_one(3);
    assert_string_equal(result.peer, "sleep:time");
    if (!(result.ratio > 1.0 && result.ratio < 200.0)) fail_msg("ratio %g", result.ratio);
    reset(NULL);
    fake.run_ms = 3;
    assert_null(run_one(3).peer);
}

/* A command line that reruns the row, also where the device's name needs quotes. */
static void repro_can_be_pasted(void **state)
{
    (void)state;
    char text[2000] = "", want[300];
    struct bench_output output = {
        fmemopen(text, sizeof text - 1, "w"), BENCH_CSV, &env, "it's, \"big\"", {0}, NULL};
    const struct bench_run r = {.env = &env, .c = &fake_case, .shape = {5}};
    const struct bench_result result = {.verdict = BENCH_FAILED, .max_err = 1.0};
    bench_output_row(&output, &r, 2, &result);
    fclose(output.to);
    snprintf(want, sizeof want,
             ",\"%stpcl-bench test/fake 5 --dtype f32 --reps 2 --device 'it'\\''s, \"\"big\"\"'\",",
             env.size > 1 ? "mpiexec -n 2 " : "");
    if (!strstr(text, want)) fail_msg("no %s in %s", want, text);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(judges, reset),
        cmocka_unit_test_setup(right_passes, reset),
        cmocka_unit_test_setup(wrong_fails, reset),
        cmocka_unit_test_setup(errors_are_rows, reset),
        cmocka_unit_test_setup(clock_waits_for_the_queue, reset),
        cmocka_unit_test_setup(first_run_is_not_counted, reset),
        cmocka_unit_test_setup(input_is_not_counted, reset),
        cmocka_unit_test_setup(baselines, reset),
        cmocka_unit_test_setup(ratio_above_one_is_better, reset),
        cmocka_unit_test_setup(repro_can_be_pasted, reset),
    };
    return cmocka_run_group_tests_name("bench/runner", tests, NULL, NULL);
}

int main(void)
{
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE")};
    int failed = 1, worst = 1;
    int provided = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    env.mpi = MPI_COMM_WORLD;
    MPI_Comm_rank(env.mpi, &env.rank);
    MPI_Comm_size(env.mpi, &env.size);
    if (tpcl_group_create(env.mpi, &options, &env.group) == TPCL_OK) {
        env.comm = tpcl_group_comm(env.group);
        env.dev = tpcl_group_device(env.group);
        failed = run_all();
    } else {
        fprintf(stderr, "no device: %s\n", tpcl_last_error());
    }
    tpcl_group_destroy(&env.group);
    MPI_Allreduce(&failed, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return worst != 0;
}
