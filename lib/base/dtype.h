/* Host side conversions between stored and f32 values. Sources may be unaligned. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_BASE_DTYPE_H
#define TPI_BASE_DTYPE_H

#include <stdint.h>
#include <tpcl/dtype.h>

/* Bytes of `elements` (a multiple of the block) of a row. */
size_t tpi_dtype_bytes(tpcl_dtype dtype, size_t elements);

float tpi_from_bits(uint32_t bits);
float tpi_half_to_float(uint16_t half);
uint16_t tpi_float_to_half(float value); /* nearest even; NaN stays NaN */
float tpi_bf16_to_float(uint16_t bits);
uint16_t tpi_float_to_bf16(float value); /* nearest even; NaN stays NaN */

/* dst[0..elements) = the stored values as f32. F32, F16, BF16, Q8_0, Q4_0, Q4_1. */
void tpi_widen(tpcl_dtype dtype, const void *src, size_t elements, float *dst);

#endif
