/* The references themselves, against numbers worked by hand. No device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <tpcl/reference.h>

#include "tpcl_test.h"

static uint32_t bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* The values that conversions get wrong: subnormals flushed, infinities clamped, signs lost. */
static void widen_keeps_every_half(void **state)
{
    (void)state;
    static const struct {
        uint16_t stored;
        uint32_t want;
    } cases[] = {
        {0x0001, 0x33800000}, /* 2^-24 = 5.9604645e-8, the least */
        {0x0200, 0x38000000}, /* 2^-15 = 3.0517578e-5, a subnormal */
        {0x03ff, 0x387fc000}, /* 6.0975552e-5, the greatest subnormal */
        {0x0400, 0x38800000}, /* 2^-14, the least normal */
        {0x7bff, 0x477fe000}, /* 65504, the greatest */
        {0x7c00, 0x7f800000}, /* infinity */
        {0xfc00, 0xff800000}, /* - infinity */
        {0x8000, 0x80000000}, /* -0 */
        {0x3c01, 0x3f802000}, /* 1 + 2^-10 */
        {0xc000, 0xc0000000}, /* -2 */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        float got = 0;
        assert_ok(tpcl_ref_widen(TPCL_F16, &cases[i].stored, 1, &got));
        assert_int_equal(bits_of(got), cases[i].want);
    }
    const uint16_t nan = 0xfe00;
    float got = 0;
    assert_ok(tpcl_ref_widen(TPCL_F16, &nan, 1, &got));
    assert_true(isnan(got));
}

static void widen_keeps_every_bf16(void **state)
{
    (void)state;
    static const uint16_t stored[] = {0x3e8a, 0x4049, 0x0001, 0x7f80, 0xff80, 0x8000, 0x7fc0};
    unsigned char at_odd[sizeof stored + 1]; /* files promise no alignment */
    float got[COUNT(stored)];
    memcpy(at_odd + 1, stored, sizeof stored);
    assert_ok(tpcl_ref_widen(TPCL_BF16, at_odd + 1, COUNT(stored), got));
    for (size_t i = 0; i < COUNT(stored); i++)
        assert_int_equal(bits_of(got[i]), (uint32_t)stored[i] << 16);
    assert_true(got[0] == 0.26953125f && got[1] == 3.140625f && isnan(got[6]));
}

/* d = 0.5 (half 3800), m = -1 (half bc00). */
static void widen_opens_blocks(void **state)
{
    (void)state;
    uint8_t q8[34] = {0x00, 0x38, 0x80, 0x7f, 0x00, 0xff}, q4[18] = {0x00, 0x38, 0xf0, 0x18};
    uint8_t q4_1[20] = {0x00, 0x38, 0x00, 0xbc, 0xf0, 0x18};
    float v[32];
    assert_ok(tpcl_ref_widen(TPCL_Q8_0, q8, 32, v));
    assert_true(v[0] == -64.0f && v[1] == 63.5f && v[2] == 0.0f && v[3] == -0.5f && v[4] == 0.0f);
    assert_ok(tpcl_ref_widen(TPCL_Q4_0, q4, 32, v)); /* low nibbles first: 0, 8; high: 15, 1 */
    assert_true(v[0] == -4.0f && v[1] == 0.0f && v[16] == 3.5f && v[17] == -3.5f && v[2] == -4.0f);
    assert_ok(tpcl_ref_widen(TPCL_Q4_1, q4_1, 32, v));
    assert_true(v[0] == -1.0f && v[1] == 3.0f && v[16] == 6.5f && v[17] == -0.5f && v[2] == -1.0f);
    const float plain[2] = {-0.0f, 1e-42f};
    assert_ok(tpcl_ref_widen(TPCL_F32, plain, 2, v));
    assert_memory_equal(v, plain, sizeof plain);
}

static void widen_refuses_what_has_no_value(void **state)
{
    (void)state;
    const uint8_t raw[64] = {0};
    float v[32] = {7};
    assert_int_equal(tpcl_ref_widen(TPCL_I32, raw, 1, v), TPCL_ERR_UNSUPPORTED);
    assert_non_null(strstr(tpcl_last_error(), "I32"));
    assert_int_equal(tpcl_ref_widen(TPCL_OTHER, raw, 1, v), TPCL_ERR_UNSUPPORTED);
    assert_int_equal(tpcl_ref_widen(TPCL_Q4_0, raw, 31, v), TPCL_ERR_SHAPE);
    assert_non_null(strstr(tpcl_last_error(), "31"));
    assert_ok(tpcl_ref_widen(TPCL_F16, NULL, 0, v));
    assert_true(v[0] == 7);
}

static void linear_by_hand(void **state)
{
    (void)state;
    static const float x[4] = {1, 2, -1, 3}, w[6] = {1, 0, 0, 1, 2, -1}, bias[3] = {10, 20, 30};
    static const float plain[6] = {1, 2, 0, -1, 3, -5}, with[6] = {11, 22, 30, 9, 23, 25};
    float y[6];
    tpcl_ref_linear(x, w, NULL, y, 2, 3, 2);
    assert_memory_equal(y, plain, sizeof y);
    tpcl_ref_linear(x, w, bias, y, 2, 3, 2);
    assert_memory_equal(y, with, sizeof y);
    tpcl_ref_linear(x, w, bias, y, 1, 3, 0); /* no inputs: the bias alone */
    assert_memory_equal(y, bias, sizeof bias);
    /* 2^25 + 1 - 2^25: an f32 sum would lose the 1 */
    static const float large[3] = {33554432, 1, -33554432}, ones[3] = {1, 1, 1};
    tpcl_ref_linear(large, ones, NULL, y, 1, 1, 3);
    assert_true(y[0] == 1.0f);
}

static tpcl_status read_bytes(void *context, uint64_t offset, size_t bytes, void *destination)
{
    memcpy(destination, (const uint8_t *)context + offset, bytes);
    return TPCL_OK;
}

static tpcl_status read_nothing(void *context, uint64_t offset, size_t bytes, void *destination)
{
    (void)context, (void)offset, (void)bytes, (void)destination;
    return TPCL_ERR_IO;
}

/* Every dtype, from memory and through a reader, against the widened weight. */
static void linear_of_stored_weights_is_the_same(void **state)
{
    (void)state;
    enum { N = 3, K = 96, TOKENS = 2 };
    static const tpcl_dtype dtypes[] = {TPCL_F32,  TPCL_F16,  TPCL_BF16,
                                        TPCL_Q8_0, TPCL_Q4_0, TPCL_Q4_1};
    static uint8_t raw[N * K * 4];
    float x[TOKENS * K], wide[N * K], bias[N] = {1, -2, 3}, want[TOKENS * N], got[TOKENS * N];
    for (size_t i = 0; i < sizeof raw; i++) raw[i] = (uint8_t)(i * 37 % 59); /* no NaN in any */
    fill(x, TOKENS * K, 3);
    for (size_t d = 0; d < COUNT(dtypes); d++) {
        const int k = tpcl_dtype_block(dtypes[d]) == 1 ? 65 : K; /* 65: two pieces and one more */
        assert_ok(tpcl_ref_widen(dtypes[d], raw, (size_t)(N * k), wide));
        tpcl_ref_linear(x, wide, bias, want, TOKENS, N, k);
        tpcl_host_tensor w = {
            .name = "w", .dtype = dtypes[d], .ndim = 2, .shape = {N, k}, .data = raw};
        assert_ok(tpcl_ref_linear_stored(x, &w, bias, got, TOKENS));
        assert_memory_equal(got, want, sizeof got);
        w.data = NULL;
        w.read = read_bytes;
        w.context = raw;
        memset(got, 0, sizeof got);
        assert_ok(tpcl_ref_linear_stored(x, &w, bias, got, TOKENS));
        assert_memory_equal(got, want, sizeof got);
        w.read = read_nothing;
        assert_int_equal(tpcl_ref_linear_stored(x, &w, bias, got, TOKENS), TPCL_ERR_IO);
    }
    tpcl_host_tensor w = {.name = "w", .dtype = TPCL_Q8_0, .ndim = 2, .shape = {1, 33}};
    assert_int_equal(tpcl_ref_linear_stored(x, &w, NULL, got, 1), TPCL_ERR_ARG);
    w.data = raw;
    assert_int_equal(tpcl_ref_linear_stored(x, &w, NULL, got, 1), TPCL_ERR_SHAPE);
    w.ndim = 1;
    assert_int_equal(tpcl_ref_linear_stored(x, &w, NULL, got, 1), TPCL_ERR_SHAPE);
    w.ndim = 2;
    w.dtype = TPCL_I32;
    assert_int_equal(tpcl_ref_linear_stored(x, &w, NULL, got, 1), TPCL_ERR_UNSUPPORTED);
}

/* Vocabulary 4 x 2 filled 1..8, tokens [1, 3]: the parts of two ranks. */
static void embedding_masks_what_another_rank_owns(void **state)
{
    (void)state;
    static const float w[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int32_t ids[2] = {1, 3};
    static const float first[4] = {3, 4, 0, 0}, second[4] = {0, 0, 7, 8};
    float y[4];
    tpcl_ref_embed(ids, w, y, 2, 2, 0, 2);
    assert_memory_equal(y, first, sizeof y);
    tpcl_ref_embed(ids, w + 4, y, 2, 2, 2, 2);
    assert_memory_equal(y, second, sizeof y);
    tpcl_ref_embed(ids, NULL, y, 2, 2, 4, 0); /* a rank without words */
    for (int i = 0; i < 4; i++) assert_true(y[i] == 0.0f);
}

/* Words 0..9 and added words 10..13; this rank holds 5..9 and 12..13. */
static void embedding_finds_added_words(void **state)
{
    (void)state;
    const tpcl_range base = {5, 10}, added = {12, 14};
    static const float w[7] = {50, 60, 70, 80, 90, 120, 130};
    static const int32_t ids[] = {4, 5, 9, 10, 11, 12, 13, 14, -1};
    static const float want[] = {0, 50, 90, 0, 0, 120, 130, 0, 0};
    float y[COUNT(ids)];
    tpcl_ref_embed_added(ids, w, y, COUNT(ids), 1, base, added);
    assert_memory_equal(y, want, sizeof y);
}

/* Rows [3, 4] and [1, 1]: mean squares 12.5 and 1. */
static void rmsnorm_by_hand(void **state)
{
    (void)state;
    static const float w[2] = {1, 2};
    const float root = sqrtf(12.5f), want[4] = {3 / root, 8 / root, 1, 2};
    float h[4] = {3, 4, 1, 1}, y[4];
    tpcl_ref_rmsnorm(h, NULL, w, y, 2, 2, 0.0f);
    assert_close(y, want, 4, 1e-7, 0);
    assert_true(h[0] == 3.0f);
    const float add[4] = {-2, -3, 2, 3};
    tpcl_ref_rmsnorm(h, add, w, y, 2, 2, 0.0f); /* [1, 1] and [3, 4] */
    const float swapped[4] = {1, 2, 3 / root, 8 / root};
    assert_close(y, swapped, 4, 1e-7, 0);
    assert_true(h[0] == 1.0f && h[1] == 1.0f && h[2] == 3.0f && h[3] == 4.0f);
    float zero[2] = {0, 0};
    tpcl_ref_rmsnorm(zero, NULL, w, zero, 1, 2, 0.25f); /* eps keeps it from 0 / 0 */
    assert_true(zero[0] == 0.0f && zero[1] == 0.0f);
    float tiny[1] = {0.5f};
    tpcl_ref_rmsnorm(tiny, NULL, w, tiny, 1, 1, 0.75f); /* 0.5 / sqrt(0.25 + 0.75) */
    assert_true(tiny[0] == 0.5f);
}

static void rope_turns_a_quarter(void **state)
{
    (void)state;
    static const float quarter[4] = {0, 1, 1, 0}; /* (cos, sin): 90 degrees, then none */
    float halves[4] = {1, 2, 3, 4}, pairs[4] = {1, 2, 3, 4};
    static const float want_halves[4] = {-3, 2, 1, 4}, want_pairs[4] = {-2, 1, 3, 4};
    tpcl_ref_rope(halves, NULL, quarter, 4, false, 0);
    assert_memory_equal(halves, want_halves, sizeof halves);
    tpcl_ref_rope(pairs, NULL, quarter, 4, true, 0);
    assert_memory_equal(pairs, want_pairs, sizeof pairs);
}

/* Scores 0 and log(3): weights 1/4 and 3/4. head_dim 4: the scale is 1/2. */
static void attention_by_hand(void **state)
{
    (void)state;
    const float q[4] = {2 * logf(3.0f), 0, 0, 0};
    static const float k[8] = {0, 9, 9, 9, 1, 9, 9, 9}, v[8] = {4, 0, -4, 8, 8, 4, 0, 8};
    static const float want[4] = {7, 3, -1, 8};
    float out[4];
    tpcl_ref_attention(q, k, v, out, 2, 4, 4, 0);
    assert_close(out, want, 4, 1e-6, 0);
    tpcl_ref_attention(q, k, v, out, 1, 4, 4, 0); /* one key: its value */
    assert_memory_equal(out, v, sizeof out);
}

static void activations_by_hand(void **state)
{
    (void)state;
    static const float x[5] = {0, 1, -1, 100, -100};
    static const float silu[5] = {0, 0.73105858f, -0.26894142f, 100, 0};
    static const float gelu[5] = {0, 0.84119199f, -0.15880801f, 100, 0};
    float y[5];
    tpcl_ref_silu(x, y, 5);
    assert_close(y, silu, 5, 1e-7, 1e-30);
    tpcl_ref_gelu(x, y, 5);
    assert_close(y, gelu, 5, 1e-7, 1e-30);
    static const float rows[8] = {0, 1, 5, 2, -1, 100, 3, 0.5f}; /* [gate, gate, up, up] twice */
    static const float want[4] = {0, 1.46211716f, -0.80682426f, 50};
    tpcl_ref_swiglu(rows, y, 2, 2);
    assert_close(y, want, 4, 1e-7, 0);
}

static void additions_by_hand(void **state)
{
    (void)state;
    float y[4] = {1, 2, 3, 4};
    static const float x[2] = {10, -20}, once[4] = {11, -18, 3, 4}, each[4] = {21, -38, 13, -16};
    tpcl_ref_add(y, x, 2);
    assert_memory_equal(y, once, sizeof y);
    tpcl_ref_add_bias(y, x, 2, 2);
    assert_memory_equal(y, each, sizeof y);
}

static void lm_head_masks_padding(void **state)
{
    (void)state;
    static const float x[2] = {-1, -2}, w[4] = {1, 2, 0, 0};
    float y[8];
    tpcl_ref_lm_head(x, w, NULL, y, 2, 4, 1, 3);
    static const float want[8] = {-1, -2, 0, -INFINITY, -2, -4, 0, -INFINITY};
    for (int i = 0; i < 8; i++) assert_true(y[i] == want[i]);
    assert_int_equal(tpcl_ref_argmax(y, 4), 2);
    tpcl_ref_lm_head(x, w, NULL, y, 2, 4, 1, 2); /* the zero rows are padding: they must not win */
    assert_int_equal(tpcl_ref_argmax(y, 4), 0);
    assert_int_equal(tpcl_ref_argmax(y + 4, 4), 0);
}

static void argmax_takes_the_lowest_of_a_tie(void **state)
{
    (void)state;
    static const float tie[4] = {1, 3, 2, 3}, bad[3] = {NAN, -INFINITY, NAN}, none[2] = {NAN, NAN};
    assert_int_equal(tpcl_ref_argmax(tie, 4), 1);
    assert_int_equal(tpcl_ref_argmax(tie, 1), 0);
    assert_int_equal(tpcl_ref_argmax(bad, 3), 1);
    assert_int_equal(tpcl_ref_argmax(none, 2), -1);
    assert_int_equal(tpcl_ref_argmax(tie, 0), -1);
}

/* The worked log-probability of two shards' logits, and a row that an f32 exp() would overflow. */
static void softmax_by_hand(void **state)
{
    (void)state;
    static const float logits[6] = {0.1f, -0.2f, 1.7f, 0.3f, 1.2f, -0.5f};
    double p[6], logp[6], sum = 0.0;
    tpcl_ref_softmax(logits, p, 6);
    tpcl_ref_log_softmax(logits, logp, 6);
    assert_true(fabs(logp[4] - -1.3395807) < 5e-8);
    for (int i = 0; i < 6; i++) {
        sum += p[i];
        assert_true(fabs(log(p[i]) - logp[i]) < 1e-12);
    }
    assert_true(fabs(sum - 1.0) < 1e-12);
    const float wide[3] = {1000.0f, 1000.0f + logf(3.0f), -INFINITY};
    tpcl_ref_softmax(wide, p, 3);
    assert_true(fabs(p[0] - 0.25) < 1e-4 && fabs(p[1] - 0.75) < 1e-4 && p[2] == 0.0);
    tpcl_ref_log_softmax(wide, logp, 3);
    assert_true(isinf(logp[2]) && logp[2] < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widen_keeps_every_half),
        cmocka_unit_test(widen_keeps_every_bf16),
        cmocka_unit_test(widen_opens_blocks),
        cmocka_unit_test(widen_refuses_what_has_no_value),
        cmocka_unit_test(linear_by_hand),
        cmocka_unit_test(linear_of_stored_weights_is_the_same),
        cmocka_unit_test(embedding_masks_what_another_rank_owns),
        cmocka_unit_test(embedding_finds_added_words),
        cmocka_unit_test(rmsnorm_by_hand),
        cmocka_unit_test(rope_turns_a_quarter),
        cmocka_unit_test(attention_by_hand),
        cmocka_unit_test(activations_by_hand),
        cmocka_unit_test(additions_by_hand),
        cmocka_unit_test(lm_head_masks_padding),
        cmocka_unit_test(argmax_takes_the_lowest_of_a_tie),
        cmocka_unit_test(softmax_by_hand),
    };
    return cmocka_run_group_tests_name("ops/reference", tests, NULL, NULL);
}
