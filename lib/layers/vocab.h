/* A rank's rows of a vocabulary: what an embedding and an LM head have in common. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_LAYERS_VOCAB_H
#define TPI_LAYERS_VOCAB_H

#include <tpcl/vocab.h>

#include "layers/group.h"
#include "ops/ops.h"

/* Where the rows come from. Ranges are from 0 in their tensor; NULL = the group's weights. */
typedef struct tpi_vocab_shard_source {
    const tpcl_host_tensor *weight, *added; /* [base, dim], [n_added, dim] or NULL */
    const tpcl_range *rows, *added_rows;
} tpi_vocab_shard_source;

typedef struct tpi_vocab_shard {
    tpi_weight *weight;        /* [base rows | added rows] of this rank */
    tpcl_range *words, *added; /* [size] in ids */
    int base, vocab, dim;
} tpi_vocab_shard;

tpcl_status tpi_vocab_shard_create(const tpcl_group *group, const tpi_vocab_shard_source *source,
                                   tpi_vocab_shard *out);
/* Leaves zeros. */
void tpi_vocab_shard_free(tpi_vocab_shard *vocab);

/* Those of a rank; none where there is no such rank. */
static inline tpcl_range tpi_vocab_shard_words(const tpcl_group *g, const tpcl_range *ranges,
                                               int rank)
{
    return rank >= 0 && rank < g->size ? ranges[rank] : (tpcl_range){0, 0};
}

struct tpcl_embedding {
    tpcl_group *group; /* the caller's; outlives the layer */
    tpi_vocab_shard vocab;
    tpcl_tensor *ids; /* [max_tokens] I32, of tpcl_embedding_lookup */
    int max_tokens;
};

#endif
