/* Programs by (file, options), built once per device; binaries go to the cache on disk.
 *
 * Measured with PoCL 3.1, three small kernels: from source 750 ms to build and 330 ms at the first
 * launches; from source with PoCL's own cache warm 45 and 10 ms; from a stored binary 3 and 2 ms,
 * also for a sub-device and with PoCL's own cache empty. A whole model (14 programs), on a busy
 * machine: ready after 1.9 s with stored binaries, 3.5 s with PoCL's warm cache alone. That holds
 * for a binary taken after the kernels have run: one taken before lacks the variants that PoCL
 * makes for each work-group size and pays 330 ms again. Taking one makes PoCL compile a variant for
 * any size, too (150 ms a kernel). So binaries are stored late, when the device is closed or when
 * asked for, and by one process only. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "device/program.h"

#include <stdlib.h>
#include <string.h>

#include "tpi_kernels.h" /* generated from cl/ by cmake/EmbedKernels.cmake */

typedef struct named_kernel {
    char *name;
    cl_kernel kernel;
} named_kernel;

struct tpi_program {
    tpi_program *next;
    char *name, *options;
    cl_program program;
    tpi_cache_key key;
    bool unstored; /* built from source, not yet in the cache */
    int n_kernels;
    named_kernel *kernels;
};

static void program_free(tpi_program *p)
{
    for (int i = 0; i < p->n_kernels; i++) {
        clReleaseKernel(p->kernels[i].kernel);
        free(p->kernels[i].name);
    }
    if (p->program) clReleaseProgram(p->program);
    free(p->kernels);
    free(p->name);
    free(p->options);
    free(p);
}

void tpi_programs_store(tpcl_device *dev)
{
    for (tpi_program *p = dev->programs; p; p = p->next) {
        if (p->unstored) tpi_build_store(dev, &p->key, p->program);
        p->unstored = false;
    }
}

void tpi_programs_free(tpcl_device *dev)
{
    while (dev->programs) {
        tpi_program *next = dev->programs->next;
        program_free(dev->programs);
        dev->programs = next;
    }
}

static const char *find_source(const char *name)
{
    for (size_t i = 0; i < sizeof tpi_cl_sources / sizeof tpi_cl_sources[0]; i++)
        if (strcmp(tpi_cl_sources[i].name, name) == 0) return tpi_cl_sources[i].text;
    return NULL;
}

static tpcl_status program_get(tpcl_device *dev, const char *name, const char *options,
                               tpi_program **out)
{
    tpcl_status status = TPCL_OK;
    tpi_program *p = dev->programs;
    while (p && (strcmp(p->name, name) != 0 || strcmp(p->options, options) != 0)) p = p->next;
    *out = p;
    if (p) return TPCL_OK;
    const char *const parts[2] = {find_source("common"), find_source(name)};
    TPI_REQUIRE(parts[0] && parts[1], TPCL_ERR_ARG, "no kernel file %s", name);
    p = calloc(1, sizeof *p);
    TPI_REQUIRE(p, TPCL_ERR_NOMEM, "program object");
    p->name = strdup(name);
    p->options = strdup(options);
    TPI_REQUIRE(p->name && p->options, TPCL_ERR_NOMEM, "program name");
    p->key = tpi_build_key(dev, parts, options);
    TPI_TRY(tpi_build(dev, name, parts, options, &p->key, &p->program, &p->unstored));
    p->next = dev->programs;
    dev->programs = *out = p;
    p = NULL;
done:
    if (p) program_free(p);
    return status;
}

static tpcl_status add_kernel(tpi_program *p, const char *name, cl_kernel *out)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    char *copy = NULL;
    named_kernel *grown = realloc(p->kernels, ((size_t)p->n_kernels + 1) * sizeof *grown);
    TPI_REQUIRE(grown, TPCL_ERR_NOMEM, "kernel list");
    p->kernels = grown;
    copy = strdup(name);
    TPI_REQUIRE(copy, TPCL_ERR_NOMEM, "kernel name");
    cl_kernel kernel = clCreateKernel(p->program, name, &err);
    TPI_TRY(tpi_cl_check(err, name));
    grown[p->n_kernels++] = (named_kernel){copy, kernel};
    *out = kernel;
    copy = NULL;
done:
    free(copy);
    return status;
}

tpcl_status tpi_kernel_get(tpcl_device *dev, const char *name, const char *options,
                           const char *kernel, cl_kernel *out)
{
    tpcl_status status = TPCL_OK;
    tpi_program *p = NULL;
    *out = NULL;
    TPI_TRY(program_get(dev, name, options, &p));
    for (int i = 0; i < p->n_kernels; i++) {
        if (strcmp(p->kernels[i].name, kernel) != 0) continue;
        *out = p->kernels[i].kernel;
        goto done;
    }
    TPI_TRY(add_kernel(p, kernel, out));
done:
    return status;
}
