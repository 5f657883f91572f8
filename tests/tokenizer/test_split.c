/* The split patterns, piece by piece, and that a file's own pattern is never used. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "tokenizer/split.h"

enum { MAX_PIECES = 24 };

static const struct split_case {
    const char *name;
    tpi_split split;
    const char *pieces[MAX_PIECES]; /* their concatenation is the text */
} cases[] = {
    /* C29: symbols stay together, digits do not, contractions in any case */
    {"qwen_arrow", TPI_SPLIT_QWEN2, {"->"}},
    {"qwen_call", TPI_SPLIT_QWEN2, {"(x", "):\n"}},
    {"qwen_digits", TPI_SPLIT_QWEN2, {"a", " ", "2", "0", "2", "4"}},
    {"qwen_contractions", TPI_SPLIT_QWEN2, {"I", "'M", " we", "'ll", " THEY", "'RE"}},
    {"qwen_long_s", TPI_SPLIT_QWEN2, {"a", "'\u017f"}}, /* folds to s */
    {"qwen_blank_lines", TPI_SPLIT_QWEN2, {"a", "   \n\n", " b"}},
    {"qwen_code", TPI_SPLIT_QWEN2, {"\t", "\tif", " x", ":\r\n", "\treturn"}},
    {"qwen_operators",
     TPI_SPLIT_QWEN2,
     {"foo", "_bar", "(x", ")", " !=", " ", "1", "0", "**", "6"}},
    {"qwen_next_line", TPI_SPLIT_QWEN2, {"!", "\xc2\x85"}},       /* U+0085 is white space */
    {"qwen_vowel_separator", TPI_SPLIT_QWEN2, {"\u180e\u180e."}}, /* U+180E is not */
    {"qwen_trailing", TPI_SPLIT_QWEN2, {"a", "   "}},
    {"llama3_digits", TPI_SPLIT_LLAMA3, {"a", " ", "123", "456", "7", ",", "89"}},
    {"llama3_contractions", TPI_SPLIT_LLAMA3, {"I", "'M", "\n\n", "x"}},
    {"gpt2_digits", TPI_SPLIT_GPT2, {"a", " 2024", " ", " 7"}},
    {"gpt2_contractions", TPI_SPLIT_GPT2, {"I", "'", "M", " we", "'ll"}},
    {"gpt2_blank_lines", TPI_SPLIT_GPT2, {"a", "   \n\n", " b", "!?\u00ab"}},
    /* C30: every digit alone, also the unusual ones; the blank before one stays whole */
    {"smollm_digits", TPI_SPLIT_SMOLLM, {"a", " ", "2", "0", "  ", "4", "x", "\u00bd", " "}},
    {"smollm_numerals", TPI_SPLIT_SMOLLM, {"\u00b2", " ", "\u0663", "\u2177", "\u4e8c"}},
    {"smollm_contractions", TPI_SPLIT_SMOLLM, {"THEY", "'", "RE", " it", "'s", "  ", " ok"}},
};

static void cuts_as_listed(void **state)
{
    const struct split_case *c = *state;
    char text[256] = "";
    tpi_splitter *splitter = NULL;
    tpi_pieces pieces;
    const char *piece;
    size_t length, at = 0;

    for (int i = 0; i < MAX_PIECES && c->pieces[i]; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", c->pieces[i]);
    assert_in_range(at, 1, sizeof text - 1);
    assert_ok(tpi_splitter_create(c->split, &splitter));
    assert_ok(tpi_pieces_create(splitter, &pieces));
    tpi_pieces_start(&pieces, text, strlen(text));
    for (int i = 0; i < MAX_PIECES && c->pieces[i]; i++) {
        assert_ok(tpi_pieces_next(&pieces, &piece, &length));
        if (length != strlen(c->pieces[i]) || memcmp(piece, c->pieces[i], length) != 0)
            fail_msg("piece %d: got '%.*s', want '%s'", i, (int)length, piece, c->pieces[i]);
    }
    assert_ok(tpi_pieces_next(&pieces, &piece, &length));
    assert_int_equal(length, 0);
    tpi_pieces_free(&pieces);
    tpi_splitter_destroy(&splitter);
}

static void known_by_name_and_by_text(void **state)
{
    (void)state;
    tpi_split split = TPI_SPLITS;
    assert_true(tpi_split_from_pre(NULL, &split) && split == TPI_SPLIT_GPT2);
    assert_true(tpi_split_from_pre("smollm", &split) && split == TPI_SPLIT_SMOLLM);
    assert_true(tpi_split_from_pre("qwen2", &split) && split == TPI_SPLIT_QWEN2);
    assert_true(tpi_split_from_pre("llama-bpe", &split) && split == TPI_SPLIT_LLAMA3);
    assert_false(tpi_split_from_pre("tekken", &split));
    assert_false(tpi_split_from_pre("", &split));
    assert_true(tpi_split_from_regex("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
                                     "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
                                     "\\s+(?!\\S)|\\s+",
                                     &split));
    assert_int_equal(split, TPI_SPLIT_LLAMA3);
    assert_false(tpi_split_from_regex("\\s+", &split));
}

int main(void)
{
    struct CMUnitTest tests[COUNT(cases) + 1];
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = cuts_as_listed, .initial_state = (void *)&cases[i]};
    tests[COUNT(cases)] = (struct CMUnitTest)cmocka_unit_test(known_by_name_and_by_text);
    return cmocka_run_group_tests_name("tokenizer/split", tests, NULL, NULL);
}
