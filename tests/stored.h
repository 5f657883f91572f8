/* Random values, plain and as checkpoints store them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORED_H
#define STORED_H

#include <string.h>

#include "base/dtype.h"
#include "tpcl_test.h"

static inline float *random_floats(size_t n, uint32_t seed)
{
    float *v = malloc(n * sizeof *v + 1);
    fill(v, n, seed);
    return v;
}

/* rows * columns stored elements with values of about [-1, 1). */
static inline uint8_t *random_stored(tpcl_dtype dtype, size_t elements, uint32_t seed)
{
    const size_t bytes = tpi_dtype_bytes(dtype, elements);
    uint8_t *stored = malloc(bytes + 1);
    float *v = random_floats(elements > bytes ? elements : bytes, seed);
    if (dtype == TPCL_F32) {
        memcpy(stored, v, bytes);
    } else if (dtype == TPCL_F16 || dtype == TPCL_BF16) {
        for (size_t i = 0; i < elements; i++) {
            const uint16_t h =
                dtype == TPCL_F16 ? tpi_float_to_half(v[i]) : tpi_float_to_bf16(v[i]);
            memcpy(stored + 2 * i, &h, 2);
        }
    } else {
        const size_t step = (size_t)tpcl_dtype_block_bytes(dtype);
        for (size_t i = 0; i < bytes; i++) stored[i] = (uint8_t)(int)(v[i] * 127.0f);
        for (size_t b = 0; b < elements / 32; b++) {
            const float scale = (dtype == TPCL_Q8_0 ? 0.008f : 0.1f) * (1.5f + v[b]);
            const uint16_t d = tpi_float_to_half(scale), m = tpi_float_to_half(-7.5f * scale);
            memcpy(stored + b * step, &d, 2);
            if (dtype == TPCL_Q4_1) memcpy(stored + b * step + 2, &m, 2);
        }
    }
    free(v);
    return stored;
}

#endif
