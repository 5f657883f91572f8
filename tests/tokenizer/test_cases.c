/* Texts that tokenizers have got wrong, with the ids of SmolLM2's vocabulary, and the same
 * questions asked of the small Qwen vocabulary. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

enum { MAX_IDS = 16 };

static tpcl_tokenizer *smollm2, *qwen;

static const struct text_case {
    const char *name, *text;
    size_t length;
    bool special;
    int n;
    int32_t ids[MAX_IDS];
} cases[] = {
#define TEXT(t) t, sizeof(t) - 1
    /* single digits, then GPT-2: numerals of every kind, contractions in small letters only */
    {"year", TEXT("2024"), false, 4, {34, 32, 34, 36}},
    {"digits_after_word", TEXT("a 2024"), false, 6, {81, 216, 34, 32, 34, 36}},
    {"numerals", TEXT("\u00bd \u00b2 \u0663"), false, 6, {16738, 216, 19133, 216, 164, 113}},
    {"contractions",
     TEXT("I'M we'll THEY'RE"),
     false,
     9,
     {57, 23, 61, 392, 3060, 6462, 73, 23, 3256}},
    {"blank_lines", TEXT("a   \n\n b"), false, 4, {81, 333, 1116, 278}},
    {"operators",
     TEXT("foo_bar(x) != 10**6"),
     false,
     12,
     {15236, 79, 6299, 24, 104, 25, 6541, 216, 33, 32, 828, 38}},
    /* no normaliser in this file: the two spellings stay different */
    {"decomposed", TEXT("cafe\u0301"), false, 4, {83, 9980, 151, 219}},
    {"composed", TEXT("caf\u00e9"), false, 3, {83, 1939, 2756}},
    {"jamo", TEXT("\u1100\u1161"), false, 6, {172, 222, 218, 172, 223, 111}},
    {"syllable", TEXT("\uac00"), false, 3, {181, 125, 218}},
    {"specials_on", TEXT("<|im_start|>user"), true, 2, {1, 4093}},
    {"specials_off", TEXT("<|im_start|>user"), false, 8, {44, 108, 306, 79, 3738, 108, 46, 4093}},
    {"special_within", TEXT("a<|endoftext|>b"), true, 3, {81, 0, 82}},
    {"invalid_utf8", TEXT("\xff\xfe\x41"), false, 3, {24211, 24211, 49}},
    {"one_for_a_cut_character",
     TEXT("\xf0\x9f\xa4"
          "A"),
     false,
     2,
     {24211, 49}},
    {"surrogate", TEXT("\xed\xa0\x80"), false, 3, {24211, 24211, 24211}},
    /* bytes without a word of their own vanish; the rest stays */
    {"byte_without_word",
     TEXT("a\x04"
          "b"),
     false,
     2,
     {81, 82}},
    {"only_a_byte_without_word", TEXT("\x16"), false, 0, {0}},
    {"plane_4", TEXT("a\U00040000b"), false, 5, {81, 218, 218, 218, 82}},
    {"nul_is_a_byte", TEXT("a\0b"), false, 3, {81, 190, 82}},
    {"empty", TEXT(""), true, 0, {0}},
};

static void smollm2_ids(void **state)
{
    const struct text_case *c = *state;
    if (!smollm2) skip();
    assert_encodes(smollm2, c->text, c->length, c->special, c->ids, (size_t)c->n);
}

/* C35: nothing may be printed before a character is whole. */
static void streams_whole_characters(void **state)
{
    (void)state;
    static const int32_t emoji[2][3] = {{10813, 114, 113}, {10813, 242, 218}};
    static const char *const shown[2] = {"\U0001f923", "\U0001f600"};
    tpcl_decoder *decoder = NULL;
    const char *text;

    if (!smollm2) skip();
    assert_ok(tpcl_decoder_create(smollm2, false, &decoder));
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 3; i++) {
            assert_ok(tpcl_decoder_push(decoder, emoji[k][i], &text));
            assert_string_equal(text, i < 2 ? "" : shown[k]);
        }
    /* an unfinished one: U+FFFD only once it is certain */
    assert_ok(tpcl_decoder_push(decoder, 10813, &text));
    assert_string_equal(text, "");
    assert_ok(tpcl_decoder_push(decoder, 81, &text));
    assert_string_equal(text, "\ufffda");
    assert_ok(tpcl_decoder_push(decoder, 114, &text)); /* a continuation with no start */
    assert_string_equal(text, "\ufffd");
    assert_ok(tpcl_decoder_push(decoder, 10813, &text));
    assert_ok(tpcl_decoder_finish(decoder, &text));
    assert_string_equal(text, "\ufffd");
    assert_ok(tpcl_decoder_finish(decoder, &text));
    assert_string_equal(text, "");
    tpcl_decoder_destroy(&decoder);
}

static void special_tokens_are_shown_on_request(void **state)
{
    (void)state;
    const int32_t ids[] = {1, 81, 2, 0};
    char *bytes;
    size_t length;
    if (!smollm2) skip();
    assert_ok(tpcl_tokenizer_decode(smollm2, ids, COUNT(ids), false, &bytes, &length));
    assert_int_equal(length, 1);
    assert_memory_equal(bytes, "a", 1);
    free(bytes);
    char *streamed = stream(smollm2, ids, COUNT(ids), false);
    assert_string_equal(streamed, "a");
    free(streamed);
    streamed = stream(smollm2, ids, COUNT(ids), true);
    assert_string_equal(streamed, "<|im_start|>a<|im_end|><|endoftext|>");
    free(streamed);
}

static void ids_outside_are_named(void **state)
{
    (void)state;
    const int32_t wrong[] = {-1, 512, INT32_MAX, INT32_MIN};
    tpcl_decoder *decoder = NULL;
    const char *text;
    char *bytes;
    size_t length;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char number[16];
        const int32_t ids[2] = {0, wrong[i]};
        assert_int_equal(tpcl_tokenizer_decode(qwen, ids, 2, true, &bytes, &length), TPCL_ERR_ARG);
        assert_null(bytes);
        snprintf(number, sizeof number, "%d", wrong[i]);
        assert_non_null(strstr(tpcl_last_error(), number));
    }
    /* a padding row of the head may be sampled: the stream goes on */
    assert_ok(tpcl_decoder_create(qwen, false, &decoder));
    assert_ok(tpcl_decoder_push(decoder, 512, &text));
    assert_string_equal(text, "");
    assert_int_equal(tpcl_decoder_push(decoder, -1, &text), TPCL_ERR_ARG);
    assert_string_equal(text, "");
    assert_ok(tpcl_decoder_push(decoder, 64, &text));
    assert_string_equal(text, "a");
    tpcl_decoder_destroy(&decoder);
}

static void same_ids(const tpcl_tokenizer *tokenizer, const char *a, const char *b)
{
    int32_t *ids = NULL;
    size_t n = 0;
    assert_ok(tpcl_tokenizer_encode(tokenizer, a, strlen(a), true, &ids, &n));
    assert_true(n > 0);
    assert_encodes(tokenizer, b, strlen(b), true, ids, n);
    free(ids);
}

/* C32 on the vocabulary that asks for NFC. */
static void nfc_makes_one_of_two_spellings(void **state)
{
    (void)state;
    same_ids(qwen, "cafe\u0301 \u1100\u1161 A\u030a", "caf\u00e9 \uac00 \u00c5");
    same_ids(qwen, "\u212b q\u0323\u0307", "\u00c5 q\u0307\u0323"); /* order of marks, singleton */
}

static tpcl_tokenizer *qwen_with(const char *content, bool special, bool normalized, bool strip)
{
    json_t *root = read_json(QWEN_DIR "tokenizer.json");
    tpcl_tokenizer *tokenizer = NULL;
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 512, "content",
                                    content, "single_word", 0, "lstrip", strip, "rstrip", strip,
                                    "normalized", normalized, "special", special));
    assert_ok(create_from(root, &tokenizer));
    json_decref(root);
    return tokenizer;
}

/* C33: added, not special: recognised always, and shown always. */
static void added_tokens_are_always_recognised(void **state)
{
    (void)state;
    const int32_t ids[] = {64, 512, 64};
    tpcl_tokenizer *tokenizer = qwen_with("<think>", false, false, false);
    assert_int_equal(tpcl_tokenizer_vocab(tokenizer), 513);
    assert_encodes(tokenizer, "a<think>a", 9, false, ids, 3);
    assert_encodes(tokenizer, "a<think>a", 9, true, ids, 3);
    char *streamed = stream(tokenizer, ids, 3, false);
    assert_string_equal(streamed, "a<think>a");
    free(streamed);
    tpcl_tokenizer_destroy(&tokenizer);
}

/* The longest wins; nothing inside one is normalised; one that swallows blanks swallows them. */
static void added_tokens_match_as_the_reference(void **state)
{
    (void)state;
    const int32_t longest[] = {512}, shorter[] = {510, 67}, swallowed[] = {64, 512, 64};
    tpcl_tokenizer *tokenizer = qwen_with("<|im_start|>de", true, false, false);
    assert_encodes(tokenizer, "<|im_start|>de", 14, true, longest, 1);
    assert_encodes(tokenizer, "<|im_start|>d", 13, true, shorter, 2);
    tpcl_tokenizer_destroy(&tokenizer);

    tokenizer = qwen_with("<e\u0301>", false, false, false);
    assert_encodes(tokenizer, "<e\u0301>", 5, false, longest, 1);
    int32_t *ids = NULL;
    size_t n = 0;
    assert_ok(tpcl_tokenizer_encode(tokenizer, "<\u00e9>", 4, false, &ids, &n));
    assert_true(n > 1);
    free(ids);
    tpcl_tokenizer_destroy(&tokenizer);

    tokenizer = qwen_with("<mask>", true, false, true);
    assert_encodes(tokenizer, "a \t<mask>\u3000\na", 14, true, swallowed, 3);
    tpcl_tokenizer_destroy(&tokenizer);

    tokenizer = qwen_with("abe", false, true, false); /* found after NFC: the e gets its accent */
    assert_encodes(tokenizer, "abe", 3, false, longest, 1);
    assert_ok(tpcl_tokenizer_encode(tokenizer, "abe\u0301", 5, false, &ids, &n));
    assert_true(n > 0 && ids[0] != 512);
    free(ids);
    tpcl_tokenizer_destroy(&tokenizer);
}

/* Merges as pairs and as lines are the same merges. */
static void both_spellings_of_merges(void **state)
{
    (void)state;
    json_t *root = read_json(QWEN_DIR "tokenizer.json"), *merge;
    json_t *lines = json_array(), *model = json_object_get(root, "model");
    tpcl_tokenizer *tokenizer = NULL;
    size_t i;
    json_array_foreach(json_object_get(model, "merges"), i, merge)
    {
        assert_int_equal(json_array_size(merge), 2);
        json_array_append_new(lines,
                              json_sprintf("%s %s", json_string_value(json_array_get(merge, 0)),
                                           json_string_value(json_array_get(merge, 1))));
    }
    json_object_set_new(model, "merges", lines);
    assert_ok(create_from(root, &tokenizer));
    json_decref(root);
    json_t *golden = read_json(TPCL_GOLDEN_DIR "/tokenizer/qwen_tiny.json"), *entry;
    assert_true(json_array_size(golden) > 100);
    json_array_foreach(golden, i, entry)
    {
        const json_t *text = json_object_get(entry, "text");
        int32_t *ids = NULL;
        size_t n = 0;
        assert_ok(tpcl_tokenizer_encode(qwen, json_string_value(text), json_string_length(text),
                                        true, &ids, &n));
        assert_encodes(tokenizer, json_string_value(text), json_string_length(text), true, ids, n);
        free(ids);
    }
    json_decref(golden);
    tpcl_tokenizer_destroy(&tokenizer);
}

/* Llama-3: a piece that is a word is that word, though merges alone would not make it. */
static void ignore_merges_takes_whole_pieces(void **state)
{
    (void)state;
    json_t *root = read_json(QWEN_DIR "tokenizer.json");
    json_t *model = json_object_get(root, "model");
    tpcl_tokenizer *tokenizer = NULL;
    const int32_t whole[] = {512};
    int32_t *ids = NULL;
    size_t n = 0;

    json_object_set_new(json_object_get(model, "vocab"), "zqx", json_integer(512));
    assert_ok(create_from(root, &tokenizer));
    assert_ok(tpcl_tokenizer_encode(tokenizer, "zqx", 3, false, &ids, &n));
    assert_int_equal(n, 3);
    free(ids);
    tpcl_tokenizer_destroy(&tokenizer);
    json_object_set_new(model, "ignore_merges", json_true());
    assert_ok(create_from(root, &tokenizer));
    assert_encodes(tokenizer, "zqx", 3, false, whole, 1);
    tpcl_tokenizer_destroy(&tokenizer);
    json_decref(root);
}

static int set_up(void **state)
{
    (void)state;
    smollm2 = smollm2_tokenizer();
    qwen = qwen_tokenizer();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tpcl_tokenizer_destroy(&smollm2);
    tpcl_tokenizer_destroy(&qwen);
    return 0;
}

int main(void)
{
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(streams_whole_characters),
        cmocka_unit_test(special_tokens_are_shown_on_request),
        cmocka_unit_test(ids_outside_are_named),
        cmocka_unit_test(nfc_makes_one_of_two_spellings),
        cmocka_unit_test(added_tokens_are_always_recognised),
        cmocka_unit_test(added_tokens_match_as_the_reference),
        cmocka_unit_test(both_spellings_of_merges),
        cmocka_unit_test(ignore_merges_takes_whole_pieces),
    };
    struct CMUnitTest tests[COUNT(cases) + COUNT(others)];
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = smollm2_ids, .initial_state = (void *)&cases[i]};
    memcpy(tests + COUNT(cases), others, sizeof others);
    return cmocka_run_group_tests_name("tokenizer/cases", tests, set_up, tear_down);
}
