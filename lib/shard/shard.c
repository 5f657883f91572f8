/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdbool.h>
#include <tpcl/shard.h>

#include "base/error.h"

/* Weights become integers of at most WEIGHT_BITS bits, scaled by a power of two. Small whole
 * numbers stay exact, so ties are real ties, and every rank computes the same split whatever its
 * floating-point unit does. 1024 ranks x 2^26 x 2^26 fits 64 bits (see quota). */
enum { WEIGHT_BITS = 26 };

/* Exponent that lifts the greatest weight to WEIGHT_BITS bits. */
static tpcl_status check_weights(const double *weights, int size, int *shift)
{
    tpcl_status status = TPCL_OK;
    double greatest = 0.0;
    int exponent = 0;
    *shift = 0;
    if (!weights) goto done;
    for (int r = 0; r < size; r++) {
        TPI_REQUIRE(isfinite(weights[r]) && weights[r] >= 0.0, TPCL_ERR_ARG,
                    "shard weight %g of rank %d: must be a finite number >= 0", weights[r], r);
        if (weights[r] > greatest) greatest = weights[r];
    }
    TPI_REQUIRE(greatest > 0.0, TPCL_ERR_ARG, "shard weights of %d ranks: all of them are 0", size);
    frexp(greatest, &exponent);
    *shift = WEIGHT_BITS - exponent;
done:
    return status;
}

static int64_t integer_weight(const double *weights, int rank, int shift)
{
    return weights ? (int64_t)(ldexp(weights[rank], shift) + 0.5) : 1;
}

/* n * weight / sum, whole part and remainder, without overflow: (n % sum) * weight < 2^62. */
static int64_t quota(int64_t n, int64_t weight, int64_t sum, int64_t *remainder)
{
    const int64_t rest = n % sum * weight;
    *remainder = rest % sum;
    return n / sum * weight + rest / sum;
}

/* Whole granules of each rank in out[r].end; out[r].begin is scratch for the remainders. */
static void count_granules(int64_t n, int size, const double *weights, int shift, int rotate,
                           tpcl_range *out)
{
    int64_t sum = 0, left = n;
    for (int r = 0; r < size; r++) sum += integer_weight(weights, r, shift);
    for (int r = 0; r < size; r++) {
        out[r].end = quota(n, integer_weight(weights, r, shift), sum, &out[r].begin);
        left -= out[r].end;
    }
    for (; left > 0; left--) {
        int best = rotate % size;
        for (int i = 1; i < size; i++) {
            const int r = (rotate % size + i) % size;
            if (out[r].begin > out[best].begin) best = r;
        }
        out[best].end++;
        out[best].begin = -1; /* at most one extra each */
    }
}

tpcl_status tpcl_shard_split(int64_t total, int64_t granule, int size, const double *weights,
                             int rotate, tpcl_range *out)
{
    tpcl_status status = TPCL_OK;
    int shift = 0;
    int64_t n, done_granules = 0, begin = 0;
    TPI_REQUIRE(out && total >= 0 && granule >= 1 && rotate >= 0, TPCL_ERR_ARG,
                "shard of %lld elements, granule %lld, rotation %d: the first and last must be "
                ">= 0, the granule >= 1",
                (long long)total, (long long)granule, rotate);
    TPI_REQUIRE(size >= 1 && size <= TPCL_MAX_RANKS, TPCL_ERR_ARG,
                "shard over %d ranks: must be 1 to %d", size, TPCL_MAX_RANKS);
    TPI_TRY(check_weights(weights, size, &shift));

    n = total / granule + (total % granule != 0);
    count_granules(n, size, weights, shift, rotate, out);
    for (int r = 0; r < size; r++) {
        done_granules += out[r].end;
        out[r].begin = begin;
        /* Only the last granule may be short, and only its end may pass 2^63. */
        out[r].end = done_granules == n ? total : done_granules * granule;
        begin = out[r].end;
    }
done:
    return status;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Is the most loaded rank of `a`, in heads for its weight, loaded less than that of `b`? */
static bool balances_better(const tpcl_range *a, const tpcl_range *b, int size,
                            const double *weights, int shift)
{
    int64_t heads_a = 0, weight_a = 1, heads_b = 0, weight_b = 1;
    for (int r = 0; r < size; r++) {
        const int64_t w = integer_weight(weights, r, shift);
        if (tpcl_range_size(a[r]) * weight_a > heads_a * w) {
            heads_a = tpcl_range_size(a[r]);
            weight_a = w;
        }
        if (tpcl_range_size(b[r]) * weight_b > heads_b * w) {
            heads_b = tpcl_range_size(b[r]);
            weight_b = w;
        }
    }
    return heads_a * weight_b < heads_b * weight_a;
}

tpcl_status tpcl_shard_heads(int heads, int kv_heads, int q_granule, int size,
                             const double *weights, int rotate, tpcl_head_range *out)
{
    tpcl_status status = TPCL_OK;
    tpcl_range whole[TPCL_MAX_RANKS], split[TPCL_MAX_RANKS];
    int shift = 0;
    int64_t group, granule;
    TPI_REQUIRE(out && kv_heads >= 1 && heads >= kv_heads && heads % kv_heads == 0, TPCL_ERR_ARG,
                "%d attention heads, %d kv heads: the first must be a multiple of the second",
                heads, kv_heads);
    TPI_REQUIRE(q_granule >= 1, TPCL_ERR_ARG, "head granule %d: must be >= 1", q_granule);
    group = heads / kv_heads;
    granule = group / greatest_common_divisor(group, q_granule) * q_granule;
    TPI_TRY(tpcl_shard_split(heads, granule, size, weights, rotate, whole));
    TPI_TRY(tpcl_shard_split(heads, q_granule, size, weights, rotate, split));
    TPI_TRY(check_weights(weights, size, &shift));

    const bool divide = balances_better(split, whole, size, weights, shift);
    for (int r = 0; r < size; r++) {
        const tpcl_range q = divide ? split[r] : whole[r];
        const int64_t first = q.begin / group;
        out[r].q = q;
        out[r].kv = (tpcl_range){first, q.end > q.begin ? (q.end - 1) / group + 1 : first};
    }
done:
    return status;
}
