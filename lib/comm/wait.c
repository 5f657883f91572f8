/* Waiting for other ranks. MPI's own busy wait costs 8-20 ms a call where ranks outnumber cores. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <sched.h>
#include <time.h>

/* A wait this long is not a collective in flow but somebody loading a file or compiling: from then
 * on it sleeps, so that the other's work gets the core, and pays at most a hundredth. */
static const double patience_s = 0.02;
static const struct timespec nap = {.tv_nsec = 200000};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

tpcl_status tpi_wait_turn(const struct tpi_limits *limits, struct tpi_wait *wait)
{
    const unsigned turn = wait->turns++;
    if (turn < limits->spins) {
        cpu_pause();
        return TPCL_OK;
    }
    if (turn % TPI_WAIT_CHECK == 0) {
        const double now = now_s();
        if (limits->interrupt && *limits->interrupt) return TPCL_ERR_INTERRUPTED;
        if (wait->started == 0.0) wait->started = now;
        if (now - wait->started >= limits->timeout_s) return TPCL_ERR_TIMEOUT;
        wait->patient = now - wait->started >= patience_s;
    }
    if (wait->patient)
        nanosleep(&nap, NULL);
    else
        sched_yield();
    return TPCL_OK;
}
