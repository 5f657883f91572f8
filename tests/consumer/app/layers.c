/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else, in C and, included by layers.cpp, in C++: the layers alone. */
#include <stdio.h>
#include <string.h>
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

int main(int argc, char **argv)
{
    float sum = 0.0f;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    const tpcl_status status = sum_over_ranks(&sum);
    if (status != TPCL_OK) fprintf(stderr, "%s\n", tpcl_last_error());
    if (strcmp(tpcl_version_string(), TPCL_VERSION_STRING) != 0) return 2;
    printf("%s %g\n", TPCL_VERSION_STRING, (double)sum);
    MPI_Finalize();
    return status == TPCL_OK ? 0 : 1;
}
