/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

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
