/* A model that nobody trained: Llama's decoder with the sizes of a shape file. The rows of each
 * weight repeat, so that its plain C reference costs little, however large the model is. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SYNTH_H
#define BENCH_SYNTH_H

#include <tpcl/checkpoint.h>

#include "shapes.h"

struct bench_synth;

/* Its weights lie in memory that nothing else names; no file is made. */
tpcl_status bench_synth_create(const struct model_shape *shape, tpcl_dtype dtype,
                               struct bench_synth **out);
void bench_synth_destroy(struct bench_synth **synth);

/* As tpcl_model_load takes it; owned by the model. */
const tpcl_checkpoint *bench_synth_checkpoint(const struct bench_synth *synth);
/* The same as a GGUF file. */
tpcl_status bench_synth_write(const struct bench_synth *synth, const char *path);
uint64_t bench_synth_bytes(const struct bench_synth *synth);

/* Logits of the last of n tokens, in plain C: word w has logits[w % *period]. malloc'ed. */
tpcl_status bench_synth_logits(const struct bench_synth *synth, const int32_t *ids, int n,
                               bool interleaved, float **logits, int *period);

#endif
