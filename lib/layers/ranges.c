/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/ranges.h"

#include <string.h>

/* One more range behind those that end at `at`. */
static tpcl_status follow(const char *what, int rank, tpcl_range r, int64_t total, int64_t *at)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(r.begin == *at && r.begin <= r.end && r.end <= total, TPCL_ERR_ARG,
                "%s: range %lld..%lld of rank %d: ranges must follow one another, this one from "
                "%lld, up to %lld",
                what, (long long)r.begin, (long long)r.end, rank, (long long)*at, (long long)total);
    *at = r.end;
done:
    return status;
}

static tpcl_status covers(const char *what, int64_t end, int64_t total)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(end == total, TPCL_ERR_ARG, "%s: the ranges of the ranks end at %lld of %lld", what,
                (long long)end, (long long)total);
done:
    return status;
}

tpcl_status tpi_ranges_take(const tpcl_group *g, const char *what, const tpcl_range *given,
                            int64_t total, int granule, tpcl_range *out)
{
    tpcl_status status = TPCL_OK;
    int64_t at = 0;
    if (!given) return tpcl_shard_split(total, granule, g->size, g->weights, 0, out);
    for (int r = 0; r < g->size; r++) TPI_TRY(follow(what, r, given[r], total, &at));
    TPI_TRY(covers(what, at, total));
    memcpy(out, given, (size_t)g->size * sizeof *out);
done:
    return status;
}

tpcl_status tpi_head_ranges_take(const tpcl_group *g, const tpcl_head_range *given, int heads,
                                 int kv_heads, tpcl_head_range *out)
{
    tpcl_status status = TPCL_OK;
    const int group = heads / kv_heads;
    int64_t at = 0;
    if (!given) return tpcl_shard_heads(heads, kv_heads, 1, g->size, g->weights, 0, out);
    for (int r = 0; r < g->size; r++) {
        const tpcl_range q = given[r].q, kv = given[r].kv;
        TPI_TRY(follow("qkv q heads", r, q, heads, &at));
        TPI_REQUIRE(0 <= kv.begin && kv.begin <= kv.end && kv.end <= kv_heads, TPCL_ERR_ARG,
                    "qkv: kv heads %lld..%lld of rank %d: there are %d", (long long)kv.begin,
                    (long long)kv.end, r, kv_heads);
        TPI_REQUIRE(q.begin == q.end ||
                        (kv.begin <= q.begin / group && (q.end - 1) / group < kv.end),
                    TPCL_ERR_ARG,
                    "qkv: q heads %lld..%lld of rank %d read kv heads %lld..%lld, it has "
                    "%lld..%lld",
                    (long long)q.begin, (long long)q.end, r, (long long)q.begin / group,
                    (long long)(q.end - 1) / group + 1, (long long)kv.begin, (long long)kv.end);
    }
    TPI_TRY(covers("qkv q heads", at, heads));
    memcpy(out, given, (size_t)g->size * sizeof *out);
done:
    return status;
}
