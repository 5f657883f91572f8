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

/** Kinds of devices, in the order in which they are preferred. */
typedef enum tpcl_device_type {
    TPCL_DEVICE_GPU,            /**< with memory of its own */
    TPCL_DEVICE_INTEGRATED_GPU, /**< shares the host's memory */
    TPCL_DEVICE_ACCELERATOR,    /**< neither GPU nor CPU */
    TPCL_DEVICE_CPU             /**< cores of the host */
} tpcl_device_type;

/** What the driver says of one device. `index` is its place in the stable global list. */
typedef struct tpcl_device_info {
    int index;                /**< place in the list of all devices, from 0 */
    tpcl_device_type type;    /**< its kind */
    char name[256];           /**< as the driver spells it */
    char vendor[256];         /**< likewise */
    char platform[256];       /**< name of its OpenCL platform */
    char driver[256];         /**< version of the driver */
    char c_version[128];      /**< version of OpenCL C, as "OpenCL C 1.2 ..." */
    int compute_units;        /**< cores, multiprocessors, ... */
    uint64_t global_bytes;    /**< memory */
    uint64_t max_alloc_bytes; /**< most of one buffer */
    uint64_t local_bytes;     /**< memory that a work-group shares */
    size_t max_workgroup;     /**< most work-items of a work-group */
    bool host_unified;        /**< device and host share memory */
    bool partitionable;       /**< sub-devices of some of its units can be made */
    bool fp16;                /**< cl_khr_fp16 arithmetic; never needed */
    bool usable;              /**< available, with a compiler */
    int same_as; /**< index of the same physical device under an earlier driver, or -1 */
} tpcl_device_info;

/**
 * Lists every device of every platform: discrete GPUs, integrated GPUs, accelerators, CPUs; inside
 * a type in platform order. Platforms without devices are skipped; no device at all is n = 0.
 *
 * @param out  out  [n], or NULL; free with tpcl_device_list_free()
 * Collective: no.  Blocks: yes, drivers are loaded.  Allocates: yes, the list.
 * Errors: TPCL_ERR_DEVICE, TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_device_list(tpcl_device_info **out, int *n);
/**
 * NULL and *NULL are no-ops; sets *list to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_device_list_free(tpcl_device_info **list);

typedef struct tpcl_device tpcl_device; /**< Shared: reference counted by its children. */

/** Who multiplies many rows by a weight: our panel kernels, CLBlast, or what suits the device. */
typedef enum tpcl_gemm {
    TPCL_GEMM_AUTO,   /**< CLBlast from 32 rows on where the device is no CPU, else panels */
    TPCL_GEMM_PANEL,  /**< always our panel kernels */
    TPCL_GEMM_CLBLAST /**< CLBlast from 32 rows on, on any device */
} tpcl_gemm;

/** Which device, and how it is opened. All zero is the default. */
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
    tpcl_gemm gemm; /**< who multiplies many rows */
    bool profile;   /**< queue with profiling */
    tpcl_log log;   /**< where warnings go */
} tpcl_device_options;

/**
 * Chooses and opens a device: context, in-order queue, program cache.
 * @param options  in   NULL = defaults
 * @param out      out  NULL on failure; release with tpcl_device_close()
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_NO_DEVICE (no such device; the message lists what exists), TPCL_ERR_DEVICE.
 */
TPCL_NODISCARD tpcl_status tpcl_device_open(const tpcl_device_options *options, tpcl_device **out);

/**
 * Drops the caller's reference and sets *dev to NULL. NULL and *NULL are no-ops.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_device_close(tpcl_device **dev);

/**
 * What was opened; `compute_units` are those of the sub-device. Valid while @p dev lives.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
const tpcl_device_info *tpcl_device_get_info(const tpcl_device *dev);

#ifdef __cplusplus
}
#endif
#endif
