/* A model over the ranks of MPI_COMM_WORLD: ids in, ids out.
 *
 *     mpiexec -n 2 ./load_and_generate MODEL ID...
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <tpcl/model.h>

static int print_token(void *context, int32_t id)
{
    (void)context;
    printf("%d ", (int)id);
    return fflush(stdout); /* not 0: stop, nobody is reading */
}

static tpcl_status run(tpcl_group *group, const char *path, const int32_t *ids, int n)
{
    tpcl_checkpoint *checkpoint = NULL;
    tpcl_model *model = NULL;
    tpcl_generate_result result = {0};
    const tpcl_generate_options options = {
        .n_predict = 16, .sampling = {.top_p = 1.0f}, .token = print_token};

    /* A rank that cannot open the file still calls load: then all ranks fail together. */
    tpcl_status status = tpcl_checkpoint_open(path, NULL, &checkpoint);
    status = tpcl_model_load(group, status, checkpoint, NULL, &model);
    if (status == TPCL_OK) status = tpcl_model_generate(model, ids, n, &options, &result);
    if (status == TPCL_OK && tpcl_group_rank(group) == 0) printf("\n");
    free(result.ids);
    tpcl_model_destroy(&model);
    tpcl_checkpoint_close(&checkpoint);
    return status;
}

int main(int argc, char **argv)
{
    enum { MOST = 256 };
    int32_t ids[MOST];
    int n = 0;
    tpcl_group *group = NULL;

    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    for (int i = 2; i < argc && n < MOST; i++) ids[n++] = (int32_t)strtol(argv[i], NULL, 10);
    tpcl_status status = tpcl_group_create(MPI_COMM_WORLD, NULL, &group);
    if (status == TPCL_OK) status = run(group, argc > 1 ? argv[1] : "", ids, n);
    if (status != TPCL_OK) {
        fprintf(stderr, "load_and_generate: %s\n", tpcl_last_error());
        MPI_Abort(MPI_COMM_WORLD, 70);
    }
    tpcl_group_destroy(&group);
    MPI_Finalize();
    return 0;
}
