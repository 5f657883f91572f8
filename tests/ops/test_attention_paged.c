/* Both attention kernels against tpcl_ref_paged_attention(): what a slot outside of the tokens'
 * sight holds is NaN, in both. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "ops_test.h"

enum { MOST_SEQS = 48, MOST_HEADS = 64, FREE_BLOCKS = 2 };

/* `past` keys are in the cache before the step, `rows` tokens are the step. */
struct seq {
    int past, rows;
};

struct shape {
    int heads, kv_heads, d, dv, block;
    bool f32;
    int window;
    float scale;
    const int *kv_of; /* NULL = equal groups */
    int n_seqs;
    struct seq seqs[MOST_SEQS];
};

/* The two kernels: a work-item for a tile pair as on CPUs, or a work-group for each token and q
 * head as on GPUs, of 64 and of what a smaller device allows. */
static const struct way {
    tpcl_device_type type;
    int pairs;
    size_t max_workgroup;
} ways[] = {{TPCL_DEVICE_CPU, 4, 64},
            {TPCL_DEVICE_CPU, 1, 64},
            {TPCL_DEVICE_GPU, 1, 64},
            {TPCL_DEVICE_GPU, 1, 16}};
enum { ALL_WAYS = COUNT(ways) };

/* A step on the host: pools as stored and as their values. */
struct step {
    const struct shape *s;
    int tokens, blocks, width, q_stride;
    int32_t *pos, *seq, *table;
    float *q, *k, *v;
    uint8_t *stored_k, *stored_v;
};

static int div_up(int a, int b)
{
    return (a + b - 1) / b;
}

static int dims(const struct shape *s, bool v)
{
    return v ? s->dv : s->d;
}

static size_t pool_elements(const struct step *p, bool v)
{
    return (size_t)p->blocks * (size_t)(p->s->kv_heads * p->s->block * dims(p->s, v));
}

/* Row of key j of a sequence in a pool, in rows. */
static size_t pool_row(const struct step *p, int sequence, int head, int j)
{
    const int block = p->table[sequence * p->width + j / p->s->block];
    return (size_t)((block * p->s->kv_heads + head) * p->s->block + j % p->s->block);
}

/* Values where some token of the step sees the key, `junk` everywhere else. */
static float *make_pool(const struct step *p, bool v, float junk)
{
    const size_t n = pool_elements(p, v), d = (size_t)dims(p->s, v);
    float *pool = malloc(n * sizeof *pool), *values = random_floats(n, v ? 7 : 5);
    for (size_t i = 0; i < n; i++) pool[i] = junk;
    for (int s = 0; s < p->s->n_seqs; s++) {
        const struct seq q = p->s->seqs[s];
        const int first = p->s->window && p->s->window <= q.past ? q.past - p->s->window + 1 : 0;
        for (int j = first; j < q.past + q.rows; j++)
            for (int h = 0; h < p->s->kv_heads; h++) {
                const size_t at = pool_row(p, s, h, j) * d;
                memcpy(pool + at, values + at, d * sizeof *pool);
            }
    }
    free(values);
    return pool;
}

/* As stored; the values become what the cache gives back. */
static uint8_t *store_pool(const struct step *p, bool v, float *values)
{
    const size_t n = pool_elements(p, v);
    uint8_t *stored = malloc(n * 4);
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = tpi_float_to_half(values[i]);
        if (p->s->f32) {
            memcpy(stored + 4 * i, values + i, 4);
        } else {
            memcpy(stored + 2 * i, &h, 2);
            values[i] = tpi_half_to_float(h);
        }
    }
    return stored;
}

static void store(struct step *p)
{
    free(p->stored_k);
    free(p->stored_v);
    p->stored_k = store_pool(p, false, p->k);
    p->stored_v = store_pool(p, true, p->v);
}

/* Blocks from the last one down, so that no sequence has them in rising order; what follows a
 * table's last block names a free one. */
static void make_table(struct step *p)
{
    int next = p->blocks - 1;
    for (int s = 0; s < p->s->n_seqs; s++) {
        const int used = div_up(p->s->seqs[s].past + p->s->seqs[s].rows, p->s->block);
        for (int b = 0; b < p->width; b++) p->table[s * p->width + b] = b < used ? next-- : 0;
    }
}

static struct step make_step(const struct shape *s, float junk)
{
    struct step p = {.s = s, .blocks = FREE_BLOCKS};
    for (int i = 0; i < s->n_seqs; i++) {
        const int used = div_up(s->seqs[i].past + s->seqs[i].rows, s->block);
        p.tokens += s->seqs[i].rows;
        p.blocks += used;
        if (used >= p.width) p.width = used + 1;
    }
    p.q_stride = (s->heads + s->kv_heads) * s->d + s->kv_heads * s->dv;
    p.pos = malloc((size_t)p.tokens * sizeof *p.pos);
    p.seq = malloc((size_t)p.tokens * sizeof *p.seq);
    p.table = malloc((size_t)(s->n_seqs * p.width) * sizeof *p.table);
    p.q = random_floats((size_t)p.tokens * (size_t)p.q_stride, 3);
    for (int i = 0, t = 0; i < s->n_seqs; i++)
        for (int r = 0; r < s->seqs[i].rows; r++, t++) {
            p.pos[t] = s->seqs[i].past + r;
            p.seq[t] = i;
            for (int e = s->heads * s->d; e < p.q_stride; e++)
                p.q[(size_t)t * (size_t)p.q_stride + (size_t)e] = NAN; /* k and v: not for it */
        }
    make_table(&p);
    p.k = make_pool(&p, false, junk);
    p.v = make_pool(&p, true, junk);
    store(&p);
    return p;
}

static void free_step(struct step *p)
{
    void *all[] = {p->pos, p->seq, p->table, p->q, p->k, p->v, p->stored_k, p->stored_v};
    for (size_t i = 0; i < COUNT(all); i++) free(all[i]);
}

static size_t outputs(const struct step *p)
{
    return (size_t)p->tokens * (size_t)(p->s->heads * p->s->dv);
}

static int kv_of(const struct shape *s, int h)
{
    return s->kv_of ? s->kv_of[h] : h / (s->heads / s->kv_heads);
}

/* Runs of q heads that read one kv head, up to `most`. Returns how many. */
static int make_head_tiles(const struct shape *s, int most, int32_t *tiles)
{
    int n = 0;
    for (int h = 0, count = 0; h < s->heads; h += count, n++) {
        for (count = 1; count < most && h + count < s->heads; count++)
            if (kv_of(s, h + count) != kv_of(s, h)) break;
        const int32_t tile[4] = {h, count, kv_of(s, h), 0};
        memcpy(tiles + 4 * n, tile, sizeof tile);
    }
    return n;
}

static int make_row_tiles(const struct step *p, int most, int32_t *tiles)
{
    int n = 0;
    for (int t = 0, count = 0; t < p->tokens; t += count, n++) {
        for (count = 1; count < most && t + count < p->tokens; count++)
            if (p->seq[t + count] != p->seq[t]) break;
        tiles[2 * n] = t;
        tiles[2 * n + 1] = count;
    }
    return n;
}

/* [tokens, heads * dv] from the device; `rows` tokens and pairs / rows heads share a tile. */
static float *launch(const struct step *p, int pairs, int rows)
{
    const struct shape *s = p->s;
    const size_t tokens = (size_t)p->tokens, bytes = s->f32 ? 4 : 2;
    int32_t head_tiles[4 * MOST_HEADS], *row_tiles = malloc(tokens * 2 * sizeof *row_tiles);
    const int n_heads = make_head_tiles(s, pairs / rows, head_tiles);
    const int n_rows = make_row_tiles(p, rows, row_tiles);
    tpi_kv_layer cache = {buffer_of(p->stored_k, pool_elements(p, false) * bytes),
                          buffer_of(p->stored_v, pool_elements(p, true) * bytes)};
    tpcl_tensor *t[] = {tensor_of(p->q, TPCL_F32, tokens * (size_t)p->q_stride),
                        guarded_output(outputs(p)),
                        tensor_of(p->pos, TPCL_I32, tokens),
                        tensor_of(p->seq, TPCL_I32, tokens),
                        tensor_of(p->table, TPCL_I32, (size_t)(s->n_seqs * p->width)),
                        tensor_of(row_tiles, TPCL_I32, (size_t)n_rows * 2),
                        tensor_of(head_tiles, TPCL_I32, (size_t)n_heads * 4)};
    const tpi_attention_args args = {
        .heads = {s->heads, s->kv_heads, s->d, s->dv, s->block, s->f32, false},
        .qkv = t[0],
        .out = t[1],
        .pos = t[2],
        .seq = t[3],
        .table = t[4],
        .row_tiles = t[5],
        .head_tiles = t[6],
        .cache = &cache,
        .tokens = p->tokens,
        .n_row_tiles = n_rows,
        .n_head_tiles = n_heads,
        .table_width = p->width,
        .pairs = pairs,
        .window = s->window,
        .scale = s->scale};
    assert_ok(tpi_attention(&args));
    float *got = read_guarded(t[1], outputs(p));
    tpi_buffer_release(&cache.k);
    tpi_buffer_release(&cache.v);
    for (size_t i = 0; i < COUNT(t); i++) tpcl_tensor_destroy(&t[i]);
    free(row_tiles);
    return got;
}

/* Head tiles of one are what makes a GPU take the work-group kernel. */
static float *launch_as(const struct step *p, const struct way *way, int rows)
{
    const tpcl_device_info real = test_device->info;
    test_device->info.type = way->type;
    if (way->max_workgroup < real.max_workgroup)
        test_device->info.max_workgroup = way->max_workgroup;
    float *got = launch(p, way->pairs, way->pairs < rows ? way->pairs : rows);
    test_device->info = real;
    return got;
}

static float *reference(const struct step *p)
{
    const struct shape *s = p->s;
    const tpcl_ref_paged args = {.q = p->q,
                                 .k = p->k,
                                 .v = p->v,
                                 .pos = p->pos,
                                 .seq = p->seq,
                                 .table = p->table,
                                 .kv_of = s->kv_of,
                                 .tokens = p->tokens,
                                 .heads = s->heads,
                                 .kv_heads = s->kv_heads,
                                 .head_dim = s->d,
                                 .v_head_dim = s->dv,
                                 .q_stride = p->q_stride,
                                 .block_size = s->block,
                                 .table_width = p->width,
                                 .window = s->window,
                                 .scale = s->scale};
    float *want = malloc(outputs(p) * sizeof *want);
    tpcl_ref_paged_attention(&args, want);
    return want;
}

static void check_ways(const struct shape *s, size_t from, size_t to)
{
    struct step p = make_step(s, NAN);
    float *want = reference(&p);
    for (size_t w = from; w < to; w++) {
        for (int rows = 1; rows <= 4; rows *= 4) { /* heads share a tile, or tokens do */
            if (rows == 4 && ways[w].pairs == 1) continue;
            float *got = launch_as(&p, &ways[w], rows);
            /* a mean of values of about 1 by f32 weights; their sum takes keys / 8 roundings */
            assert_close(got, want, outputs(&p), 1e-5, 5e-6);
            free(got);
        }
    }
    free(want);
    free_step(&p);
}

static void check(const struct shape *s)
{
    check_ways(s, 0, ALL_WAYS);
}

static double work_of(const struct shape *s)
{
    double keys = 0;
    for (int i = 0; i < s->n_seqs; i++)
        keys += (double)s->seqs[i].rows * (s->seqs[i].past + s->seqs[i].rows);
    return keys * s->heads * (s->d + s->dv);
}

/* Every case, or one in n where an interpreter runs them. */
static size_t few(size_t n)
{
    return small_only() ? n : 1;
}

/* Around a block (16), a step of the softmax (8), a work-group (64), where other projects stopped
 * (512), and primes; 1 to 9 new tokens. */
static void context_lengths(void **state)
{
    (void)state;
    static const int lengths[] = {1,  2,  7,  8,   9,   13,  15,  16,  17,  31,  32,  33,
                                  63, 64, 65, 127, 128, 257, 511, 512, 513, 769, 1009};
    begin_case(0);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        const int rows = 1 + (int)i % 9;
        struct shape s = {.heads = 4, .kv_heads = 2, .d = 16, .dv = 16, .block = 16, .n_seqs = 1};
        s.f32 = i % 2;
        s.seqs[0] = (struct seq){lengths[i] - 1, 1};
        if (!too_slow(work_of(&s))) check(&s);
        if (rows == 1 || rows > lengths[i]) continue;
        s.seqs[0] = (struct seq){lengths[i] - rows, rows};
        if (!too_slow(work_of(&s))) check(&s);
    }
}

static void tokens_of_a_sequence(void **state)
{
    (void)state;
    begin_case(0);
    for (int rows = 1; rows <= 9; rows += (int)few(4)) {
        const struct shape s = {.heads = 3,
                                .kv_heads = 1,
                                .d = 16,
                                .dv = 16,
                                .block = 5,
                                .n_seqs = 2,
                                .seqs = {{rows * 3, rows}, {0, 10 - rows}}};
        check(&s);
    }
}

static void q_heads_of_a_kv_head(void **state)
{
    (void)state;
    static const int starts_in_a_group[] = {0, 1, 1, 1, 2};
    begin_case(0);
    for (int each = 1; each <= 8; each += (int)few(3)) {
        const struct shape s = {.heads = 2 * each,
                                .kv_heads = 2,
                                .d = 16,
                                .dv = 16,
                                .block = 4,
                                .f32 = each % 2,
                                .n_seqs = 2,
                                .seqs = {{9, 1}, {2, 3}}};
        check(&s);
    }
    const struct shape part = {.heads = 5,
                               .kv_heads = 3,
                               .d = 16,
                               .dv = 16,
                               .block = 4,
                               .kv_of = starts_in_a_group,
                               .n_seqs = 1,
                               .seqs = {{9, 2}}};
    check(&part);
}

/* Some of each; all of them meet both types, one or four pairs a tile. */
static void head_dims(void **state)
{
    (void)state;
    static const int pairs[][2] = {{2, 2},     {16, 64},  {20, 16},  {64, 20},
                                   {80, 112},  {96, 18},  {112, 80}, {128, 128},
                                   {192, 128}, {256, 64}, {64, 192}, {128, 256}};
    begin_case(0);
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct shape s = {.heads = 4,
                          .kv_heads = 2,
                          .d = pairs[i][0],
                          .dv = pairs[i][1],
                          .block = 16,
                          .f32 = i % 2,
                          .window = i % 3 == 2 ? 11 : 0,
                          .n_seqs = 2,
                          .seqs = {{19, 1}, {3, 5}}};
        if (too_slow(work_of(&s) * 2)) continue;
        check_ways(&s, i % 4 < 2 ? 0 : 1, i % 4 < 2 ? 1 : 2);
        check_ways(&s, 2, 3);
    }
}

/* Keys before the window hold NaN: they are not read. */
static void windows(void **state)
{
    (void)state;
    static const int of[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 40, 41, 49, 64, 65, 1000, INT_MAX};
    begin_case(0);
    for (size_t i = 0; i < COUNT(of); i += few(5)) {
        const struct shape s = {.heads = 4,
                                .kv_heads = 2,
                                .d = 16,
                                .dv = 20,
                                .block = 16,
                                .f32 = i % 2,
                                .window = of[i],
                                .n_seqs = 4,
                                .seqs = {{40, 9}, {0, 5}, {100, 1}, {15, 2}}};
        check(&s);
    }
}

static void scales(void **state)
{
    (void)state;
    static const float of[] = {0.0f, 0.25f, 1.0f, 1e-3f, 7.0f, -0.5f};
    begin_case(0);
    for (size_t i = 0; i < COUNT(of); i += few(2)) {
        const struct shape s = {.heads = 2,
                                .kv_heads = 1,
                                .d = 18,
                                .dv = 16,
                                .block = 8,
                                .f32 = true,
                                .scale = of[i],
                                .n_seqs = 1,
                                .seqs = {{11, 3}}};
        check(&s);
    }
}

static void many_sequences(void **state)
{
    (void)state;
    struct shape s = {
        .heads = 7, .kv_heads = 1, .d = 16, .dv = 16, .block = 3, .n_seqs = MOST_SEQS};
    begin_case(small_only() ? 1e9 : 0);
    for (int i = 0; i < MOST_SEQS; i++) s.seqs[i] = (struct seq){i * 37 % 41, 1 + i * 5 % 9};
    check(&s);
    for (int i = 0; i < MOST_SEQS; i++) s.seqs[i] = (struct seq){i * 29 % 83, 1};
    s.window = 19;
    check(&s);
}

/* 0 * NaN is NaN: what is not a token's to see has the same bits as zeros there would give. */
static void junk_out_of_sight(void **state)
{
    (void)state;
    static const int lengths[] = {1, 15, 16, 17, 31, 33};
    static const float junk[] = {NAN, INFINITY, -INFINITY};
    begin_case(0);
    for (size_t i = 0; i < COUNT(lengths); i += few(3)) {
        const int rows = lengths[i] < 3 ? 1 : 3;
        const struct shape s = {.heads = 4,
                                .kv_heads = 2,
                                .d = 16,
                                .dv = 20,
                                .block = 16,
                                .f32 = i % 2,
                                .window = i % 3 == 0 ? 0 : 14,
                                .n_seqs = 1,
                                .seqs = {{lengths[i] - rows, rows}}};
        for (size_t w = 0; w < ALL_WAYS; w++) {
            struct step zero = make_step(&s, 0.0f);
            float *want = launch_as(&zero, &ways[w], 4);
            for (size_t j = 0; j < COUNT(junk); j++) {
                struct step p = make_step(&s, junk[j]);
                float *got = launch_as(&p, &ways[w], 4);
                assert_memory_equal(got, want, outputs(&p) * sizeof *got);
                free(got);
                free_step(&p);
            }
            free(want);
            free_step(&zero);
        }
    }
}

/* A token's K and V, however broken, reach the tokens that see it, and no other of its tile. */
static void broken_tokens_stay_where_they_are_seen(void **state)
{
    (void)state;
    enum { PAST = 9, ROWS = 4, WINDOW = 3, HEADS = 2, D = 16 };
    const struct shape s = {.heads = HEADS,
                            .kv_heads = 1,
                            .d = D,
                            .dv = D,
                            .block = 4,
                            .f32 = true,
                            .window = WINDOW,
                            .n_seqs = 1,
                            .seqs = {{PAST, ROWS}}};
    begin_case(0);
    for (int broken = PAST - WINDOW + 1; broken < PAST + ROWS; broken += (int)few(4)) {
        for (size_t w = 0; w < ALL_WAYS; w++) {
            struct step p = make_step(&s, 0.0f);
            float *clean = launch_as(&p, &ways[w], 4);
            const size_t at = pool_row(&p, 0, 0, broken) * D;
            for (size_t e = 0; e < D; e++) p.k[at + e] = p.v[at + e] = e % 2 ? NAN : INFINITY;
            store(&p);
            float *got = launch_as(&p, &ways[w], 4);
            for (int t = 0; t < ROWS; t++) {
                const bool sees = broken <= PAST + t && broken > PAST + t - WINDOW;
                for (int e = 0; e < HEADS * D; e++) {
                    const int i = t * HEADS * D + e;
                    assert_true(sees ? isnan(got[i]) : got[i] == clean[i]);
                }
            }
            free(got);
            free(clean);
            free_step(&p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_lengths),
        cmocka_unit_test(tokens_of_a_sequence),
        cmocka_unit_test(q_heads_of_a_kv_head),
        cmocka_unit_test(head_dims),
        cmocka_unit_test(windows),
        cmocka_unit_test(scales),
        cmocka_unit_test(many_sequences),
        cmocka_unit_test(junk_out_of_sight),
        cmocka_unit_test(broken_tokens_stay_where_they_are_seen),
    };
    return run_ops_tests("ops/attention_paged", tests);
}
