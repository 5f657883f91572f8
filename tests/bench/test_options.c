/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "rows.h"
#include "tpcl_test.h"

enum { ARGS = 30 };
static char message[600];

/* The words of `line`, parsed and checked against the cases. */
static int parse(const char *line, struct bench_settings *s)
{
    static char copy[400]; /* the settings point into it */
    char *argv[ARGS + 1] = {"tpcl-bench"}, *rest = copy;
    int argc = 1;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; (word = strsep(&rest, " "));)
        if (*word && argc < ARGS) argv[argc++] = word;
    message[0] = '\0';
    int code = bench_options_parse(s, argc, argv, message, sizeof message);
    if (!code) code = bench_rows_check(&bench_all, s, message, sizeof message);
    return code;
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *says;
    } cases[] = {
        {"--reps 0", EX_USAGE, "--reps"}, /* no mean of nothing */
        {"--reps -1", EX_USAGE, "--reps"},
        {"--reps 1e3", EX_USAGE, "--reps"},
        {"--reps", EX_USAGE, "needs a value"},
        {"--tokens 0", EX_USAGE, "--tokens"},
        {"--tokens 1,,2", EX_USAGE, "--tokens"},
        {"--tokens 4-2", EX_USAGE, "4-2"},
        {"--tokens 1-8+0", EX_USAGE, "1-8+0"},
        {"--tokens 1-8*1", EX_USAGE, "1-8*1"}, /* would never end */
        {"--depth 0-8*2", EX_USAGE, "0-8*2"},  /* nor this */
        {"--tokens 1-8/2", EX_USAGE, "1-8/2"},
        {"--tokens 1-100", EX_USAGE, "more than 64"},
        {"--tokens 99999999999999999999", EX_USAGE, "99999999999999999999"},
        {"--tokens 9223372036854775807k", EX_USAGE, "9223372036854775807k"},
        {"--context 0", EX_USAGE, "--context"},
        {"--bytes 3", EX_USAGE, "--bytes"},
        {"--batch 257", EX_USAGE, "1 to 256"},
        {"--depth -1", EX_USAGE, "--depth"},
        {"pp0", EX_USAGE, "pp0"},
        {"tg1x", EX_USAGE, "tg1x"},
        {"pp256@4096", EX_USAGE, "@d4096"},
        {"pp256 @dx", EX_USAGE, "@dx"},
        {"@d4096", EX_USAGE, "does not follow"},
        {"ops/rmsnorm @d4", EX_USAGE, "does not follow"},
        {"ops/rmsnorm --format osu", EX_USAGE, "collectives only"},
        {"--dtype f16,f8", EX_USAGE, "f8"},
        {"--dtype i32", EX_USAGE, "i32"}, /* a type, but not of weights */
        {"--format xml", EX_USAGE, "xml"},
        {"--no-such", EX_USAGE, "--no-such"},
        {"no/such", EX_USAGE, "ops/linear"}, /* lists what there is */
        {"1x2x3", EX_USAGE, "follow a case"},
        {"ops/linear 1x2x3 1x2x3", EX_USAGE, "follow a case"},
        {"ops/linear 1x2", EX_USAGE, "tokens,n,k"},
        {"ops/linear 1x2x3x", EX_USAGE, "1x2x3x"},
        {"ops/linear 1x0x3", EX_USAGE, "1x0x3"},
        {"model/tg 7x2x0", EX_USAGE, "7x2x0"},
        {"model --tokens 1-64 --depth 1-64", EX_USAGE, "more than 512"},
        {"ops/linear 1x2x3x4x5x6", EX_USAGE, "1x2x3x4x5x6"},
        {"ops/linear 9999999999x2x3", EX_USAGE, "9999999999"},
        {"ops 17x576", EX_USAGE, "one case"},
        {"ops/rmsnorm --dtype q4_0", EX_USAGE, "no row"}, /* nothing run is a failure */
        {"--shape /no/such/file", EX_NOINPUT, "/no/such/file"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench_settings s;
        const int code = parse(cases[i].line, &s);
        if (code != cases[i].code || !strstr(message, cases[i].says))
            fail_msg("%s: code %d, '%s'", cases[i].line, code, message);
    }
}

static void takes_everything(void **state)
{
    (void)state;
    struct bench_settings s;
    assert_int_equal(
        parse("ops/linear 1x576x1536 collectives --reps 7 --dtype F16,q4_1 --tokens 1,8,32 "
              "--device 0 --format jsonl --shape qwen3-0.6b",
              &s),
        0);
    assert_int_equal(s.n_selections, 2);
    assert_string_equal(s.selections[0].name, "ops/linear");
    assert_int_equal(s.selections[0].dims, 3);
    assert_int_equal(s.selections[0].shape[2], 1536);
    assert_int_equal(s.selections[1].dims, 0);
    assert_int_equal(s.reps, 7);
    assert_int_equal(s.dtypes, BENCH_DTYPE(TPCL_F16) | BENCH_DTYPE(TPCL_Q4_1));
    assert_int_equal(s.plan.tokens.n, 3);
    assert_int_equal(s.plan.tokens.v[2], 32);
    assert_string_equal(s.device, "0");
    assert_int_equal(s.format, BENCH_JSONL);
    assert_int_equal(s.plan.model.vocab, 151936);
}

/* Every form of a list, at its ends. */
static void reads_lists(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n;
        long v[8];
    } cases[] = {
        {"7", 1, {7}},
        {"1,256", 2, {1, 256}},
        {"1-5", 5, {1, 2, 3, 4, 5}},
        {"3-3", 1, {3}},
        {"0-100+50", 3, {0, 50, 100}},
        {"1-9+4", 3, {1, 5, 9}},
        {"1-8+4", 2, {1, 5}}, /* the end only where a step meets it */
        {"1-64*2", 7, {1, 2, 4, 8, 16, 32, 64}},
        {"3-100*5", 3, {3, 15, 75}},
        {"4-64M*256", 4, {4, 1024, 262144, 67108864}},
        {"1k,2-4,1M", 5, {1024, 2, 3, 4, 1048576}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench_list list;
        if (!bench_list_parse(cases[i].text, 0, 1L << 40, &list, message, sizeof message))
            fail_msg("%s: %s", cases[i].text, message);
        if (list.n != cases[i].n) fail_msg("%s: %d numbers", cases[i].text, list.n);
        assert_memory_equal(list.v, cases[i].v, (size_t)list.n * sizeof *list.v);
    }
}

/* What a command line means, as --list prints it. */
static void expect_rows(const char *line, const char *want)
{
    struct bench_settings s;
    char *text = NULL;
    size_t size = 0;
    if (parse(line, &s) != 0) fail_msg("%s: %s", line, message);
    FILE *to = open_memstream(&text, &size);
    bench_rows_print(&bench_all, &s, to);
    fclose(to);
    assert_string_equal(text, want);
    free(text);
}

static void lists_rows(void **state)
{
    (void)state;
    /* (16 + 2 * 8) * 128 outputs of Q, K and V; the head for one token only */
    expect_rows("ops/linear --shape qwen3-0.6b --dtype bf16 --tokens 1,256",
                "ops/linear tokens,n,k 1x4096x1024 bf16\n"
                "ops/linear tokens,n,k 1x1024x2048 bf16\n"
                "ops/linear tokens,n,k 1x6144x1024 bf16\n"
                "ops/linear tokens,n,k 1x1024x3072 bf16\n"
                "ops/linear tokens,n,k 1x151936x1024 bf16\n"
                "ops/linear tokens,n,k 256x4096x1024 bf16\n"
                "ops/linear tokens,n,k 256x1024x2048 bf16\n"
                "ops/linear tokens,n,k 256x6144x1024 bf16\n"
                "ops/linear tokens,n,k 256x1024x3072 bf16\n");
    expect_rows("ops/attention --dtype f16 --tokens 1,64",
                "ops/attention tokens,context,heads,kv_heads,head_dim 1x256x9x3x64 f16\n"
                "ops/attention tokens,context,heads,kv_heads,head_dim 1x1024x9x3x64 f16\n"
                "ops/attention tokens,context,heads,kv_heads,head_dim 1x4096x9x3x64 f16\n"
                "ops/attention tokens,context,heads,kv_heads,head_dim 64x64x9x3x64 f16\n");
    expect_rows("ops/attention --dtype f16 --tokens 1 --context 1k-4k*4",
                "ops/attention tokens,context,heads,kv_heads,head_dim 1x1024x9x3x64 f16\n"
                "ops/attention tokens,context,heads,kv_heads,head_dim 1x4096x9x3x64 f16\n");
    expect_rows("pp256,512@d0,9 tg64-128*2 @d3 --dtype f16 --batch 1,4",
                "model/pp tokens,depth,batch 256x0x1 f16\n"
                "model/pp tokens,depth,batch 256x0x4 f16\n"
                "model/pp tokens,depth,batch 256x9x1 f16\n"
                "model/pp tokens,depth,batch 256x9x4 f16\n"
                "model/pp tokens,depth,batch 512x0x1 f16\n"
                "model/pp tokens,depth,batch 512x0x4 f16\n"
                "model/pp tokens,depth,batch 512x9x1 f16\n"
                "model/pp tokens,depth,batch 512x9x4 f16\n"
                "model/tg tokens,depth,batch 64x3x1 f16\n"
                "model/tg tokens,depth,batch 64x3x4 f16\n"
                "model/tg tokens,depth,batch 128x3x1 f16\n"
                "model/tg tokens,depth,batch 128x3x4 f16\n");
    expect_rows("model --dtype f32 --depth 4096", "model/pp tokens,depth,batch 256x4096x1 f32\n"
                                                  "model/tg tokens,depth,batch 128x4096x1 f32\n");
    expect_rows("model/tg 7x0x2 --dtype f32", "model/tg tokens,depth,batch 7x0x2 f32\n");
    /* the same size twice is one row; a shape given stands whatever the model */
    expect_rows("ops/rmsnorm --tokens 4,4", "ops/rmsnorm tokens,hidden 4x576 f32\n");
    expect_rows("ops/rm 17x63", "ops/rmsnorm tokens,hidden 17x63 f32\n");
}

/* Data from a file that somebody wrote. */
static void checks_shape_files(void **state)
{
    (void)state;
#define GOOD "vocab=10\nhidden=4\ninter=6\nheads=4\nkv_heads=2\nhead_dim=2\n"
    static const struct {
        const char *text, *says; /* NULL = it is good */
    } cases[] = {
        {"# comment\n\n" GOOD "layers=1\n", NULL},
        {GOOD "layers=1", NULL},     /* no newline at the end */
        {GOOD "layers=1\r\n", NULL}, /* written elsewhere */
        {GOOD, "layers is missing"},
        {"", "vocab is missing"},
        {GOOD "layers=1\nlayers=2\n", "line 8"},
        {GOOD "layers=1\nexperts=2\n", "line 8"},
        {GOOD "layers=0\n", "line 7"},
        {GOOD "layers=99999999999999999999\n", "line 7"},
        {GOOD "layers 1\n", "line 7"},
        {GOOD "layers= 1\n", "line 7"},
        {"vocab=10\nhidden=4\ninter=6\nheads=3\nkv_heads=2\nhead_dim=2\nlayers=1\n",
         "3 heads over 2 kv_heads"},
    };
#undef GOOD
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[] = "/tmp/tpcl-shape-XXXXXX";
        struct model_shape shape;
        const int fd = mkstemp(name);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, cases[i].text, strlen(cases[i].text)), strlen(cases[i].text));
        close(fd);
        const bool good = shapes_load(name, &shape, message, sizeof message);
        unlink(name);
        if (good != !cases[i].says || (!good && !strstr(message, cases[i].says)))
            fail_msg("file %zu: %s", i, good ? "accepted" : message);
        if (good) assert_int_equal(shape.layers, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses),
        cmocka_unit_test(takes_everything),
        cmocka_unit_test(reads_lists),
        cmocka_unit_test(lists_rows),
        cmocka_unit_test(checks_shape_files),
    };
    return cmocka_run_group_tests_name("bench/options", tests, NULL, NULL);
}
