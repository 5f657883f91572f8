/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/config.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"

enum {
    MAX_LAYERS = 4096,
    MAX_WIDTH =
        1 << 24, /* hidden, inter, heads * head_dim: products stay in 64 bits, counts in int */
    MAX_VOCAB = 1 << 26,
    MAX_HEAD_DIM = 256
};

static tpcl_status check_range(const char *where, const char *name, int value, int max)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(value >= 1, TPCL_ERR_FORMAT, "%s: %s is %d, need 1 or more", where, name, value);
    TPI_REQUIRE(value <= max, TPCL_ERR_UNSUPPORTED, "%s: %s is %d, tpcl takes at most %d", where,
                name, value, max);
done:
    return status;
}

static tpcl_status check_heads(const tpcl_model_config *c, const char *where)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(check_range(where, "the number of heads", c->heads, MAX_WIDTH));
    TPI_TRY(check_range(where, "the number of kv heads", c->kv_heads, MAX_WIDTH));
    TPI_REQUIRE(c->heads % c->kv_heads == 0, TPCL_ERR_FORMAT,
                "%s: %d heads are not a multiple of %d kv heads", where, c->heads, c->kv_heads);
    TPI_TRY(check_range(where, "head_dim", c->head_dim, MAX_HEAD_DIM));
    TPI_REQUIRE(c->head_dim % 2 == 0, TPCL_ERR_FORMAT,
                "%s: head_dim %d is odd: it cannot be rotated", where, c->head_dim);
    TPI_REQUIRE((int64_t)c->heads * c->head_dim <= MAX_WIDTH, TPCL_ERR_UNSUPPORTED,
                "%s: %d heads of %d: wider than %d", where, c->heads, c->head_dim, MAX_WIDTH);
done:
    return status;
}

static tpcl_status check_rope(const tpcl_model_config *c, const char *where)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(isfinite(c->rope_theta) && c->rope_theta > 0.0, TPCL_ERR_FORMAT,
                "%s: rope theta is %g, need a finite number above 0", where, c->rope_theta);
    const double factor = c->rope_scaling.factor;
    if (factor == 0.0) goto done;
    TPI_REQUIRE(isfinite(factor) && factor > 0.0, TPCL_ERR_FORMAT,
                "%s: rope scaling factor is %g, need a finite number above 0", where, factor);
    if (c->rope_scaling.linear) goto done;
    const double low = c->rope_scaling.low_freq_factor, high = c->rope_scaling.high_freq_factor;
    TPI_REQUIRE(isfinite(low) && isfinite(high) && low > 0.0 && high > low, TPCL_ERR_FORMAT,
                "%s: rope scaling: low_freq_factor %g, high_freq_factor %g, need 0 < low < high",
                where, low, high);
    TPI_REQUIRE(c->rope_scaling.original_context >= 1, TPCL_ERR_FORMAT,
                "%s: rope scaling: original_max_position_embeddings is %d, need 1 or more", where,
                c->rope_scaling.original_context);
done:
    return status;
}

tpcl_status tpi_config_check(const tpcl_model_config *c, const char *where)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(check_range(where, "the vocabulary size", c->vocab, MAX_VOCAB));
    TPI_TRY(check_range(where, "the hidden size", c->hidden, MAX_WIDTH));
    TPI_TRY(check_range(where, "the number of layers", c->layers, MAX_LAYERS));
    TPI_TRY(check_range(where, "the feed-forward size", c->inter, MAX_WIDTH));
    TPI_TRY(check_range(where, "the context length", c->max_context, INT32_MAX));
    TPI_TRY(check_heads(c, where));
    TPI_REQUIRE(isfinite(c->norm_eps) && c->norm_eps > 0.0f, TPCL_ERR_FORMAT,
                "%s: the norm's epsilon is %g, need a finite number above 0", where,
                (double)c->norm_eps);
    TPI_TRY(check_rope(c, where));
done:
    return status;
}

tpcl_status tpi_config_check_id(const tpcl_model_config *c, int64_t id, const char *where,
                                const char *key)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(id >= 0 && id < c->vocab, TPCL_ERR_FORMAT,
                "%s: '%s' is %" PRId64 ", outside the vocabulary of %d", where, key, id, c->vocab);
done:
    return status;
}

tpcl_status tpi_config_add_stop(tpcl_model_config *c, int64_t id, const char *where,
                                const char *key)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(tpi_config_check_id(c, id, where, key));
    for (int i = 0; i < c->n_stop_ids; i++)
        if (c->stop_ids[i] == id) goto done;
    TPI_REQUIRE(c->n_stop_ids < TPCL_MAX_STOP_IDS, TPCL_ERR_UNSUPPORTED,
                "%s: '%s': more than %d stop ids", where, key, TPCL_MAX_STOP_IDS);
    c->stop_ids[c->n_stop_ids++] = (int32_t)id;
done:
    return status;
}
