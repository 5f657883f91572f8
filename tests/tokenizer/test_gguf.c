/* GGUF's arrays: good ones, damaged ones, and what the kinds of tokens mean. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#define T(s)             \
    {                    \
        s, sizeof(s) - 1 \
    }

static const tpcl_text good_tokens[] = {T("a"),       T("b"),   T("ab"),
                                        T("<|end|>"), T("<u>"), T("[PAD5]")};
static const tpcl_text good_merges[] = {T("a b")};
static const int32_t good_kinds[] = {1, 1, 1, 3, 4, 4};
enum { TOKENS = COUNT(good_tokens) };

static tpcl_tokenizer_source good_source(void)
{
    return (tpcl_tokenizer_source){.present = true,
                                   .model = "gpt2",
                                   .pre = "gpt-2",
                                   .n_tokens = TOKENS,
                                   .n_merges = 1,
                                   .tokens = good_tokens,
                                   .merges = good_merges,
                                   .kinds = good_kinds,
                                   .bos_id = -1,
                                   .eos_id = 3};
}

static void assert_refused(const tpcl_tokenizer_source *source, tpcl_status want, const char *named)
{
    tpcl_tokenizer *tokenizer = NULL;
    const tpcl_status got = tpcl_tokenizer_create(source, &tokenizer);
    if (got != want || !strstr(tpcl_last_error(), named))
        fail_msg("got %s (%s), want %s naming %s", tpcl_status_text(got), tpcl_last_error(),
                 tpcl_status_text(want), named);
    assert_null(tokenizer);
}

static void kinds_are_obeyed(void **state)
{
    (void)state;
    const tpcl_tokenizer_source source = good_source();
    const int32_t on[] = {2, 3, 4, 0}, off[] = {2, 4, 0};
    tpcl_tokenizer *tokenizer = NULL;
    assert_ok(tpcl_tokenizer_create(&source, &tokenizer));
    assert_int_equal(tpcl_tokenizer_vocab(tokenizer), 5); /* the padding row is no word */
    assert_int_equal(tpcl_tokenizer_eos(tokenizer), 3);
    assert_int_equal(tpcl_tokenizer_find_special(tokenizer, "<u>"), 4);
    assert_encodes(tokenizer, "ab<|end|><u>a", 13, true, on, 4);
    assert_encodes(tokenizer, "ab<|end|><u>a", 13, false, off, 3); /* < | e n d > have no words */
    assert_false(tpcl_chat_has_template(tokenizer));
    assert_string_equal(tpcl_chat_template_name(tokenizer), "none");
    tpcl_tokenizer_destroy(&tokenizer);
}

static void kinds_may_be_missing(void **state)
{
    (void)state;
    tpcl_tokenizer_source source = good_source();
    const int32_t want[] = {2};
    tpcl_tokenizer *tokenizer = NULL;
    source.kinds = NULL;
    assert_ok(tpcl_tokenizer_create(&source, &tokenizer));
    assert_int_equal(tpcl_tokenizer_vocab(tokenizer), TOKENS);
    assert_encodes(tokenizer, "ab", 2, false, want, 1);
    tpcl_tokenizer_destroy(&tokenizer);
}

/* GGUF does not say that Qwen2 normalises and that Llama-3 takes whole words: the name does. */
static void families_bring_their_rules(void **state)
{
    (void)state;
    /* U+0301 is bytes CC 81, U+00E9 is C3 A9; "Ã©" and "Ìģ" are how those bytes are spelled */
    const tpcl_text tokens[] = {T("e"),  T("\u00c3"), T("\u00a9"), T("\u00c3\u00a9"),
                                T("eq"), T("q")};
    const tpcl_text merges[] = {T("\u00c3 \u00a9")};
    const int32_t composed[] = {3}, plain[] = {0}, word[] = {4}, letters[] = {0, 5};
    tpcl_tokenizer_source source = good_source();
    tpcl_tokenizer *tokenizer = NULL;
    source.tokens = tokens;
    source.kinds = NULL;
    source.merges = merges;
    source.pre = "qwen2";
    assert_ok(tpcl_tokenizer_create(&source, &tokenizer));
    assert_encodes(tokenizer, "e\u0301", 3, false, composed, 1);
    assert_encodes(tokenizer, "eq", 2, false, letters, 2);
    tpcl_tokenizer_destroy(&tokenizer);
    source.pre = "llama-bpe";
    assert_ok(tpcl_tokenizer_create(&source, &tokenizer));
    assert_encodes(tokenizer, "e\u0301", 3, false, plain, 1); /* the mark's bytes have no word */
    assert_encodes(tokenizer, "eq", 2, false, word, 1);
    tpcl_tokenizer_destroy(&tokenizer);
}

static void damaged_sources_are_refused(void **state)
{
    (void)state;
    tpcl_tokenizer_source s = good_source();
    s.present = false;
    assert_refused(&s, TPCL_ERR_ARG, "no tokenizer");
    s = good_source(), s.model = "llama";
    assert_refused(&s, TPCL_ERR_UNSUPPORTED, "'llama'");
    s = good_source(), s.pre = "tekken";
    assert_refused(&s, TPCL_ERR_UNSUPPORTED, "'tekken'");
    s = good_source(), s.n_tokens = 0;
    assert_refused(&s, TPCL_ERR_FORMAT, "tokens");
    s = good_source(), s.tokens = NULL;
    assert_refused(&s, TPCL_ERR_FORMAT, "tokens");
    s = good_source(), s.n_merges = 0;
    assert_refused(&s, TPCL_ERR_FORMAT, "merges");
    s = good_source(), s.merges = NULL;
    assert_refused(&s, TPCL_ERR_FORMAT, "merges");
    s = good_source(), s.eos_id = TOKENS;
    assert_refused(&s, TPCL_ERR_FORMAT, "eos_token_id");
    s = good_source(), s.eos_id = -2;
    assert_refused(&s, TPCL_ERR_FORMAT, "eos_token_id");
    s = good_source(), s.bos_id = INT32_MAX;
    assert_refused(&s, TPCL_ERR_FORMAT, "bos_token_id");
}

static void damaged_tokens_are_refused(void **state)
{
    (void)state;
    static const struct {
        int at;
        tpcl_text text;
        const char *named;
    } rows[] = {
        {1, T("a"), "two ids"},         {1, T("b\0"), "token 1"}, {1, T("\xff"), "token 1"},
        {3, T(""), "token 3 is empty"}, {4, T("ab"), "two ids"},  {0, T("x"), "no token"},
        {2, T("\u4e16"), "no token"}, /* spelled in characters that stand for no byte */
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        tpcl_text tokens[TOKENS];
        tpcl_tokenizer_source source = good_source();
        memcpy(tokens, good_tokens, sizeof tokens);
        tokens[rows[i].at] = rows[i].text;
        source.tokens = tokens;
        assert_refused(&source, TPCL_ERR_FORMAT, rows[i].named);
    }
}

static void damaged_kinds_are_refused(void **state)
{
    (void)state;
    const int32_t wrong[] = {0, 7, -1, INT32_MAX};
    for (size_t i = 0; i <= COUNT(wrong); i++) {
        int32_t kinds[TOKENS];
        tpcl_tokenizer_source source = good_source();
        memcpy(kinds, good_kinds, sizeof kinds);
        kinds[1] = i < COUNT(wrong) ? wrong[i] : 6; /* byte tokens belong to other tokenizers */
        source.kinds = kinds;
        assert_refused(&source, i < COUNT(wrong) ? TPCL_ERR_FORMAT : TPCL_ERR_UNSUPPORTED,
                       "token_type[1]");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_are_obeyed),           cmocka_unit_test(kinds_may_be_missing),
        cmocka_unit_test(families_bring_their_rules), cmocka_unit_test(damaged_sources_are_refused),
        cmocka_unit_test(damaged_tokens_are_refused), cmocka_unit_test(damaged_kinds_are_refused),
    };
    return cmocka_run_group_tests_name("tokenizer/gguf", tests, NULL, NULL);
}
