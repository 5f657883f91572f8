/* Embedding and LM head at this number of ranks: every word, exactly, in the order of the ids. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <tpcl/sampling.h>

#include "layers_test.h"

/* DESIGN's worked numbers: vocabulary 4 x 2 filled 1..8, tokens [1, 3]; at 2 ranks rank 0
 * contributes [[3,4],[0,0]], rank 1 [[0,0],[7,8]]. */
static void embedding_worked_numbers(void **state)
{
    (void)state;
    static const float table4[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t tokens[2] = {1, 3};
    static const float sum[4] = {3, 4, 7, 8}, part[2][4] = {{3, 4, 0, 0}, {0, 0, 7, 8}};
    const tpcl_host_tensor w = matrix("embed", table4, 4, 2);
    const tpcl_embedding_desc d = {.weight = &w};
    float got[4];
    tpcl_embedding *e = NULL;
    assert_ok(tpcl_embedding_create(group, &d, &e));
    tpcl_tensor *ids = tensor_of(tokens, TPCL_I32, 2), *y = tensor_of(NULL, TPCL_F32, 4);
    assert_ok(tpcl_embedding_partial(e, ids, y, 2));
    assert_ok(tpcl_tensor_read(y, got, 4));
    if (size == 2 && weight_set == 0) assert_memory_equal(got, part[rank], sizeof got);
    assert_ok(tpcl_embedding_forward(e, ids, y, 2));
    assert_ok(tpcl_tensor_read(y, got, 4));
    assert_memory_equal(got, sum, sizeof got);
    tpcl_tensor_destroy(&ids);
    tpcl_tensor_destroy(&y);
    tpcl_embedding_destroy(&e);
}

enum { DIM = 32, ROWS = 18 }; /* more rows than the head's batch of 16 */

struct vocab_case {
    const char *name;
    int base, added;
};
static const struct vocab_case vocab_cases[] = {
    {"c01_1_word", 1, 0},
    {"c01_3_words", 3, 0}, /* 1, 1, 1, 0 on four ranks */
    {"c01_5_words", 5, 0}, /* 2, 1, 1, 1: a ceiling split would start past the end */
    {"c01_10_words", 10, 0},
    {"c01_37_words", 37, 0},
    {"c01_151_words", 151, 0},
    {"added_1", 5, 1},
    {"added_7", 37, 7},
    {"added_only", 0, 3},
    {"added_more_than_base", 2, 33},
};

/* A vocabulary: base rows, then added ones, and the layers on it. */
struct vocab {
    table base, added;
    float *all; /* [words, DIM] */
    int words;
    tpcl_range cut[MAX_RANKS], added_cut[MAX_RANKS];
};

static struct vocab make_vocab(const struct vocab_case *c, tpcl_dtype dtype)
{
    struct vocab v = {.base = make_table("base", dtype, c->base, DIM, 5),
                      .added = make_table("added", dtype, c->added, DIM, 6),
                      .words = c->base + c->added};
    v.all = malloc((size_t)v.words * DIM * sizeof *v.all);
    memcpy(v.all, v.base.wide, (size_t)c->base * DIM * sizeof *v.all);
    memcpy(v.all + c->base * DIM, v.added.wide, (size_t)c->added * DIM * sizeof *v.all);
    assert_ok(tpcl_shard_split(c->base, 1, size, test_weights(), 0, v.cut));
    assert_ok(tpcl_shard_split(c->added, 1, size, test_weights(), 0, v.added_cut));
    return v;
}

static void free_vocab(struct vocab *v)
{
    free_table(&v->base);
    free_table(&v->added);
    free(v->all);
}

/* Every id, backwards. Block types have one rounding of d * q + m. */
static void check_embedding(const struct vocab *v, tpcl_embedding *e, bool exact)
{
    const size_t n = (size_t)v->words * DIM;
    int32_t *ids = malloc((size_t)v->words * sizeof *ids);
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    for (int i = 0; i < v->words; i++) ids[i] = v->words - 1 - i;
    tpcl_ref_embed(ids, v->all, want, v->words, DIM, 0, v->words);
    tpcl_tensor *dids = tensor_of(ids, TPCL_I32, v->words);
    for (int how = 0; how < 2; how++) {
        tpcl_tensor *y = tensor_of(NULL, TPCL_F32, (int64_t)n);
        if (how)
            assert_ok(tpcl_embedding_lookup(e, ids, y, v->words));
        else
            assert_ok(tpcl_embedding_forward(e, dids, y, v->words));
        assert_ok(tpcl_tensor_read(y, got, n));
        assert_close(got, want, n, exact ? 0 : 3e-7, exact ? 0 : 3e-7);
        tpcl_tensor_destroy(&y);
    }
    tpcl_tensor_destroy(&dids);
    free(ids);
    free(want);
    free(got);
}

/* Rows of x in any order, one twice, more than one turn of them. */
static const int some_rows[ROWS] = {3, 4, 5, 17, 0, 0, 16, 9, 8, 7, 1, 2, 6, 10, 11, 12, 13, 14};

/* Row i of the logits must be row rows[i] (NULL: i) of want, of which a rank may have a part. */
static void check_rows(const float *got, const float *want, const int *rows, int n,
                       const struct vocab *v, bool sharded)
{
    const tpcl_range base = v->cut[rank], added = v->added_cut[rank];
    const size_t n_base = (size_t)tpcl_range_size(base), n_added = (size_t)tpcl_range_size(added);
    const size_t first_added = (size_t)(v->words - v->added.host.shape[0]);
    for (int i = 0; i < n; i++) {
        const float *w = want + (size_t)(rows ? rows[i] : i) * (size_t)v->words;
        if (!sharded) {
            assert_close(got + (size_t)i * (size_t)v->words, w, (size_t)v->words, 1e-5, 3e-5);
            continue;
        }
        const float *mine = got + (size_t)i * (n_base + n_added);
        assert_close(mine, w + base.begin, n_base, 1e-5, 3e-5);
        assert_close(mine + n_base, w + first_added + added.begin, n_added, 1e-5, 3e-5);
    }
}

static void check_head(const struct vocab *v, tpcl_lm_head_desc d, const float *bias)
{
    const size_t n = (size_t)ROWS * (size_t)v->words;
    const tpcl_host_tensor b = vector("bias", bias, v->words);
    float *x = random_floats(ROWS * DIM, 7), *want = malloc(n * sizeof *want);
    float *got = malloc(n * sizeof *got);
    tpcl_ref_linear(x, v->all, bias, want, ROWS, v->words, DIM);
    tpcl_tensor *dx = tensor_of(x, TPCL_F32, ROWS * DIM);
    if (bias) d.bias = &b;
    for (int output = TPCL_LM_HEAD_GATHER; output <= TPCL_LM_HEAD_SHARDED; output++) {
        const bool sharded = output == TPCL_LM_HEAD_SHARDED;
        const bool mine = rank == 0 || output != TPCL_LM_HEAD_GATHER;
        tpcl_lm_head *head = NULL;
        d.output = (tpcl_lm_head_output)output;
        assert_ok(tpcl_lm_head_create(group, &d, &head));
        assert_int_equal(tpcl_lm_head_vocab(head), v->words);
        assert_int_equal(tpcl_lm_head_words(head, rank).begin, v->cut[rank].begin);
        assert_ok(tpcl_lm_head_forward(head, dx, NULL, ROWS, mine ? got : NULL));
        if (mine) check_rows(got, want, NULL, ROWS, v, sharded);
        assert_ok(tpcl_lm_head_forward(head, dx, some_rows, ROWS, mine ? got : NULL));
        if (mine) check_rows(got, want, some_rows, ROWS, v, sharded);
        assert_ok(tpcl_lm_head_forward(head, dx, some_rows + 3, 1, mine ? got : NULL));
        if (mine) check_rows(got, want, some_rows + 3, 1, v, sharded); /* the last position alone */
        assert_ok(tpcl_lm_head_forward(head, dx, NULL, 0, got));
        tpcl_lm_head_destroy(&head);
    }
    tpcl_tensor_destroy(&dx);
    free(x);
    free(want);
    free(got);
}

static void every_word(void **state)
{
    const struct vocab_case *c = *state;
    for (size_t d = 0; d < COUNT(all_dtypes); d++) {
        struct vocab v = make_vocab(c, all_dtypes[d]);
        const tpcl_host_tensor *added = c->added ? &v.added.host : NULL;
        const tpcl_embedding_desc ed = {
            .weight = &v.base.host, .added = added, .max_tokens = v.words};
        tpcl_embedding *e = NULL;
        assert_ok(tpcl_embedding_create(group, &ed, &e));
        assert_int_equal(tpcl_embedding_vocab(e), v.words);
        assert_int_equal(tpcl_embedding_dim(e), DIM);
        assert_int_equal(tpcl_embedding_added_words(e, rank).begin,
                         c->base + v.added_cut[rank].begin);
        check_embedding(&v, e, tpcl_dtype_block(all_dtypes[d]) == 1);
        float *bias = random_floats((size_t)v.words, 23);
        check_head(&v, (tpcl_lm_head_desc){.tied = e}, NULL);
        check_head(&v, (tpcl_lm_head_desc){.weight = &v.base.host, .added = added}, bias);
        free(bias);
        tpcl_embedding_destroy(&e);
        free_vocab(&v);
    }
}

/* The caller's cuts, and added rows of another type, which widens both. */
static void given_cuts_and_mixed_types(void **state)
{
    (void)state;
    static const struct vocab_case c = {"given", 20, 6};
    struct vocab v = make_vocab(&c, TPCL_Q8_0);
    table other = make_table("other", TPCL_BF16, 6, DIM, 6);
    memcpy(v.all + 20 * DIM, other.wide, 6 * DIM * sizeof *v.all);
    for (int r = 0; r < size; r++) { /* all base words to the last rank, all added to the first */
        v.cut[r] = (tpcl_range){0, r == size - 1 ? 20 : 0};
        v.added_cut[r] = (tpcl_range){r ? 6 : 0, 6};
    }
    const tpcl_embedding_desc d = {
        .weight = &v.base.host, .added = &other.host, .rows = v.cut, .added_rows = v.added_cut};
    tpcl_embedding *e = NULL;
    assert_ok(tpcl_embedding_create(group, &d, &e));
    check_embedding(&v, e, false);
    check_head(&v, (tpcl_lm_head_desc){.tied = e}, NULL);
    tpcl_embedding_destroy(&e);
    free_table(&other);
    free_vocab(&v);
}

/* CASES C08: a tied head has the embedding's rows, in one buffer, and gives the bits of a copy. */
static void c08_tied_head_equals_a_copy(void **state)
{
    (void)state;
    static const struct vocab_case c = {"tied", 49, 0};
    for (size_t d = 0; d < COUNT(all_dtypes); d++) {
        struct vocab v = make_vocab(&c, all_dtypes[d]);
        const tpcl_embedding_desc ed = {.weight = &v.base.host};
        tpcl_lm_head_desc hd = {.output = TPCL_LM_HEAD_ALL_GATHER};
        float *x = random_floats(DIM, 3), tied[49], copy[49];
        tpcl_embedding *e = NULL;
        tpcl_lm_head *h = NULL;
        tpcl_tensor *dx = tensor_of(x, TPCL_F32, DIM);
        assert_ok(tpcl_embedding_create(group, &ed, &e));
        hd.tied = e;
        assert_ok(tpcl_lm_head_create(group, &hd, &h));
        assert_int_equal(tpcl_lm_head_bytes(h), 0);
        assert_ok(tpcl_lm_head_forward(h, dx, NULL, 1, tied));
        tpcl_lm_head_destroy(&h);
        hd.tied = NULL;
        hd.weight = &v.base.host;
        assert_ok(tpcl_lm_head_create(group, &hd, &h));
        assert_int_equal(tpcl_lm_head_bytes(h), tpcl_embedding_bytes(e));
        assert_ok(tpcl_lm_head_forward(h, dx, NULL, 1, copy));
        assert_memory_equal(tied, copy, sizeof tied);
        tpcl_lm_head_destroy(&h);
        tpcl_embedding_destroy(&e);
        tpcl_tensor_destroy(&dx);
        free(x);
        free_vocab(&v);
    }
}

/* CASES C02: all words score -1 but word 7 with -0.5; the padding rows behind 10 words score 0,
 * which would win. Masked, they never do, whatever the shards. */
static void c02_padding_never_wins(void **state)
{
    (void)state;
    enum { WORDS = 10, PADDED = 13, ADDED = 2 };
    float w[PADDED * 4] = {0}, extra[ADDED * 4], x[4] = {1, 1, 1, 1}, got[PADDED + ADDED];
    for (int i = 0; i < WORDS * 4; i++) w[i] = i / 4 == 7 ? -0.125f : -0.25f;
    for (int i = 0; i < ADDED * 4; i++) extra[i] = -0.5f;
    const tpcl_host_tensor tw = matrix("head", w, PADDED, 4), te = matrix("extra", extra, ADDED, 4);
    for (int added = 0; added <= ADDED; added += ADDED) {
        const tpcl_lm_head_desc d = {.weight = &tw,
                                     .added = added ? &te : NULL,
                                     .valid_vocab = WORDS,
                                     .output = TPCL_LM_HEAD_ALL_GATHER};
        tpcl_lm_head *h = NULL;
        tpcl_tensor *dx = tensor_of(x, TPCL_F32, 4);
        assert_ok(tpcl_lm_head_create(group, &d, &h));
        assert_ok(tpcl_lm_head_forward(h, dx, NULL, 1, got));
        for (int i = 0; i < PADDED + added; i++) {
            const float want = i == 7 ? -0.5f : i < WORDS ? -1.0f : i < PADDED ? -INFINITY : -2.0f;
            if (got[i] != want) fail_msg("logit %d is %g, not %g", i, got[i], want);
        }
        tpcl_sample_input in = {.logits = got, .n = PADDED + added};
        tpcl_sampling s = {.top_p = 1};
        int32_t id = -1;
        assert_ok(tpcl_sample(&in, &s, &id));
        assert_int_equal(id, 7);
        for (int seed = 0; seed < 1000; seed++) {
            s = (tpcl_sampling){
                .temperature = 1, .top_k = 5, .top_p = 0.9f, .seed = (uint64_t)seed};
            if (seed % 2) s.top_k = 0, s.top_p = 1;
            assert_ok(tpcl_sample(&in, &s, &id));
            assert_true(id < WORDS || id >= PADDED);
        }
        tpcl_tensor_destroy(&dx);
        tpcl_lm_head_destroy(&h);
    }
}

/* Nobody can refuse an id on the device: its row is NaN on every rank, its neighbours are right. */
static void foreign_ids_on_the_device_show(void **state)
{
    (void)state;
    static const int32_t ids[6] = {2, 5, -1, 6, INT32_MAX, INT32_MIN};
    float w[5 * 3], extra[1 * 3] = {7, 8, 9}, got[6 * 3];
    fill(w, 15, 3);
    const tpcl_host_tensor tw = matrix("w", w, 5, 3), te = matrix("extra", extra, 1, 3);
    const tpcl_embedding_desc d = {.weight = &tw, .added = &te};
    tpcl_embedding *e = NULL;
    assert_ok(tpcl_embedding_create(group, &d, &e));
    tpcl_tensor *dids = tensor_of(ids, TPCL_I32, 6), *y = tensor_of(NULL, TPCL_F32, 18);
    assert_ok(tpcl_embedding_forward(e, dids, y, 6));
    assert_ok(tpcl_tensor_read(y, got, 18));
    assert_memory_equal(got, w + 6, 3 * sizeof *w);
    assert_memory_equal(got + 3, extra, sizeof extra);
    for (int i = 6; i < 18; i++) assert_true(isnan(got[i]));
    tpcl_tensor_destroy(&dids);
    tpcl_tensor_destroy(&y);
    tpcl_embedding_destroy(&e);
}

/* Rows of other ranks are not read, neither of the table nor of the bias. */
static void reads_its_own_words(void **state)
{
    (void)state;
    static const struct vocab_case c = {"read", 37, 5};
    for (size_t d = 0; d < COUNT(all_dtypes); d++) {
        struct vocab v = make_vocab(&c, all_dtypes[d]);
        float bias[42] = {0};
        source s[3];
        const tpcl_host_tensor b = vector("bias", bias, 42);
        const tpcl_host_tensor tw = through(&v.base.host, &s[0]),
                               ta = through(&v.added.host, &s[1]), tb = through(&b, &s[2]);
        const tpcl_lm_head_desc hd = {.weight = &tw, .added = &ta, .bias = &tb};
        const size_t row = tpi_dtype_bytes(all_dtypes[d], DIM);
        const size_t base = (size_t)tpcl_range_size(v.cut[rank]),
                     added = (size_t)tpcl_range_size(v.added_cut[rank]);
        tpcl_lm_head *h = NULL;
        assert_ok(tpcl_lm_head_create(group, &hd, &h));
        assert_int_equal(tpcl_lm_head_n_words(h), base + added);
        assert_int_equal(s[0].read, base * row);
        assert_int_equal(s[1].read, added * row);
        assert_int_equal(s[2].read, (base + added) * sizeof(float));
        tpcl_lm_head_destroy(&h);
        free_vocab(&v);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(embedding_worked_numbers),
        cmocka_unit_test(c02_padding_never_wins),
        cmocka_unit_test(c08_tied_head_equals_a_copy),
        cmocka_unit_test(given_cuts_and_mixed_types),
        cmocka_unit_test(foreign_ids_on_the_device_show),
        cmocka_unit_test(reads_its_own_words),
    };
    struct CMUnitTest tests[COUNT(plain) + COUNT(vocab_cases)];
    int failed = layers_main_begin(&argc, &argv);
    memcpy(tests, plain, sizeof plain);
    for (size_t i = 0; i < COUNT(vocab_cases); i++)
        tests[COUNT(plain) + i] = (struct CMUnitTest){.name = vocab_cases[i].name,
                                                      .test_func = every_word,
                                                      .initial_state = (void *)&vocab_cases[i]};
    run_layer_tests("layers/vocab", tests);
    return layers_main_end(failed);
}
