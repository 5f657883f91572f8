/** @file device.h  OpenCL devices of all vendors: list them, choose one, open it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_DEVICE_H
#define TPCL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tpcl/log.h>
#include <tpcl/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tpcl_device_type {
    TPCL_DEVICE_GPU,            /**< with memory of its own */
    TPCL_DEVICE_INTEGRATED_GPU, /**< shares the host's memory */
    TPCL_DEVICE_ACCELERATOR,
    TPCL_DEVICE_CPU
} tpcl_device_type;

/** What the driver says of one device. `index` is its place in the stable global list. */
typedef struct tpcl_device_info {
    int index;
    tpcl_device_type type;
    char name[256], vendor[256], platform[256], driver[256], c_version[128];
    int compute_units;
    uint64_t global_bytes, max_alloc_bytes, local_bytes;
    size_t max_workgroup;
    bool host_unified;  /**< device and host share memory */
    bool partitionable; /**< sub-devices of some of its units can be made */
    bool fp16;          /**< cl_khr_fp16 arithmetic; never needed */
    bool usable;        /**< available, with a compiler */
    int same_as;        /**< index of the same physical device under an earlier driver, or -1 */
} tpcl_device_info;

/**
 * Lists every device of every platform: discrete GPUs, integrated GPUs, accelerators, CPUs; inside
 * a type in platform order. Platforms without devices are skipped; no device at all is n = 0.
 * Free with tpcl_device_list_free().  Errors: TPCL_ERR_DEVICE, TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_device_list(tpcl_device_info **out, int *n);
void tpcl_device_list_free(tpcl_device_info **list);

typedef struct tpcl_device tpcl_device; /**< Shared: reference counted by its children. */

/** Who multiplies many rows by a weight: our panel kernels, CLBlast, or what suits the device. */
typedef enum tpcl_gemm { TPCL_GEMM_AUTO, TPCL_GEMM_PANEL, TPCL_GEMM_CLBLAST } tpcl_gemm;

typedef struct tpcl_device_options {
    /**
     * Which device: an index; "gpu" (both kinds), "igpu", "accelerator", "cpu"; or a substring of a
     * device, vendor or platform name in any case ("pocl" also names Portable Computing Language).
     * A comma list is per local rank, over again where it is shorter than the ranks. NULL or "":
     * the default order, a CPU only where there is no GPU. Several matches are dealt out in turn to
     * the ranks that ask for them; one physical device under two drivers counts once.
     */
    const char *select;
    int local_rank; /**< this rank among those on the same host */
    int units;      /**< CPU devices: open a sub-device of this many units; 0 = all */
    /**
     * Folder for program binaries. NULL: TPCL_CACHE_DIR, $XDG_CACHE_HOME/tpcl or
     * $HOME/.cache/tpcl. "": none, as with TPCL_CACHE=0 in the environment.
     */
    const char *cache_dir;
    tpcl_gemm gemm;
    bool profile; /**< queue with profiling */
    tpcl_log log;
} tpcl_device_options;

/**
 * Chooses and opens a device: context, in-order queue, program cache.
 * @param options  in   NULL = defaults
 * @param out      out  NULL on failure; release with tpcl_device_close()
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_NO_DEVICE (no such device; the message lists what exists), TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_device_open(const tpcl_device_options *options, tpcl_device **out);

/** Drops the caller's reference and sets @p *dev to NULL. NULL and *NULL are no-ops. */
void tpcl_device_close(tpcl_device **dev);

/** What was opened; `compute_units` are those of the sub-device. Valid while @p dev lives. */
const tpcl_device_info *tpcl_device_get_info(const tpcl_device *dev);

#ifdef __cplusplus
}
#endif
#endif
