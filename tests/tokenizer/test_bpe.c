/* Merging against the plain method: look for the lowest rank, leftmost, until nothing merges. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "tokenizer/bpe.h"
#include "tokenizer/vocab.h"

enum { LETTERS = 4, MERGES = 60, WORDS = LETTERS + MERGES, MAX_TEXT = 200, LENGTH = 12 };

struct model {
    char spelling[WORDS][LENGTH];
    int n;
    int32_t left[MERGES], right[MERGES];
    int n_merges;
    tpi_vocab vocab;
    tpi_merges merges;
};

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static int find_word(const struct model *m, const char *text)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->spelling[i], text) == 0) return i;
    return -1;
}

static bool has_merge(const struct model *m, int32_t left, int32_t right)
{
    for (int i = 0; i < m->n_merges; i++)
        if (m->left[i] == left && m->right[i] == right) return true;
    return false;
}

/* Random merges of any words so far; two of them may make the same word. */
static void build(struct model *m, uint32_t seed)
{
    memset(m, 0, sizeof *m);
    for (; m->n < LETTERS; m->n++) m->spelling[m->n][0] = (char)('a' + m->n);
    while (m->n_merges < MERGES) {
        char both[2 * LENGTH];
        const int32_t l = (int32_t)(next(&seed) % (uint32_t)m->n);
        const int32_t r = (int32_t)(next(&seed) % (uint32_t)m->n);
        snprintf(both, sizeof both, "%s%s", m->spelling[l], m->spelling[r]);
        if (strlen(both) >= LENGTH || has_merge(m, l, r)) continue;
        if (find_word(m, both) < 0) memcpy(m->spelling[m->n++], both, LENGTH);
        m->left[m->n_merges] = l;
        m->right[m->n_merges++] = r;
    }
    assert_ok(tpi_vocab_create(&m->vocab, m->n));
    for (int i = 0; i < m->n; i++)
        assert_ok(
            tpi_vocab_set(&m->vocab, i, m->spelling[i], strlen(m->spelling[i]), TPI_WORD_NORMAL));
    assert_ok(tpi_vocab_index(&m->vocab));
    assert_ok(tpi_merges_create(&m->merges, MERGES));
    for (int i = 0; i < MERGES; i++) {
        const char *l = m->spelling[m->left[i]], *r = m->spelling[m->right[i]];
        assert_ok(tpi_merges_add(&m->merges, &m->vocab, i, l, strlen(l), r, strlen(r)));
    }
}

static size_t plainly(const struct model *m, const char *text, int32_t *ids)
{
    size_t n = 0;
    for (; *text; text++)
        if (*text < 'a' + LETTERS) ids[n++] = *text - 'a'; /* others have no word: dropped */
    for (;;) {
        int rank = 0;
        size_t at = n;
        for (; rank < MERGES && at == n; rank++)
            for (size_t i = 0; i + 1 < n; i++)
                if (ids[i] == m->left[rank] && ids[i + 1] == m->right[rank]) {
                    at = i;
                    break;
                }
        if (at == n) return n;
        char both[2 * LENGTH];
        snprintf(both, sizeof both, "%s%s", m->spelling[ids[at]], m->spelling[ids[at + 1]]);
        ids[at] = find_word(m, both);
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

static int compared, merged;

static void compare(const struct model *m, tpi_bpe *bpe, uint32_t *seed, int letters)
{
    char text[MAX_TEXT + 1] = "";
    int32_t want[MAX_TEXT];
    tpi_idbuf got = {0};
    const size_t length = next(seed) % MAX_TEXT;
    for (size_t i = 0; i < length; i++)
        text[i] = (char)('a' + (int)(next(seed) % (uint32_t)letters));
    const size_t n = plainly(m, text, want);
    assert_ok(tpi_bpe_encode(bpe, &m->vocab, &m->merges, text, length, &got));
    assert_ids(text, got.data, got.n, want, n);
    free(got.data);
    compared++;
    merged += n < length;
}

static void same_as_the_plain_method(void **state)
{
    (void)state;
    static struct model m;
    uint32_t seed = 7;
    for (uint32_t model = 0; model < 20; model++) {
        build(&m, 100 + model);
        tpi_bpe bpe = {0};
        for (int t = 0; t < 100; t++) /* a letter without a word now and then */
            compare(&m, &bpe, &seed, t % 4 == 0 ? LETTERS + 1 : LETTERS);
        tpi_bpe_free(&bpe);
        tpi_merges_free(&m.merges);
        tpi_vocab_free(&m.vocab);
    }
    assert_int_equal(compared, 2000);
    assert_true(merged > 1500); /* or the comparison would say nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_as_the_plain_method)};
    return cmocka_run_group_tests_name("tokenizer/bpe", tests, NULL, NULL);
}
