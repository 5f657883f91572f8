/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <tpcl/attention.h>

#include "layers/kv_cache.h"
#include "ops/checks.h"

struct tpcl_attention {
    tpcl_group *group;
    tpi_heads heads;
    const tpcl_tensor *rope_table;
    tpcl_tensor *q_norm, *k_norm;
    float eps;
    /* [tiles, 4]: heads one by one, and in runs that share a kv head for single rows */
    tpcl_tensor *single, *shared;
    int n_single, n_shared;
};

/* Tiles of up to `most` q heads that read the same kv head. */
static int fill_tiles(const tpcl_attention_desc *d, int most, int32_t *tiles)
{
    const int per_kv = d->heads / d->kv_heads;
    int n = 0;
    for (int64_t h = d->mine.q.begin; h < d->mine.q.end;) {
        const int64_t kv = h / per_kv;
        int count = 1;
        while (count < most && h + count < d->mine.q.end && (h + count) / per_kv == kv) count++;
        tiles[4 * n] = (int32_t)(h - d->mine.q.begin);
        tiles[4 * n + 1] = count;
        tiles[4 * n + 2] = (int32_t)(kv - d->mine.kv.begin);
        tiles[4 * n + 3] = 0;
        n++;
        h += count;
    }
    return n;
}

static tpcl_status create_tiles(tpcl_attention *l, const tpcl_attention_desc *d, int most,
                                tpcl_tensor **out, int *n)
{
    tpcl_status status = TPCL_OK;
    const int64_t shape[2] = {l->heads.heads, 4};
    int32_t *tiles = malloc((size_t)l->heads.heads * 4 * sizeof *tiles + 1);
    TPI_REQUIRE(tiles, TPCL_ERR_NOMEM, "tiles of %d heads", l->heads.heads);
    *n = fill_tiles(d, most, tiles);
    TPI_TRY(tpcl_tensor_create(l->group->dev, TPCL_I32, 2, shape, out));
    TPI_TRY(tpcl_tensor_write(*out, tiles, (size_t)*n * 4));
done:
    free(tiles);
    return status;
}

static tpcl_status check_desc(const tpcl_attention_desc *d)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(d->head_dim >= 2 && d->head_dim <= 256 && d->head_dim % 2 == 0, TPCL_ERR_ARG,
                "attention: head_dim %d, need an even number up to 256", d->head_dim);
    TPI_REQUIRE(d->kv_heads >= 1 && d->heads % d->kv_heads == 0, TPCL_ERR_ARG,
                "attention: %d heads over %d kv heads", d->heads, d->kv_heads);
    const int per_kv = d->heads / d->kv_heads;
    const tpcl_range q = d->mine.q, kv = d->mine.kv;
    TPI_REQUIRE(q.begin == q.end || (kv.begin <= q.begin / per_kv && (q.end - 1) / per_kv < kv.end),
                TPCL_ERR_ARG, "attention: q heads %lld..%lld need other kv heads than %lld..%lld",
                (long long)q.begin, (long long)q.end, (long long)kv.begin, (long long)kv.end);
    TPI_REQUIRE(d->rope_table, TPCL_ERR_ARG, "attention: no rope table");
    TPI_REQUIRE(!d->q_norm == !d->k_norm, TPCL_ERR_ARG, "attention: one of q_norm and k_norm");
done:
    return status;
}

tpcl_status tpcl_attention_create(tpcl_group *group, const tpcl_attention_desc *d,
                                  tpcl_attention **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_attention *l = NULL;

    TPI_REQUIRE(group && d && out, TPCL_ERR_ARG, "attention: a pointer is NULL");
    *out = NULL;
    TPI_TRY(check_desc(d));
    l = calloc(1, sizeof *l);
    TPI_REQUIRE(l, TPCL_ERR_NOMEM, "attention object");
    l->group = group;
    l->heads = (tpi_heads){.heads = (int)tpcl_range_size(d->mine.q),
                           .kv_heads = (int)tpcl_range_size(d->mine.kv),
                           .head_dim = d->head_dim,
                           .interleaved = d->interleaved};
    l->rope_table = d->rope_table;
    l->eps = d->norm_eps;
    if (d->q_norm) {
        TPI_TRY(tpi_vector_create(group, d->q_norm, 0, d->head_dim, &l->q_norm));
        TPI_TRY(tpi_vector_create(group, d->k_norm, 0, d->head_dim, &l->k_norm));
    }
    TPI_TRY(create_tiles(l, d, 1, &l->single, &l->n_single));
    TPI_TRY(create_tiles(l, d, TPI_ATTENTION_PAIRS, &l->shared, &l->n_shared));
    *out = l;
    l = NULL;
done:
    tpcl_attention_destroy(&l);
    return status;
}

void tpcl_attention_destroy(tpcl_attention **layer)
{
    if (!layer || !*layer) return;
    tpcl_tensor_destroy(&(*layer)->q_norm);
    tpcl_tensor_destroy(&(*layer)->k_norm);
    tpcl_tensor_destroy(&(*layer)->single);
    tpcl_tensor_destroy(&(*layer)->shared);
    free(*layer);
    *layer = NULL;
}

static tpcl_status check_tensors(const tpcl_attention *l, const tpcl_tensor *qkv,
                                 const tpcl_tensor *out, int tokens)
{
    const int d = l->heads.head_dim;
    const tpi_operand operands[] = {
        {"attention qkv", qkv, tokens, (l->heads.heads + 2 * (int64_t)l->heads.kv_heads) * d,
         TPI_WRITTEN},
        {"attention out", out, tokens, (int64_t)l->heads.heads * d, TPI_WRITTEN},
        {"attention rope table", l->rope_table, 1, (int64_t)(l->rope_table->bytes / 4), TPI_READ}};
    return tpi_need_all(operands, 3);
}

tpcl_status tpcl_attention_forward(tpcl_attention *l, int layer_index, tpcl_tensor *qkv,
                                   const tpcl_batch *b, tpcl_kv_cache *cache, tpcl_tensor *out)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(tpi_batch_check(b, cache, "attention"));
    TPI_REQUIRE(layer_index >= 0 && layer_index < cache->desc.layers, TPCL_ERR_ARG,
                "attention: layer %d of a cache of %d", layer_index, cache->desc.layers);
    TPI_REQUIRE(tpcl_range_size(cache->heads[layer_index].kv) == l->heads.kv_heads, TPCL_ERR_SHAPE,
                "attention: %d kv heads, the cache has %lld in layer %d", l->heads.kv_heads,
                (long long)tpcl_range_size(cache->heads[layer_index].kv), layer_index);
    TPI_REQUIRE(cache->desc.head_dim == l->heads.head_dim &&
                    cache->desc.v_head_dim == l->heads.head_dim,
                TPCL_ERR_SHAPE, "attention: head_dim %d, the cache has %d for K and %d for V",
                l->heads.head_dim, cache->desc.head_dim, cache->desc.v_head_dim);
    TPI_TRY(check_tensors(l, qkv, out, b->n));
    tpi_heads heads = l->heads;
    heads.block_size = cache->desc.block_size;
    heads.kv_f32 = cache->desc.f32;
    const tpi_rope_args rope = {.heads = heads,
                                .qkv = qkv,
                                .angles = l->rope_table,
                                .pos = b->pos,
                                .slot = b->slot,
                                .q_norm = l->q_norm,
                                .k_norm = l->k_norm,
                                .cache = &cache->layers[layer_index],
                                .tokens = b->n,
                                .eps = l->eps};
    TPI_TRY(tpi_rope_store(&rope));
    /* On a CPU, heads share K and V rows where that leaves enough work-items for every core. */
    const bool share = b->single_rows && l->group->dev->info.type == TPCL_DEVICE_CPU &&
                       b->n_tiles * l->n_shared >= 2 * l->group->dev->info.compute_units;
    const bool one = b->single_rows && (!share || l->n_shared == l->n_single);
    const tpi_attention_args args = {.heads = heads,
                                     .qkv = qkv,
                                     .out = out,
                                     .pos = b->pos,
                                     .seq = b->seq,
                                     .table = b->dev_table,
                                     .row_tiles = b->row_tiles,
                                     .head_tiles = share ? l->shared : l->single,
                                     .cache = &cache->layers[layer_index],
                                     .tokens = b->n,
                                     .n_row_tiles = b->n_tiles,
                                     .n_head_tiles = share ? l->n_shared : l->n_single,
                                     .table_width = cache->table_width,
                                     .pairs = one ? 1 : TPI_ATTENTION_PAIRS};
    TPI_TRY(tpi_attention(&args));
    if (layer_index == cache->desc.layers - 1) tpi_batch_stored(b);
done:
    return status;
}
