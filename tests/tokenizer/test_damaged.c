/* Files that are damaged, hostile, or ask for what we do not do: an error each, never a wrong id.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

/* A tokenizer.json in parts; NULL = the part of a good one. */
struct parts {
    const char *vocab, *merges, *added, *normalizer, *pre, *decoder, *model;
};

#define VOCAB "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"
#define MERGES "[\"a b\",[\"ab\",\"c\"]]"
#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define BYTE_LEVEL_ONLY "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define SEQUENCE(a, b) "{\"type\":\"Sequence\",\"pretokenizers\":[" a "," b "]}"
#define SPLIT(regex, behavior, invert)                                                   \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"" behavior \
    "\",\"invert\":" invert "}"
#define QWEN2                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?" \
    "[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define ADDED(id, content, more) "[{\"id\":" id ",\"content\":\"" content "\"" more "}]"

static const struct json_case {
    const char *name;
    struct parts parts;
    tpcl_status want;
} json_cases[] = {
    {"good", {0}, TPCL_OK},
    /* merges */
    {"no_merges", {.merges = "[]"}, TPCL_ERR_FORMAT},
    {"merges_null", {.merges = "null"}, TPCL_ERR_FORMAT},
    {"merges_object", {.merges = "{}"}, TPCL_ERR_FORMAT},
    {"merge_unknown_left", {.merges = "[\"x b\"]"}, TPCL_ERR_FORMAT},
    {"merge_unknown_right", {.merges = "[[\"a\",\"x\"]]"}, TPCL_ERR_FORMAT},
    {"merge_unknown_result", {.merges = "[\"b c\"]"}, TPCL_ERR_FORMAT},
    {"merge_one_part", {.merges = "[\"ab\"]"}, TPCL_ERR_FORMAT},
    {"merge_three_parts", {.merges = "[\"a b c\"]"}, TPCL_ERR_FORMAT},
    {"merge_empty_part", {.merges = "[\" b\"]"}, TPCL_ERR_FORMAT},
    {"merge_empty", {.merges = "[\"\"]"}, TPCL_ERR_FORMAT},
    {"merge_triple", {.merges = "[[\"a\",\"b\",\"c\"]]"}, TPCL_ERR_FORMAT},
    {"merge_numbers", {.merges = "[[1,2]]"}, TPCL_ERR_FORMAT},
    {"merge_twice", {.merges = "[\"a b\",\"ab c\",\"a b\"]"}, TPCL_ERR_FORMAT},
    /* ids */
    {"vocab_array", {.vocab = "[]"}, TPCL_ERR_FORMAT},
    {"vocab_empty", {.vocab = "{}"}, TPCL_ERR_FORMAT},
    {"same_id_twice", {.vocab = "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":3}"}, TPCL_ERR_FORMAT},
    {"same_token_twice",
     {.vocab = "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"a\":5}"},
     TPCL_ERR_FORMAT},
    {"id_negative", {.vocab = "{\"a\":-1,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"}, TPCL_ERR_FORMAT},
    {"id_huge",
     {.vocab = "{\"a\":2000000000,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"},
     TPCL_ERR_FORMAT},
    {"id_beyond_64_bits",
     {.vocab = "{\"a\":99999999999999999999,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"},
     TPCL_ERR_FORMAT},
    {"id_fraction", {.vocab = "{\"a\":0.5,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"}, TPCL_ERR_FORMAT},
    {"id_text", {.vocab = "{\"a\":\"0\",\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"}, TPCL_ERR_FORMAT},
    {"nul_in_token",
     {.vocab = "{\"a\\u0000\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"},
     TPCL_ERR_FORMAT},
    {"lone_surrogate",
     {.vocab = "{\"\\ud800\":9,\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}"},
     TPCL_ERR_FORMAT},
    {"holes_and_disorder",
     {.vocab = "{\"abc\":40,\"ab\":3,\"c\":20,\"b\":1,\"a\":0,\"\":7}"},
     TPCL_OK},
    /* added tokens */
    {"added_not_a_list", {.added = "{}"}, TPCL_ERR_FORMAT},
    {"added_takes_an_id", {.added = ADDED("3", "<x>", "")}, TPCL_ERR_FORMAT},
    {"added_has_two_ids", {.added = ADDED("9", "abc", "")}, TPCL_ERR_FORMAT},
    {"added_in_vocab_too", {.added = ADDED("4", "abc", ",\"special\":true")}, TPCL_OK},
    {"added_empty", {.added = ADDED("9", "", "")}, TPCL_ERR_FORMAT},
    {"added_without_content", {.added = "[{\"id\":9}]"}, TPCL_ERR_FORMAT},
    {"added_without_id", {.added = "[{\"content\":\"<x>\"}]"}, TPCL_ERR_FORMAT},
    {"added_id_huge", {.added = ADDED("4194304", "<x>", "")}, TPCL_ERR_FORMAT},
    {"added_is_text", {.added = "[\"<x>\"]"}, TPCL_ERR_FORMAT},
    {"added_flag_text", {.added = ADDED("9", "<x>", ",\"special\":\"yes\"")}, TPCL_ERR_FORMAT},
    {"added_single_word",
     {.added = ADDED("9", "<x>", ",\"single_word\":true")},
     TPCL_ERR_UNSUPPORTED},
    {"added_special_normalized",
     {.added = ADDED("9", "<x>", ",\"special\":true,\"normalized\":true"),
      .normalizer = "{\"type\":\"NFC\"}"},
     TPCL_ERR_UNSUPPORTED},
    /* other tokenizers */
    {"unigram", {.model = "\"type\":\"Unigram\""}, TPCL_ERR_UNSUPPORTED},
    {"type_number", {.model = "\"type\":7"}, TPCL_ERR_FORMAT},
    {"dropout", {.model = "\"dropout\":0.1"}, TPCL_ERR_UNSUPPORTED},
    {"word_suffix", {.model = "\"end_of_word_suffix\":\"</w>\""}, TPCL_ERR_UNSUPPORTED},
    {"unk_for_missing_bytes", {.model = "\"unk_token\":\"a\""}, TPCL_ERR_UNSUPPORTED},
    {"byte_fallback", {.model = "\"byte_fallback\":true"}, TPCL_ERR_UNSUPPORTED},
    {"nfkc", {.normalizer = "{\"type\":\"NFKC\"}"}, TPCL_ERR_UNSUPPORTED},
    {"normalizer_text", {.normalizer = "\"NFC\""}, TPCL_ERR_UNSUPPORTED},
    {"nfc_in_a_sequence",
     {.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}]}"},
     TPCL_OK},
    {"nfc_then_lowercase",
     {.normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                    "{\"type\":\"Lowercase\"}]}"},
     TPCL_ERR_UNSUPPORTED},
    {"decoder_metaspace", {.decoder = "{\"type\":\"Metaspace\"}"}, TPCL_ERR_UNSUPPORTED},
    /* splits */
    {"no_pre_tokenizer", {.pre = "null"}, TPCL_ERR_UNSUPPORTED},
    {"metaspace", {.pre = "{\"type\":\"Metaspace\"}"}, TPCL_ERR_UNSUPPORTED},
    {"prefix_space",
     {.pre = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}"},
     TPCL_ERR_UNSUPPORTED},
    {"prefix_space_by_default", {.pre = "{\"type\":\"ByteLevel\"}"}, TPCL_ERR_UNSUPPORTED},
    {"no_split_at_all", {.pre = BYTE_LEVEL_ONLY}, TPCL_ERR_UNSUPPORTED},
    {"sequence_without_list", {.pre = "{\"type\":\"Sequence\"}"}, TPCL_ERR_FORMAT},
    {"empty_sequence",
     {.pre = "{\"type\":\"Sequence\",\"pretokenizers\":[]}"},
     TPCL_ERR_UNSUPPORTED},
    {"smollm",
     {.pre = SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":true}", BYTE_LEVEL)},
     TPCL_OK},
    {"digits_in_groups",
     {.pre = SEQUENCE("{\"type\":\"Digits\",\"individual_digits\":false}", BYTE_LEVEL)},
     TPCL_ERR_UNSUPPORTED},
    {"qwen2", {.pre = SEQUENCE(SPLIT(QWEN2, "Isolated", "false"), BYTE_LEVEL_ONLY)}, TPCL_OK},
    {"qwen2_kept", {.pre = SEQUENCE(SPLIT(QWEN2, "Removed", "true"), BYTE_LEVEL_ONLY)}, TPCL_OK},
    {"qwen2_split_again",
     {.pre = SEQUENCE(SPLIT(QWEN2, "Isolated", "false"), BYTE_LEVEL)},
     TPCL_ERR_UNSUPPORTED},
    {"qwen2_inverted",
     {.pre = SEQUENCE(SPLIT(QWEN2, "Isolated", "true"), BYTE_LEVEL_ONLY)},
     TPCL_ERR_UNSUPPORTED},
    {"merged_with_previous",
     {.pre = SEQUENCE(SPLIT(QWEN2, "MergedWithPrevious", "false"), BYTE_LEVEL_ONLY)},
     TPCL_ERR_UNSUPPORTED},
    {"pattern_of_the_file", /* would take exponential time if anybody compiled it */
     {.pre = SEQUENCE(SPLIT("(a*)*b", "Isolated", "false"), BYTE_LEVEL_ONLY)},
     TPCL_ERR_UNSUPPORTED},
    {"pattern_nearly_qwen2",
     {.pre = SEQUENCE(SPLIT(QWEN2 " ", "Isolated", "false"), BYTE_LEVEL_ONLY)},
     TPCL_ERR_UNSUPPORTED},
    {"byte_level_first",
     {.pre = SEQUENCE(BYTE_LEVEL, "{\"type\":\"Digits\",\"individual_digits\":true}")},
     TPCL_ERR_UNSUPPORTED},
};

static const char *or_default(const char *part, const char *usual)
{
    return part ? part : usual;
}

static int write_json(const struct parts *p, char *out, size_t room)
{
    return snprintf(out, room,
                    "{\"added_tokens\":%s,\"normalizer\":%s,\"pre_tokenizer\":%s,\"decoder\":%s,"
                    "\"model\":{%s,\"vocab\":%s,\"merges\":%s}}",
                    or_default(p->added, "[]"), or_default(p->normalizer, "null"),
                    or_default(p->pre, BYTE_LEVEL), or_default(p->decoder, BYTE_LEVEL),
                    or_default(p->model, "\"type\":\"BPE\""), or_default(p->vocab, VOCAB),
                    or_default(p->merges, MERGES));
}

/* One line that says something, and no half-built tokenizer. */
static void assert_outcome(const tpcl_tokenizer_source *source, tpcl_status want)
{
    tpcl_tokenizer *tokenizer = (tpcl_tokenizer *)source; /* must be overwritten */
    const tpcl_status got = tpcl_tokenizer_create(source, &tokenizer);
    if (got != want)
        fail_msg("got %s (%s), want %s", tpcl_status_text(got), tpcl_last_error(),
                 tpcl_status_text(want));
    if (want == TPCL_OK) {
        assert_non_null(tokenizer);
        tpcl_tokenizer_destroy(&tokenizer);
        return;
    }
    assert_null(tokenizer);
    assert_true(strlen(tpcl_last_error()) > 10);
    assert_null(strchr(tpcl_last_error(), '\n'));
}

static void from_json(void **state)
{
    const struct json_case *c = *state;
    char text[4096];
    const int length = write_json(&c->parts, text, sizeof text);
    assert_in_range(length, 1, sizeof text - 1);
    const tpcl_tokenizer_source source = json_source(text, (size_t)length);
    assert_outcome(&source, c->want);
}

/* The good file has no shorter prefix that is good. */
static void cut_anywhere(void **state)
{
    (void)state;
    const struct parts good = {0};
    char text[4096];
    const int length = write_json(&good, text, sizeof text);
    for (int cut = 1; cut < length; cut++) {
        char *exact = malloc((size_t)cut); /* so that a read beyond is seen */
        memcpy(exact, text, (size_t)cut);
        const tpcl_tokenizer_source source = json_source(exact, (size_t)cut);
        assert_outcome(&source, TPCL_ERR_FORMAT);
        free(exact);
    }
}

/* 1 where the text loads; then it must also work. */
static int loads_and_works(const char *text, size_t length)
{
    const tpcl_tokenizer_source source = json_source(text, length);
    tpcl_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    if (tpcl_tokenizer_create(&source, &tokenizer) != TPCL_OK) return 0;
    assert_ok(tpcl_tokenizer_encode(tokenizer, "abcab", 5, true, &ids, &n));
    for (size_t k = 0; k < n; k++) assert_in_range(ids[k], 0, tpcl_tokenizer_vocab(tokenizer) - 1);
    free(ids);
    tpcl_tokenizer_destroy(&tokenizer);
    return 1;
}

/* Any bit wrong: an error or a tokenizer that works, never a crash. */
static void wrong_bits(void **state)
{
    (void)state;
    const struct parts good = {0};
    char text[4096];
    unsigned char *bytes = (unsigned char *)text;
    const int length = write_json(&good, text, sizeof text);
    int loaded = 0;
    for (int i = 0; i < 8 * length; i++) {
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
        loaded += loads_and_works(text, (size_t)length);
        bytes[i / 8] ^= (unsigned char)(1u << i % 8);
    }
    assert_true(loaded > 0 && loaded < 8 * length);
}

/* Ids with holes: the holes are silent, and the count is one more than the largest. */
static void holes_decode_to_nothing(void **state)
{
    (void)state;
    const struct parts holes = {.vocab = "{\"abc\":40,\"ab\":3,\"c\":20,\"b\":1,\"a\":0,\"\":7}"};
    const int32_t want[] = {40, 3}, with_holes[] = {0, 2, 7, 20};
    char text[4096], *bytes;
    size_t length = (size_t)write_json(&holes, text, sizeof text);
    const tpcl_tokenizer_source source = json_source(text, length);
    tpcl_tokenizer *tokenizer = NULL;
    assert_ok(tpcl_tokenizer_create(&source, &tokenizer));
    assert_int_equal(tpcl_tokenizer_vocab(tokenizer), 41);
    assert_encodes(tokenizer, "abcab", 5, false, want, 2);
    assert_ok(tpcl_tokenizer_decode(tokenizer, with_holes, 4, true, &bytes, &length));
    assert_int_equal(length, 2);
    assert_memory_equal(bytes, "ac", 2);
    free(bytes);
    tpcl_tokenizer_destroy(&tokenizer);
}

static const struct config_case {
    const char *name, *config;
    tpcl_status want;
    int eos;
} config_cases[] = {
    {"eos_text", "{\"eos_token\":\"<x>\"}", TPCL_OK, 9},
    {"eos_object", "{\"eos_token\":{\"content\":\"abc\"}}", TPCL_OK, 4},
    {"eos_null", "{\"eos_token\":null}", TPCL_OK, -1},
    {"eos_absent", "{}", TPCL_OK, -1},
    {"no_config", "", TPCL_OK, -1},
    {"eos_unknown", "{\"eos_token\":\"<y>\"}", TPCL_ERR_FORMAT, 0},
    {"eos_number", "{\"eos_token\":2}", TPCL_ERR_FORMAT, 0},
    {"config_damaged", "{\"eos_token\":", TPCL_ERR_FORMAT, 0},
    {"config_list", "[]", TPCL_ERR_FORMAT, 0},
};

static void from_config(void **state)
{
    const struct config_case *c = *state;
    const struct parts parts = {.added = ADDED("9", "<x>", ",\"special\":true")};
    char text[4096];
    const int length = write_json(&parts, text, sizeof text);
    tpcl_tokenizer_source source = json_source(text, (size_t)length);
    tpcl_tokenizer *tokenizer = NULL;
    source.tokenizer_config_json = (tpcl_text){c->config, strlen(c->config)};
    assert_outcome(&source, c->want);
    if (c->want != TPCL_OK) return;
    assert_ok(tpcl_tokenizer_create(&source, &tokenizer));
    assert_int_equal(tpcl_tokenizer_eos(tokenizer), c->eos);
    tpcl_tokenizer_destroy(&tokenizer);
}

int main(void)
{
    static const struct CMUnitTest others[] = {
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(wrong_bits),
        cmocka_unit_test(holes_decode_to_nothing),
    };
    struct CMUnitTest tests[COUNT(json_cases) + COUNT(config_cases) + COUNT(others)], *t = tests;
    for (size_t i = 0; i < COUNT(json_cases); i++)
        *t++ = (struct CMUnitTest){.name = json_cases[i].name,
                                   .test_func = from_json,
                                   .initial_state = (void *)&json_cases[i]};
    for (size_t i = 0; i < COUNT(config_cases); i++)
        *t++ = (struct CMUnitTest){.name = config_cases[i].name,
                                   .test_func = from_config,
                                   .initial_state = (void *)&config_cases[i]};
    memcpy(t, others, sizeof others);
    return cmocka_run_group_tests_name("tokenizer/damaged", tests, NULL, NULL);
}
