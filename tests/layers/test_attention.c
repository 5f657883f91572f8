/* q, k, v projection, attention and o-projection on several ranks against plain arithmetic of the
 * whole model; what the layer refuses. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <tpcl/attention.h>

#include "layers_test.h"

enum { CONTEXT = 32, SEQUENCES = 3, MOST_ROWS = 12, BLOCK = 4 };

enum rope { NONE, HALVES, PAIRS, PAIRS_LLAMA3, HALVES_LINEAR };

struct block_case {
    const char *name;
    int hidden, heads, kv_heads, d, dv; /* dv 0 = d */
    enum rope rope;
    bool norm, f32;
    int window;
    float scale;
};
static const struct block_case cases[] = {
    {"qwen3_like", 24, 4, 2, 16, 0, HALVES, true, true, 0, 0},
    {"qwen3_like_f16", 24, 4, 2, 16, 0, HALVES, true, false, 0, 0},
    {"llama_like", 32, 8, 2, 8, 0, PAIRS_LLAMA3, false, true, 0, 0},
    {"smollm2_like", 72, 9, 3, 8, 0, HALVES, false, true, 0, 0},
    {"c18_head_dim_times_heads_unlike_hidden", 8, 2, 2, 8, 0, HALVES, false, true, 0, 0},
    {"fewer_heads_than_ranks", 16, 2, 1, 16, 0, PAIRS, false, true, 0, 0},
    {"one_head", 12, 1, 1, 20, 0, HALVES_LINEAR, true, false, 0, 0},
    {"narrow_v_window", 16, 6, 3, 16, 8, HALVES, false, true, 3, 0},
    {"wide_v_scale", 16, 4, 4, 8, 20, PAIRS, true, true, 0, 0.3f},
    {"no_rotation_window_of_1", 16, 7, 1, 16, 0, NONE, false, true, 1, 0},
    {"no_rotation_norm_scale", 16, 5, 1, 18, 4, NONE, true, false, 6, 1.5f},
};

/* Rows of each sequence in each pass: a prompt at once, in parts, behind others. */
static const int passes[][SEQUENCES] = {{7, 3, 0}, {1, 2, 5}, {1, 1, 1}, {4, 0, 6}};

struct block {
    const struct block_case *c;
    int dv, q_all, kv_all;
    tpcl_head_range heads[MAX_RANKS];
    float *w_q, *w_k, *w_v, *w_o, *norm_q, *norm_k, *angles;
    tpcl_linear *qkv, *o;
    tpcl_tensor *rope, *x, *in, *out, *y;
    tpcl_attention *layer;
    tpcl_kv_cache *cache;
    tpcl_batch *batch;
    float *k[SEQUENCES], *v[SEQUENCES]; /* [kv heads, CONTEXT, d or dv] of the whole model */
    int length[SEQUENCES];
};

static float *weights(int out, int in, uint32_t seed)
{
    float *w = random_floats((size_t)out * (size_t)in, seed);
    for (int i = 0; i < out * in; i++) w[i] *= 0.5f;
    return w;
}

static void make_rope(struct block *b)
{
    const enum rope kind = b->c->rope;
    tpcl_rope_desc d = {.head_dim = b->c->d, .context = CONTEXT, .theta = 10000};
    if (kind == NONE) return;
    if (kind == HALVES_LINEAR) d.factor = 4, d.linear = true;
    if (kind == PAIRS_LLAMA3)
        d.factor = 8, d.low_freq_factor = 1, d.high_freq_factor = 4, d.original_context = 16;
    assert_ok(tpcl_rope_table_create(tpcl_group_device(group), &d, &b->rope));
    b->angles = malloc((size_t)(CONTEXT * b->c->d) * sizeof *b->angles);
    assert_ok(tpcl_tensor_read(b->rope, b->angles, (size_t)(CONTEXT * b->c->d)));
}

static void make_projections(struct block *b)
{
    const struct block_case *c = b->c;
    tpcl_range columns[MAX_RANKS];
    const tpcl_host_tensor q = matrix("q", b->w_q, c->heads * c->d, c->hidden),
                           k = matrix("k", b->w_k, c->kv_heads * c->d, c->hidden),
                           v = matrix("v", b->w_v, c->kv_heads * b->dv, c->hidden),
                           o = matrix("o", b->w_o, c->hidden, c->heads * b->dv);
    for (int r = 0; r < size; r++)
        columns[r] = (tpcl_range){b->heads[r].q.begin * b->dv, b->heads[r].q.end * b->dv};
    const tpcl_qkv_linear_desc qkv = {.heads = c->heads,
                                      .kv_heads = c->kv_heads,
                                      .head_dim = c->d,
                                      .v_head_dim = c->dv,
                                      .q = &q,
                                      .k = &k,
                                      .v = &v,
                                      .ranges = b->heads};
    const tpcl_row_linear_options cut = {.columns = columns};
    assert_ok(tpcl_qkv_linear_create(group, &qkv, &b->qkv));
    assert_ok(tpcl_row_linear_create(group, &o, NULL, &cut, &b->o));
}

static void make_attention(struct block *b)
{
    const struct block_case *c = b->c;
    const tpcl_host_tensor norm_q = vector("q_norm", b->norm_q, c->d),
                           norm_k = vector("k_norm", b->norm_k, c->d);
    const tpcl_attention_desc layer = {.heads = c->heads,
                                       .kv_heads = c->kv_heads,
                                       .head_dim = c->d,
                                       .v_head_dim = c->dv,
                                       .mine = b->heads[rank],
                                       .scale = c->scale,
                                       .window = c->window,
                                       .interleaved = c->rope == PAIRS || c->rope == PAIRS_LLAMA3,
                                       .rope_table = b->rope,
                                       .q_norm = c->norm ? &norm_q : NULL,
                                       .k_norm = c->norm ? &norm_k : NULL,
                                       .norm_eps = 1e-6f};
    const tpcl_kv_cache_desc room = {.layers = 1,
                                     .head_dim = c->d,
                                     .v_head_dim = c->dv,
                                     .blocks = 3 * CONTEXT / BLOCK,
                                     .block_size = BLOCK,
                                     .max_sequences = SEQUENCES,
                                     .f32 = c->f32,
                                     .heads = &b->heads[rank]};
    assert_ok(tpcl_attention_create(group, &layer, &b->layer));
    assert_ok(tpcl_kv_cache_create(group, &room, &b->cache));
    assert_ok(tpcl_batch_create(group, b->cache, &(tpcl_batch_options){.max_tokens = MOST_ROWS},
                                &b->batch));
    assert_int_equal(tpcl_attention_in(b->layer), tpcl_linear_out(b->qkv));
    assert_int_equal(tpcl_attention_out(b->layer), tpcl_linear_in(b->o));
    assert_int_equal(tpcl_kv_cache_token_bytes(b->cache),
                     tpcl_range_size(b->heads[rank].kv) * (c->d + b->dv) * (c->f32 ? 4 : 2));
}

static void open_block(struct block *b, const struct block_case *c)
{
    *b = (struct block){.c = c, .dv = c->dv ? c->dv : c->d};
    assert_ok(tpcl_group_shard_heads(group, c->heads, c->kv_heads, 1, 0, b->heads));
    b->w_q = weights(c->heads * c->d, c->hidden, 3);
    b->w_k = weights(c->kv_heads * c->d, c->hidden, 5);
    b->w_v = weights(c->kv_heads * b->dv, c->hidden, 7);
    b->w_o = weights(c->hidden, c->heads * b->dv, 9);
    b->norm_q = random_floats((size_t)c->d, 11);
    b->norm_k = random_floats((size_t)c->d, 13);
    for (int s = 0; s < SEQUENCES; s++) {
        b->k[s] = malloc((size_t)(c->kv_heads * CONTEXT * c->d) * sizeof(float));
        b->v[s] = malloc((size_t)(c->kv_heads * CONTEXT * b->dv) * sizeof(float));
    }
    make_rope(b);
    make_projections(b);
    make_attention(b);
    b->x = tensor_of(NULL, TPCL_F32, MOST_ROWS * (int64_t)c->hidden);
    b->y = tensor_of(NULL, TPCL_F32, MOST_ROWS * (int64_t)c->hidden);
    b->in = tensor_of(NULL, TPCL_F32, MOST_ROWS * (int64_t)tpcl_attention_in(b->layer));
    b->out = tensor_of(NULL, TPCL_F32, MOST_ROWS * (int64_t)tpcl_attention_out(b->layer));
}

static void close_block(struct block *b)
{
    tpcl_tensor **tensors[] = {&b->rope, &b->x, &b->in, &b->out, &b->y};
    float *arrays[] = {b->w_q, b->w_k, b->w_v, b->w_o, b->norm_q, b->norm_k, b->angles};
    tpcl_attention_destroy(&b->layer);
    tpcl_batch_destroy(&b->batch);
    tpcl_kv_cache_destroy(&b->cache);
    tpcl_linear_destroy(&b->qkv);
    tpcl_linear_destroy(&b->o);
    for (size_t i = 0; i < COUNT(tensors); i++) tpcl_tensor_destroy(tensors[i]);
    for (size_t i = 0; i < COUNT(arrays); i++) free(arrays[i]);
    for (int s = 0; s < SEQUENCES; s++) {
        free(b->k[s]);
        free(b->v[s]);
    }
}

static void round_as_stored(const struct block *b, float *row, int n)
{
    for (int i = 0; !b->c->f32 && i < n; i++) row[i] = tpi_half_to_float(tpi_float_to_half(row[i]));
}

/* Norm and rotation of one head row. */
static void turn(const struct block *b, float *row, const float *norm, int pos)
{
    const struct block_case *c = b->c;
    static const float still[32] = {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0,
                                    1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
    tpcl_ref_rope(row, c->norm ? norm : NULL, b->angles ? b->angles + pos * c->d : still, c->d,
                  c->rope == PAIRS || c->rope == PAIRS_LLAMA3, 1e-6f);
}

/* The whole model's y for one token, whose K and V are remembered. */
static void plain_token(struct block *b, int s, const float *x, float *y)
{
    const struct block_case *c = b->c;
    const int pos = b->length[s]++, first = c->window && pos >= c->window ? pos - c->window + 1 : 0;
    float q[256], k[256], v[256], heads[256];
    tpcl_ref_linear(x, b->w_q, NULL, q, 1, c->heads * c->d, c->hidden);
    tpcl_ref_linear(x, b->w_k, NULL, k, 1, c->kv_heads * c->d, c->hidden);
    tpcl_ref_linear(x, b->w_v, NULL, v, 1, c->kv_heads * b->dv, c->hidden);
    for (int h = 0; h < c->kv_heads; h++) {
        float *to_k = b->k[s] + (h * CONTEXT + pos) * c->d;
        float *to_v = b->v[s] + (h * CONTEXT + pos) * b->dv;
        memcpy(to_k, k + h * c->d, (size_t)c->d * sizeof *k);
        memcpy(to_v, v + h * b->dv, (size_t)b->dv * sizeof *v);
        turn(b, to_k, b->norm_k, pos);
        round_as_stored(b, to_k, c->d);
        round_as_stored(b, to_v, b->dv);
    }
    for (int h = 0; h < c->heads; h++) {
        const int kv = h / (c->heads / c->kv_heads);
        turn(b, q + h * c->d, b->norm_q, pos);
        tpcl_ref_attention(q + h * c->d, b->k[s] + (kv * CONTEXT + first) * c->d,
                           b->v[s] + (kv * CONTEXT + first) * b->dv, heads + h * b->dv,
                           pos - first + 1, c->d, b->dv, c->scale);
    }
    tpcl_ref_linear(heads, b->w_o, NULL, y, 1, c->hidden, c->heads * b->dv);
}

static void run_pass(struct block *b, int pass)
{
    const int hidden = b->c->hidden;
    const int32_t ids[MOST_ROWS] = {0};
    float *x = random_floats((size_t)(MOST_ROWS * hidden), 100 + (uint32_t)pass);
    float *want = malloc((size_t)(MOST_ROWS * hidden) * sizeof *want);
    float *got = malloc((size_t)(MOST_ROWS * hidden) * sizeof *got);
    int n = 0;
    tpcl_batch_clear(b->batch);
    for (int s = 0; s < SEQUENCES; s++) {
        assert_ok(tpcl_batch_add(b->batch, s, ids, passes[pass][s]));
        for (int r = 0; r < passes[pass][s]; r++, n++)
            plain_token(b, s, x + n * hidden, want + n * hidden);
    }
    assert_ok(tpcl_batch_upload(b->batch));
    assert_ok(tpcl_tensor_write(b->x, x, (size_t)(n * hidden)));
    assert_ok(tpcl_linear_forward(b->qkv, b->x, b->in, n));
    assert_ok(tpcl_attention_forward(b->layer, 0, b->in, b->batch, b->cache, b->out));
    assert_ok(tpcl_linear_forward(b->o, b->out, b->y, n));
    assert_ok(tpcl_tensor_read(b->y, got, (size_t)(n * hidden)));
    /* f16: a key or value next to a rounding border may round the other way on the device */
    assert_close(got, want, (size_t)(n * hidden), 1e-4, b->c->f32 ? 1e-4 : 4e-3);
    free(x);
    free(want);
    free(got);
}

static void equals_one_rank(void **state)
{
    struct block b;
    open_block(&b, *state);
    for (int pass = 0; pass < (int)COUNT(passes); pass++) run_pass(&b, pass);
    close_block(&b);
}

/* One head of four, one sequence; what the refusals and the worked numbers need. */
struct small {
    tpcl_tensor *rope, *in, *out;
    tpcl_kv_cache *cache;
    tpcl_batch *batch;
};
enum { D = 4, ROPE_CONTEXT = 3, ROWS = 4 };
static const tpcl_head_range one_head = {{0, 1}, {0, 1}};

static tpcl_attention_desc small_desc(const struct small *s)
{
    return (tpcl_attention_desc){
        .heads = 1, .kv_heads = 1, .head_dim = D, .mine = one_head, .rope_table = s->rope};
}

static struct small open_small(void)
{
    struct small s = {0};
    const tpcl_rope_desc rope = {.head_dim = D, .context = ROPE_CONTEXT, .theta = 10000};
    const tpcl_kv_cache_desc room = {.layers = 2,
                                     .head_dim = D,
                                     .blocks = 2,
                                     .block_size = 4,
                                     .max_sequences = 1,
                                     .f32 = true,
                                     .heads = (tpcl_head_range[]){one_head, one_head}};
    assert_ok(tpcl_rope_table_create(tpcl_group_device(group), &rope, &s.rope));
    assert_ok(tpcl_kv_cache_create(group, &room, &s.cache));
    assert_ok(
        tpcl_batch_create(group, s.cache, &(tpcl_batch_options){.max_tokens = ROWS}, &s.batch));
    s.in = tensor_of(NULL, TPCL_F32, ROWS * 3 * D);
    s.out = tensor_of(NULL, TPCL_F32, ROWS * D);
    return s;
}

static void close_small(struct small *s)
{
    tpcl_batch_destroy(&s->batch);
    tpcl_kv_cache_destroy(&s->cache);
    tpcl_tensor_destroy(&s->rope);
    tpcl_tensor_destroy(&s->in);
    tpcl_tensor_destroy(&s->out);
}

/* Case C19: q = 1 2 3 4 at position 1, in both forms of RoPE, and without. */
static void c19_rope_gives_the_worked_numbers(void **state)
{
    (void)state;
    static const float want[3][4] = {{-1.984111f, 1.959901f, 2.462378f, 4.019800f},
                                     {-1.142640f, 1.922076f, 2.959851f, 4.029800f},
                                     {1, 2, 3, 4}};
    static const float rows[2 * 3 * D] = {1, 2, 3, 4, 1, 2, 3, 4, 5, 5, 5, 5,
                                          1, 2, 3, 4, 1, 2, 3, 4, 5, 5, 5, 5};
    const int32_t ids[2] = {0};
    struct small s = open_small();
    assert_ok(tpcl_batch_add(s.batch, 0, ids, 2));
    assert_ok(tpcl_batch_upload(s.batch));
    for (int form = 0; form < 3; form++) {
        tpcl_attention_desc d = small_desc(&s);
        tpcl_attention *layer = NULL;
        float in[2 * 3 * D], out[2 * D];
        d.interleaved = form == 1;
        if (form == 2) d.rope_table = NULL;
        assert_ok(tpcl_attention_create(group, &d, &layer));
        assert_ok(tpcl_tensor_write(s.in, rows, COUNT(rows)));
        assert_ok(tpcl_attention_forward(layer, 0, s.in, s.batch, s.cache, s.out));
        assert_ok(tpcl_tensor_read(s.in, in, COUNT(in)));
        assert_ok(tpcl_tensor_read(s.out, out, COUNT(out)));
        assert_memory_equal(in, rows, D * sizeof *in); /* position 0 is not turned */
        assert_close(in + 3 * D, want[form], D, 0, 2e-6);
        for (int i = 0; i < 2 * D; i++) assert_float_equal(out[i], 5.0f, 1e-6);
        tpcl_attention_destroy(&layer);
    }
    close_small(&s);
}

static void the_description_is_checked(void **state)
{
    (void)state;
    struct small s = open_small();
    tpcl_attention *layer = (tpcl_attention *)&s;
    float ones[2 * D] = {1, 1, 1, 1, 1, 1, 1, 1};
    const tpcl_host_tensor norm = vector("norm", ones, D), longer = vector("norm", ones, D + 1),
                           flat = matrix("norm", ones, D, 2);
    const struct {
        tpcl_attention_desc d;
        tpcl_status code;
        const char *text;
    } bad[] = {
#define BAD(code_, text_, ...)                                                          \
    {{.heads = 1, .kv_heads = 1, .head_dim = D, .mine = {{0, 1}, {0, 1}}, __VA_ARGS__}, \
     code_,                                                                             \
     text_}
        BAD(TPCL_ERR_SHAPE, "q_norm has 1 dimensions of 5 elements, need [4]", .q_norm = &longer,
            .k_norm = &norm),
        BAD(TPCL_ERR_SHAPE, "k_norm has 2 dimensions", .q_norm = &norm, .k_norm = &flat),
        BAD(TPCL_ERR_ARG, "k_norm is NULL", .q_norm = &norm),
        BAD(TPCL_ERR_ARG, "q_norm is NULL", .k_norm = &norm),
        BAD(TPCL_ERR_ARG, "norm_eps -1", .q_norm = &norm, .k_norm = &norm, .norm_eps = -1),
        BAD(TPCL_ERR_ARG, "window -1", .window = -1),
        BAD(TPCL_ERR_ARG, "scale nan", .scale = NAN),
        BAD(TPCL_ERR_ARG, "v_head_dim 258", .v_head_dim = 258),
        BAD(TPCL_ERR_ARG, "v_head_dim 3", .v_head_dim = 3),
#undef BAD
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_refused(tpcl_attention_create(group, &bad[i].d, &layer), bad[i].code, bad[i].text);
        assert_null(layer);
    }
    static const struct {
        int heads, kv_heads, d;
        tpcl_head_range mine;
        const char *text;
    } heads[] = {
        {1, 1, 63, {{0, 1}, {0, 1}}, "head_dim 63"}, /* case C17 */
        {1, 1, 320, {{0, 1}, {0, 1}}, "head_dim 320"},
        {1, 1, 0, {{0, 1}, {0, 1}}, "head_dim 0"},
        {5, 2, D, {{0, 1}, {0, 1}}, "5 heads over 2 kv heads"},
        {0, 1, D, {{0, 0}, {0, 0}}, "0 heads over 1 kv heads"},
        {2, 0, D, {{0, 1}, {0, 1}}, "2 heads over 0 kv heads"},
        {4, 2, D, {{2, 5}, {1, 2}}, "q heads 2..5 of 4"},
        {4, 2, D, {{2, 1}, {1, 2}}, "q heads 2..1 of 4"},
        {4, 2, D, {{0, 2}, {0, 3}}, "kv heads 0..3 of 2"},
        {4, 2, D, {{1, 3}, {0, 1}}, "q heads 1..3 need other kv heads than 0..1"},
    };
    for (size_t i = 0; i < COUNT(heads); i++) {
        const tpcl_attention_desc d = {.heads = heads[i].heads,
                                       .kv_heads = heads[i].kv_heads,
                                       .head_dim = heads[i].d,
                                       .mine = heads[i].mine};
        assert_refused(tpcl_attention_create(group, &d, &layer), TPCL_ERR_ARG, heads[i].text);
    }
    tpcl_attention_desc d = small_desc(&s);
    d.head_dim = 8;
    assert_refused(tpcl_attention_create(group, &d, &layer), TPCL_ERR_SHAPE,
                   "for head_dim 4, the layer's is 8");
    d.rope_table = s.in;
    assert_refused(tpcl_attention_create(group, &d, &layer), TPCL_ERR_SHAPE, "no F32 tensor");
    assert_refused(tpcl_attention_create(NULL, &d, &layer), TPCL_ERR_ARG, "group is NULL");
    assert_refused(tpcl_attention_create(group, NULL, &layer), TPCL_ERR_ARG, "desc is NULL");
    assert_refused(tpcl_attention_create(group, &d, NULL), TPCL_ERR_ARG, "out is NULL");
    tpcl_attention_destroy(&layer);
    tpcl_attention_destroy(NULL);
    assert_int_equal(tpcl_attention_in(NULL) + tpcl_attention_out(NULL), 0);
    close_small(&s);
}

static void the_rope_table_is_checked(void **state)
{
    (void)state;
    static const float zero[2] = {1, 0};
    static const struct {
        tpcl_rope_desc d;
        const char *text;
    } bad[] = {
#define BAD(text_, ...) {{.head_dim = D, .context = 3, .theta = 1e4, __VA_ARGS__}, text_}
        BAD("factor 0.5", .factor = 0.5),
        BAD("factor nan", .factor = NAN),
        BAD("low_freq_factor 4, high_freq_factor 1", .factor = 8, .low_freq_factor = 4,
            .high_freq_factor = 1, .original_context = 16),
        BAD("original_context 0", .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4),
        BAD("factors[1] is 0", .factors = zero),
#undef BAD
        {{.head_dim = 5, .context = 3, .theta = 1e4}, "head_dim 5"},
        {{.head_dim = 258, .context = 3, .theta = 1e4}, "head_dim 258"},
        {{.head_dim = D, .context = 0, .theta = 1e4}, "context 0"},
        {{.head_dim = D, .context = 3, .theta = 0}, "theta 0"},
    };
    tpcl_device *device = tpcl_group_device(group);
    tpcl_tensor *t = NULL;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_refused(tpcl_rope_table_create(device, &bad[i].d, &t), TPCL_ERR_ARG, bad[i].text);
        assert_null(t);
    }
    assert_refused(tpcl_rope_table_create(NULL, &bad[0].d, &t), TPCL_ERR_ARG, "device is NULL");
    assert_refused(tpcl_rope_table_create(device, NULL, &t), TPCL_ERR_ARG, "desc is NULL");
    assert_refused(tpcl_rope_table_create(device, &bad[0].d, NULL), TPCL_ERR_ARG, "out is NULL");
}

/* Llama 3: waves of up to 16 / 4 tokens stay, those of more than 16 are 8 times as long. */
static void llama3_scaling_by_hand(void **state)
{
    (void)state;
    enum { PAIR_COUNT = 3 };
    const tpcl_rope_desc d = {.head_dim = 2 * PAIR_COUNT,
                              .context = 2,
                              .theta = 8,
                              .factor = 8,
                              .low_freq_factor = 1,
                              .high_freq_factor = 4,
                              .original_context = 16};
    /* frequencies 1, 1/2, 1/4: waves of 6.28, 12.57, 25.13; blends (16 / wave - 1) / 3 of the first
     * two are 0.515493 and 0.0910798 */
    static const double angle[PAIR_COUNT] = {0.515493 + (1 - 0.515493) / 8,
                                             (0.0910798 + (1 - 0.0910798) / 8) / 2, 0.25 / 8};
    float got[2 * 2 * PAIR_COUNT];
    tpcl_tensor *t = NULL;
    assert_ok(tpcl_rope_table_create(tpcl_group_device(group), &d, &t));
    assert_ok(tpcl_tensor_read(t, got, COUNT(got)));
    for (int j = 0; j < PAIR_COUNT; j++) {
        assert_true(got[2 * j] == 1.0f && got[2 * j + 1] == 0.0f);
        assert_float_equal(got[2 * (PAIR_COUNT + j)], cos(angle[j]), 2e-6);
        assert_float_equal(got[2 * (PAIR_COUNT + j) + 1], sin(angle[j]), 2e-6);
    }
    tpcl_tensor_destroy(&t);
}

/* What is refused leaves qkv, out and the cache as they were. */
static void calls_are_checked(void **state)
{
    (void)state;
    struct small s = open_small(), other = open_small();
    const int32_t ids[ROWS] = {0};
    float rows[ROWS * 3 * D], in[ROWS * 3 * D], out[ROWS * D];
    tpcl_attention *layer = NULL, *wide = NULL, *more = NULL;
    tpcl_attention_desc d = small_desc(&s);
    fill(rows, COUNT(rows), 3);
    assert_ok(tpcl_tensor_write(s.in, rows, COUNT(rows)));
    assert_ok(tpcl_attention_create(group, &d, &layer));
    d.v_head_dim = 6;
    assert_ok(tpcl_attention_create(group, &d, &wide));
    d = small_desc(&s);
    d.heads = d.kv_heads = 2;
    d.mine = (tpcl_head_range){{0, 2}, {0, 2}};
    assert_ok(tpcl_attention_create(group, &d, &more));
    tpcl_tensor *small = tensor_of(NULL, TPCL_F32, 3 * D - 1);
#define REFUSES(code, text, ...) assert_refused(tpcl_attention_forward(__VA_ARGS__), code, text)
    assert_ok(tpcl_batch_add(s.batch, 0, ids, 1));
    REFUSES(TPCL_ERR_ARG, "not uploaded", layer, 0, s.in, s.batch, s.cache, s.out);
    assert_ok(tpcl_batch_upload(s.batch));
    REFUSES(TPCL_ERR_ARG, "layer is NULL", NULL, 0, s.in, s.batch, s.cache, s.out);
    REFUSES(TPCL_ERR_ARG, "batch is NULL", layer, 0, s.in, NULL, s.cache, s.out);
    REFUSES(TPCL_ERR_ARG, "cache is NULL", layer, 0, s.in, s.batch, NULL, s.out);
    REFUSES(TPCL_ERR_ARG, "qkv is NULL", layer, 0, NULL, s.batch, s.cache, s.out);
    REFUSES(TPCL_ERR_ARG, "out is NULL", layer, 0, s.in, s.batch, s.cache, NULL);
    REFUSES(TPCL_ERR_ARG, "another cache", layer, 0, s.in, s.batch, other.cache, s.out);
    REFUSES(TPCL_ERR_ARG, "layer 2, the cache has 0 to 1", layer, 2, s.in, s.batch, s.cache, s.out);
    REFUSES(TPCL_ERR_ARG, "layer -1", layer, -1, s.in, s.batch, s.cache, s.out);
    REFUSES(TPCL_ERR_ARG, "overlaps", layer, 0, s.in, s.batch, s.cache, s.in);
    REFUSES(TPCL_ERR_SHAPE, "1 x 12 elements needed, the tensor has 11", layer, 0, small, s.batch,
            s.cache, s.out);
    REFUSES(TPCL_ERR_SHAPE, "v_head_dim 6, the cache has 4", wide, 0, s.in, s.batch, s.cache,
            s.out);
    REFUSES(TPCL_ERR_SHAPE, "kv heads 0..2, the cache has 0..1", more, 0, s.in, s.batch, s.cache,
            s.out);
    assert_ok(tpcl_batch_add(s.batch, 0, ids, 3)); /* positions 0 to 3, the table has 0 to 2 */
    assert_ok(tpcl_batch_upload(s.batch));
    REFUSES(TPCL_ERR_ARG, "position 3, the rope table has 0 to 2", layer, 0, s.in, s.batch, s.cache,
            s.out);
#undef REFUSES
    assert_ok(tpcl_tensor_read(s.in, in, COUNT(in)));
    assert_ok(tpcl_tensor_read(s.out, out, COUNT(out)));
    assert_memory_equal(in, rows, sizeof rows);
    for (size_t i = 0; i < COUNT(out); i++) assert_true(isnan(out[i]));
    tpcl_kv_cache_free(s.cache, 0);
    tpcl_batch_clear(s.batch);
    assert_ok(tpcl_batch_upload(s.batch)); /* of nothing */
    assert_ok(tpcl_attention_forward(layer, 0, s.in, s.batch, s.cache, s.out));
    assert_ok(tpcl_batch_add(s.batch, 0, ids, 3));
    assert_ok(tpcl_batch_upload(s.batch));
    assert_ok(tpcl_attention_forward(layer, 0, s.in, s.batch, s.cache, s.out));
    assert_ok(tpcl_tensor_read(s.out, out, COUNT(out)));
    for (int i = 0; i < 3 * D; i++) assert_true(isfinite(out[i]));
    for (int i = 3 * D; i < 4 * D; i++) assert_true(isnan(out[i]));
    tpcl_attention_destroy(&layer);
    tpcl_attention_destroy(&wide);
    tpcl_attention_destroy(&more);
    tpcl_tensor_destroy(&small);
    close_small(&s);
    close_small(&other);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest plain[] = {
        cmocka_unit_test(c19_rope_gives_the_worked_numbers),
        cmocka_unit_test(the_description_is_checked),
        cmocka_unit_test(the_rope_table_is_checked),
        cmocka_unit_test(llama3_scaling_by_hand),
        cmocka_unit_test(calls_are_checked),
    };
    struct CMUnitTest tests[COUNT(plain) + COUNT(cases)];
    int failed = layers_main_begin(&argc, &argv);
    memcpy(tests, plain, sizeof plain);
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[COUNT(plain) + i] = (struct CMUnitTest){.name = cases[i].name,
                                                      .test_func = equals_one_rank,
                                                      .initial_state = (void *)&cases[i]};
    run_layer_tests("layers/attention", tests);
    return layers_main_end(failed);
}
