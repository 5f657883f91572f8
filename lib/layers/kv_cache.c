/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/kv_cache.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static tpcl_status check_dim(int dim, const char *what)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(dim >= 2 && dim <= 256 && dim % 2 == 0, TPCL_ERR_ARG,
                "kv cache: %s %d, need an even number from 2 to 256", what, dim);
done:
    return status;
}

/* Copies the description, with zeros replaced by what they stand for, but for the blocks. */
static tpcl_status complete(const tpcl_kv_cache_desc *desc, tpcl_kv_cache_desc *d)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(desc, TPCL_ERR_ARG, "kv cache: desc is NULL");
    *d = *desc;
    if (d->v_head_dim == 0) d->v_head_dim = d->head_dim;
    TPI_REQUIRE(d->layers >= 1, TPCL_ERR_ARG, "kv cache: %d layers, need 1 or more", d->layers);
    TPI_REQUIRE(d->heads, TPCL_ERR_ARG, "kv cache: heads is NULL");
    TPI_TRY(check_dim(d->head_dim, "head_dim"));
    TPI_TRY(check_dim(d->v_head_dim, "v_head_dim"));
    TPI_REQUIRE(d->block_size >= 1 && d->block_size <= 256, TPCL_ERR_ARG,
                "kv cache: blocks of %d tokens, need 1 to 256", d->block_size);
    TPI_REQUIRE(d->blocks >= 0 && d->blocks <= INT_MAX / d->block_size, TPCL_ERR_ARG,
                "kv cache: %d blocks of %d tokens, need 0 to %d", d->blocks, d->block_size,
                INT_MAX / d->block_size);
    TPI_REQUIRE(d->max_length >= 0, TPCL_ERR_ARG, "kv cache: max_length %d, need 0 or more",
                d->max_length);
    for (int l = 0; l < d->layers; l++) {
        const int64_t kv = tpcl_range_size(d->heads[l].kv);
        TPI_REQUIRE(kv >= 0 && kv <= INT_MAX, TPCL_ERR_ARG, "kv cache: %lld kv heads in layer %d",
                    (long long)kv, l);
    }
done:
    return status;
}

/* Bytes of one block in one layer: K, V or both. At most 2^31 * 256 * 512 * 4: no overflow. */
static uint64_t layer_block_bytes(const tpcl_kv_cache_desc *d, int layer, int dims)
{
    return (uint64_t)tpcl_range_size(d->heads[layer].kv) * (uint64_t)d->block_size *
           (uint64_t)dims * (d->f32 ? 4 : 2);
}

static tpcl_status block_bytes(const tpcl_kv_cache_desc *d, uint64_t *out)
{
    tpcl_status status = TPCL_OK;
    *out = 0;
    for (int l = 0; l < d->layers; l++)
        TPI_REQUIRE(tpi_add_u64(*out, layer_block_bytes(d, l, d->head_dim + d->v_head_dim), out),
                    TPCL_ERR_SHAPE,
                    "kv cache: a block of %d layers has more bytes than 64 bits count", d->layers);
done:
    return status;
}

tpcl_status tpcl_kv_cache_plan(const tpcl_kv_cache_desc *desc, tpcl_kv_cache_size *out)
{
    tpcl_status status = TPCL_OK;
    tpcl_kv_cache_desc d;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "kv cache: out is NULL");
    TPI_TRY(complete(desc, &d));
    TPI_REQUIRE(d.blocks > 0 || d.memory_bytes > 0, TPCL_ERR_ARG,
                "kv cache: 0 blocks and 0 bytes; a plan needs one of them");
    tpcl_kv_cache_size size = {0};
    TPI_TRY(block_bytes(&d, &size.block_bytes));
    int64_t blocks = d.blocks;
    if (blocks == 0) {
        const uint64_t fit = size.block_bytes ? d.memory_bytes / size.block_bytes : INT32_MAX;
        blocks = fit < INT32_MAX ? (int64_t)fit : INT32_MAX;
    }
    TPI_REQUIRE(tpi_mul_u64((uint64_t)blocks, size.block_bytes, &size.bytes), TPCL_ERR_SHAPE,
                "kv cache: %lld blocks of %llu bytes are more than 64 bits count",
                (long long)blocks, (unsigned long long)size.block_bytes);
    const int64_t shape[6] = {
        2, d.layers, blocks, d.block_size, tpcl_range_size(d.heads[0].kv), d.head_dim};
    memcpy(size.shape, shape, sizeof shape);
    size.token_bytes = size.block_bytes / (uint64_t)d.block_size;
    *out = size;
done:
    return status;
}

/* Nine tenths of what the device, and the host where that is its memory, have left for this rank.
 */
static uint64_t memory_left(const tpcl_group *g)
{
    const tpcl_device *dev = g->dev;
    const uint64_t used = tpi_device_used_bytes(dev);
    uint64_t left = dev->budget_bytes > used ? dev->budget_bytes - used : 0;
    const uint64_t host = tpi_host_available_bytes();
    const uint64_t sharers = g->sharers > 1 ? (uint64_t)g->sharers : 1;
    if (dev->info.host_unified && host < left) left = host;
    return left / sharers / 10 * 9;
}

/* How many blocks this rank can hold. */
static tpcl_status own_blocks(const tpcl_group *g, const tpcl_kv_cache_desc *d, int64_t *out)
{
    tpcl_status status = TPCL_OK;
    const uint64_t memory = d->memory_bytes ? d->memory_bytes : memory_left(g);
    uint64_t bytes = 0, most = (uint64_t)(INT_MAX / d->block_size);
    TPI_TRY(block_bytes(d, &bytes));
    if (bytes && memory / bytes < most) most = memory / bytes;
    for (int l = 0; l < d->layers; l++) { /* a layer's K is one buffer, its V another */
        const int widest = d->head_dim > d->v_head_dim ? d->head_dim : d->v_head_dim;
        const uint64_t one = layer_block_bytes(d, l, widest);
        if (one && g->dev->info.max_alloc_bytes / one < most)
            most = g->dev->info.max_alloc_bytes / one;
    }
    if (d->max_length > 0) { /* more than all sequences together can fill are of no use */
        const uint64_t each =
            ((uint64_t)d->max_length + (uint64_t)d->block_size - 1) / (uint64_t)d->block_size;
        if (each * (uint64_t)d->max_sequences < most) most = each * (uint64_t)d->max_sequences;
    }
    *out = (int64_t)most;
done:
    return status;
}

/* The number of blocks that every rank can hold, told to all; what decides it must be alike. */
static tpcl_status agree_blocks(tpcl_group *g, tpcl_status local, tpcl_kv_cache_desc *d)
{
    tpcl_status status = TPCL_OK;
    enum { BLOCKS, HEADLESS, ALIKE, END = ALIKE + 2 * 6 };
    int64_t v[END] = {0};
    if (local == TPCL_OK) local = own_blocks(g, d, &v[BLOCKS]);
    if (local == TPCL_OK) {
        uint64_t bytes = 0;
        local = block_bytes(d, &bytes);
        v[HEADLESS] = bytes == 0;
        const int alike[6] = {d->layers,     d->block_size,    d->head_dim,
                              d->v_head_dim, d->max_sequences, d->max_length};
        for (int i = 0; i < 6; i++) {
            v[ALIKE + i] = alike[i];
            v[ALIKE + 6 + i] = -(int64_t)alike[i];
        }
    }
    TPI_TRY(tpcl_comm_allreduce_min(g->comm, local, v, END));
    static const char *const names[6] = {"layers",     "block_size",    "head_dim",
                                         "v_head_dim", "max_sequences", "max_length"};
    for (int i = 0; i < 6; i++)
        TPI_REQUIRE(v[ALIKE + i] == -v[ALIKE + 6 + i], TPCL_ERR_MISMATCH,
                    "kv cache: %s is %lld on one rank, %lld on another", names[i],
                    (long long)v[ALIKE + i], (long long)-v[ALIKE + 6 + i]);
    TPI_REQUIRE(!v[HEADLESS], TPCL_ERR_ARG,
                "kv cache: no rank has kv heads in any of %d layers; give the number of blocks",
                d->layers);
    TPI_REQUIRE(v[BLOCKS] >= 1, TPCL_ERR_SHAPE,
                "kv cache: no room for one block of %d tokens on the rank with the least memory; "
                "give it more, use smaller blocks or more ranks",
                d->block_size);
    d->blocks = (int)v[BLOCKS];
done:
    return status;
}

static tpcl_status create_layers(tpcl_kv_cache *c)
{
    tpcl_status status = TPCL_OK;
    for (int i = 0; i < c->desc.layers; i++) {
        cl_mem *both[2] = {&c->layers[i].k, &c->layers[i].v};
        for (int m = 0; m < 2; m++) {
            /* fill_zero counts in 4 bytes; a head_dim is even, so f16 rows fill them */
            const size_t bytes = (size_t)c->desc.blocks * tpi_block_bytes(c, i, m == 1);
            TPI_TRY(tpi_buffer_create(c->group->dev, bytes, "KV cache of a layer", both[m]));
            TPI_TRY(tpi_fill_zero(c->group->dev, *both[m], bytes / 4));
            c->bytes += bytes;
        }
    }
    TPI_TRY(TPI_CL(clFinish(c->group->dev->queue)));
done:
    return status;
}

static tpcl_status create_tables(tpcl_kv_cache *c)
{
    tpcl_status status = TPCL_OK;
    const tpcl_kv_cache_desc *d = &c->desc;
    c->free_blocks = malloc((size_t)d->blocks * sizeof *c->free_blocks);
    c->holders = calloc((size_t)d->blocks, sizeof *c->holders);
    c->sequences = calloc((size_t)d->max_sequences, sizeof *c->sequences);
    TPI_REQUIRE(c->free_blocks && c->holders && c->sequences, TPCL_ERR_NOMEM,
                "kv cache of %d blocks", d->blocks);
    for (int s = 0; s < d->max_sequences; s++) {
        c->sequences[s].blocks = calloc((size_t)c->table_width, sizeof(int32_t));
        TPI_REQUIRE(c->sequences[s].blocks, TPCL_ERR_NOMEM, "block table of %d", c->table_width);
    }
    for (int b = d->blocks - 1; b >= 0; b--) c->free_blocks[c->n_free++] = b;
done:
    return status;
}

/* `d` is complete. */
static tpcl_status create(tpcl_group *group, const tpcl_kv_cache_desc *d, tpcl_kv_cache **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_kv_cache_size size; /* asked for its check that bytes can be counted */
    tpcl_kv_cache *c = calloc(1, sizeof *c);
    TPI_REQUIRE(c, TPCL_ERR_NOMEM, "kv cache object");
    TPI_TRY(tpcl_kv_cache_plan(d, &size));
    c->group = group;
    c->desc = *d;
    c->desc.heads = NULL;
    const int all = d->blocks * d->block_size;
    if (d->max_length == 0 || d->max_length > all) c->desc.max_length = all;
    c->table_width = (c->desc.max_length + d->block_size - 1) / d->block_size;
    c->heads = calloc((size_t)d->layers, sizeof *c->heads);
    c->layers = calloc((size_t)d->layers, sizeof *c->layers);
    TPI_REQUIRE(c->heads && c->layers, TPCL_ERR_NOMEM, "kv cache of %d layers", d->layers);
    memcpy(c->heads, d->heads, (size_t)d->layers * sizeof *c->heads);
    TPI_TRY(create_tables(c));
    TPI_TRY(create_layers(c));
    *out = c;
    c = NULL;
done:
    tpcl_kv_cache_destroy(&c);
    return status;
}

tpcl_status tpcl_kv_cache_create(tpcl_group *group, const tpcl_kv_cache_desc *desc,
                                 tpcl_kv_cache **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_kv_cache_desc d;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "kv cache: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "kv cache: group is NULL");
    const bool sized = desc && desc->blocks == 0;
    status = complete(desc, &d);
    if (status == TPCL_OK && d.max_sequences < 1)
        status =
            tpi_fail(TPCL_ERR_ARG, "kv cache: max_sequences %d, need 1 or more", d.max_sequences);
    if (sized)
        TPI_TRY(agree_blocks(group, status, &d));
    else
        TPI_TRY(status);
    TPI_TRY(create(group, &d, out));
done:
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
    free(c->holders);
    free(c);
}

void tpcl_kv_cache_shape(const tpcl_kv_cache *c, int64_t shape[6])
{
    if (!shape) return;
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

uint64_t tpcl_kv_cache_token_bytes(const tpcl_kv_cache *c)
{
    return c ? c->bytes / (uint64_t)c->desc.blocks / (uint64_t)c->desc.block_size : 0;
}

int tpcl_kv_cache_blocks(const tpcl_kv_cache *cache)
{
    return cache ? cache->desc.blocks : 0;
}

int tpcl_kv_cache_free_blocks(const tpcl_kv_cache *cache)
{
    return cache ? cache->n_free : 0;
}

static const tpi_sequence *find(const tpcl_kv_cache *c, int sequence)
{
    return c && sequence >= 0 && sequence < c->desc.max_sequences ? &c->sequences[sequence] : NULL;
}

int tpcl_kv_cache_length(const tpcl_kv_cache *cache, int sequence)
{
    const tpi_sequence *s = find(cache, sequence);
    return s ? s->length : 0;
}

int tpcl_kv_cache_blocks_used(const tpcl_kv_cache *cache, int sequence)
{
    const tpi_sequence *s = find(cache, sequence);
    return s ? s->n_blocks : 0;
}

int tpcl_kv_cache_block(const tpcl_kv_cache *cache, int sequence, int i)
{
    const tpi_sequence *s = find(cache, sequence);
    return s && i >= 0 && i < s->n_blocks ? s->blocks[i] : -1;
}
