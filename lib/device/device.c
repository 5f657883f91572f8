/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "device/cache.h"
#include "device/list.h"
#include "device/query.h"
#include "device/select.h"

/* EQUALLY makes as many sub-devices as fit; only the first is kept. */
static cl_int sub_device_equally(cl_device_id id, int units, cl_device_id *out)
{
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY, units, 0};
    cl_device_id all[256] = {0};
    cl_uint count = 0;
    cl_int err = clCreateSubDevices(id, how, 0, NULL, &count);
    if (err == CL_SUCCESS && count > sizeof all / sizeof all[0]) err = CL_DEVICE_PARTITION_FAILED;
    if (err == CL_SUCCESS) err = clCreateSubDevices(id, how, count, all, NULL);
    if (err != CL_SUCCESS) return err;
    *out = all[0];
    for (cl_uint i = 1; i < count; i++) clReleaseDevice(all[i]);
    return CL_SUCCESS;
}

static cl_int sub_device(cl_device_id id, int units, cl_device_id *out)
{
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_BY_COUNTS, units,
                                                CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_int err = CL_DEVICE_PARTITION_FAILED;
    if (tpi_query_partition(id, CL_DEVICE_PARTITION_BY_COUNTS))
        err = clCreateSubDevices(id, how, 1, out, NULL);
    if (err != CL_SUCCESS && tpi_query_partition(id, CL_DEVICE_PARTITION_EQUALLY))
        err = sub_device_equally(id, units, out);
    return err;
}

/* Replaces the device by a part of it; one that cannot be divided stays whole, with a warning. */
static void take_units(tpcl_device *dev, int units)
{
    cl_device_id part = NULL;
    if (units <= 0 || dev->info.type != TPCL_DEVICE_CPU || units >= dev->info.compute_units) return;
    const cl_int err =
        dev->info.partitionable ? sub_device(dev->id, units, &part) : CL_DEVICE_PARTITION_FAILED;
    if (err != CL_SUCCESS) {
        tpi_log(&dev->log, TPCL_LOG_WARN,
                "device %d '%s' cannot be divided; using all its %d units instead of %d",
                dev->info.index, dev->info.name, dev->info.compute_units, units);
        return;
    }
    dev->id = part;
    dev->is_sub_device = dev->made_sub_device = true;
    dev->info.compute_units = (int)tpi_query_uint(part, CL_DEVICE_MAX_COMPUTE_UNITS);
}

tpcl_status tpi_device_alloc(const tpcl_device_options *options, tpcl_device **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = calloc(1, sizeof *dev);
    TPI_REQUIRE(dev, TPCL_ERR_NOMEM, "device object");
    dev->refs = 1;
    dev->ledger = tpi_ledger_create();
    TPI_REQUIRE(dev->ledger, TPCL_ERR_NOMEM, "device object");
    dev->log = options->log;
    dev->gemm = options->gemm;
    *out = dev;
    dev = NULL;
done:
    tpcl_device_close(&dev);
    return status;
}

void tpi_device_ready(tpcl_device *dev, const tpcl_device_options *options)
{
    const uint64_t host =
        dev->info.type == TPCL_DEVICE_CPU ? tpi_host_available_bytes() : UINT64_MAX;
    dev->budget_bytes = dev->info.global_bytes < host ? dev->info.global_bytes : host;
    tpi_cache_open(dev, options->cache_dir);
}

static tpcl_status open_queue(tpcl_device *dev, bool profile)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    const cl_context_properties where[] = {CL_CONTEXT_PLATFORM,
                                           (cl_context_properties)dev->platform, 0};
    const cl_command_queue_properties flags = profile ? CL_QUEUE_PROFILING_ENABLE : 0;
    dev->context = clCreateContext(where, 1, &dev->id, NULL, NULL, &err);
    TPI_TRY(tpi_cl_check(err, "clCreateContext"));
    dev->queue = clCreateCommandQueue(dev->context, dev->id, flags, &err);
    TPI_TRY(tpi_cl_check(err, "clCreateCommandQueue"));
done:
    return status;
}

static tpcl_status choose_entry(const tpcl_device_options *options, tpi_device_entry *chosen)
{
    tpcl_status status = TPCL_OK;
    tpi_device_entry *entries = NULL;
    tpcl_device_info *infos = NULL;
    int n = 0, index = 0;
    TPI_TRY(tpi_device_scan(&entries, &n));
    infos = calloc((size_t)n + 1, sizeof *infos);
    TPI_REQUIRE(infos, TPCL_ERR_NOMEM, "device list: %d devices", n);
    for (int i = 0; i < n; i++) infos[i] = entries[i].info;
    TPI_TRY(tpi_device_choose(infos, n, options->select, options->local_rank, &index));
    *chosen = entries[index];
done:
    free(infos);
    free(entries);
    return status;
}

tpcl_status tpcl_device_open(const tpcl_device_options *options, tpcl_device **out)
{
    static const tpcl_device_options defaults;
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = NULL;
    tpi_device_entry chosen = {0};

    TPI_REQUIRE(out, TPCL_ERR_ARG, "tpcl_device_open: out is NULL");
    *out = NULL;
    if (!options) options = &defaults;
    TPI_TRY(tpi_device_alloc(options, &dev));
    TPI_TRY(choose_entry(options, &chosen));
    dev->platform = chosen.platform;
    dev->id = chosen.id;
    dev->info = chosen.info;
    take_units(dev, options->units);
    TPI_TRY(open_queue(dev, options->profile));
    tpi_device_ready(dev, options);
    *out = dev;
    dev = NULL;
done:
    tpcl_device_close(&dev);
    return status;
}

tpcl_device *tpi_device_retain(tpcl_device *dev)
{
    dev->refs++;
    return dev;
}

/* PoCL's worker lets go of an event after it has woken whoever waits for it, and looks at the
 * device once more while it does; its queue does not keep a sub-device alive until then (3.1: a
 * crash in one of some twenty runs that opened groups in a row). Each event holds the queue. */
static void wait_for_events(const tpcl_device *dev)
{
    static const struct timespec nap = {.tv_nsec = 50000};
    cl_uint holders = 2;
    clFinish(dev->queue);
    for (int i = 0; i < 2000 && holders > 1; i++) {
        if (clGetCommandQueueInfo(dev->queue, CL_QUEUE_REFERENCE_COUNT, sizeof holders, &holders,
                                  NULL) != CL_SUCCESS)
            return;
        if (holders > 1) nanosleep(&nap, NULL);
    }
}

void tpcl_device_close(tpcl_device **devp)
{
    if (!devp || !*devp) return;
    tpcl_device *dev = *devp;
    *devp = NULL;
    if (--dev->refs > 0) return;
    tpi_programs_store(dev);
    tpi_programs_free(dev);
    tpi_buffer_release(&dev->gemm_scratch);
    if (dev->queue && dev->made_sub_device) wait_for_events(dev);
    if (dev->queue) clReleaseCommandQueue(dev->queue);
    if (dev->context) clReleaseContext(dev->context);
    if (dev->is_sub_device) clReleaseDevice(dev->id);
    tpi_ledger_release(dev->ledger);
    free(dev);
}

const tpcl_device_info *tpcl_device_get_info(const tpcl_device *dev)
{
    return dev ? &dev->info : NULL;
}
