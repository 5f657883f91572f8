/* A whole model in a group on the caller's context and queue: the ids of a group of tpcl's own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tpcl_test.h"

#include <mpi.h>
#include <string.h>
#include <tpcl/model.h>
#include <tpcl/opencl.h>
#include <unistd.h>

enum { IDS = 12 };

static void generate(tpcl_group *group, int32_t *ids)
{
    static const int32_t prompt[] = {3, 17, 42, 5, 9};
    const tpcl_generate_options options = {.n_predict = IDS, .sampling = {.top_p = 1.0f}};
    tpcl_checkpoint *checkpoint = NULL;
    tpcl_model *model = NULL;
    tpcl_generate_result result = {0};
    assert_ok(tpcl_checkpoint_open(TPCL_GOLDEN_DIR "/tiny-qwen3", NULL, &checkpoint));
    assert_ok(tpcl_model_load(group, TPCL_OK, checkpoint, NULL, &model));
    assert_ok(tpcl_model_generate(model, prompt, COUNT(prompt), &options, &result));
    assert_int_equal(result.n, IDS);
    memcpy(ids, result.ids, IDS * sizeof *ids);
    free(result.ids);
    tpcl_model_destroy(&model);
    tpcl_checkpoint_close(&checkpoint);
}

static cl_uint refs(cl_command_queue queue)
{
    cl_uint n = 0;
    clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof n, &n, NULL);
    return n;
}

static void same_ids_in_their_queue(void **state)
{
    (void)state;
    int32_t own[IDS], theirs[IDS];
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 60},
                             plain = {.timeout_s = 60};
    tpcl_group *group = NULL;
    tpcl_device *device = NULL;
    const tpcl_device_options whole = {.select = options.device};
    cl_int err = CL_SUCCESS;
    assert_ok(tpcl_group_create(MPI_COMM_WORLD, &options, &group));
    generate(group, own);
    tpcl_group_destroy(&group);
    assert_ok(tpcl_device_open(&whole, &device));
    cl_device_id id = tpcl_device_id(device);
    tpcl_device_close(&device);
    cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, &err);
    cl_command_queue queue = clCreateCommandQueue(context, id, 0, &err);
    assert_int_equal(err, CL_SUCCESS);
    assert_ok(tpcl_group_create_from_cl(MPI_COMM_WORLD, context, id, queue, &plain, &group));
    generate(group, theirs);
    tpcl_group_destroy(&group);
    assert_memory_equal(own, theirs, sizeof own);
    for (int turn = 0; turn < 400 && refs(queue) != 1; turn++) usleep(5000);
    assert_int_equal(refs(queue), 1);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_ids_in_their_queue)};
    int provided = 0, any = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    const int failed = cmocka_run_group_tests_name("model/opencl", tests, NULL, NULL);
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any != 0;
}
