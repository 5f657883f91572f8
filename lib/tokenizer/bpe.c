/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/error.h"
#include "tokenizer/bpe.h"

typedef struct tpi_symbol {
    int32_t id;             /* -1 = merged into its left neighbour */
    int32_t previous, next; /* -1 = none */
} symbol;

typedef struct tpi_candidate {
    int32_t rank, left, id; /* of the merge, the left symbol, and the word they make */
} candidate;

void tpi_bpe_free(tpi_bpe *bpe)
{
    free(bpe->symbols);
    free(bpe->heap);
    *bpe = (tpi_bpe){0};
}

/* n symbols start n - 1 candidates, and each of at most n - 1 merges adds two. */
static tpcl_status reserve(tpi_bpe *bpe, size_t n)
{
    tpcl_status status = TPCL_OK;
    if (n <= bpe->capacity) goto done;
    TPI_REQUIRE(n <= INT32_MAX, TPCL_ERR_ARG, "encode: a piece of %zu bytes without a break", n);
    const size_t capacity = n + n / 2 + 64;
    tpi_bpe_free(bpe);
    bpe->symbols = malloc(capacity * sizeof *bpe->symbols);
    bpe->heap = malloc(3 * capacity * sizeof *bpe->heap);
    TPI_REQUIRE(bpe->symbols && bpe->heap, TPCL_ERR_NOMEM, "encode: a piece of %zu bytes", n);
    bpe->capacity = capacity;
done:
    return status;
}

static bool before(candidate a, candidate b)
{
    return a.rank != b.rank ? a.rank < b.rank : a.left < b.left;
}

static void heap_push(tpi_bpe *bpe, candidate c)
{
    size_t i = bpe->n_heap++;
    while (i > 0 && before(c, bpe->heap[(i - 1) / 2])) {
        bpe->heap[i] = bpe->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    bpe->heap[i] = c;
}

static candidate heap_pop(tpi_bpe *bpe)
{
    const candidate top = bpe->heap[0], last = bpe->heap[--bpe->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= bpe->n_heap) break;
        if (child + 1 < bpe->n_heap && before(bpe->heap[child + 1], bpe->heap[child])) child++;
        if (!before(bpe->heap[child], last)) break;
        bpe->heap[i] = bpe->heap[child];
        i = child;
    }
    bpe->heap[i] = last;
    return top;
}

static void consider(tpi_bpe *bpe, const tpi_merges *merges, int32_t left)
{
    if (left < 0 || bpe->symbols[left].next < 0) return;
    const tpi_merge *merge =
        tpi_merges_find(merges, bpe->symbols[left].id, bpe->symbols[bpe->symbols[left].next].id);
    if (merge) heap_push(bpe, (candidate){merge->rank, left, merge->id});
}

/* A candidate is stale once either symbol has changed: the pair then makes another word, or none.
 */
static bool still_holds(const tpi_bpe *bpe, const tpi_merges *merges, candidate c)
{
    const symbol *left = &bpe->symbols[c.left];
    if (left->id < 0 || left->next < 0) return false;
    const tpi_merge *merge = tpi_merges_find(merges, left->id, bpe->symbols[left->next].id);
    return merge && merge->rank == c.rank;
}

static void merge_all(tpi_bpe *bpe, const tpi_merges *merges)
{
    while (bpe->n_heap > 0) {
        const candidate c = heap_pop(bpe);
        if (!still_holds(bpe, merges, c)) continue;
        symbol *left = &bpe->symbols[c.left], *right = &bpe->symbols[left->next];
        left->id = c.id;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0) bpe->symbols[left->next].previous = c.left;
        consider(bpe, merges, left->previous);
        consider(bpe, merges, c.left);
    }
}

tpcl_status tpi_bpe_encode(tpi_bpe *bpe, const tpi_vocab *vocab, const tpi_merges *merges,
                           const char *piece, size_t length, tpi_idbuf *ids)
{
    tpcl_status status = TPCL_OK;
    int32_t n = 0;

    TPI_TRY(reserve(bpe, length));
    for (size_t i = 0; i < length; i++) {
        const int32_t id = vocab->byte_ids[(unsigned char)piece[i]];
        if (id < 0) continue;
        bpe->symbols[n] = (symbol){id, n - 1, n + 1};
        n++;
    }
    if (n == 0) goto done;
    bpe->symbols[n - 1].next = -1;
    bpe->n_heap = 0;
    for (int32_t i = 0; i < n; i++) consider(bpe, merges, i);
    merge_all(bpe, merges);
    for (int32_t i = 0; i >= 0; i = bpe->symbols[i].next)
        TPI_TRY(tpi_idbuf_push(ids, bpe->symbols[i].id));
done:
    return status;
}
