/* SPDX-License-Identifier: Apache-2.0 */
#include "read_host.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"

enum { LINE = 8, AHEAD = 16 * LINE, STREAMS_MAX = 8 }; /* in words of 8 bytes */

struct part {
    const uint64_t *from;
    size_t words, streams; /* words: a multiple of LINE * STREAMS_MAX */
    uint64_t sum;
    pthread_t thread;
};

struct bench_read_host {
    uint64_t *words; /* all 1: their sum is their number */
    size_t n;
    int threads;
    struct part *parts;
};

static void *read_part(void *context)
{
    struct part *p = context;
    const size_t each = p->words / p->streams;
    uint64_t sums[LINE] = {0};
    for (size_t at = 0; at < each; at += LINE)
        for (size_t s = 0; s < p->streams; s++) {
            const uint64_t *line = p->from + s * each + at;
            __builtin_prefetch(line + AHEAD);
            for (int i = 0; i < LINE; i++) sums[i] += line[i];
        }
    p->sum = 0;
    for (int i = 0; i < LINE; i++) p->sum += sums[i];
    return NULL;
}

static void *fill_part(void *context)
{
    const struct part *p = context;
    uint64_t *to = (uint64_t *)(uintptr_t)p->from;
    for (size_t i = 0; i < p->words; i++) to[i] = 1;
    return NULL;
}

static tpcl_status on_threads(struct bench_read_host *h, void *(*work)(void *))
{
    tpcl_status status = TPCL_OK;
    int started = 0;
    for (; started < h->threads; started++)
        if (pthread_create(&h->parts[started].thread, NULL, work, &h->parts[started]) != 0) break;
    if (started < h->threads)
        TPI_FAIL(TPCL_ERR_NOMEM, "only %d of %d threads started", started, h->threads);
    for (int i = 0; i < started; i++) pthread_join(h->parts[i].thread, NULL);
    return status;
}

tpcl_status bench_read_host_create(size_t bytes, int threads, struct bench_read_host **out)
{
    tpcl_status status = TPCL_OK;
    const size_t unit = (size_t)threads * LINE * STREAMS_MAX;
    struct bench_read_host *h = calloc(1, sizeof *h);
    TPI_REQUIRE(h, TPCL_ERR_NOMEM, "read peer");
    h->threads = threads;
    h->n = (bytes / sizeof *h->words + unit - 1) / unit * unit;
    h->parts = calloc((size_t)threads, sizeof *h->parts);
    h->words = aligned_alloc(LINE * sizeof *h->words, h->n * sizeof *h->words);
    TPI_REQUIRE(h->parts && h->words, TPCL_ERR_NOMEM, "%zu bytes to read", bytes);
    for (int i = 0; i < threads; i++) {
        h->parts[i].words = h->n / (size_t)threads;
        h->parts[i].from = h->words + (size_t)i * h->parts[i].words;
    }
    TPI_TRY(on_threads(h, fill_part));
    *out = h;
    h = NULL;
done:
    bench_read_host_destroy(&h);
    return status;
}

void bench_read_host_destroy(struct bench_read_host **host)
{
    struct bench_read_host *h = *host;
    if (!h) return;
    *host = NULL;
    free(h->parts);
    free(h->words);
    free(h);
}

size_t bench_read_host_bytes(const struct bench_read_host *h)
{
    return h->n * sizeof *h->words;
}

tpcl_status bench_read_host_run(struct bench_read_host *h, size_t streams)
{
    tpcl_status status = TPCL_OK;
    uint64_t sum = 0;
    for (int i = 0; i < h->threads; i++) h->parts[i].streams = streams;
    TPI_TRY(on_threads(h, read_part));
    for (int i = 0; i < h->threads; i++) sum += h->parts[i].sum;
    TPI_REQUIRE(sum == h->n, TPCL_ERR_DEVICE, "%llu of %zu words were read",
                (unsigned long long)sum, h->n);
done:
    return status;
}
