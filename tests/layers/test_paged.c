/* Attention over the paged cache against rows that lie one behind the other: whatever was forked,
 * truncated, assigned and freed before, and with NaN in every slot that no sequence has. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <tpcl/attention.h>

#include "layers/kv_cache.h"
#include "layers_test.h"

enum { D = 16, LAYERS = 2, CONTEXT = 1024, SEQUENCES = 4, ROWS = 320, MAX_HEADS = 32 };

struct paged_case {
    const char *name;
    int heads, kv_heads, block_size, blocks;
    bool f32;
    bool lanes; /* with the kernels for GPUs, whatever the device is */
};
static const struct paged_case cases[] = {
    {"blocks_of_1_f32", 4, 2, 1, 24, true, false},
    {"blocks_of_3_f16", 4, 2, 3, 14, false, false},
    {"blocks_of_3_f32_fewer_heads_than_ranks", 2, 1, 3, 14, true, false},
    {"blocks_of_16_f16", 9, 3, 16, 12, false, false},
    {"blocks_of_255_f32", 4, 2, 255, 4, true, false},
    {"blocks_of_256_f16", 2, 2, 256, 4, false, false},
    {"lanes_blocks_of_3_f16", 4, 2, 3, 14, false, true},
    {"lanes_blocks_of_16_f32", 9, 3, 16, 12, true, true},
};

/* A sequence's K and V as they would lie without blocks: [LAYERS, kv heads, CONTEXT, D] each. */
struct plain {
    int length;
    float *k, *v;
};

struct row {
    int sequence, pos, id;
};

struct paged {
    const struct paged_case *c;
    tpcl_head_range mine;
    tpcl_device_type type; /* what the device is in truth */
    int q, kv;             /* heads of this rank */
    tpcl_kv_cache *cache;
    tpcl_batch *batch;
    tpcl_attention *layer;
    tpcl_tensor *rope, *qkv, *out;
    float *angles;
    size_t plain_elements;
    struct plain plain[SEQUENCES];
    struct row rows[ROWS]; /* of the batch in the making */
    int n;
    float scale;    /* of all values */
    bool numbered;  /* q is 0, and V of kv head j is j */
    float *results; /* of the last pass, layer by layer: [LAYERS, ROWS, q, D] */
    uint32_t dice_state;
};

static uint32_t dice(struct paged *p, uint32_t sides)
{
    p->dice_state = p->dice_state * 1664525u + 1013904223u;
    return (p->dice_state >> 10) % sides;
}

static void open_paged(struct paged *p, const struct paged_case *c)
{
    tpcl_head_range all[MAX_RANKS], mine[LAYERS];
    *p = (struct paged){.c = c, .scale = 1.0f, .dice_state = 7};
    assert_ok(tpcl_shard_heads(c->heads, c->kv_heads, 1, size, test_weights(), 0, all));
    p->mine = all[rank];
    p->type = tpcl_group_device(group)->info.type;
    if (c->lanes) tpcl_group_device(group)->info.type = TPCL_DEVICE_GPU;
    p->q = (int)tpcl_range_size(p->mine.q);
    p->kv = (int)tpcl_range_size(p->mine.kv);
    for (int l = 0; l < LAYERS; l++) mine[l] = p->mine;
    const tpcl_kv_cache_desc desc = {.layers = LAYERS,
                                     .head_dim = D,
                                     .blocks = c->blocks,
                                     .block_size = c->block_size,
                                     .max_sequences = SEQUENCES,
                                     .f32 = c->f32,
                                     .heads = mine};
    const tpcl_batch_options rows = {.max_tokens = ROWS, .vocab = 1 << 20};
    const tpcl_rope_desc rope = {.head_dim = D, .context = CONTEXT, .theta = 10000};
    assert_ok(tpcl_kv_cache_create(group, &desc, &p->cache));
    assert_ok(tpcl_batch_create(group, p->cache, &rows, &p->batch));
    assert_ok(tpcl_rope_table_create(tpcl_group_device(group), &rope, &p->rope));
    const tpcl_attention_desc layer = {.heads = c->heads,
                                       .kv_heads = c->kv_heads,
                                       .head_dim = D,
                                       .mine = p->mine,
                                       .rope_table = p->rope};
    assert_ok(tpcl_attention_create(group, &layer, &p->layer));
    p->qkv = tensor_of(NULL, TPCL_F32, (int64_t)ROWS * (p->q + 2 * p->kv) * D);
    p->out = tensor_of(NULL, TPCL_F32, (int64_t)ROWS * p->q * D);
    p->angles = malloc((size_t)CONTEXT * D * sizeof *p->angles);
    assert_ok(tpcl_tensor_read(p->rope, p->angles, (size_t)CONTEXT * D));
    p->plain_elements = (size_t)LAYERS * (size_t)p->kv * CONTEXT * D;
    for (int s = 0; s < SEQUENCES; s++) {
        p->plain[s].k = malloc(p->plain_elements * sizeof(float) + 1);
        p->plain[s].v = malloc(p->plain_elements * sizeof(float) + 1);
    }
    p->results = malloc((size_t)LAYERS * ROWS * (size_t)p->q * D * sizeof(float) + 1);
}

static void close_paged(struct paged *p)
{
    tpcl_attention_destroy(&p->layer);
    tpcl_batch_destroy(&p->batch);
    tpcl_kv_cache_destroy(&p->cache);
    tpcl_tensor_destroy(&p->rope);
    tpcl_tensor_destroy(&p->qkv);
    tpcl_tensor_destroy(&p->out);
    for (int s = 0; s < SEQUENCES; s++) {
        free(p->plain[s].k);
        free(p->plain[s].v);
    }
    free(p->angles);
    free(p->results);
    tpcl_group_device(group)->info.type = p->type;
}

/* NaN in all slots that no sequence has. */
static void poison(struct paged *p)
{
    const tpcl_kv_cache *c = p->cache;
    const int block = c->desc.block_size, blocks = c->desc.blocks;
    const size_t row = (size_t)D * (c->desc.f32 ? 4 : 2);
    bool *used = calloc((size_t)blocks * (size_t)block, sizeof *used);
    for (int s = 0; s < SEQUENCES; s++)
        for (int t = 0; t < tpcl_kv_cache_length(c, s); t++)
            used[tpcl_kv_cache_block(c, s, t / block) * block + t % block] = true;
    const size_t bytes = (size_t)blocks * (size_t)block * (size_t)p->kv * row;
    unsigned char *host = malloc(bytes + 1);
    for (int m = 0; bytes > 0 && m < 2 * LAYERS; m++) {
        const cl_mem mem = m % 2 ? c->layers[m / 2].v : c->layers[m / 2].k;
        const cl_command_queue queue = tpcl_group_device(group)->queue;
        assert_int_equal(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, bytes, host, 0, NULL, NULL),
                         CL_SUCCESS);
        for (int b = 0; b < blocks; b++)
            for (int h = 0; h < p->kv; h++)
                for (int t = 0; t < block; t++)
                    if (!used[b * block + t]) /* all bits set: NaN in f32 and in f16 */
                        memset(host + (size_t)((b * p->kv + h) * block + t) * row, 0xff, row);
        assert_int_equal(clEnqueueWriteBuffer(queue, mem, CL_TRUE, 0, bytes, host, 0, NULL, NULL),
                         CL_SUCCESS);
    }
    free(used);
    free(host);
}

/* Adds tokens first, first + 1, ... to a sequence. */
static tpcl_status add(struct paged *p, int s, int first, int n)
{
    int32_t ids[ROWS];
    const int length = tpcl_kv_cache_length(p->cache, s);
    for (int i = 0; i < n && i < ROWS; i++) ids[i] = first + i;
    const tpcl_status status = tpcl_batch_add(p->batch, s, ids, n);
    for (int i = 0; status == TPCL_OK && i < n; i++)
        p->rows[p->n++] = (struct row){s, length + i, first + i};
    return status;
}

enum kind { Q, K, V };

/* One head row of the whole model: a function of the token, the layer and the head's number. */
static void head_row(const struct paged *p, enum kind kind, int id, int layer, int64_t head,
                     float *to)
{
    fill(to, D,
         (uint32_t)id * 2654435761u + (uint32_t)(layer * 3 + (int)kind) * 40503u +
             (uint32_t)head * 977u);
    for (int i = 0; i < D; i++) {
        to[i] *= p->scale;
        if (p->numbered && kind != K) to[i] = kind == V ? (float)head : 0.0f;
    }
}

static void make_rows(const struct paged *p, int layer, float *qkv)
{
    for (int r = 0; r < p->n; r++) {
        for (int h = 0; h < p->q; h++, qkv += D)
            head_row(p, Q, p->rows[r].id, layer, p->mine.q.begin + h, qkv);
        for (int h = 0; h < p->kv; h++, qkv += D)
            head_row(p, K, p->rows[r].id, layer, p->mine.kv.begin + h, qkv);
        for (int h = 0; h < p->kv; h++, qkv += D)
            head_row(p, V, p->rows[r].id, layer, p->mine.kv.begin + h, qkv);
    }
}

static float *plain_at(const struct paged *p, float *rows, int layer, int head, int pos)
{
    return rows + (((size_t)layer * (size_t)p->kv + (size_t)head) * CONTEXT + (size_t)pos) * D;
}

static void round_to_cache(const struct paged *p, float *row)
{
    for (int i = 0; !p->c->f32 && i < D; i++) row[i] = tpi_half_to_float(tpi_float_to_half(row[i]));
}

/* Stores the batch's rows in the plain cache. */
static void store_plain(struct paged *p, int layer)
{
    for (int r = 0; r < p->n; r++) {
        const struct row *row = &p->rows[r];
        struct plain *s = &p->plain[row->sequence];
        for (int h = 0; h < p->kv; h++) {
            float *k = plain_at(p, s->k, layer, h, row->pos),
                  *v = plain_at(p, s->v, layer, h, row->pos);
            head_row(p, K, row->id, layer, p->mine.kv.begin + h, k);
            head_row(p, V, row->id, layer, p->mine.kv.begin + h, v);
            tpcl_ref_rope(k, NULL, p->angles + (size_t)row->pos * D, D, false, 0.0f);
            round_to_cache(p, k);
            round_to_cache(p, v);
        }
        if (layer == LAYERS - 1) s->length = row->pos + 1;
    }
}

static void check_row(const struct paged *p, int layer, int r, const float *got)
{
    const struct row *row = &p->rows[r];
    const struct plain *s = &p->plain[row->sequence];
    float q[D], want[D];
    for (int h = 0; h < p->q; h++) {
        const int64_t head = p->mine.q.begin + h;
        const int kv = (int)(head / (p->c->heads / p->c->kv_heads) - p->mine.kv.begin);
        head_row(p, Q, row->id, layer, head, q);
        tpcl_ref_rope(q, NULL, p->angles + (size_t)row->pos * D, D, false, 0.0f);
        tpcl_ref_attention(q, plain_at(p, s->k, layer, kv, 0), plain_at(p, s->v, layer, kv, 0),
                           want, row->pos + 1, D, D, 0);
        /* f16: a key next to a rounding border may round the other way on the device */
        assert_close(got + h * D, want, D, 1e-4, p->scale * (p->c->f32 ? 2e-5 : 1e-3));
    }
}

/* The batch through all layers, each row against the plain cache. */
static void pass(struct paged *p)
{
    const size_t wide = (size_t)(p->q + 2 * p->kv) * D, narrow = (size_t)p->q * D;
    float *qkv = malloc((size_t)p->n * wide * sizeof *qkv + 1);
    poison(p);
    assert_ok(tpcl_batch_upload(p->batch));
    for (int l = 0; l < LAYERS; l++) {
        float *got = p->results + (size_t)l * ROWS * narrow;
        make_rows(p, l, qkv);
        assert_ok(tpcl_tensor_write(p->qkv, qkv, (size_t)p->n * wide));
        assert_ok(tpcl_attention_forward(p->layer, l, p->qkv, p->batch, p->cache, p->out));
        assert_ok(tpcl_tensor_read(p->out, got, (size_t)p->n * narrow));
        store_plain(p, l);
        for (int r = 0; r < p->n; r++) /* of long prompts some rows */
            if (p->n < 40 || r % 13 == 0 || r == p->n - 1)
                check_row(p, l, r, got + (size_t)r * narrow);
    }
    free(qkv);
    tpcl_batch_clear(p->batch);
    p->n = 0;
}

static void copy_plain(struct paged *p, int from, int to, int length)
{
    memcpy(p->plain[to].k, p->plain[from].k, p->plain_elements * sizeof(float));
    memcpy(p->plain[to].v, p->plain[from].v, p->plain_elements * sizeof(float));
    p->plain[to].length = length;
}

static void release(struct paged *p, int s)
{
    tpcl_kv_cache_free(p->cache, s);
    p->plain[s].length = 0;
}

/* Rows of several sequences; what does not fit is left out. Returns whether something was. */
static bool mixed_pass(struct paged *p)
{
    bool refused = false;
    for (uint32_t k = 0, of = 1 + dice(p, SEQUENCES + 2); k < of; k++) {
        const int s = (int)dice(p, SEQUENCES), id = (int)dice(p, 50000);
        const int length = tpcl_kv_cache_length(p->cache, s);
        const int free = tpcl_kv_cache_free_blocks(p->cache);
        int n = dice(p, 2) ? 1 : 1 + (int)dice(p, (uint32_t)p->c->block_size + 3);
        if (n > ROWS - p->n) n = ROWS - p->n;
        if (length + n > CONTEXT || n == 0) continue;
        if (add(p, s, id, n) == TPCL_OK) continue;
        assert_non_null(strstr(tpcl_last_error(), "full"));
        assert_int_equal(tpcl_kv_cache_length(p->cache, s), length);
        assert_int_equal(tpcl_kv_cache_free_blocks(p->cache), free);
        refused = true;
    }
    if (p->n > 0) pass(p);
    return refused;
}

/* The first tokens of `from` for `to`, by the numbers of their blocks. */
static void assign_part(struct paged *p, int from, int to)
{
    int32_t blocks[128];
    const int length = (int)dice(p, (uint32_t)p->plain[from].length + 1);
    const int n = (length + p->c->block_size - 1) / p->c->block_size;
    for (int i = 0; i < n; i++) blocks[i] = tpcl_kv_cache_block(p->cache, from, i);
    assert_ok(tpcl_kv_cache_assign(p->cache, to, blocks, n, length));
    copy_plain(p, from, to, length);
}

static void random_calls_give_what_plain_rows_give(void **state)
{
    struct paged p;
    int done[5] = {0};
    open_paged(&p, *state);
    for (int step = 0; step < 150; step++) {
        const int s = (int)dice(&p, SEQUENCES);
        const int t = (s + 1 + (int)dice(&p, SEQUENCES - 1)) % SEQUENCES;
        const uint32_t op = dice(&p, 10);
        if (op < 5) {
            done[0] += mixed_pass(&p);
        } else if (op == 5 || op == 6) {
            release(&p, t);
            assert_ok(tpcl_kv_cache_fork(p.cache, s, t));
            copy_plain(&p, s, t, p.plain[s].length);
            done[1] += p.plain[s].length % p.c->block_size != 0;
        } else if (op == 7) {
            const int keep = (int)dice(&p, (uint32_t)p.plain[s].length + 1);
            assert_ok(tpcl_kv_cache_truncate(p.cache, s, keep));
            done[2] += keep < p.plain[s].length;
            p.plain[s].length = keep;
        } else if (op == 8) {
            release(&p, t);
            assign_part(&p, s, t);
            done[3] += p.plain[t].length > 0;
        } else {
            release(&p, s);
            done[4]++;
        }
        for (int i = 0; i < SEQUENCES; i++)
            assert_int_equal(tpcl_kv_cache_length(p.cache, i), p.plain[i].length);
    }
    for (int i = 0; i < 5; i++)
        if (done[i] == 0 && !(i == 1 && p.c->block_size == 1)) fail_msg("nothing of kind %d", i);
    for (int s = 0; s < SEQUENCES; s++) release(&p, s);
    assert_int_equal(tpcl_kv_cache_free_blocks(p.cache), p.c->blocks);
    close_paged(&p);
}

/* A fork's tokens, and those of a sequence that was given the same ones on its own. */
static void a_fork_has_the_bits_of_an_unshared_sequence(void **state)
{
    struct paged p;
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct paged_case c = cases[i];
        c.blocks = c.blocks < 8 ? 8 : c.blocks;
        open_paged(&p, &c);
        const int prompt = cases[i].block_size == 1 ? 5 : cases[i].block_size * 3 / 2;
        for (int s = 0; s < 3; s += 2) { /* passes of a few rows: tiles begin at the same places */
            for (int at = 0; at < prompt; at += ROWS / 2) {
                assert_ok(add(&p, s, 100 + at, prompt - at < ROWS / 2 ? prompt - at : ROWS / 2));
                pass(&p);
            }
        }
        assert_ok(tpcl_kv_cache_fork(p.cache, 0, 1));
        copy_plain(&p, 0, 1, prompt);
        const int free = tpcl_kv_cache_free_blocks(p.cache);
        assert_ok(add(&p, 0, 7000, 1)); /* the parent goes on first, then the fork, another way */
        assert_ok(add(&p, 1, 8000, 1));
        assert_ok(add(&p, 2, 8000, 1));
        assert_int_equal(tpcl_kv_cache_free_blocks(p.cache),
                         free - (cases[i].block_size == 1 ? 3 : 1));
        pass(&p);
        const size_t row = (size_t)p.q * D;
        for (size_t l = 0; l < LAYERS; l++)
            assert_memory_equal(p.results + (l * ROWS + 1) * row, p.results + (l * ROWS + 2) * row,
                                row * sizeof(float));
        close_paged(&p);
    }
}

static void mixed_rows_equal_rows_one_at_a_time(void **state)
{
    struct paged mixed, single;
    static const struct row order[] = {{0, 0, 900}, {2, 0, 700}, {1, 0, 800}, {0, 0, 901},
                                       {2, 0, 701}, {2, 0, 702}, {1, 0, 801}};
    (void)state;
    open_paged(&mixed, &cases[1]);
    open_paged(&single, &cases[1]);
    struct paged *both[2] = {&mixed, &single};
    for (int i = 0; i < 2; i++) { /* sequence 1 has a prefix of 0's tokens, 2 none yet */
        assert_ok(add(both[i], 0, 100, 8));
        pass(both[i]);
        assert_ok(tpcl_kv_cache_fork(both[i]->cache, 0, 1));
        copy_plain(both[i], 0, 1, 8);
    }
    for (size_t r = 0; r < COUNT(order); r++)
        assert_ok(add(&mixed, order[r].sequence, order[r].id, 1));
    int rows[COUNT(order)], n = 0;
    assert_ok(tpcl_batch_last_rows(mixed.batch, rows, &n));
    assert_int_equal(n, 3);
    assert_int_equal(rows[0], 3);
    assert_int_equal(rows[1], 5);
    assert_int_equal(rows[2], 6);
    pass(&mixed);
    const size_t row = (size_t)mixed.q * D;
    for (size_t r = 0; r < COUNT(order); r++) {
        assert_ok(add(&single, order[r].sequence, order[r].id, 1));
        pass(&single);
        for (size_t l = 0; l < LAYERS; l++)
            assert_close(single.results + l * ROWS * row, mixed.results + (l * ROWS + r) * row, row,
                         1e-5, 1e-6);
    }
    close_paged(&mixed);
    close_paged(&single);
}

/* Case C14: a page more than needed would bring in what its last owner left. */
static void c14_pages_of_a_freed_sequence_are_not_read(void **state)
{
    static const int lengths[] = {15, 16, 17, 31, 32, 33, 48};
    struct paged p;
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(lengths); i++) {
        const struct paged_case c = {"c14", 4, 2, 16, 4, true, i % 2};
        const int length = lengths[i / 2];
        open_paged(&p, &c);
        p.scale = 1e4f;
        assert_ok(add(&p, 3, 1, 64));
        pass(&p);
        release(&p, 3);
        p.scale = 1.0f;
        assert_ok(add(&p, 0, 2, length - 1));
        pass(&p);
        assert_ok(add(&p, 0, 3, 1));
        assert_int_equal(tpcl_kv_cache_blocks_used(p.cache, 0), (length + 15) / 16);
        pass(&p);
        close_paged(&p);
    }
}

/* Case C17: lengths around 512, where one GPU kernel of another project stopped reading. */
static void long_sequences(bool lanes)
{
    const struct paged_case c = {"c17", 2, 1, 256, 4, true, lanes};
    struct paged p;
    open_paged(&p, &c);
    for (int s = 0; s < 2; s++) {
        for (int at = 0; at < 510; at += 255) {
            assert_ok(add(&p, s, at, 255));
            pass(&p);
        }
        for (int length = 511; length <= 513 - s; length++) {
            assert_ok(add(&p, s, length, 1));
            pass(&p);
        }
        if (s == 0) release(&p, 0); /* and once more, over the blocks of the first */
    }
    assert_ok(add(&p, 1, 2000, 300));
    pass(&p);
    assert_ok(add(&p, 1, 3000, 188));
    pass(&p);
    assert_int_equal(tpcl_kv_cache_length(p.cache, 1), 1000);
    close_paged(&p);
}

static void c17_keys_beyond_512_are_read(void **state)
{
    (void)state;
    long_sequences(false);
    long_sequences(true);
}

/* Case C11: with equal scores q head h gives the number of its kv head, h / (heads / kv_heads). */
static void c11_every_q_head_reads_its_kv_head(void **state)
{
    static const int pairs[][2] = {{4, 4}, {9, 3}, {14, 2}, {28, 4}, {32, 8}, {8, 1}};
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        const struct paged_case c = {"c11", pairs[i][0], pairs[i][1], 3, 4, false, i % 2};
        struct paged p;
        open_paged(&p, &c);
        p.numbered = true;
        assert_ok(add(&p, 1, 5, 4));
        assert_ok(add(&p, 0, 9, 1));
        const int rows = p.n;
        pass(&p);
        for (int r = 0; r < rows; r++)
            for (int h = 0; h < p.q; h++)
                for (int e = 0; e < D; e++)
                    assert_float_equal(p.results[(r * p.q + h) * D + e],
                                       (float)((p.mine.q.begin + h) / (pairs[i][0] / pairs[i][1])),
                                       1e-5);
        close_paged(&p);
    }
}

static void a_full_cache_refuses_and_goes_on(void **state)
{
    const struct paged_case c = {"full", 4, 2, 3, 4, true, false};
    struct paged p;
    (void)state;
    open_paged(&p, &c);
    assert_ok(add(&p, 0, 1, 8)); /* three blocks, one place free in the last */
    pass(&p);
    assert_ok(tpcl_kv_cache_fork(p.cache, 0, 1));
    copy_plain(&p, 0, 1, 8);
    assert_refused(add(&p, 1, 50, 4), TPCL_ERR_SHAPE, "1 blocks of 3 are free");
    assert_int_equal(tpcl_kv_cache_free_blocks(p.cache), 1);
    assert_int_equal(tpcl_kv_cache_block(p.cache, 1, 2), tpcl_kv_cache_block(p.cache, 0, 2));
    assert_ok(add(&p, 1, 50, 1)); /* the copy takes the last block */
    assert_int_equal(tpcl_kv_cache_free_blocks(p.cache), 0);
    assert_refused(add(&p, 1, 51, 1), TPCL_ERR_SHAPE, "0 blocks of 3 are free");
    assert_ok(add(&p, 0, 60, 1)); /* alone in its block now */
    pass(&p);
    release(&p, 0); /* two of its blocks are still held by 1 */
    assert_int_equal(tpcl_kv_cache_free_blocks(p.cache), 1);
    assert_ok(add(&p, 1, 51, 3));
    pass(&p);
    close_paged(&p);
}

/* A caller's prefix cache: blocks of a sequence that is gone, as long as nobody took them. */
static void freed_blocks_are_assigned_with_what_they_hold(void **state)
{
    const struct paged_case c = {"prefix", 4, 2, 3, 9, false, false};
    struct paged p;
    int32_t blocks[2];
    (void)state;
    open_paged(&p, &c);
    assert_ok(add(&p, 0, 1, 7));
    pass(&p);
    for (int i = 0; i < 2; i++) blocks[i] = tpcl_kv_cache_block(p.cache, 0, i);
    copy_plain(&p, 0, 2, 5);
    release(&p, 0);
    assert_int_equal(tpcl_kv_cache_free_blocks(p.cache), 9);
    assert_ok(tpcl_kv_cache_assign(p.cache, 2, blocks, 2, 5));
    assert_int_equal(tpcl_kv_cache_free_blocks(p.cache), 7);
    assert_ok(add(&p, 2, 100, 1)); /* behind them, in the second of the blocks: held by it alone */
    assert_int_equal(tpcl_kv_cache_block(p.cache, 2, 1), blocks[1]);
    assert_ok(add(&p, 1, 200, 4));
    pass(&p);
    close_paged(&p);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(cases) + 7] = {
        cmocka_unit_test(a_fork_has_the_bits_of_an_unshared_sequence),
        cmocka_unit_test(mixed_rows_equal_rows_one_at_a_time),
        cmocka_unit_test(c14_pages_of_a_freed_sequence_are_not_read),
        cmocka_unit_test(c17_keys_beyond_512_are_read),
        cmocka_unit_test(c11_every_q_head_reads_its_kv_head),
        cmocka_unit_test(a_full_cache_refuses_and_goes_on),
        cmocka_unit_test(freed_blocks_are_assigned_with_what_they_hold),
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[7 + i] = (struct CMUnitTest){.name = cases[i].name,
                                           .test_func = random_calls_give_what_plain_rows_give,
                                           .initial_state = (void *)&cases[i]};
    int failed = 0;
    layers_main_begin(&argc, &argv);
    run_layer_tests("layers/paged", tests);
    return layers_main_end(failed);
}
