/* How fast the host's cores read memory: a plain loop that prefetches. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_READ_HOST_H
#define BENCH_READ_HOST_H

#include <stddef.h>
#include <tpcl/status.h>

struct bench_read_host;

/* `bytes` of memory for `threads` threads; a multiple of what they need is taken. */
tpcl_status bench_read_host_create(size_t bytes, int threads, struct bench_read_host **out);
void bench_read_host_destroy(struct bench_read_host **host);
size_t bench_read_host_bytes(const struct bench_read_host *host);

/* Reads all of it once, each thread its part, in 1 to 8 streams at the same time. An error where
 * not all of it was read. */
tpcl_status bench_read_host_run(struct bench_read_host *host, size_t streams);

#endif
