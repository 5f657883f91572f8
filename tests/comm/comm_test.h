/* What the tests of the communicator share. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_COMM_TEST_H
#define TPCL_COMM_TEST_H

#include "tpcl_test.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <tpcl/comm.h>
#include <unistd.h>

static int world_rank, world_size;
static long checks; /* comparisons made; a test program that compared nothing has failed */

static inline tpcl_comm *open_comm(const tpcl_comm_options *options)
{
    tpcl_comm *comm = NULL;
    assert_ok(tpcl_comm_create(MPI_COMM_WORLD, options, &comm));
    assert_non_null(comm);
    return comm;
}

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Next number of a stream that is the same on every rank. */
static inline uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*seed * below) >> 32);
}

static inline void assert_same_bytes(const void *got, const void *want, size_t n, const char *what)
{
    checks++;
    if (n && memcmp(got, want, n) != 0) {
        size_t i = 0;
        while (((const char *)got)[i] == ((const char *)want)[i]) i++;
        fail_msg("rank %d of %d: %s: byte %zu of %zu differs", world_rank, world_size, what, i, n);
    }
}

/* All ranks leave with the same verdict, or the launcher would show only one of them. */
static inline int run_on_all_ranks(int (*run)(void))
{
    long mine[2], worst[2];
    int provided = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    mine[0] = run();
    mine[1] = checks == 0;
    MPI_Allreduce(mine, worst, 2, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (worst[1] && world_rank == 0) fprintf(stderr, "no case ran\n");
    MPI_Finalize();
    return worst[0] || worst[1];
}

#endif
