/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

static const struct bench_case *const cases[] = {
    /* what a kernel does, on each rank alone */
    &bench_linear,
    &bench_attention,
    &bench_rmsnorm,
    &bench_embed,
    &bench_rope,
    &bench_swiglu,
    &bench_sample,
    /* layers, on all ranks together */
    &bench_column,
    &bench_merged,
    &bench_row_layer,
    &bench_qkv,
    &bench_embedding,
    &bench_head,
    &bench_heads,
    &bench_allreduce,
    &bench_allreduce_host,
    &bench_broadcast,
    &bench_gather,
#ifdef BENCH_MODEL
    &bench_pp,
    &bench_tg,
    &bench_load_cold,
    &bench_load_warm,
#endif
};

const struct bench_suite bench_all = {cases, sizeof cases / sizeof cases[0]};
