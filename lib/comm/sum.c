/* The sum of all ranks' values, in rank order. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <string.h>

/* Additions only: nothing to contract, and each element's order is the ranks' whatever the vector
 * width, so every path and machine gives the same bits. The fixed count is what compilers
 * vectorise at -O2. */
enum { BLOCK = 64 };

static void add_block(float *restrict sum, const float *restrict values)
{
    for (int i = 0; i < BLOCK; i++) sum[i] += values[i];
}

void tpi_sum(const void *const *sources, int ranks, size_t offset, size_t n, float *dst)
{
    const float *const *src = (const float *const *)sources;
    float sum[BLOCK];
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK) {
        memcpy(sum, src[0] + offset + i, sizeof sum);
        for (int r = 1; r < ranks; r++) add_block(sum, src[r] + offset + i);
        memcpy(dst + i, sum, sizeof sum);
    }
    for (; i < n; i++) {
        float tail = src[0][offset + i];
        for (int r = 1; r < ranks; r++) tail += src[r][offset + i];
        dst[i] = tail;
    }
}
