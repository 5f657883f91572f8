/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_test.h"

enum {
    HEADS = 5,
    KV_HEADS = 2, /* uneven: a rank's part need not be whole groups */
    ROWS = HEADS + 2 * KV_HEADS,
    BLOCK_SIZE = 3,
    BLOCKS = 6,
    SLOTS = BLOCKS * BLOCK_SIZE,
    CONTEXT = 130,
    TOKENS = 5,
};
/* Neither positions nor slots are in order, and neighbours lie in different blocks. */
static const int32_t pos[TOKENS] = {0, 129, 7, 8, 64}, slot[TOKENS] = {13, 2, 6, 17, 0};

struct rope_case {
    const char *name;
    int head_dim, v_head_dim;
};
static const struct rope_case cases[] = {
    {"head_dim_2", 2, 2},       /* one pair: the smallest head, vectors of 2 */
    {"head_dim_16", 16, 16},    /* one whole vector */
    {"head_dim_18", 18, 18},    /* vectors of 2 */
    {"head_dim_20", 20, 20},    /* vectors of 4 */
    {"head_dim_64", 64, 64},    /* SmolLM2 */
    {"head_dim_80", 80, 80},    /* no power of two */
    {"head_dim_128", 128, 128}, /* Qwen3 */
    {"head_dim_256", 256, 256}, /* the largest */
    {"narrow_v", 64, 18},       /* v in vectors of its own */
    {"wide_v", 20, 112},
};

/* (cos, sin) of every position, as the model makes them. */
static float *make_angles(int context, int head_dim, double base)
{
    const int half = head_dim / 2;
    float *angles = malloc((size_t)context * (size_t)half * 2 * sizeof *angles);
    for (int p = 0; p < context; p++) {
        for (int j = 0; j < half; j++) {
            const double angle = p * pow(base, -2.0 * j / head_dim);
            angles[(p * half + j) * 2] = (float)cos(angle);
            angles[(p * half + j) * 2 + 1] = (float)sin(angle);
        }
    }
    return angles;
}

/* One call: host copies of what goes in, the stored caches before and after. */
struct call {
    tpi_heads heads;
    bool norm;
    float *qkv, *angles, *q_norm, *k_norm;
    uint8_t *before, *k, *v; /* [BLOCKS, KV_HEADS, BLOCK_SIZE, head_dim or v_head_dim] as stored */
    size_t k_bytes, v_bytes;
};

static void run(struct call *c, const float *qkv, float *got)
{
    const int d = c->heads.head_dim;
    const size_t n = TOKENS * (size_t)tpi_qkv_columns(&c->heads);
    const size_t angles = (size_t)CONTEXT * (size_t)d;
    tpcl_tensor *dqkv = tensor_of(qkv, TPCL_F32, n), *dpos = tensor_of(pos, TPCL_I32, TOKENS);
    tpcl_tensor *dangles = tensor_of(c->angles, TPCL_F32, angles);
    tpcl_tensor *dslot = tensor_of(slot, TPCL_I32, TOKENS);
    tpcl_tensor *dqn = tensor_of(c->q_norm, TPCL_F32, (size_t)d);
    tpcl_tensor *dkn = tensor_of(c->k_norm, TPCL_F32, (size_t)d);
    tpi_kv_layer cache = {buffer_of(c->before, c->k_bytes), buffer_of(c->before, c->v_bytes)};
    const tpi_rope_args args = {
        .heads = c->heads,
        .qkv = dqkv,
        .angles = dangles,
        .pos = dpos,
        .slot = dslot,
        .q_norm = c->norm ? dqn : NULL,
        .k_norm = c->norm ? dkn : NULL,
        .cache = &cache,
        .tokens = TOKENS,
        .eps = 1e-6f,
    };
    assert_ok(tpi_rope_store(&args));
    assert_ok(tpcl_tensor_read(dqkv, got, n));
    read_buffer(cache.k, c->k, c->k_bytes);
    read_buffer(cache.v, c->v, c->v_bytes);
    tpi_buffer_release(&cache.k);
    tpi_buffer_release(&cache.v);
    tpcl_tensor_destroy(&dqkv);
    tpcl_tensor_destroy(&dpos);
    tpcl_tensor_destroy(&dangles);
    tpcl_tensor_destroy(&dslot);
    tpcl_tensor_destroy(&dqn);
    tpcl_tensor_destroy(&dkn);
}

/* What is stored for one head row, exactly. */
static void store_row(const struct call *c, const float *x, size_t n, uint8_t *to)
{
    for (size_t i = 0; i < n; i++) {
        const uint16_t h = tpi_float_to_half(x[i]);
        if (c->heads.kv_f32)
            memcpy(to + 4 * i, x + i, 4);
        else
            memcpy(to + 2 * i, &h, 2);
    }
}

/* K is compared in floats: half a step of f16 where the f32 before it differs in the last place. */
static void check_k_row(const struct call *c, const float *x, const uint8_t *stored)
{
    const size_t d = (size_t)c->heads.head_dim;
    uint8_t bytes[256 * 4];
    float want[256], got[256];
    const tpcl_dtype dtype = c->heads.kv_f32 ? TPCL_F32 : TPCL_F16;
    store_row(c, x, d, bytes);
    tpi_widen(dtype, bytes, d, want);
    tpi_widen(dtype, stored, d, got);
    assert_close(got, want, d, c->heads.kv_f32 ? 3e-6 : 1e-3, 2e-6);
}

/* Checks every head row, then writes `before` over the stored rows: the caches must then be as
 * they were, so nothing else was touched. */
static void check_results(struct call *c, const float *got)
{
    const size_t d = (size_t)c->heads.head_dim, dv = (size_t)c->heads.v_head_dim;
    const size_t columns = (size_t)tpi_qkv_columns(&c->heads), v_at = (HEADS + KV_HEADS) * d;
    uint8_t want_v[256 * 4];
    for (int t = 0; t < TOKENS; t++) {
        const float *angle = c->angles + (size_t)pos[t] * d;
        for (int r = 0; r < ROWS; r++) {
            const bool is_q = r < HEADS, is_v = r >= HEADS + KV_HEADS;
            const size_t column = is_v ? v_at + (size_t)(r - HEADS - KV_HEADS) * dv : (size_t)r * d;
            const size_t row_bytes = (is_v ? dv : d) * (c->heads.kv_f32 ? 4 : 2);
            float *x = c->qkv + (size_t)t * columns + column;
            const float *norm = is_q ? c->q_norm : c->k_norm;
            if (!is_v)
                tpcl_ref_rope(x, c->norm ? norm : NULL, angle, (int)d, c->heads.interleaved, 1e-6f);
            if (is_q) {
                assert_close(got + (size_t)t * columns + column, x, d, 3e-6, 2e-6);
                continue;
            }
            const int kv = r - HEADS - (is_v ? KV_HEADS : 0), block = slot[t] / BLOCK_SIZE;
            const size_t at =
                row_bytes * (size_t)((block * KV_HEADS + kv) * BLOCK_SIZE + slot[t] % BLOCK_SIZE);
            if (is_v) {
                store_row(c, x, dv, want_v);
                assert_memory_equal(c->v + at, want_v, row_bytes); /* unrotated: exact */
            } else {
                check_k_row(c, x, c->k + at);
            }
            memcpy((is_v ? c->v : c->k) + at, c->before + at, row_bytes);
        }
    }
    assert_memory_equal(c->k, c->before, c->k_bytes);
    assert_memory_equal(c->v, c->before, c->v_bytes);
}

static void check(int head_dim, int v_head_dim, bool interleaved, bool norm, bool kv_f32)
{
    const size_t d = (size_t)head_dim, dv = (size_t)v_head_dim, value = kv_f32 ? 4 : 2;
    const size_t n = TOKENS * ((HEADS + KV_HEADS) * d + KV_HEADS * dv);
    struct call c = {
        .heads = {HEADS, KV_HEADS, head_dim, v_head_dim, BLOCK_SIZE, kv_f32, interleaved},
        .norm = norm,
        .qkv = random_floats(n, 3),
        .angles = make_angles(CONTEXT, head_dim, 10000.0),
        .q_norm = random_floats(d, 5),
        .k_norm = random_floats(d, 7),
        .k_bytes = SLOTS * KV_HEADS * d * value,
        .v_bytes = SLOTS * KV_HEADS * dv * value,
    };
    c.before =
        random_stored(kv_f32 ? TPCL_F32 : TPCL_F16, SLOTS * KV_HEADS * (d > dv ? d : dv), 11);
    c.k = malloc(c.k_bytes);
    c.v = malloc(c.v_bytes);
    float *got = malloc(n * sizeof *got);
    run(&c, c.qkv, got);
    check_results(&c, got);
    free(c.qkv);
    free(c.angles);
    free(c.q_norm);
    free(c.k_norm);
    free(c.before);
    free(c.k);
    free(c.v);
    free(got);
}

static void matches_reference(void **state)
{
    const struct rope_case *c = *state;
    begin_case((double)TOKENS * ROWS * c->head_dim * 16);
    for (int variant = 0; variant < 8; variant++)
        check(c->head_dim, c->v_head_dim, variant & 1, variant & 2, variant & 4);
}

/* Published values: base 10000, position 1, x = 1 2 3 4, in both forms. */
static void rotates_as_published(void **state)
{
    (void)state;
    begin_case(0);
    static const float want[2][4] = {{-1.984111f, 1.959901f, 2.462378f, 4.019800f},
                                     {-1.142640f, 1.922076f, 2.959851f, 4.029800f}};
    const int32_t one = 1, zero = 0;
    float *angles = make_angles(2, 4, 10000.0);
    for (int form = 0; form < 2; form++) {
        float x[12] = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, got[12], k[4], v[4];
        tpcl_tensor *dqkv = tensor_of(x, TPCL_F32, 12), *dangles = tensor_of(angles, TPCL_F32, 8);
        tpcl_tensor *dpos = tensor_of(&one, TPCL_I32, 1), *dslot = tensor_of(&zero, TPCL_I32, 1);
        tpi_kv_layer cache = {buffer_of(x, sizeof k), buffer_of(x, sizeof v)};
        const tpi_rope_args args = {.heads = {1, 1, 4, 4, 1, true, form == 1},
                                    .qkv = dqkv,
                                    .angles = dangles,
                                    .pos = dpos,
                                    .slot = dslot,
                                    .cache = &cache,
                                    .tokens = 1};
        assert_ok(tpi_rope_store(&args));
        assert_ok(tpcl_tensor_read(dqkv, got, 12));
        read_buffer(cache.k, k, sizeof k);
        read_buffer(cache.v, v, sizeof v);
        assert_close(got, want[form], 4, 0, 1e-6);
        assert_close(k, want[form], 4, 0, 1e-6);
        assert_memory_equal(v, x + 8, sizeof v);
        tpcl_ref_rope(x, NULL, angles + 4, 4, form == 1, 0.0f);
        assert_close(x, want[form], 4, 0, 1e-6);
        tpi_buffer_release(&cache.k);
        tpi_buffer_release(&cache.v);
        tpcl_tensor_destroy(&dqkv);
        tpcl_tensor_destroy(&dangles);
        tpcl_tensor_destroy(&dpos);
        tpcl_tensor_destroy(&dslot);
    }
    free(angles);
}

/* A rank without heads has no cache; a step without tokens has nothing to do. Heads that the kernel
 * cannot cut into vectors are refused by their number. */
static void knows_what_it_cannot_do(void **state)
{
    (void)state;
    begin_case(0);
    const int32_t zeros[2] = {0, 0};
    tpcl_tensor *x = tensor_of(NULL, TPCL_F32, 36), *ints = tensor_of(zeros, TPCL_I32, 2);
    tpi_kv_layer none = {NULL, NULL};
    tpi_rope_args args = {.heads = {0, 0, 4, 4, 1, true, false},
                          .qkv = x,
                          .angles = x,
                          .pos = ints,
                          .slot = ints,
                          .cache = &none,
                          .tokens = 2};
    assert_ok(tpi_rope_store(&args));
    args.heads.heads = args.heads.kv_heads = 1;
    args.tokens = 0;
    assert_ok(tpi_rope_store(&args));
    args.tokens = 3; /* three positions, two given */
    assert_int_equal(tpi_rope_store(&args), TPCL_ERR_SHAPE);
    args.tokens = 2;
    args.heads.kv_heads = 4; /* qkv is too short */
    assert_int_equal(tpi_rope_store(&args), TPCL_ERR_SHAPE);
    args.heads.kv_heads = 1;
    args.q_norm = x; /* one norm only */
    assert_int_equal(tpi_rope_store(&args), TPCL_ERR_ARG);
    args.q_norm = NULL;
    static const int odd[] = {0, 3, 63, 258, 320};
    for (size_t i = 0; i < COUNT(odd); i++) {
        char number[16];
        args.heads.head_dim = odd[i];
        snprintf(number, sizeof number, "%d", odd[i]);
        assert_int_equal(tpi_rope_store(&args), TPCL_ERR_ARG);
        assert_non_null(strstr(tpcl_last_error(), number));
    }
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&ints);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(cases) + 2];
    for (size_t i = 0; i < COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = matches_reference,
                                       .initial_state = (void *)&cases[i]};
    tests[COUNT(cases)] = (struct CMUnitTest)cmocka_unit_test(rotates_as_published);
    tests[COUNT(cases) + 1] = (struct CMUnitTest)cmocka_unit_test(knows_what_it_cannot_do);
    return run_ops_tests("ops/rope", tests);
}
