/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

static tpcl_status open_queue(tpcl_device *dev, bool profile)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    dev->context = clCreateContext(NULL, 1, &dev->id, NULL, NULL, &err);
    TPI_TRY(tpi_cl_check(err, "clCreateContext"));
    const cl_command_queue_properties flags = profile ? CL_QUEUE_PROFILING_ENABLE : 0;
    dev->queue = clCreateCommandQueue(dev->context, dev->id, flags, &err);
    TPI_TRY(tpi_cl_check(err, "clCreateCommandQueue"));
done:
    return status;
}

tpcl_status tpcl_device_open(const tpcl_device_options *options, tpcl_device **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = NULL;
    cl_platform_id platforms[16];
    cl_uint n = 0;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "tpcl_device_open: out is NULL");
    *out = NULL;
    dev = calloc(1, sizeof *dev);
    TPI_REQUIRE(dev, TPCL_ERR_NOMEM, "device object");
    dev->refs = 1;
    TPI_TRY(TPI_CL(clGetPlatformIDs(16, platforms, &n)));
    for (cl_uint p = 0; p < n && p < 16 && !dev->id; p++) {
        cl_uint found = 0;
        dev->platform = platforms[p];
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 1, &dev->id, &found) != CL_SUCCESS)
            dev->id = NULL;
    }
    TPI_REQUIRE(dev->id, TPCL_ERR_NO_DEVICE, "no OpenCL device");
    cl_ulong v = 0;
    cl_uint u = 0;
    clGetDeviceInfo(dev->id, CL_DEVICE_NAME, sizeof dev->info.name, dev->info.name, NULL);
    clGetDeviceInfo(dev->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof v, &v, NULL);
    dev->info.max_alloc_bytes = v;
    clGetDeviceInfo(dev->id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof u, &u, NULL);
    dev->info.compute_units = (int)u;
    clGetDeviceInfo(dev->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof dev->info.max_workgroup,
                    &dev->info.max_workgroup, NULL);
    dev->info.type = TPCL_DEVICE_CPU;
    dev->info.host_unified = true;
    TPI_TRY(open_queue(dev, options && options->profile));
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

void tpcl_device_close(tpcl_device **devp)
{
    if (!devp || !*devp) return;
    tpcl_device *dev = *devp;
    *devp = NULL;
    if (--dev->refs > 0) return;
    tpi_programs_free(dev);
    if (dev->queue) clReleaseCommandQueue(dev->queue);
    if (dev->context) clReleaseContext(dev->context);
    if (dev->is_sub_device) clReleaseDevice(dev->id);
    free(dev);
}

const tpcl_device_info *tpcl_device_get_info(const tpcl_device *dev)
{
    return &dev->info;
}
