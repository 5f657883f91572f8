/** @file shard.h  Who owns what: one half-open range per rank, for one dimension. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_SHARD_H
#define TPCL_SHARD_H

#include <stdint.h>
#include <tpcl/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Limits that hold for every group. */
enum {
    TPCL_MAX_RANKS = 1024 /**< most ranks of a group */
};

/** [begin, end) of one rank; empty ranges are legal and keep their place in the order. */
typedef struct tpcl_range {
    int64_t begin; /**< the first that belongs to it */
    int64_t end;   /**< the first that no longer does */
} tpcl_range;

/**
 * How many elements a range has.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
static inline int64_t tpcl_range_size(tpcl_range r)
{
    return r.end - r.begin;
}

/**
 * Cuts @p total elements into @p size consecutive ranges of whole granules (the last granule may be
 * short). Sizes follow @p weights: largest remainder, ties to the lower rank, or with @p rotate to
 * the ranks from rotate % size on, so that over many layers no rank always gets the extra granule.
 * Equal weights and a total that divides give the classic total/size; 5 words on 4 ranks 2, 1,
 * 1, 1.
 *
 * @param granule  in   >= 1
 * @param weights  in   [size], each finite and >= 0, not all 0; NULL = equal
 * @param rotate   in   >= 0
 * @param out      out  [size]
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: TPCL_ERR_ARG.
 */
TPCL_NODISCARD tpcl_status tpcl_shard_split(int64_t total, int64_t granule, int size,
                                            const double *weights, int rotate, tpcl_range *out);

/** One rank's heads. Query head h reads kv head h / (heads / kv_heads), in global numbers. */
typedef struct tpcl_head_range {
    tpcl_range q;  /**< query heads whose outputs are this rank's */
    tpcl_range kv; /**< kv heads that it stores; those at the ends may be stored elsewhere, too */
} tpcl_head_range;

/**
 * Splits attention heads. Whole groups (a kv head with its q heads) where that balances as well;
 * else q heads are split on and each rank stores the kv heads that its q heads need (replication).
 * The way whose largest share is smaller wins, whole groups on a tie. 9 q / 3 kv heads on 2 ranks:
 * 5 and 4 q heads, kv {0,1} and {1,2}. 8 q / 2 kv on 4: two q heads each, kv 0, 0, 1, 1.
 *
 * @param q_granule  in   q heads that must stay together (block-quantised o-projection); >= 1
 * @param rotate     in   as in tpcl_shard_split
 * @param out        out  [size]; ranks beyond the heads get empty ranges
 * Collective: no.  Blocks: no.  Allocates: no.
 * Errors: TPCL_ERR_ARG (heads not a multiple of kv_heads, a number out of its range).
 */
TPCL_NODISCARD tpcl_status tpcl_shard_heads(int heads, int kv_heads, int q_granule, int size,
                                            const double *weights, int rotate,
                                            tpcl_head_range *out);

#ifdef __cplusplus
}
#endif
#endif
