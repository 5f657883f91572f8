/* Every stored tokenisation of the independent implementation: to ids, back, and one by one. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

enum { GOLDEN_TEXTS = 139 };

/* A streamed text is a C string: a NUL in it is shown as U+FFFD. */
static void check_stream(const tpcl_tokenizer *tokenizer, const int32_t *ids, size_t n,
                         const json_t *decoded)
{
    char want[4096];
    size_t length = 0;
    for (size_t i = 0; i < json_string_length(decoded); i++) {
        const char c = json_string_value(decoded)[i];
        assert_in_range(length, 0, sizeof want - 5);
        memcpy(want + length, c ? &c : "\xef\xbf\xbd", c ? 1 : 3);
        length += c ? 1 : 3;
    }
    want[length] = '\0';
    char *streamed = stream(tokenizer, ids, n, true);
    assert_string_equal(streamed, want);
    free(streamed);
}

static void check_one(const tpcl_tokenizer *tokenizer, const json_t *entry)
{
    const json_t *list = json_object_get(entry, "ids");
    const json_t *text = json_object_get(entry, "text");
    const json_t *decoded = json_object_get(entry, "decoded");
    const size_t n = json_array_size(list);
    int32_t ids[512];
    char *bytes;
    size_t length;

    assert_true(json_is_string(text) && json_is_string(decoded));
    assert_in_range(n, 0, COUNT(ids));
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    assert_encodes(tokenizer, json_string_value(text), json_string_length(text), true, ids, n);

    assert_ok(tpcl_tokenizer_decode(tokenizer, ids, n, true, &bytes, &length));
    assert_int_equal(length, json_string_length(decoded));
    if (length > 0) assert_memory_equal(bytes, json_string_value(decoded), length);
    free(bytes);
    check_stream(tokenizer, ids, n, decoded);
}

static void check_file(const char *path, const tpcl_tokenizer *tokenizer)
{
    json_t *golden = read_json(path), *entry;
    size_t i;
    assert_int_equal(json_array_size(golden), GOLDEN_TEXTS);
    json_array_foreach(golden, i, entry) check_one(tokenizer, entry);
    json_decref(golden);
}

static void qwen_golden(void **state)
{
    (void)state;
    tpcl_tokenizer *tokenizer = qwen_tokenizer();
    assert_int_equal(tpcl_tokenizer_vocab(tokenizer), 512);
    assert_int_equal(tpcl_tokenizer_eos(tokenizer), 511);
    assert_int_equal(tpcl_tokenizer_find_special(tokenizer, "<|im_start|>"), 510);
    assert_int_equal(tpcl_tokenizer_find_special(tokenizer, "a"), -1);
    check_file(TPCL_GOLDEN_DIR "/tokenizer/qwen_tiny.json", tokenizer);
    tpcl_tokenizer_destroy(&tokenizer);
    assert_null(tokenizer);
}

/* The folder as the checkpoint reader hands it over. */
static void qwen_folder(void **state)
{
    (void)state;
    tpcl_checkpoint *checkpoint = NULL;
    tpcl_tokenizer *tokenizer = NULL;
    assert_ok(tpcl_checkpoint_open(TPCL_GOLDEN_DIR "/tiny-qwen3-tied", NULL, &checkpoint));
    assert_ok(tpcl_tokenizer_create(tpcl_checkpoint_tokenizer(checkpoint), &tokenizer));
    tpcl_checkpoint_close(&checkpoint);
    assert_int_equal(tpcl_tokenizer_eos(tokenizer), 511);
    assert_string_equal(tpcl_chat_template_name(tokenizer), "chatml");
    check_file(TPCL_GOLDEN_DIR "/tokenizer/qwen_tiny.json", tokenizer);
    tpcl_tokenizer_destroy(&tokenizer);
}

static void smollm2_golden(void **state)
{
    (void)state;
    tpcl_tokenizer *tokenizer = smollm2_tokenizer();
    if (!tokenizer) skip();
    assert_int_equal(tpcl_tokenizer_vocab(tokenizer), 49152);
    assert_int_equal(tpcl_tokenizer_eos(tokenizer), 2);
    assert_int_equal(tpcl_tokenizer_find_special(tokenizer, "<|im_end|>"), 2);
    check_file(TPCL_GOLDEN_DIR "/tokenizer/smollm2.json", tokenizer);
    tpcl_tokenizer_destroy(&tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen_golden),
        cmocka_unit_test(qwen_folder),
        cmocka_unit_test(smollm2_golden),
    };
    return cmocka_run_group_tests_name("tokenizer/golden", tests, NULL, NULL);
}
