/* Long runs of one kind of character on a small stack: no recursion, no quadratic time (C38). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <pthread.h>
#include <time.h>

enum { STACK = 256 * 1024, SECONDS = 1 };

static tpcl_tokenizer *tokenizers[3];
enum { SMOLLM2, QWEN, LLAMA3 };

static const struct long_case {
    const char *name;
    const char *unit;
    int repeat;
    size_t smollm2_ids; /* 0 = not known beforehand */
} cases[] = {
    {"newlines", "\n", 30000, 7500},
    {"letters", "A", 43000, 5375},
    {"spaces", " ", 30000, 470},
    {"digits", "1", 5000, 5000},
    {"capital_z", "Z", 131072, 0},
    {"blank_and_newline", " \n", 30000, 0},
    {"carriage_returns", "\r\n\r", 20000, 0},
    {"symbols", "=", 131072, 0},
    {"apostrophes", "'", 50000, 0},
    {"combining_marks", "\u0301", 20000, 0}, /* one never-ending character for NFC */
    {"cjk", "\u4e16", 40000, 0},
    {"half_special", "<|im_", 20000, 0},
    {"special", "<|im_end|>", 10000, 0},
    {"invalid", "\xf0\x9f", 30000, 0},
};

struct job {
    const tpcl_tokenizer *tokenizer;
    char *text;
    size_t length;
    int32_t *ids;
    size_t n;
    tpcl_status status;
    double seconds;
};

static void *run(void *arg)
{
    struct job *job = arg;
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    job->status =
        tpcl_tokenizer_encode(job->tokenizer, job->text, job->length, true, &job->ids, &job->n);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    job->seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    return NULL;
}

static void on_a_small_stack(struct job *job)
{
    pthread_attr_t attr;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, STACK), 0);
    assert_int_equal(pthread_create(&thread, &attr, run, job), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    assert_int_equal(job->status, TPCL_OK);
    if (job->seconds > SECONDS) fail_msg("%.2f s for %zu bytes", job->seconds, job->length);
}

/* What was encoded comes back, where every byte has a word and nothing was normalised. */
static void assert_comes_back(const struct job *job)
{
    char *bytes;
    size_t length;
    assert_ok(tpcl_tokenizer_decode(job->tokenizer, job->ids, job->n, true, &bytes, &length));
    assert_int_equal(length, job->length);
    assert_memory_equal(bytes, job->text, length);
    free(bytes);
}

static void encode_repeated(const struct long_case *c, int which)
{
    struct job job = {.tokenizer = tokenizers[which]};
    const size_t unit = strlen(c->unit);
    job.length = unit * (size_t)c->repeat;
    job.text = malloc(job.length);
    assert_non_null(job.text);
    for (int i = 0; i < c->repeat; i++) memcpy(job.text + unit * (size_t)i, c->unit, unit);
    on_a_small_stack(&job);
    assert_true(job.n > 0);
    if (which == SMOLLM2 && c->smollm2_ids > 0) assert_int_equal(job.n, c->smollm2_ids);
    if (strcmp(c->name, "invalid") != 0) assert_comes_back(&job);
    free(job.text);
    free(job.ids);
}

static void smollm2(void **state)
{
    if (!tokenizers[SMOLLM2]) skip();
    encode_repeated(*state, SMOLLM2);
}

static void qwen(void **state)
{
    encode_repeated(*state, QWEN);
}

static void llama3(void **state)
{
    encode_repeated(*state, LLAMA3);
}

/* The small Qwen vocabulary, split as Llama-3 does. */
static tpcl_tokenizer *llama3_tokenizer(void)
{
    json_t *root = read_json(QWEN_DIR "tokenizer.json");
    json_t *list = json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers");
    json_t *pattern = json_object_get(json_array_get(list, 0), "pattern");
    const char *qwen2 = json_string_value(json_object_get(pattern, "Regex"));
    const char *digit = strstr(qwen2, "|\\p{N}|");
    tpcl_tokenizer *tokenizer = NULL;
    assert_non_null(digit);
    json_object_set_new(
        pattern, "Regex",
        json_sprintf("%.*s|\\p{N}{1,3}|%s", (int)(digit - qwen2), qwen2, digit + 7));
    assert_ok(create_from(root, &tokenizer));
    json_decref(root);
    return tokenizer;
}

static int set_up(void **state)
{
    (void)state;
    tokenizers[SMOLLM2] = smollm2_tokenizer();
    tokenizers[QWEN] = qwen_tokenizer();
    tokenizers[LLAMA3] = llama3_tokenizer();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(tokenizers); i++) tpcl_tokenizer_destroy(&tokenizers[i]);
    return 0;
}

int main(void)
{
    static const CMUnitTestFunction which[] = {smollm2, qwen, llama3};
    struct CMUnitTest tests[COUNT(cases) * COUNT(which)];
    for (size_t i = 0; i < COUNT(tests); i++)
        tests[i] = (struct CMUnitTest){.name = cases[i % COUNT(cases)].name,
                                       .test_func = which[i / COUNT(cases)],
                                       .initial_state = (void *)&cases[i % COUNT(cases)]};
    return cmocka_run_group_tests_name("tokenizer/long", tests, set_up, tear_down);
}
