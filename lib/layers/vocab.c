/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "layers/ranges.h"

static tpcl_status check_table(const tpcl_host_tensor *t, const char *what)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(t && t->name, TPCL_ERR_ARG, "vocabulary: %s or its name is NULL", what);
    TPI_REQUIRE(t->ndim == 2, TPCL_ERR_SHAPE, "%s: %d dimensions, need [vocab, dim]", t->name,
                t->ndim);
    TPI_REQUIRE(t->shape[0] >= 0 && t->shape[0] <= INT32_MAX && t->shape[1] >= 0 &&
                    t->shape[1] <= INT32_MAX,
                TPCL_ERR_SHAPE, "%s: shape [%lld, %lld], each must be 0 to %d", t->name,
                (long long)t->shape[0], (long long)t->shape[1], INT32_MAX);
done:
    return status;
}

static tpcl_status check(const tpi_vocab_shard_source *s)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(check_table(s->weight, "weight"));
    if (s->added) {
        TPI_TRY(check_table(s->added, "added"));
        TPI_REQUIRE(s->added->shape[1] == s->weight->shape[1], TPCL_ERR_SHAPE,
                    "%s: %lld columns beside %lld of %s", s->added->name,
                    (long long)s->added->shape[1], (long long)s->weight->shape[1], s->weight->name);
        TPI_REQUIRE(s->added->shape[0] <= INT32_MAX - s->weight->shape[0], TPCL_ERR_SHAPE,
                    "%s: %lld words and %lld added ones are more than ids can count",
                    s->weight->name, (long long)s->weight->shape[0], (long long)s->added->shape[0]);
    }
    TPI_REQUIRE(s->added || !s->added_rows, TPCL_ERR_ARG,
                "%s: added_rows without added: give both or neither", s->weight->name);
done:
    return status;
}

tpcl_status tpi_vocab_shard_create(const tpcl_group *g, const tpi_vocab_shard_source *s,
                                   tpi_vocab_shard *out)
{
    tpcl_status status = TPCL_OK;
    const size_t size = (size_t)g->size;
    tpi_vocab_shard v;
    memset(&v, 0, sizeof v);
    TPI_TRY(check(s));
    v.base = (int)s->weight->shape[0];
    v.dim = (int)s->weight->shape[1];
    const int n_added = s->added ? (int)s->added->shape[0] : 0;
    v.vocab = v.base + n_added;
    v.words = calloc(size, sizeof *v.words);
    v.added = calloc(size, sizeof *v.added);
    TPI_REQUIRE(v.words && v.added, TPCL_ERR_NOMEM, "ranges of %d ranks", g->size);
    TPI_TRY(tpi_ranges_take(g, s->weight->name, s->rows, v.base, 1, v.words));
    TPI_TRY(tpi_ranges_take(g, s->added ? s->added->name : "", s->added_rows, n_added, 1, v.added));
    const tpcl_range base = v.words[g->rank], added = v.added[g->rank];
    const tpi_part parts[2] = {{s->weight, base.begin, base.end, 0, v.dim},
                               {s->added, added.begin, added.end, 0, v.dim}};
    TPI_TRY(tpi_weight_create(g->dev, parts, s->added ? 2 : 1, &v.weight));
    for (size_t r = 0; r < size; r++) {
        v.added[r].begin += v.base;
        v.added[r].end += v.base;
    }
    *out = v;
    memset(&v, 0, sizeof v);
done:
    tpi_vocab_shard_free(&v);
    return status;
}

void tpi_vocab_shard_free(tpi_vocab_shard *v)
{
    tpi_weight_destroy(&v->weight);
    free(v->words);
    free(v->added);
    memset(v, 0, sizeof *v);
}
