/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "layers/kv_cache.h"

static tpcl_status check_desc(const tpcl_kv_cache_desc *d)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(d->layers >= 1 && d->heads, TPCL_ERR_ARG, "kv cache: %d layers", d->layers);
    TPI_REQUIRE(d->head_dim >= 2 && d->head_dim <= 256 && d->head_dim % 2 == 0, TPCL_ERR_ARG,
                "kv cache: head_dim %d, need an even number up to 256", d->head_dim);
    TPI_REQUIRE(d->v_head_dim == 0 ||
                    (d->v_head_dim >= 2 && d->v_head_dim <= 256 && d->v_head_dim % 2 == 0),
                TPCL_ERR_ARG, "kv cache: v_head_dim %d, need an even number up to 256",
                d->v_head_dim);
    TPI_REQUIRE(d->block_size >= 1 && d->block_size <= 256, TPCL_ERR_ARG,
                "kv cache: blocks of %d tokens, need 1 to 256", d->block_size);
    TPI_REQUIRE(d->blocks >= 1 && d->max_sequences >= 1, TPCL_ERR_ARG,
                "kv cache: %d blocks for %d sequences", d->blocks, d->max_sequences);
done:
    return status;
}

static tpcl_status create_layers(tpcl_kv_cache *c)
{
    tpcl_status status = TPCL_OK;
    const tpcl_kv_cache_desc *d = &c->desc;
    for (int i = 0; i < d->layers; i++) {
        const uint64_t kv = (uint64_t)tpcl_range_size(c->heads[i].kv);
        const uint64_t rows = (uint64_t)d->blocks * (uint64_t)d->block_size * kv;
        const int dims[2] = {d->head_dim, d->v_head_dim};
        cl_mem *both[2] = {&c->layers[i].k, &c->layers[i].v};
        for (int m = 0; m < 2; m++) {
            /* fill_zero counts in 4 bytes; a head_dim is even, so f16 rows fill them */
            const size_t bytes = (size_t)(rows * (uint64_t)dims[m] * (d->f32 ? 4 : 2));
            TPI_TRY(tpi_buffer_create(c->group->dev, bytes, "KV cache of a layer", both[m]));
            TPI_TRY(tpi_fill_zero(c->group->dev, *both[m], bytes / 4));
            c->bytes += bytes;
        }
    }
    TPI_TRY(TPI_CL(clFinish(c->group->dev->queue)));
done:
    return status;
}

tpcl_status tpcl_kv_cache_create(tpcl_group *group, const tpcl_kv_cache_desc *desc,
                                 tpcl_kv_cache **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_kv_cache *c = NULL;

    TPI_REQUIRE(group && desc && out, TPCL_ERR_ARG, "kv cache: a pointer is NULL");
    *out = NULL;
    TPI_TRY(check_desc(desc));
    c = calloc(1, sizeof *c);
    TPI_REQUIRE(c, TPCL_ERR_NOMEM, "kv cache object");
    c->group = group;
    c->desc = *desc;
    c->desc.heads = NULL;
    if (c->desc.v_head_dim == 0) c->desc.v_head_dim = desc->head_dim;
    c->table_width = desc->blocks;
    c->heads = calloc((size_t)desc->layers, sizeof *c->heads);
    c->layers = calloc((size_t)desc->layers, sizeof *c->layers);
    c->free_blocks = malloc((size_t)desc->blocks * sizeof *c->free_blocks);
    c->sequences = calloc((size_t)desc->max_sequences, sizeof *c->sequences);
    TPI_REQUIRE(c->heads && c->layers && c->free_blocks && c->sequences, TPCL_ERR_NOMEM,
                "kv cache of %d blocks", desc->blocks);
    for (int s = 0; s < desc->max_sequences; s++) {
        c->sequences[s].blocks = calloc((size_t)c->table_width, sizeof(int32_t));
        TPI_REQUIRE(c->sequences[s].blocks, TPCL_ERR_NOMEM, "block table of %d", c->table_width);
    }
    memcpy(c->heads, desc->heads, (size_t)desc->layers * sizeof *c->heads);
    for (int b = desc->blocks - 1; b >= 0; b--) c->free_blocks[c->n_free++] = b;
    TPI_TRY(create_layers(c));
    *out = c;
    c = NULL;
done:
    tpcl_kv_cache_destroy(&c);
    return status;
}

void tpcl_kv_cache_destroy(tpcl_kv_cache **cache)
{
    if (!cache || !*cache) return;
    tpcl_kv_cache *c = *cache;
    *cache = NULL;
    for (int i = 0; c->layers && i < c->desc.layers; i++) {
        tpi_buffer_release(&c->layers[i].k);
        tpi_buffer_release(&c->layers[i].v);
    }
    for (int s = 0; c->sequences && s < c->desc.max_sequences; s++) free(c->sequences[s].blocks);
    free(c->sequences);
    free(c->heads);
    free(c->layers);
    free(c->free_blocks);
    free(c);
}

void tpcl_kv_cache_shape(const tpcl_kv_cache *c, int64_t shape[6])
{
    memset(shape, 0, 6 * sizeof *shape);
    if (!c) return;
    shape[0] = 2;
    shape[1] = c->desc.layers;
    shape[2] = c->desc.blocks;
    shape[3] = c->desc.block_size;
    shape[4] = tpcl_range_size(c->heads[0].kv);
    shape[5] = c->desc.head_dim;
}

uint64_t tpcl_kv_cache_bytes(const tpcl_kv_cache *cache)
{
    return cache ? cache->bytes : 0;
}

static bool has_sequence(const tpcl_kv_cache *c, int sequence)
{
    return c && sequence >= 0 && sequence < c->desc.max_sequences;
}

int tpcl_kv_cache_length(const tpcl_kv_cache *cache, int sequence)
{
    return has_sequence(cache, sequence) ? cache->sequences[sequence].length : 0;
}

int tpcl_kv_cache_blocks_used(const tpcl_kv_cache *cache, int sequence)
{
    return has_sequence(cache, sequence) ? cache->sequences[sequence].n_blocks : 0;
}

void tpcl_kv_cache_free(tpcl_kv_cache *c, int sequence)
{
    if (!has_sequence(c, sequence)) return;
    tpi_sequence *s = &c->sequences[sequence];
    while (s->n_blocks > 0) c->free_blocks[c->n_free++] = s->blocks[--s->n_blocks];
    s->length = 0;
}

tpcl_status tpi_kv_cache_extend(tpcl_kv_cache *c, int sequence, int n)
{
    tpcl_status status = TPCL_OK;
    tpi_sequence *s = &c->sequences[sequence];
    const int size = c->desc.block_size;
    const int need = (s->length + n + size - 1) / size - s->n_blocks;
    TPI_REQUIRE(need <= c->n_free, TPCL_ERR_SHAPE,
                "KV cache full: sequence %d of %d tokens needs %d more, %d blocks of %d are free",
                sequence, s->length, n, c->n_free, size);
    for (int b = 0; b < need; b++) s->blocks[s->n_blocks++] = c->free_blocks[--c->n_free];
    s->length += n;
done:
    return status;
}
