/* Which cores a rank has, and keeping the driver's threads on them. No OpenCL, no MPI.
 *
 * Measured with PoCL 3.1 on 2 cores:
 * - PoCL starts one worker thread per core of the machine at the first OpenCL call. The affinity
 *   mask changes neither their number nor CL_DEVICE_MAX_COMPUTE_UNITS, but every worker inherits
 * the mask of the thread that made the call: bound to one core, both workers compete for it.
 * - A sub-device of u units is served by the first u workers, in every process. So two ranks with a
 *   sub-device each are only apart when the workers of each process are bound apart.
 * - Binding the calling thread after the first call does not move the workers; setting the affinity
 *   of the workers themselves does, at once.
 * Since a device list, and with it the first call, comes before the plan, tpi_affinity_bind() binds
 * the process: the caller and all threads that inherited its mask, as a launcher would have done.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_DEVICE_AFFINITY_H
#define TPI_DEVICE_AFFINITY_H

#include <stdbool.h>
#include <tpcl/status.h>

enum { TPI_MAX_CPUS = 1024 };

/* A set of CPU numbers; plain data, so that ranks can exchange it. n = 0: unknown. */
typedef struct tpi_cpus {
    int n;
    int cpu[TPI_MAX_CPUS];
} tpi_cpus;

/* The calling thread's mask, the CPUs of one core side by side so that slices keep cores whole. */
void tpi_affinity_get(tpi_cpus *out);

/**
 * The CPUs of one of the `local_size` ranks that compute on this host's cores.
 *
 * @param masks   in   [local_size] the mask each rank inherited
 * @param mine    out  n = 0 when the own mask is unknown: then do not bind
 * @param shared  out  another rank has one of these CPUs, too
 *
 * Ranks with equal masks divide them: consecutive slices, as equal as possible, or where there are
 * fewer CPUs (k) than such ranks (m) the CPU at rank * k / m. A rank whose mask no other rank has
 * was bound by the launcher and keeps it. A device with more than mine->n units is opened with
 * mine->n.
 */
void tpi_affinity_plan(const tpi_cpus *masks, int local_size, int local_rank, tpi_cpus *mine,
                       bool *shared);

/* Binds the process to `cpus`: the calling thread and each thread whose mask equals the caller's
 * present one. Threads that somebody bound otherwise stay. Error: TPCL_ERR_UNSUPPORTED. */
TPCL_NODISCARD tpcl_status tpi_affinity_bind(const tpi_cpus *cpus);

#endif
