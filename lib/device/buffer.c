/* Buffers, refused before a driver overcommits.
 *
 * Drivers accept far more than there is and fail at the first touch, PoCL by ending the process. So
 * a device keeps count of its live buffers against a budget, and on CPU devices the memory is taken
 * from the host at once (CL_MEM_ALLOC_HOST_PTR: an error instead of an assertion). Measured on PoCL
 * 3.1 and Intel's CPU runtime, that flag changes neither alignment (128 bytes and 4 KiB) nor the
 * rate at which a kernel reads a 256 MiB buffer. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device/device.h"

/* Outlives the device where a driver frees memory late. */
struct tpi_ledger {
    atomic_uint_fast64_t used;
    atomic_int refs;
};

typedef struct entry {
    tpi_ledger *ledger;
    uint64_t bytes;
} entry;

static const uint64_t huge = 4u << 20;  /* from here on pages of 2 MiB pay */
static const uint64_t large = 1u << 20; /* from here on a look at the host's memory pays */

tpi_ledger *tpi_ledger_create(void)
{
    tpi_ledger *ledger = calloc(1, sizeof *ledger);
    if (ledger) atomic_init(&ledger->refs, 1);
    return ledger;
}

void tpi_ledger_release(tpi_ledger *ledger)
{
    if (ledger && atomic_fetch_sub(&ledger->refs, 1) == 1) free(ledger);
}

uint64_t tpi_device_used_bytes(const tpcl_device *dev)
{
    return atomic_load(&dev->ledger->used);
}

static void forget(entry *e)
{
    atomic_fetch_sub(&e->ledger->used, e->bytes);
    tpi_ledger_release(e->ledger);
    free(e);
}

static void CL_CALLBACK buffer_freed(cl_mem mem, void *data)
{
    (void)mem;
    forget(data);
}

/* Bytes that a cgroup (a container) may hold; the largest number where there is no limit. */
static uint64_t cgroup_limit(void)
{
    unsigned long long bytes = UINT64_MAX;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    if (!file) return UINT64_MAX;
    if (fscanf(file, "%llu", &bytes) != 1) bytes = UINT64_MAX; /* "max" */
    fclose(file);
    return bytes;
}

uint64_t tpi_host_available_bytes(void)
{
    char line[128];
    unsigned long long kib = UINT64_MAX >> 10;
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return UINT64_MAX;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    fclose(file);
    const uint64_t bytes = (uint64_t)kib << 10, limit = cgroup_limit();
    return bytes < limit ? bytes : limit;
}

static bool on_host(const tpcl_device *dev)
{
    return dev->info.type == TPCL_DEVICE_CPU;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1u << 30);
}

static tpcl_status check_budget(const tpcl_device *dev, uint64_t bytes, const char *what)
{
    tpcl_status status = TPCL_OK;
    const uint64_t used = tpi_device_used_bytes(dev);
    TPI_REQUIRE(
        bytes <= dev->info.max_alloc_bytes, TPCL_ERR_SHAPE,
        "%.100s: %llu bytes, over the limit of %llu for one buffer on '%.80s'; use more ranks",
        what, (unsigned long long)bytes, (unsigned long long)dev->info.max_alloc_bytes,
        dev->info.name);
    TPI_REQUIRE(
        used <= dev->budget_bytes && bytes <= dev->budget_bytes - used, TPCL_ERR_DEVICE_MEM,
        "%.100s: %llu bytes do not fit on '%.80s': %.2f of %.2f GiB are taken; use more ranks, "
        "a smaller model or a shorter context",
        what, (unsigned long long)bytes, dev->info.name, gib(used), gib(dev->budget_bytes));
    if (!on_host(dev) || bytes < large) goto done;
    const uint64_t host = tpi_host_available_bytes();
    TPI_REQUIRE(
        bytes <= host, TPCL_ERR_DEVICE_MEM,
        "%.100s: %llu bytes do not fit: this host has %.2f GiB of memory available; use more "
        "hosts, a smaller model or a shorter context",
        what, (unsigned long long)bytes, gib(host));
done:
    return status;
}

/* Elsewhere than on a CPU: memory that is only found missing at the first touch is touched now. */
static cl_int touch(const tpcl_device *dev, cl_mem mem)
{
    const cl_int err = clEnqueueMigrateMemObjects(
        dev->queue, 1, &mem, CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED, 0, NULL, NULL);
    return err == CL_SUCCESS ? clFinish(dev->queue) : err;
}

/* Weights are read from end to end for every token: with pages of 2 MiB a core's prefetcher does
 * not stop every 4 KiB (measured, Q4_1 rows from memory: 135 -> 118 us). Advice only: no error
 * counts. */
static void advise_huge_pages(const tpcl_device *dev, cl_mem mem, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const uintptr_t page = (uintptr_t)2 << 20;
    cl_int err = CL_SUCCESS;
    void *p = clEnqueueMapBuffer(dev->queue, mem, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION, 0, bytes,
                                 0, NULL, NULL, &err);
    if (err != CL_SUCCESS || !p) return;
    const uintptr_t begin = ((uintptr_t)p + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)p + bytes) / page * page;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    clEnqueueUnmapMemObject(dev->queue, mem, p, 0, NULL, NULL);
#else
    (void)dev, (void)mem, (void)bytes;
#endif
}

/* Any failure here is one of memory: all else was checked. */
static tpcl_status create_failed(const tpcl_device *dev, cl_int err, size_t bytes, const char *what)
{
    return tpi_fail(
        TPCL_ERR_DEVICE_MEM,
        "%.100s: '%.80s' cannot give %zu bytes: %s (%d); use more ranks, a smaller model or "
        "a shorter context",
        what, dev->info.name, bytes, tpi_cl_name(err), err);
}

tpcl_status tpi_buffer_create(tpcl_device *dev, size_t bytes, const char *what, cl_mem *out)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    cl_mem mem = NULL;
    entry *e = NULL;

    *out = NULL;
    if (bytes == 0) return TPCL_OK; /* empty shards are legal, empty buffers are not */
    TPI_TRY(check_budget(dev, bytes, what));
    e = calloc(1, sizeof *e);
    TPI_REQUIRE(e, TPCL_ERR_NOMEM, "%s: buffer entry", what);
    mem =
        clCreateBuffer(dev->context, CL_MEM_READ_WRITE | (on_host(dev) ? CL_MEM_ALLOC_HOST_PTR : 0),
                       bytes, NULL, &err);
    if (err == CL_SUCCESS && !on_host(dev) && bytes >= large) err = touch(dev, mem);
    if (err == CL_SUCCESS && on_host(dev) && bytes >= huge) advise_huge_pages(dev, mem, bytes);
    if (err != CL_SUCCESS) TPI_TRY(create_failed(dev, err, bytes, what));
    err = clSetMemObjectDestructorCallback(mem, buffer_freed, e);
    TPI_TRY(tpi_cl_check(err, "clSetMemObjectDestructorCallback"));
    e->ledger = dev->ledger;
    e->bytes = bytes;
    atomic_fetch_add(&e->ledger->refs, 1);
    atomic_fetch_add(&e->ledger->used, bytes);
    e = NULL; /* the callback's now */
    *out = mem;
    mem = NULL;
done:
    free(e);
    tpi_buffer_release(&mem);
    return status;
}

void tpi_buffer_release(cl_mem *mem)
{
    if (*mem) clReleaseMemObject(*mem);
    *mem = NULL;
}
