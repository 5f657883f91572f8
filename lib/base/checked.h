/* Sizes from files are hostile: every product and sum of them goes through these. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_BASE_CHECKED_H
#define TPI_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool tpi_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

static inline bool tpi_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

#endif
