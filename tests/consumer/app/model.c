/* SPDX-License-Identifier: Apache-2.0 */
/* A program that links the model library: reads the header of a model file. */
#include <stdio.h>
#include <tpcl/checkpoint.h>
#include <tpcl/model.h>

int main(int argc, char **argv)
{
    tpcl_checkpoint *checkpoint = NULL;
    const tpcl_status status = tpcl_checkpoint_open(argc > 1 ? argv[1] : "", NULL, &checkpoint);
    printf("%s\n", status == TPCL_OK ? "opened" : tpcl_last_error());
    tpcl_checkpoint_close(&checkpoint);
    return status == TPCL_OK ? 0 : 1;
}
