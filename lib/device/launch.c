/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

tpcl_status tpi_cl_check(cl_int err, const char *what)
{
    if (err == CL_SUCCESS) return TPCL_OK;
    const bool memory = err == CL_MEM_OBJECT_ALLOCATION_FAILURE || err == CL_OUT_OF_RESOURCES;
    return tpi_fail(memory ? TPCL_ERR_DEVICE_MEM : TPCL_ERR_DEVICE, "OpenCL error %d from %s", err,
                    what);
}

tpcl_status tpi_launch_run(tpi_launch *l, int dims, const size_t *global, const size_t *local,
                           const char *what)
{
    for (int d = 0; d < dims; d++)
        if (global[d] == 0) return TPCL_OK;
    cl_int err = l->err;
    if (err == CL_SUCCESS)
        err = clEnqueueNDRangeKernel(l->dev->queue, l->kernel, (cl_uint)dims, NULL, global, local,
                                     0, NULL, NULL);
    return tpi_cl_check(err, what);
}

tpcl_status tpi_buffer_create(tpcl_device *dev, size_t bytes, const char *what, cl_mem *out)
{
    tpcl_status status = TPCL_OK;
    cl_int err = CL_SUCCESS;
    *out = NULL;
    if (bytes == 0) return TPCL_OK; /* empty shards are legal, empty buffers are not */
    TPI_REQUIRE(bytes <= dev->info.max_alloc_bytes, TPCL_ERR_SHAPE,
                "%s: %zu bytes, over the limit of %llu for one buffer on '%s'; use more ranks",
                what, bytes, (unsigned long long)dev->info.max_alloc_bytes, dev->info.name);
    *out = clCreateBuffer(dev->context, CL_MEM_READ_WRITE, bytes, NULL, &err);
    TPI_TRY(tpi_cl_check(err, what));
done:
    return status;
}

void tpi_buffer_release(cl_mem *mem)
{
    if (*mem) clReleaseMemObject(*mem);
    *mem = NULL;
}
