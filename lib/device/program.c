/* Built programs by (file, options). In memory here; binaries on disk are added by the cache. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "tpi_kernels.h" /* generated from cl/ by cmake/EmbedKernels.cmake */

enum { MAX_KERNELS = 16 };

struct tpi_program {
    tpi_program *next;
    char *name, *options;
    cl_program program;
    int n_kernels;
    struct {
        char *name;
        cl_kernel kernel;
    } kernels[MAX_KERNELS];
};

static void program_free(tpi_program *p)
{
    for (int i = 0; i < p->n_kernels; i++) {
        if (p->kernels[i].kernel) clReleaseKernel(p->kernels[i].kernel);
        free(p->kernels[i].name);
    }
    if (p->program) clReleaseProgram(p->program);
    free(p->name);
    free(p->options);
    free(p);
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

static tpcl_status build(tpcl_device *dev, const char *name, const char *options, cl_program *out)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    const char *text = find_source(name);
    TPI_REQUIRE(text, TPCL_ERR_ARG, "no kernel file %s", name);
    const char *parts[2] = {find_source("common"), text};
    *out = clCreateProgramWithSource(dev->context, 2, parts, NULL, &err);
    TPI_TRY(tpi_cl_check(err, "clCreateProgramWithSource"));
    err = clBuildProgram(*out, 1, &dev->id, options, NULL, NULL);
    if (err != CL_SUCCESS) {
        char log[4096] = "";
        clGetProgramBuildInfo(*out, dev->id, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        TPI_FAIL(TPCL_ERR_DEVICE, "kernel %s with '%s' does not build on '%s' (error %d): %.300s",
                 name, options, dev->info.name, err, log);
    }
done:
    return status;
}

static tpcl_status program_get(tpcl_device *dev, const char *name, const char *options,
                               tpi_program **out)
{
    tpcl_status status = TPCL_OK;
    tpi_program *p = dev->programs;
    while (p && (strcmp(p->name, name) != 0 || strcmp(p->options, options) != 0)) p = p->next;
    *out = p;
    if (p) return TPCL_OK;
    p = calloc(1, sizeof *p);
    TPI_REQUIRE(p, TPCL_ERR_NOMEM, "program object");
    p->name = strdup(name);
    p->options = strdup(options);
    TPI_REQUIRE(p->name && p->options, TPCL_ERR_NOMEM, "program name");
    TPI_TRY(build(dev, name, options, &p->program));
    p->next = dev->programs;
    dev->programs = *out = p;
    p = NULL;
done:
    if (p) program_free(p);
    return status;
}

tpcl_status tpi_kernel_get(tpcl_device *dev, const char *name, const char *options,
                           const char *kernel, cl_kernel *out)
{
    tpcl_status status = TPCL_OK;
    tpi_program *p = NULL;
    cl_int err = CL_SUCCESS;
    *out = NULL;
    TPI_TRY(program_get(dev, name, options, &p));
    for (int i = 0; i < p->n_kernels; i++) {
        if (strcmp(p->kernels[i].name, kernel) != 0) continue;
        *out = p->kernels[i].kernel;
        goto done;
    }
    TPI_REQUIRE(p->n_kernels < MAX_KERNELS, TPCL_ERR_ARG, "%s: over %d kernels", name, MAX_KERNELS);
    char *copy = strdup(kernel);
    TPI_REQUIRE(copy, TPCL_ERR_NOMEM, "kernel name");
    cl_kernel created = clCreateKernel(p->program, kernel, &err);
    p->kernels[p->n_kernels].name = copy;
    p->kernels[p->n_kernels++].kernel = created;
    TPI_TRY(tpi_cl_check(err, kernel));
    *out = created;
done:
    return status;
}
