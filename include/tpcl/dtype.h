/** @file dtype.h  Element types of weights, and how many bytes they take. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_DTYPE_H
#define TPCL_DTYPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * X(code, name, elements of a block, bytes of a block) for every type.
 *
 * Block types hold 32 consecutive elements of a row, as GGUF stores them:
 *     Q8_0  f16 d, 32 x int8                     value = d * q
 *     Q4_0  f16 d, 16 bytes of two nibbles        value = d * (q - 8)
 *     Q4_1  f16 d, f16 m, 16 bytes of two nibbles value = d * q + m
 * Byte j of a Q4 block holds element j in its low and element j + 16 in its high nibble.
 */
#define TPCL_DTYPE_LIST(X)       \
    X(TPCL_F32, "F32", 1, 4)     \
    X(TPCL_F16, "F16", 1, 2)     \
    X(TPCL_BF16, "BF16", 1, 2)   \
    X(TPCL_Q8_0, "Q8_0", 32, 34) \
    X(TPCL_Q4_0, "Q4_0", 32, 18) \
    X(TPCL_Q4_1, "Q4_1", 32, 20) \
    X(TPCL_I32, "I32", 1, 4)     \
    X(TPCL_OTHER, "other", 1, 0) /* a type that no layer can use; it may sit in a file unused */

/** The type of stored elements. */
typedef enum tpcl_dtype {
#define X(code, name, block, bytes) code,
    TPCL_DTYPE_LIST(X)
#undef X
} tpcl_dtype;

/**
 * "F32", "Q4_1", ...: never NULL. What is no type is "other", as is TPCL_OTHER.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
const char *tpcl_dtype_name(tpcl_dtype dtype);
/**
 * Elements that share one block: 1, or 32 for the Q types.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_dtype_block(tpcl_dtype dtype);
/**
 * Bytes of one block; 0 for TPCL_OTHER.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_dtype_block_bytes(tpcl_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
