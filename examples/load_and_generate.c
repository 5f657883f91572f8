/* A whole model from its file, over the ranks of MPI_COMM_WORLD: ids in, 16 ids out.
 *
 *     mpiexec -n 2 ./load_and_generate MODEL ID...
 *
 * MODEL is a GGUF file, or a folder with config.json and safetensors.
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

/* The ids of the command line; the same on all ranks, so that all of them refuse it. */
static int read_ids(char **words, int n, int32_t *ids)
{
    for (int i = 0; i < n; i++) {
        char *end = NULL;
        const long id = strtol(words[i], &end, 10);
        if (end == words[i] || *end != '\0' || id < 0 || id > INT32_MAX) return -1;
        ids[i] = (int32_t)id;
    }
    return n;
}

int main(int argc, char **argv)
{
    enum { MOST = 256 };
    int32_t ids[MOST];
    tpcl_group *group = NULL;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    const int n = argc > 2 && argc - 2 <= MOST ? read_ids(argv + 2, argc - 2, ids) : -1;
    if (n < 0) {
        fprintf(stderr, "usage: load_and_generate MODEL ID... (1 to %d numbers)\n", MOST);
        MPI_Finalize();
        return 2;
    }
    tpcl_status status = tpcl_group_create(MPI_COMM_WORLD, NULL, &group);
    if (status == TPCL_OK) status = run(group, argv[1], ids, n);
    /* The rank that failed says why and ends the job; the others wait for that in MPI_Finalize. */
    if (status != TPCL_OK && status != TPCL_ERR_PEER) {
        fprintf(stderr, "load_and_generate: %s\n", tpcl_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tpcl_group_destroy(&group);
    MPI_Finalize();
    return status == TPCL_OK ? 0 : 1;
}
