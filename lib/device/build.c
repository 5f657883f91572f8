/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "device/environment.h"
#include "device/program.h"
#include "device/query.h"

enum { LOG_LINES = 20, POCL_SPACE_MIB = 64 };

/* Model and features of the host's CPU. A CPU driver compiles for them, but may call two different
 * CPUs by one name, and a cache folder may be shared between hosts. */
static void host_cpu(char *out, size_t size)
{
    static const char *const lines[] = {"model name", "flags", "Features", "CPU part"};
    char line[4096];
    size_t used = 0;
    out[0] = '\0';
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file) && line[0] != '\n') /* the first processor's block */
        for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
            if (strncmp(line, lines[i], strlen(lines[i])) == 0 && used + strlen(line) < size)
                used += (size_t)snprintf(out + used, size - used, "%s", line);
    fclose(file);
}

tpi_cache_key tpi_build_key(const tpcl_device *dev, const char *const parts[2], const char *options)
{
    char device[256], platform[256] = "", units[16], cpu[8192] = "";
    tpi_query_text(dev->id, CL_DEVICE_VERSION, device, sizeof device);
    clGetPlatformInfo(dev->platform, CL_PLATFORM_VERSION, sizeof platform - 1, platform, NULL);
    snprintf(units, sizeof units, "%d", dev->info.compute_units);
    if (dev->info.type == TPCL_DEVICE_CPU) host_cpu(cpu, sizeof cpu);
    const char *const texts[] = {parts[0],
                                 parts[1],
                                 options,
                                 dev->info.platform,
                                 platform,
                                 dev->info.name,
                                 dev->info.vendor,
                                 dev->info.driver,
                                 device,
                                 units,
                                 cpu};
    return tpi_cache_hash(texts, (int)(sizeof texts / sizeof texts[0]));
}

/* PoCL 3.1 ends the whole process when the disk of its own kernel cache is full, and on a read-only
 * one no kernel builds, for no stated reason. */
static tpcl_status check_pocl_folder(const tpcl_device *dev)
{
    tpcl_status status = TPCL_OK;
    char path[512], existing[512];
    struct statvfs fs;
    if (!strstr(dev->info.platform, "Portable Computing Language")) return TPCL_OK;
    tpi_pocl_cache_dir(path, sizeof path);
    snprintf(existing, sizeof existing, "%s", path);
    while (statvfs(existing, &fs) != 0) { /* PoCL will make the folders that are missing */
        char *slash = strrchr(existing, '/');
        if (!slash || slash == existing) return TPCL_OK;
        *slash = '\0';
    }
    TPI_REQUIRE(access(existing, W_OK) == 0, TPCL_ERR_DEVICE,
                "PoCL must keep compiled kernels in '%s' but cannot write there (%s); set "
                "POCL_CACHE_DIR to another folder",
                path, strerror(errno));
    const unsigned long long mib = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
    TPI_REQUIRE(mib >= POCL_SPACE_MIB, TPCL_ERR_DEVICE,
                "only %llu MiB are free for PoCL's compiled kernels in '%s' and it needs %d; free "
                "some or set POCL_CACHE_DIR to another folder",
                mib, path, POCL_SPACE_MIB);
done:
    return status;
}

static char *build_log(cl_program program, cl_device_id id)
{
    size_t bytes = 0;
    if (clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS)
        return NULL;
    char *log = calloc(bytes + 1, 1);
    if (log) clGetProgramBuildInfo(program, id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    return log;
}

static tpcl_status build_failed(tpcl_device *dev, const char *name, const char *options,
                                cl_program program, cl_int err)
{
    char *log = build_log(program, dev->id);
    const char *rest = log ? log : "";
    tpi_log(&dev->log, TPCL_LOG_WARN, "the compiler of %s %s says:", dev->info.platform,
            dev->info.driver);
    for (int line = 0; line < LOG_LINES && *rest; line++) {
        const size_t bytes = strcspn(rest, "\n");
        tpi_log(&dev->log, TPCL_LOG_WARN, "%.*s", (int)bytes, rest);
        rest += bytes + (rest[bytes] == '\n');
    }
    const tpcl_status status = tpi_fail(
        TPCL_ERR_DEVICE, "kernel file %s with '%.120s' does not build on '%.80s': %s (%d): %.200s",
        name, options, dev->info.name, tpi_cl_name(err), err, log ? log : "");
    free(log);
    return status;
}

/* False: no entry, or the driver does not like it. */
static bool build_from_cache(tpcl_device *dev, const char *options, const tpi_cache_key *key,
                             cl_program *out)
{
    void *binary = NULL;
    size_t bytes = 0;
    cl_int err = CL_SUCCESS, loaded = CL_SUCCESS;
    if (!tpi_cache_load(dev, key, &binary, &bytes)) return false;
    const unsigned char *binaries[1] = {binary};
    *out = clCreateProgramWithBinary(dev->context, 1, &dev->id, &bytes, binaries, &loaded, &err);
    if (err == CL_SUCCESS && loaded == CL_SUCCESS)
        err = clBuildProgram(*out, 1, &dev->id, options, NULL, NULL);
    free(binary);
    if (err == CL_SUCCESS && loaded == CL_SUCCESS) return true;
    if (*out) clReleaseProgram(*out);
    *out = NULL;
    tpi_cache_remove(dev, key);
    return false;
}

tpcl_status tpi_build(tpcl_device *dev, const char *name, const char *const parts[2],
                      const char *options, const tpi_cache_key *key, cl_program *out,
                      bool *from_source)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    *from_source = false;
    TPI_TRY(check_pocl_folder(dev));
    if (build_from_cache(dev, options, key, out)) goto done;
    *from_source = true;
    tpi_cache_compiling(dev, key);
    *out = clCreateProgramWithSource(dev->context, 2, (const char **)parts, NULL, &err);
    TPI_TRY(tpi_cl_check(err, "clCreateProgramWithSource"));
    err = clBuildProgram(*out, 1, &dev->id, options, NULL, NULL);
    if (err != CL_SUCCESS) TPI_TRY(build_failed(dev, name, options, *out, err));
done:
    return status;
}

/* Where this device's binary is among those of a program, of which the driver has `n`. A program
 * has one for each device of its context, which may be the caller's, with more devices; PoCL counts
 * those alone that it was built for. n: nowhere. */
static size_t place_of_binary(const tpcl_device *dev, cl_program program, size_t n)
{
    cl_uint devices = 0;
    size_t place = n;
    if (n <= 1) return 0;
    if (clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof devices, &devices, NULL) !=
            CL_SUCCESS ||
        devices != n)
        return n;
    cl_device_id *ids = calloc(n, sizeof *ids);
    if (ids &&
        clGetProgramInfo(program, CL_PROGRAM_DEVICES, n * sizeof *ids, ids, NULL) == CL_SUCCESS)
        place = tpi_query_place(dev->id, ids, n);
    free(ids);
    return place;
}

static unsigned char *own_binary(const tpcl_device *dev, cl_program program, size_t *bytes)
{
    size_t answer = 0;
    unsigned char *own = NULL;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, 0, NULL, &answer) != CL_SUCCESS)
        return NULL;
    const size_t n = answer / sizeof(size_t), place = place_of_binary(dev, program, n);
    size_t *sizes = calloc(n + 1, sizeof *sizes);
    unsigned char **all = calloc(n + 1, sizeof *all);
    bool good =
        place < n && sizes && all &&
        clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, answer, sizes, NULL) == CL_SUCCESS &&
        sizes[place] > 0;
    /* All of them: not every driver takes NULL for those that are not wanted. */
    for (size_t i = 0; good && i < n; i++) good = (all[i] = malloc(sizes[i] + 1)) != NULL;
    if (good &&
        clGetProgramInfo(program, CL_PROGRAM_BINARIES, n * sizeof *all, all, NULL) == CL_SUCCESS) {
        *bytes = sizes[place];
        own = all[place];
        all[place] = NULL;
    }
    for (size_t i = 0; all && i < n; i++) free(all[i]);
    free(all);
    free(sizes);
    return own;
}

void tpi_build_store(tpcl_device *dev, const tpi_cache_key *key, cl_program program)
{
    size_t bytes = 0;
    const int claim = tpi_cache_claim(dev, key);
    if (claim < 0) return;
    unsigned char *binary = own_binary(dev, program, &bytes);
    tpi_cache_store(dev, key, claim, binary, bytes);
    free(binary);
}
