/* SPDX-License-Identifier: Apache-2.0 */
/* Status texts, the message of the last failure, the log callback, checked sizes. */
#include "tpcl_test.h"

#include <pthread.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/log.h"

static void status_texts(void **state)
{
    (void)state;
    static const tpcl_status all[] = {
#define X(code, text) code,
        TPCL_STATUS_LIST(X)
#undef X
    };
    assert_int_equal(TPCL_OK, 0);
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_true(strlen(tpcl_status_text(all[i])) > 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(tpcl_status_text(all[i]), tpcl_status_text(all[j]));
    }
    assert_string_equal(tpcl_status_text((tpcl_status)COUNT(all)), "unknown status");
    assert_string_equal(tpcl_status_text((tpcl_status)-1), "unknown status");
}

static tpcl_status inner(int n)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(n < 3, TPCL_ERR_SHAPE, "w: %d rows, at most 2", n);
done:
    return status;
}

static tpcl_status outer(int n, int *reached)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(inner(n));
    *reached = 1;
done:
    return status;
}

static void failures_travel(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(outer(2, &reached), TPCL_OK);
    assert_int_equal(reached, 1);
    reached = 0;
    assert_int_equal(outer(3, &reached), TPCL_ERR_SHAPE);
    assert_int_equal(reached, 0);
    assert_string_equal(tpcl_last_error(), "w: 3 rows, at most 2");
}

/* File and tensor names are hostile: no line breaks, no terminal escapes, UTF-8 as it is. */
static void message_is_one_plain_line(void **state)
{
    (void)state;
    assert_int_equal(tpi_fail(TPCL_ERR_OPEN, "%s", "a\nb\r\x1b[31mc\x7f\td \xc3\xa9"),
                     TPCL_ERR_OPEN);
    assert_string_equal(tpcl_last_error(), "a?b??[31mc??d \xc3\xa9");
}

static void message_may_quote_the_last(void **state)
{
    (void)state;
    assert_int_equal(tpi_fail(TPCL_ERR_IO, "cause"), TPCL_ERR_IO);
    assert_int_equal(tpi_fail(TPCL_ERR_PEER, "rank 2: %s", tpcl_last_error()), TPCL_ERR_PEER);
    assert_string_equal(tpcl_last_error(), "rank 2: cause");
}

static void long_message_is_cut(void **state)
{
    (void)state;
    char text[2 * TPI_MESSAGE_MAX];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(tpi_fail(TPCL_ERR_ARG, "%s", text), TPCL_ERR_ARG);
    assert_int_equal(strlen(tpcl_last_error()), TPI_MESSAGE_MAX - 1);
}

static void *fail_elsewhere(void *out)
{
    *(int *)out = tpcl_last_error()[0] == '\0';
    return (void *)(intptr_t)tpi_fail(TPCL_ERR_IO, "other thread");
}

static void message_is_per_thread(void **state)
{
    (void)state;
    pthread_t thread;
    int empty = 0;
    assert_int_equal(tpi_fail(TPCL_ERR_ARG, "this thread"), TPCL_ERR_ARG);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &empty), 0);
    pthread_join(thread, NULL);
    assert_true(empty);
    assert_string_equal(tpcl_last_error(), "this thread");
}

static void keep(void *context, tpcl_log_level level, const char *line)
{
    snprintf(context, 64, "%d %.60s", (int)level, line);
}

static void log_callback(void **state)
{
    (void)state;
    char got[64] = "";
    const tpcl_log log = {keep, got}, silent = {NULL, got};
    tpi_log(&log, TPCL_LOG_WARN, "%d of %d", 1, 2);
    assert_string_equal(got, "0 1 of 2");
    tpi_log(&log, TPCL_LOG_INFO, "x");
    assert_string_equal(got, "1 x");
    tpi_log(&silent, TPCL_LOG_WARN, "y");
    tpi_log(NULL, TPCL_LOG_WARN, "y");
    assert_string_equal(got, "1 x");
}

static void checked_sizes(void **state)
{
    (void)state;
    uint64_t v = 0;
    assert_true(tpi_mul_u64(1ull << 32, (1ull << 32) - 1, &v));
    assert_true(v == 0xffffffff00000000ull);
    assert_false(tpi_mul_u64(1ull << 32, 1ull << 32, &v));
    assert_true(tpi_mul_u64(UINT64_MAX, 0, &v));
    assert_true(v == 0);
    assert_true(tpi_add_u64(UINT64_MAX - 1, 1, &v));
    assert_true(v == UINT64_MAX);
    assert_false(tpi_add_u64(UINT64_MAX, 1, &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_texts),
        cmocka_unit_test(failures_travel),
        cmocka_unit_test(message_is_one_plain_line),
        cmocka_unit_test(message_may_quote_the_last),
        cmocka_unit_test(long_message_is_cut),
        cmocka_unit_test(message_is_per_thread),
        cmocka_unit_test(log_callback),
        cmocka_unit_test(checked_sizes),
    };
    return cmocka_run_group_tests_name("base/error", tests, NULL, NULL);
}
