/* Several groups in one process, a thread each: MPI_THREAD_MULTIPLE, communicators of their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "layers_test.h"

/* tokens: from 32 rows on a product may go through CLBlast, whose cache is shared by all threads.
 */
enum { GROUPS = 3, TURNS = 6, TOKENS = 33, IN = 70, WIDE = 52, OUT = 36 };

typedef struct worker {
    MPI_Comm comm;
    tpcl_gemm gemm;
    uint32_t seed;
    tpcl_status status;
    char message[512];
    float y[TURNS][TOKENS * OUT];
} worker;

#define TRY(call)                         \
    do {                                  \
        status = (call);                  \
        if (status != TPCL_OK) goto done; \
    } while (0)

static tpcl_status make(tpcl_tensor **out, tpcl_group *g, int64_t n)
{
    return tpcl_tensor_create(tpcl_group_device(g), TPCL_F32, 1, &n, out);
}

/* One turn: a group, column and row layer, products, and all of it gone again. */
static tpcl_status turn(const worker *w, uint32_t seed, float *y)
{
    tpcl_status status = TPCL_OK;
    tpcl_group *g = NULL;
    tpcl_linear *up = NULL, *down = NULL;
    tpcl_tensor *tx = NULL, *mid = NULL, *ty = NULL;
    float *x = random_floats(TOKENS * IN, seed), *a = random_floats(WIDE * IN, seed + 1),
          *b = random_floats(OUT * WIDE, seed + 2);
    const tpcl_host_tensor wa = matrix("up", a, WIDE, IN), wb = matrix("down", b, OUT, WIDE);
    const tpcl_linear_part part = {.weight = &wa};
    const tpcl_group_options options = {
        .device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 60, .gemm = w->gemm, .no_binding = true};
    TRY(tpcl_group_create(w->comm, &options, &g));
    TRY(tpcl_column_linear_create(g, &part, 1, NULL, &up));
    TRY(tpcl_row_linear_create(g, &wb, NULL, NULL, &down));
    TRY(make(&tx, g, TOKENS * IN));
    TRY(make(&mid, g, TOKENS * WIDE));
    TRY(make(&ty, g, TOKENS * OUT));
    TRY(tpcl_tensor_write(tx, x, TOKENS * IN));
    TRY(tpcl_linear_forward(up, tx, mid, TOKENS));
    TRY(tpcl_linear_forward(down, mid, ty, TOKENS));
    TRY(tpcl_tensor_read(ty, y, TOKENS * OUT));
done:
    tpcl_tensor_destroy(&tx);
    tpcl_tensor_destroy(&mid);
    tpcl_tensor_destroy(&ty);
    tpcl_linear_destroy(&up);
    tpcl_linear_destroy(&down);
    tpcl_group_destroy(&g);
    free(x);
    free(a);
    free(b);
    return status;
}

static void *work(void *argument)
{
    worker *w = argument;
    for (int t = 0; t < TURNS && w->status == TPCL_OK; t++)
        w->status = turn(w, w->seed + 10u * (uint32_t)t, w->y[t]);
    snprintf(w->message, sizeof w->message, "%s", tpcl_last_error());
    return NULL;
}

static void check(const worker *w)
{
    float *mid = malloc(TOKENS * WIDE * sizeof *mid), *want = malloc(TOKENS * OUT * sizeof *want);
    if (w->status != TPCL_OK) fail_msg("%s: %s", tpcl_status_text(w->status), w->message);
    for (int t = 0; t < TURNS; t++) {
        const uint32_t seed = w->seed + 10u * (uint32_t)t;
        float *x = random_floats(TOKENS * IN, seed), *a = random_floats(WIDE * IN, seed + 1),
              *b = random_floats(OUT * WIDE, seed + 2);
        tpcl_ref_linear(x, a, NULL, mid, TOKENS, WIDE, IN);
        tpcl_ref_linear(mid, b, NULL, want, TOKENS, OUT, WIDE);
        assert_close(w->y[t], want, TOKENS * OUT, 1e-4, 1e-3);
        free(x);
        free(a);
        free(b);
    }
    free(mid);
    free(want);
}

static void groups_in_threads_compute_as_alone(void **state)
{
    (void)state;
    worker *workers = calloc(GROUPS, sizeof *workers);
    pthread_t threads[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        assert_int_equal(MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm), MPI_SUCCESS);
        workers[i].seed = 1000u * (uint32_t)(i + 1);
        workers[i].gemm = i % 2 ? TPCL_GEMM_PANEL : TPCL_GEMM_CLBLAST;
    }
    for (int i = 0; i < GROUPS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < GROUPS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < GROUPS; i++) {
        check(&workers[i]);
        MPI_Comm_free(&workers[i].comm);
    }
    free(workers);
}

/* One thread fails for good; the other's group and last error are its own. */
static void *fail_alone(void *argument)
{
    worker *w = argument;
    tpcl_group *g = NULL;
    const tpcl_group_options options = {
        .device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 60, .no_binding = true};
    tpcl_status status = tpcl_group_create(w->comm, &options, &g);
    if (status == TPCL_OK) status = tpcl_group_agree(g, TPCL_ERR_DEVICE, "lost");
    w->status = tpcl_group_agree(g, TPCL_OK, "after");
    snprintf(w->message, sizeof w->message, "%s", tpcl_last_error());
    tpcl_group_destroy(&g);
    return NULL;
}

static void a_failed_group_leaves_the_others(void **state)
{
    (void)state;
    worker *workers = calloc(2, sizeof *workers);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    workers[0].seed = 77;
    assert_int_equal(pthread_create(&threads[0], NULL, work, &workers[0]), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, fail_alone, &workers[1]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    check(&workers[0]);
    assert_int_equal(workers[1].status, TPCL_ERR_GROUP_FAILED);
    for (int i = 0; i < 2; i++) MPI_Comm_free(&workers[i].comm);
    free(workers);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_in_threads_compute_as_alone),
        cmocka_unit_test(a_failed_group_leaves_the_others),
    };
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE) return 1;
    return layers_main_end(cmocka_run_group_tests_name("layers/threads", tests, NULL, NULL));
}
