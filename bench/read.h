/* The peer of whatever is bound by memory: how fast this device reads it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_READ_H
#define BENCH_READ_H

#include "bench.h"

/* A bench_case.peer: sums of float16 over a gigabyte a host, or on a CPU a loop of its cores that
 * prefetches, with 1 to 8 streams a core: what proved fastest at the first call. */
tpcl_status bench_read_peer(struct bench_run *r, struct bench_peer *out);
void bench_read_destroy(struct bench_read **read);

#endif
