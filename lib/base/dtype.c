/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"

#include <string.h>

static const struct dtype_info {
    const char *name;
    int block, bytes;
} infos[] = {
#define X(code, name, block, bytes) [code] = {name, block, bytes},
    TPCL_DTYPE_LIST(X)
#undef X
};

static const struct dtype_info *info(tpcl_dtype dtype)
{
    size_t i = (size_t)dtype;
    return &infos[i < sizeof infos / sizeof infos[0] ? i : TPCL_OTHER];
}

const char *tpcl_dtype_name(tpcl_dtype dtype)
{
    return info(dtype)->name;
}

int tpcl_dtype_block(tpcl_dtype dtype)
{
    return info(dtype)->block;
}

int tpcl_dtype_block_bytes(tpcl_dtype dtype)
{
    return info(dtype)->bytes;
}

size_t tpi_dtype_bytes(tpcl_dtype dtype, size_t elements)
{
    return elements / (size_t)info(dtype)->block * (size_t)info(dtype)->bytes;
}

float tpi_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t to_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float tpi_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 0x1fu, mantissa = half & 0x3ffu;
    if (exponent == 0) { /* zero and subnormals: mantissa * 2^-24, exact in f32 */
        const float magnitude = (float)mantissa * 5.9604644775390625e-8f;
        return tpi_from_bits(sign | to_bits(magnitude));
    }
    if (exponent == 31) return tpi_from_bits(sign | 0x7f800000u | mantissa << 13);
    return tpi_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t tpi_float_to_half(float value)
{
    const uint32_t bits = to_bits(value);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u; /* rounds to 65536 or more */
    if (magnitude < 0x38800000u) {                       /* subnormal half: adding 0.5 rounds to even */
        const float shifted = tpi_from_bits(magnitude) + 0.5f;
        return sign | (uint16_t)(to_bits(shifted) - 0x3f000000u);
    }
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return sign | (uint16_t)((rounded - 0x38000000u) >> 13);
}

float tpi_bf16_to_float(uint16_t bits)
{
    return tpi_from_bits((uint32_t)bits << 16);
}

uint16_t tpi_float_to_bf16(float value)
{
    const uint32_t bits = to_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static void widen_block(tpcl_dtype dtype, const uint8_t *src, float *dst)
{
    const float d = tpi_half_to_float(load_u16(src));
    if (dtype == TPCL_Q8_0) {
        for (int i = 0; i < 32; i++) dst[i] = d * (float)(int8_t)src[2 + i];
        return;
    }
    const int head = dtype == TPCL_Q4_1 ? 4 : 2;
    const float m = dtype == TPCL_Q4_1 ? tpi_half_to_float(load_u16(src + 2)) : -8.0f * d;
    for (int i = 0; i < 16; i++) {
        dst[i] = d * (float)(src[head + i] & 15) + m;
        dst[i + 16] = d * (float)(src[head + i] >> 4) + m;
    }
}

void tpi_widen(tpcl_dtype dtype, const void *src, size_t elements, float *dst)
{
    const uint8_t *bytes = src;
    if (dtype == TPCL_F32) {
        memcpy(dst, src, elements * sizeof *dst);
        return;
    }
    if (tpcl_dtype_block(dtype) > 1) {
        const size_t step = (size_t)tpcl_dtype_block_bytes(dtype);
        for (size_t b = 0; b < elements / 32; b++) widen_block(dtype, bytes + b * step, dst + 32 * b);
        return;
    }
    for (size_t i = 0; i < elements; i++) {
        const uint16_t v = load_u16(bytes + 2 * i);
        dst[i] = dtype == TPCL_F16 ? tpi_half_to_float(v) : tpi_bf16_to_float(v);
    }
}
