/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else, in C and, included by layers.cpp, in C++: the layers alone. */
#define CL_TARGET_OPENCL_VERSION 120
#include <stdio.h>
#include <string.h>
#include <tpcl/opencl.h>
#include <tpcl/tpcl.h>

static tpcl_status sum_over_ranks(float *sum)
{
    static const float one[1] = {1.0f};
    tpcl_comm *comm = NULL;
    tpcl_device_info *devices = NULL;
    int n = 0;
    tpcl_status status = tpcl_device_list(&devices, &n);
    tpcl_device_list_free(&devices);
    if (status == TPCL_OK) status = tpcl_comm_create(MPI_COMM_SELF, NULL, &comm);
    if (status == TPCL_OK) status = tpcl_comm_allreduce_sum(comm, TPCL_OK, one, sum, 1);
    tpcl_comm_destroy(&comm);
    return status;
}

/* Headers and library of OpenCL come with tpcl: the program asks for nothing else. */
static tpcl_status their_device(void)
{
    cl_platform_id platforms[16];
    cl_device_id id = NULL;
    cl_uint n = 0, found = 0;
    cl_int error = CL_SUCCESS;
    tpcl_device *device = NULL;
    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS) return TPCL_ERR_NO_DEVICE;
    for (cl_uint i = 0; i < n && !found; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &id, &found) != CL_SUCCESS)
            found = 0;
    if (!found) return TPCL_ERR_NO_DEVICE;
    cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, &error);
    if (error != CL_SUCCESS) return TPCL_ERR_DEVICE;
    tpcl_status status = tpcl_device_open_from_cl(context, id, NULL, NULL, &device);
    if (status == TPCL_OK && tpcl_device_context(device) != context) status = TPCL_ERR_DEVICE;
    tpcl_device_close(&device);
    clReleaseContext(context);
    return status;
}

int main(int argc, char **argv)
{
    float sum = 0.0f;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    tpcl_status status = sum_over_ranks(&sum);
    if (status == TPCL_OK) status = their_device();
    if (status != TPCL_OK) fprintf(stderr, "%s\n", tpcl_last_error());
    if (strcmp(tpcl_version_string(), TPCL_VERSION_STRING) != 0) return 2;
    printf("%s %g\n", TPCL_VERSION_STRING, (double)sum);
    MPI_Finalize();
    return status == TPCL_OK ? 0 : 1;
}
