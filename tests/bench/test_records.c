/* Rows of earlier runs: read back, compared, refused where they are damaged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "tpcl_test.h"

static char message[600];

static int read_text(const char *text, struct bench_records *to)
{
    char name[] = "/tmp/tpcl-records-XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    message[0] = '\0';
    const int code = bench_records_read(name, to, message, sizeof message);
    unlink(name);
    return code;
}

#define HEAD "# tpcl-bench 2  device=x\ncase,shape,dtype,ranks,verdict,median_us,sd_us,device,tps\n"

/* Both forms, also one after the other; commas and quotes; what is empty or null is not a number.
 */
static void reads_both_forms(void **state)
{
    (void)state;
    struct bench_records all = {0};
    assert_int_equal(read_text(HEAD "ops/a,1x2,f16,2,PASS,12.5,0.25,\"a \"\"b\"\", c\",\n"
                                    "ops/a,1x2,f32,2,FAILED,,,plain,7\n",
                               &all),
                     0);
    assert_int_equal(
        read_text("{\"version\":2,\"case\":\"ops/b\",\"shape\":\"3\",\"dtype\":\"f32\","
                  "\"ranks\":1,\"verdict\":\"PASS\",\"median_us\":3e2,\"tps\":null,"
                  "\"later\":1,\"device\":\"a \\\"b\\\" \\\\ \\u0009c\"}\n",
                  &all),
        0);
    assert_int_equal(all.n, 3);
    const struct bench_record *a = bench_records_find(&all, "ops/a", "1x2", "f16", 2);
    assert_non_null(a);
    assert_true(a->median == 12.5 && a->sd == 0.25 && isnan(a->tps) && isnan(a->p90));
    assert_string_equal(a->device, "a \"b\", c");
    const struct bench_record *failed = bench_records_find(&all, "ops/a", "1x2", "f32", 2);
    assert_true(failed && isnan(failed->median) && failed->tps == 7.0);
    const struct bench_record *b = bench_records_find(&all, "ops/b", "3", "f32", 1);
    assert_true(b && b->median == 300.0 && isnan(b->tps));
    assert_string_equal(b->device, "a \"b\" \\  c");
    assert_null(bench_records_find(&all, "ops/a", "1x2", "f16", 1));
    assert_null(bench_records_find(&all, "ops/a", "1x3", "f16", 2));
    bench_records_free(&all);
}

static void refuses_damage(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "no rows"},
        {HEAD, "no rows"},
        {"hello\n", "line 1"},
        {HEAD "ops/a,1x2,f16,2,PASS\n", "line 3"},
        {HEAD "ops/a,1x2,f16,2,PASS,1,2,x,3,4\n", "line 3"},
        {HEAD "ops/a,1x2,f16,2,PASS,1z,2,x,3\n", "line 3"},
        {HEAD "ops/a,1x2,f16,2,PASS,1,2,\"x,3\n", "line 3"},
        {"{\"case\":\"a\",\"verdict\":\"PASS\"\n", "line 1"},
        {"{\"case\":\"a\",\"verdict\":\"PA\n", "line 1"},
        {"{\"case\":\"a\",\"verdict\":}\n", "line 1"},
        {"{\"case\":\"a\"}\n", "line 1"},
        {"{\"case\":\"a\\u00\n", "line 1"},
        {"{}\n", "line 1"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench_records all = {0};
        const int code = read_text(cases[i].text, &all);
        if (code != EX_DATAERR || !strstr(message, cases[i].says))
            fail_msg("case %zu: code %d, '%s'", i, code, message);
        bench_records_free(&all);
    }
    struct bench_records all = {0};
    assert_int_equal(bench_records_read("/no/such/file", &all, message, sizeof message),
                     EX_NOINPUT);
}

/* 2 * hypot(3, 4) / 100 = 10 %; never below 5 %. */
static void measures_noise(void **state)
{
    (void)state;
    const struct bench_record then = {.median = 100.0, .sd = 4.0};
    struct bench_change change =
        bench_compare(&(struct bench_stats){.median = 112, .sd = 3}, &then);
    assert_true(fabs(change.slower - 0.12) < 1e-12 && fabs(change.noise - 0.10) < 1e-12);
    const struct bench_record quiet = {.median = 100.0, .sd = NAN};
    change = bench_compare(&(struct bench_stats){.median = 50, .sd = 0}, &quiet);
    assert_true(fabs(change.slower + 0.5) < 1e-12 && change.noise == 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_both_forms),
        cmocka_unit_test(refuses_damage),
        cmocka_unit_test(measures_noise),
    };
    return cmocka_run_group_tests_name("bench/records", tests, NULL, NULL);
}
