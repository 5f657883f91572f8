/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions of stored values: every half, every bf16, every rounding border between two of them,
 * and blocks with values that are easy to check by hand. CASES C28. */
#include "tpcl_test.h"

#include <stdbool.h>
#include <string.h>

#include "base/dtype.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* By the definition, in double: sign * mantissa * 2^exponent. */
static double half_value(uint16_t half)
{
    const int exponent = half >> 10 & 31, mantissa = half & 1023;
    const double magnitude =
        exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static bool is_nan16(uint32_t v, uint32_t infinity)
{
    return (v & 0x7fff) > infinity;
}

static void every_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = tpi_half_to_float((uint16_t)h);
        if (is_nan16(h, 0x7c00)) {
            assert_true(isnan(f));
            assert_int_equal(signbit(f) != 0, h >> 15);
            assert_true(is_nan16(tpi_float_to_half(f), 0x7c00));
            continue;
        }
        if ((h & 0x7fff) == 0x7c00)
            assert_true(isinf(f) && (signbit(f) != 0) == h >> 15);
        else if ((double)f != half_value((uint16_t)h) || (signbit(f) != 0) != h >> 15)
            fail_msg("half %04x gives %.9g", h, (double)f);
        assert_int_equal(tpi_float_to_half(f), h);
    }
}

/* Nearest, ties to the even one: at, just below and just above the middle of all neighbours. */
static void half_rounding(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        const double low = half_value((uint16_t)h);
        const double high = h + 1 == 0x7c00 ? 65536.0 : half_value((uint16_t)(h + 1));
        const float middle = (float)((low + high) / 2); /* exact: 12 bits of mantissa */
        assert_true((double)middle == (low + high) / 2);
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            const float s = sign ? -1.0f : 1.0f;
            assert_int_equal(tpi_float_to_half(s * middle), sign | (h + (h & 1)));
            assert_int_equal(tpi_float_to_half(s * nextafterf(middle, 0.0f)), sign | h);
            assert_int_equal(tpi_float_to_half(s * nextafterf(middle, INFINITY)), sign | (h + 1));
        }
    }
}

static void every_bf16(void **state)
{
    (void)state;
    for (uint32_t b = 0; b < 65536; b++) {
        const float f = tpi_bf16_to_float((uint16_t)b);
        assert_int_equal(bits_of(f), b << 16);
        if (is_nan16(b, 0x7f80)) {
            assert_true(is_nan16(tpi_float_to_bf16(f), 0x7f80));
            continue;
        }
        assert_int_equal(tpi_float_to_bf16(f), b);
        if ((b & 0x7fff) == 0x7f80) continue;
        /* between b and its neighbour away from zero */
        assert_int_equal(tpi_float_to_bf16(tpi_from_bits(b << 16 | 0x7fff)), b);
        assert_int_equal(tpi_float_to_bf16(tpi_from_bits(b << 16 | 0x8000)), b + (b & 1));
        assert_int_equal(tpi_float_to_bf16(tpi_from_bits(b << 16 | 0x8001)), b + 1);
    }
}

static void known_values(void **state)
{
    (void)state;
    static const struct {
        uint16_t half;
        uint32_t bits;
    } halves[] = {{0x0001, 0x33800000}, {0x0200, 0x38000000}, {0x03ff, 0x387fc000},
                  {0x7bff, 0x477fe000}, {0x7c00, 0x7f800000}, {0x8000, 0x80000000},
                  {0x3c00, 0x3f800000}, {0xc000, 0xc0000000}};
    for (size_t i = 0; i < COUNT(halves); i++)
        assert_int_equal(bits_of(tpi_half_to_float(halves[i].half)), halves[i].bits);
    assert_true(tpi_half_to_float(0x0001) == 5.9604645e-8f);
    assert_true(tpi_half_to_float(0x0200) == 3.0517578e-5f);
    assert_true(tpi_half_to_float(0x03ff) == 6.0975552e-5f);
    assert_true(tpi_half_to_float(0x7bff) == 65504.0f);
    assert_true(isnan(tpi_half_to_float(0xfe00)));
    assert_int_equal(tpi_float_to_bf16(0.26914087f), 0x3e8a);
    assert_int_equal(tpi_float_to_bf16(3.14f), 0x4049);
    assert_true(is_nan16(tpi_float_to_bf16(tpi_from_bits(0x7f800001)), 0x7f80));
    assert_true(is_nan16(tpi_float_to_bf16(tpi_from_bits(0x7fff8c22)), 0x7f80));
    assert_int_equal(tpi_float_to_half(1e30f), 0x7c00);
    assert_int_equal(tpi_float_to_half(-1e30f), 0xfc00);
    assert_int_equal(tpi_float_to_half(-1e-30f), 0x8000);
    assert_int_equal(tpi_float_to_bf16(3.4028235e38f), 0x7f80); /* FLT_MAX rounds up */
}

static void names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        tpcl_dtype dtype;
        const char *name;
        size_t bytes; /* of 64 elements */
    } rows[] = {{TPCL_F32, "F32", 256},  {TPCL_F16, "F16", 128},  {TPCL_BF16, "BF16", 128},
                {TPCL_Q8_0, "Q8_0", 68}, {TPCL_Q4_0, "Q4_0", 36}, {TPCL_Q4_1, "Q4_1", 40},
                {TPCL_I32, "I32", 256},  {TPCL_OTHER, "other", 0}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_string_equal(tpcl_dtype_name(rows[i].dtype), rows[i].name);
        assert_int_equal(tpi_dtype_bytes(rows[i].dtype, 64), rows[i].bytes);
        assert_int_equal(tpi_dtype_bytes(rows[i].dtype, 0), 0);
        assert_true(tpcl_dtype_block(rows[i].dtype) >= 1);
    }
    assert_string_equal(tpcl_dtype_name((tpcl_dtype)99), "other");
    assert_int_equal(tpcl_dtype_block((tpcl_dtype)-1), 1);
    assert_int_equal(tpcl_dtype_block_bytes((tpcl_dtype)99), 0);
}

/* Sources lie one byte off, as in a file; the results of two blocks are worked out by hand. */
static void put16(uint8_t *at, uint16_t v)
{
    at[0] = (uint8_t)v;
    at[1] = (uint8_t)(v >> 8);
}

static void widens_q8_0(void **state)
{
    (void)state;
    uint8_t raw[1 + 2 * 34];
    float got[64];
    for (int b = 0; b < 2; b++) {
        put16(raw + 1 + 34 * b, b ? 0xb800 : 0x3c00); /* -0.5, 1 */
        for (int i = 0; i < 32; i++) raw[1 + 34 * b + 2 + i] = (uint8_t)(i * 8 - 128);
    }
    tpi_widen(TPCL_Q8_0, raw + 1, 64, got);
    for (int i = 0; i < 32; i++) {
        assert_true(got[i] == (float)(i * 8 - 128));
        assert_true(got[32 + i] == -0.5f * (float)(i * 8 - 128));
    }
}

/* Byte j holds nibble j & 15 for element j and 15 - (j & 15) for element j + 16. */
static void widens_q4(void **state)
{
    (void)state;
    uint8_t raw[1 + 2 * 20];
    float got[64];
    for (int b = 0; b < 2; b++) {
        put16(raw + 1 + 18 * b, b ? 0x4000 : 0x3800); /* 2, 0.5 */
        for (int j = 0; j < 16; j++) raw[1 + 18 * b + 2 + j] = (uint8_t)(j | (15 - j) << 4);
    }
    tpi_widen(TPCL_Q4_0, raw + 1, 64, got);
    for (int j = 0; j < 16; j++) {
        assert_true(got[j] == 0.5f * (float)(j - 8));
        assert_true(got[16 + j] == 0.5f * (float)(7 - j));
        assert_true(got[32 + j] == 2.0f * (float)(j - 8));
        assert_true(got[48 + j] == 2.0f * (float)(7 - j));
    }
    for (int b = 0; b < 2; b++) {
        put16(raw + 1 + 20 * b, 0x3800);                  /* d = 0.5 */
        put16(raw + 1 + 20 * b + 2, b ? 0xc200 : 0x3400); /* m = -3, 0.25 */
        for (int j = 0; j < 16; j++) raw[1 + 20 * b + 4 + j] = (uint8_t)(j | (15 - j) << 4);
    }
    tpi_widen(TPCL_Q4_1, raw + 1, 64, got);
    for (int j = 0; j < 16; j++) {
        assert_true(got[j] == 0.5f * (float)j + 0.25f);
        assert_true(got[16 + j] == 0.5f * (float)(15 - j) + 0.25f);
        assert_true(got[32 + j] == 0.5f * (float)j - 3.0f);
        assert_true(got[48 + j] == 0.5f * (float)(15 - j) - 3.0f);
    }
}

static void widens_plain_types(void **state)
{
    (void)state;
    static const uint8_t f16[] = {0xff, 0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00};
    static const uint8_t bf16[] = {0xff, 0x80, 0x3f, 0x49, 0x40, 0x00, 0x80};
    static const uint8_t f32[] = {0xff, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0};
    float got[3] = {9, 9, 9};
    tpi_widen(TPCL_F16, f16 + 1, 3, got);
    assert_true(got[0] == 1.0f && got[1] == -2.0f && got[2] == 5.9604645e-8f);
    tpi_widen(TPCL_BF16, bf16 + 1, 3, got);
    assert_true(got[0] == 1.0f && got[1] == 3.140625f && got[2] == 0.0f && signbit(got[2]));
    tpi_widen(TPCL_F32, f32 + 1, 2, got);
    assert_true(got[0] == 1.0f && got[1] == -2.0f);
    tpi_widen(TPCL_F32, f32 + 1, 0, got);
    assert_true(got[0] == 1.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half),      cmocka_unit_test(half_rounding),
        cmocka_unit_test(every_bf16),      cmocka_unit_test(known_values),
        cmocka_unit_test(names_and_sizes), cmocka_unit_test(widens_q8_0),
        cmocka_unit_test(widens_q4),       cmocka_unit_test(widens_plain_types),
    };
    return cmocka_run_group_tests_name("base/dtype", tests, NULL, NULL);
}
