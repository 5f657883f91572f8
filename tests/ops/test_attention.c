/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_test.h"

enum { MAX_SEQS = 3, FREE_BLOCKS = 2 };

/* `past` keys are in the cache before the step, `rows` tokens are the step. */
struct seq {
    int past, rows;
};

struct attention_case {
    const char *name;
    int heads, kv_heads, head_dim, block_size;
    bool kv_f32;
    int pairs, tile_rows, tile_heads;
    struct seq seqs[MAX_SEQS]; /* up to the first without rows */
    const int *kv_of;          /* kv head of each q head; NULL = equal groups */
};

static const int starts_in_a_group[] = {0, 1, 1, 1};  /* q heads 5..8 of 9 over kv heads 1 and 2 */
static const int ends_in_a_group[] = {0, 0, 0, 1, 1}; /* q heads 0..4 */

static const struct attention_case cases[] = {
    {"one_key", 1, 1, 2, 16, true, 1, 1, 1, {{0, 1}}, NULL},   /* smallest legal call */
    {"decode", 9, 3, 64, 16, false, 1, 1, 1, {{40, 1}}, NULL}, /* one pair a work-item */
    {"decode_f32", 9, 3, 64, 16, true, 1, 1, 1, {{40, 1}}, NULL},
    {"head_tiles_2", 8, 2, 16, 16, false, 2, 1, 2, {{21, 1}}, NULL},
    {"head_tiles_4", 8, 2, 16, 16, false, 4, 1, 4, {{21, 1}}, NULL},
    {"head_tiles_3", 9, 3, 16, 16, false, 4, 1, 3, {{21, 1}}, NULL},  /* one idle pair */
    {"heads_left_over", 5, 1, 16, 16, true, 4, 1, 4, {{8, 1}}, NULL}, /* tiles of 4 and 1 */
    {"prefill_1", 2, 1, 16, 16, false, 1, 1, 1, {{0, 9}}, NULL},
    {"prefill_2", 2, 1, 16, 16, true, 2, 2, 1, {{0, 9}}, NULL},   /* tiles of 2, the last of 1 */
    {"prefill_3", 2, 1, 16, 16, false, 4, 3, 1, {{0, 19}}, NULL}, /* an idle pair, 6 * 3 + 1 */
    {"prefill_4", 2, 1, 16, 16, true, 4, 4, 1, {{0, 18}}, NULL},  /* the last tile of 2 */
    {"two_by_two", 4, 2, 16, 16, false, 4, 2, 2, {{5, 5}}, NULL}, /* rows and heads together */
    {"chunked_prefill", 4, 2, 20, 16, false, 4, 4, 1, {{13, 11}}, NULL},
    {"mixed", 6, 2, 18, 16, false, 4, 4, 1, {{20, 1}, {0, 7}, {32, 1}}, NULL},
    {"mixed_head_tiles", 6, 2, 16, 4, true, 4, 1, 3, {{0, 3}, {20, 1}, {6, 2}}, NULL},
    {"block_1", 4, 2, 16, 1, false, 2, 2, 1, {{9, 4}, {3, 1}}, NULL}, /* every key elsewhere */
    {"block_3", 4, 2, 16, 3, true, 4, 1, 2, {{9, 1}, {0, 5}}, NULL},  /* no power of two */
    {"block_256", 4, 2, 16, 256, false, 4, 4, 1, {{254, 4}, {0, 3}}, NULL},
    {"starts_in_a_group", 4, 2, 16, 16, false, 4, 1, 4, {{17, 1}, {0, 2}}, starts_in_a_group},
    {"ends_in_a_group", 5, 2, 16, 16, false, 4, 1, 4, {{17, 1}, {0, 2}}, ends_in_a_group},
};

/* A case made concrete: [seq][kv head][key][head_dim] on the host, blocks in a pool. */
struct problem {
    const struct attention_case *c;
    int n_seqs, tokens, blocks, table_width, n_row_tiles, n_head_tiles;
    int keys[MAX_SEQS];
    size_t at[MAX_SEQS]; /* of the sequence in k and v */
    size_t elements;     /* of k and of v */
    int kv_of[64];
    int32_t *pos, *seq, *table, *row_tiles, head_tiles[64 * 4];
    float *qkv, *k, *v;
};

static int div_up(int a, int b)
{
    return (a + b - 1) / b;
}

static tpcl_dtype kv_dtype(const struct problem *p)
{
    return p->c->kv_f32 ? TPCL_F32 : TPCL_F16;
}

/* What the cache gives back for each value. */
static void round_as_stored(const struct problem *p, float *v)
{
    if (p->c->kv_f32) return;
    for (size_t i = 0; i < p->elements; i++) v[i] = tpi_half_to_float(tpi_float_to_half(v[i]));
}

static void make_head_tiles(struct problem *p)
{
    const int heads = p->c->heads;
    for (int h = 0; h < heads; h++)
        p->kv_of[h] = p->c->kv_of ? p->c->kv_of[h] : h / (heads / p->c->kv_heads);
    for (int h = 0, n = 0; h < heads; h += n) {
        for (n = 1; n < p->c->tile_heads && h + n < heads; n++)
            if (p->kv_of[h + n] != p->kv_of[h]) break;
        int32_t *tile = p->head_tiles + 4 * p->n_head_tiles++;
        tile[0] = h;
        tile[1] = n;
        tile[2] = p->kv_of[h];
        tile[3] = 0;
    }
}

/* Blocks in no order; table entries past a sequence's last block name a free one. */
static void make_table(struct problem *p)
{
    int *shuffled = malloc((size_t)p->blocks * sizeof *shuffled), next = 0;
    float *random = random_floats((size_t)p->blocks, 41);
    for (int b = 0; b < p->blocks; b++) {
        const int other = (int)((random[b] + 1.0f) / 2.0f * (float)(b + 1)) % (b + 1);
        shuffled[b] = b;
        shuffled[b] = shuffled[other];
        shuffled[other] = b;
    }
    for (int s = 0; s < p->n_seqs; s++)
        for (int b = 0; b < p->table_width; b++)
            p->table[s * p->table_width + b] = b < div_up(p->keys[s], p->c->block_size)
                                                   ? shuffled[next++]
                                                   : shuffled[p->blocks - 1];
    free(shuffled);
    free(random);
}

static void make_rows(struct problem *p)
{
    for (int s = 0, t = 0; s < p->n_seqs; s++) {
        const struct seq q = p->c->seqs[s];
        for (int r = 0; r < q.rows; r++) {
            if (r % p->c->tile_rows == 0) {
                p->row_tiles[2 * p->n_row_tiles] = t;
                p->row_tiles[2 * p->n_row_tiles++ + 1] =
                    q.rows - r < p->c->tile_rows ? q.rows - r : p->c->tile_rows;
            }
            p->pos[t] = q.past + r;
            p->seq[t++] = s;
        }
    }
}

static void make_problem(struct problem *p, const struct attention_case *c)
{
    const size_t row = (size_t)(c->kv_heads * c->head_dim);
    const int stride = (c->heads + 2 * c->kv_heads) * c->head_dim;
    *p = (struct problem){.c = c, .blocks = FREE_BLOCKS};
    for (; p->n_seqs < MAX_SEQS && c->seqs[p->n_seqs].rows > 0; p->n_seqs++) {
        const int s = p->n_seqs, keys = c->seqs[s].past + c->seqs[s].rows;
        const int blocks = div_up(keys, c->block_size);
        p->keys[s] = keys;
        p->at[s] = p->elements;
        p->elements += (size_t)keys * row;
        p->tokens += c->seqs[s].rows;
        p->blocks += blocks;
        if (blocks >= p->table_width) p->table_width = blocks + 1;
    }
    const size_t tokens = (size_t)p->tokens;
    p->pos = malloc(tokens * sizeof(int32_t));
    p->seq = malloc(tokens * sizeof(int32_t));
    p->row_tiles = malloc(tokens * 2 * sizeof(int32_t));
    p->table = malloc((size_t)(p->n_seqs * p->table_width) * sizeof(int32_t));
    p->qkv = random_floats(tokens * (size_t)stride, 3);
    for (int t = 0; t < p->tokens; t++) /* k and v heads are not for this kernel */
        for (int i = c->heads * c->head_dim; i < stride; i++) p->qkv[t * stride + i] = NAN;
    p->k = random_floats(p->elements, 5);
    p->v = random_floats(p->elements, 7);
    round_as_stored(p, p->k);
    round_as_stored(p, p->v);
    make_head_tiles(p);
    make_table(p);
    make_rows(p);
}

static void free_problem(struct problem *p)
{
    free(p->pos);
    free(p->seq);
    free(p->row_tiles);
    free(p->table);
    free(p->qkv);
    free(p->k);
    free(p->v);
}

static const float *head_rows(const struct problem *p, const float *kv, int s, int kv_head)
{
    return kv + p->at[s] + (size_t)kv_head * (size_t)(p->keys[s] * p->c->head_dim);
}

static void store(const struct problem *p, uint8_t *pool, size_t at, float value)
{
    const uint16_t h = tpi_float_to_half(value);
    if (p->c->kv_f32)
        memcpy(pool + at * 4, &value, 4);
    else
        memcpy(pool + at * 2, &h, 2);
}

/* The cache: every slot that no sequence owns, and every free block, holds `junk`. */
static cl_mem make_pool(const struct problem *p, const float *kv, float junk)
{
    const struct attention_case *c = p->c;
    const size_t d = (size_t)c->head_dim, bs = (size_t)c->block_size;
    const size_t n = (size_t)(p->blocks * c->kv_heads) * bs * d;
    const size_t bytes = tpi_dtype_bytes(kv_dtype(p), n);
    uint8_t *pool = malloc(bytes);
    for (size_t i = 0; i < n; i++) store(p, pool, i, junk);
    for (int s = 0; s < p->n_seqs; s++) {
        for (int head = 0; head < c->kv_heads; head++) {
            const float *from = head_rows(p, kv, s, head);
            for (size_t j = 0; j < (size_t)p->keys[s]; j++) {
                const size_t block = (size_t)p->table[(size_t)(s * p->table_width) + j / bs];
                const size_t to = (block * (size_t)c->kv_heads + (size_t)head) * bs + j % bs;
                for (size_t i = 0; i < d; i++) store(p, pool, to * d + i, from[j * d + i]);
            }
        }
    }
    cl_mem mem = buffer_of(pool, bytes);
    free(pool);
    return mem;
}

/* [tokens, heads * head_dim] from the device. */
static float *run(const struct problem *p, float junk)
{
    const struct attention_case *c = p->c;
    const size_t tokens = (size_t)p->tokens, d = (size_t)c->head_dim;
    const size_t stride = (size_t)(c->heads + 2 * c->kv_heads) * d;
    tpi_kv_layer cache = {make_pool(p, p->k, junk), make_pool(p, p->v, junk)};
    tpcl_tensor *qkv = tensor_of(p->qkv, TPCL_F32, tokens * stride);
    tpcl_tensor *out = guarded_output(tokens * (size_t)c->heads * d);
    tpcl_tensor *pos = tensor_of(p->pos, TPCL_I32, tokens);
    tpcl_tensor *seq = tensor_of(p->seq, TPCL_I32, tokens);
    tpcl_tensor *table = tensor_of(p->table, TPCL_I32, (size_t)(p->n_seqs * p->table_width));
    tpcl_tensor *rows = tensor_of(p->row_tiles, TPCL_I32, (size_t)p->n_row_tiles * 2);
    tpcl_tensor *heads = tensor_of(p->head_tiles, TPCL_I32, (size_t)p->n_head_tiles * 4);
    const tpi_attention_args args = {
        .heads = {c->heads, c->kv_heads, c->head_dim, c->head_dim, c->block_size, c->kv_f32, false},
        .qkv = qkv,
        .out = out,
        .pos = pos,
        .seq = seq,
        .table = table,
        .row_tiles = rows,
        .head_tiles = heads,
        .cache = &cache,
        .tokens = p->tokens,
        .n_row_tiles = p->n_row_tiles,
        .n_head_tiles = p->n_head_tiles,
        .table_width = p->table_width,
        .pairs = c->pairs,
    };
    assert_ok(tpi_attention(&args));
    float *got = read_guarded(out, tokens * (size_t)c->heads * d);
    tpi_buffer_release(&cache.k);
    tpi_buffer_release(&cache.v);
    tpcl_tensor_destroy(&qkv);
    tpcl_tensor_destroy(&out);
    tpcl_tensor_destroy(&pos);
    tpcl_tensor_destroy(&seq);
    tpcl_tensor_destroy(&table);
    tpcl_tensor_destroy(&rows);
    tpcl_tensor_destroy(&heads);
    return got;
}

static float *reference(const struct problem *p)
{
    const int heads = p->c->heads, d = p->c->head_dim, stride = (heads + 2 * p->c->kv_heads) * d;
    float *want = malloc((size_t)(p->tokens * heads * d) * sizeof *want);
    for (int t = 0; t < p->tokens; t++)
        for (int h = 0; h < heads; h++)
            tpcl_ref_attention(p->qkv + (size_t)t * (size_t)stride + (size_t)(h * d),
                               head_rows(p, p->k, p->seq[t], p->kv_of[h]),
                               head_rows(p, p->v, p->seq[t], p->kv_of[h]),
                               want + (size_t)(t * heads + h) * (size_t)d, p->pos[t] + 1, d, d,
                               0.0f);
    return want;
}

static double work_of(const struct attention_case *c)
{
    double keys = 0;
    for (int s = 0; s < MAX_SEQS; s++)
        keys += (double)c->seqs[s].rows * (c->seqs[s].past + c->seqs[s].rows);
    return keys * c->heads * c->head_dim * 2;
}

/* The two kernels: a work-item for a tile pair as on CPUs, or a work-group for each token and q
 * head as on GPUs, of 64 and of what a smaller device allows. */
static const struct way {
    tpcl_device_type type;
    size_t max_workgroup;
} ways[] = {{TPCL_DEVICE_CPU, 64}, {TPCL_DEVICE_GPU, 64}, {TPCL_DEVICE_GPU, 16}};

/* Run one way: head tiles of one are what makes a GPU take the work-group kernel. */
static float *run_way(const struct attention_case *c, const struct way *way, float junk,
                      float **want)
{
    const tpcl_device_info real = test_device->info;
    struct attention_case single = *c;
    struct problem p;
    test_device->info.type = way->type;
    if (way->max_workgroup < real.max_workgroup)
        test_device->info.max_workgroup = way->max_workgroup;
    if (way->type != TPCL_DEVICE_CPU) single.tile_heads = 1;
    make_problem(&p, &single);
    if (want) *want = reference(&p);
    float *got = run(&p, junk);
    free_problem(&p);
    test_device->info = real;
    return got;
}

static size_t outputs_of(const struct attention_case *c)
{
    int rows = 0;
    for (int s = 0; s < MAX_SEQS; s++) rows += c->seqs[s].rows;
    return (size_t)(rows * c->heads * c->head_dim);
}

static void check(const struct attention_case *c, float junk)
{
    for (size_t w = 0; w < COUNT(ways); w++) {
        float *want, *got = run_way(c, &ways[w], junk, &want);
        /* a mean of values of about 1 by f32 weights; their sum takes keys / 8 roundings */
        assert_close(got, want, outputs_of(c), 1e-5, 5e-6);
        free(want);
        free(got);
    }
}

static void matches_reference(void **state)
{
    begin_case(work_of(*state));
    check(*state, NAN);
}

/* Pages hold what an earlier sequence left; every length around the block size, so that the page
 * after a full one would show. */
static void ignores_stale_pages(void **state)
{
    (void)state;
    static const int lengths[] = {15, 16, 17, 31, 32, 33, 48};
    begin_case(48 * 16 * 4);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        const struct attention_case decode = {
            "", 2, 1, 16, 16, false, 2, 1, 2, {{lengths[i] - 1, 1}}, NULL};
        const struct attention_case prefill = {"",  2, 1, 16, 16, false, 4, 4, 1, {{0, lengths[i]}},
                                               NULL};
        check(&decode, 1e4f);
        if (!too_slow(work_of(&prefill))) check(&prefill, 1e4f);
    }
}

static void check_junk(const struct attention_case *c, const struct way *way)
{
    float *zero = run_way(c, way, 0.0f, NULL), *nan = run_way(c, way, NAN, NULL);
    float *inf = run_way(c, way, INFINITY, NULL);
    const size_t n = outputs_of(c);
    for (size_t i = 0; i < n; i++) assert_true(isfinite(zero[i]));
    assert_memory_equal(nan, zero, n * sizeof *zero);
    assert_memory_equal(inf, zero, n * sizeof *zero);
    free(zero);
    free(nan);
    free(inf);
}

/* 0 * NaN is NaN: slots and blocks outside the sequence must not be read at all. */
static void unused_slots_do_not_matter(void **state)
{
    (void)state;
    static const int lengths[] = {1, 15, 16, 17, 31, 33};
    begin_case(33 * 16 * 8);
    const int step =
        small_only() ? 3 : 1; /* lengths 1 and 17; tiles of heads and f16, rows and f32 */
    for (int variant = 0; variant < 4; variant += step) {
        for (size_t i = 0; i < COUNT(lengths); i += (size_t)step) {
            const int rows = variant & 1 && lengths[i] >= 3 ? 3 : 1;
            const struct attention_case c = {"",
                                             2,
                                             1,
                                             16,
                                             16,
                                             (variant & 2) != 0,
                                             4,
                                             rows,
                                             1 + !(variant & 1),
                                             {{lengths[i] - rows, rows}},
                                             NULL};
            for (size_t w = 0; w < COUNT(ways); w++) check_junk(&c, &ways[w]);
        }
    }
}

/* All scores equal and V of kv head j = j: q head h gives floor(h / (heads / kv_heads)). */
static void heads_read_their_kv_head(void **state)
{
    (void)state;
    static const int pairs[][2] = {{4, 4}, {9, 3}, {14, 2}, {28, 4}, {32, 8}, {8, 1}};
    begin_case(32 * 16 * 5);
    for (size_t i = 0; i < COUNT(pairs); i++) {
        const int heads = pairs[i][0], kv_heads = pairs[i][1];
        const struct attention_case c = {"", heads, kv_heads, 16,       16,  false,
                                         4,  1,     4,        {{4, 1}}, NULL};
        struct problem p;
        make_problem(&p, &c);
        memset(p.k, 0, p.elements * sizeof *p.k);
        for (size_t e = 0; e < p.elements; e++) p.v[e] = (float)(e / (5 * 16));
        float *got = run(&p, NAN);
        for (int h = 0; h < heads; h++)
            for (int e = 0; e < 16; e++)
                assert_true(got[h * 16 + e] == (float)(h / (heads / kv_heads)));
        if (heads == 28) assert_true(got[27 * 16] == 3.0f);
        if (heads == 32) assert_true(got[31 * 16] == 7.0f);
        free_problem(&p);
        free(got);
    }
}

/* Heads 5..8 of 9 over kv heads 1 and 2, tiled by hand: the tiles the table's cases use. */
static void tiles_of_a_part_are_as_drawn(void **state)
{
    (void)state;
    begin_case(0);
    static const int32_t drawn[] = {0, 1, 0, 0, 1, 3, 1, 0};
    const struct attention_case *c = NULL;
    for (size_t i = 0; i < COUNT(cases); i++)
        if (cases[i].kv_of == starts_in_a_group) c = &cases[i];
    assert_non_null(c);
    struct problem p;
    make_problem(&p, c);
    assert_int_equal(p.n_head_tiles, 2);
    assert_memory_equal(p.head_tiles, drawn, sizeof drawn);
    free_problem(&p);
}

/* Scores rising, then falling, by more than exp can hold: the running maximum must follow. */
static void follows_the_running_maximum(void **state)
{
    (void)state;
    begin_case(30 * 16 * 2);
    const struct attention_case c = {"", 1, 1, 16, 16, true, 1, 1, 1, {{29, 1}}, NULL};
    for (int falling = 0; falling < 2; falling++) {
        struct problem p;
        make_problem(&p, &c);
        for (int i = 0; i < 16; i++) p.qkv[i] = i == 0 ? 400.0f : 0.0f;
        for (int j = 0; j < 30; j++) p.k[j * 16] = (float)(falling ? -j : j);
        float *got = run(&p, NAN);
        assert_memory_equal(got, p.v + (falling ? 0 : 29 * 16), 16 * sizeof *got);
        free_problem(&p);
        free(got);
    }
}

static void long_contexts_at_every_head_dim(void **state)
{
    const int head_dim = *(const int *)*state;
    static const int lengths[] = {511, 512, 513, 1000};
    begin_case(1000.0 * head_dim * 4);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        const struct attention_case decode = {
            "", 2, 1, head_dim, 16, false, 4, 1, 2, {{lengths[i] - 1, 1}}, NULL};
        const struct attention_case rows = {
            "", 1, 1, head_dim, 16, true, 4, 4, 1, {{lengths[i] - 3, 3}}, NULL};
        check(&decode, NAN);
        check(&rows, NAN);
    }
}

/* A head_dim that vectors do not cut is refused by its number, never computed in part. */
static void knows_what_it_cannot_do(void **state)
{
    (void)state;
    begin_case(0);
    const int32_t zeros[8] = {0};
    tpcl_tensor *x = tensor_of(NULL, TPCL_F32, 48), *ints = tensor_of(zeros, TPCL_I32, 8);
    tpi_kv_layer none = {NULL, NULL};
    tpi_attention_args args = {.heads = {0, 0, 16, 16, 16, true, false},
                               .qkv = x,
                               .out = x,
                               .pos = ints,
                               .seq = ints,
                               .table = ints,
                               .row_tiles = ints,
                               .head_tiles = ints,
                               .cache = &none,
                               .tokens = 1,
                               .n_row_tiles = 1,
                               .table_width = 1,
                               .pairs = 1};
    assert_ok(tpi_attention(&args)); /* a rank without heads */
    args.heads.heads = args.heads.kv_heads = args.n_head_tiles = 1;
    args.tokens = args.n_row_tiles = 0;
    assert_ok(tpi_attention(&args)); /* a step without tokens */
    args.tokens = args.n_row_tiles = 1;
    static const int pairs[] = {0, 3, 5, 8};
    for (size_t i = 0; i < COUNT(pairs); i++) {
        args.pairs = pairs[i];
        assert_int_equal(tpi_attention(&args), TPCL_ERR_ARG);
    }
    args.pairs = 4;
    static const int odd[] = {0, 63, 258, 320};
    for (size_t i = 0; i < COUNT(odd); i++) {
        char number[16];
        args.heads.head_dim = odd[i];
        args.heads.v_head_dim = 16;
        snprintf(number, sizeof number, "%d", odd[i]);
        assert_int_equal(tpi_attention(&args), TPCL_ERR_ARG);
        assert_non_null(strstr(tpcl_last_error(), number));
    }
    args.heads.head_dim = 18; /* qkv is too short */
    assert_int_equal(tpi_attention(&args), TPCL_ERR_SHAPE);
    args.heads.head_dim = 16;
    args.n_row_tiles = 5; /* more tiles than given */
    assert_int_equal(tpi_attention(&args), TPCL_ERR_SHAPE);
    args.n_row_tiles = 1;
    args.n_head_tiles = 3;
    assert_int_equal(tpi_attention(&args), TPCL_ERR_SHAPE);
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&ints);
}

int main(void)
{
    static const int head_dims[] = {64, 80, 96, 128, 256};
    static const char *const names[] = {"long_64", "long_80", "long_96", "long_128", "long_256"};
    const struct CMUnitTest others[] = {
        cmocka_unit_test(ignores_stale_pages),
        cmocka_unit_test(unused_slots_do_not_matter),
        cmocka_unit_test(heads_read_their_kv_head),
        cmocka_unit_test(tiles_of_a_part_are_as_drawn),
        cmocka_unit_test(follows_the_running_maximum),
        cmocka_unit_test(knows_what_it_cannot_do),
    };
    struct CMUnitTest tests[COUNT(cases) + COUNT(head_dims) + COUNT(others)];
    size_t n = 0;
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[n++] = (struct CMUnitTest){.name = cases[i].name,
                                         .test_func = matches_reference,
                                         .initial_state = (void *)&cases[i]};
    for (size_t i = 0; i < COUNT(head_dims); i++)
        tests[n++] = (struct CMUnitTest){.name = names[i],
                                         .test_func = long_contexts_at_every_head_dim,
                                         .initial_state = (void *)&head_dims[i]};
    for (size_t i = 0; i < COUNT(others); i++) tests[n++] = others[i];
    return run_ops_tests("ops/attention", tests);
}
