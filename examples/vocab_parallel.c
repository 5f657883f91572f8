/* A vocabulary of four words, split over the ranks: what each rank contributes, and the sum.
 *
 *     mpiexec -n 2 ./vocab_parallel
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <tpcl/tpcl.h>

static tpcl_status show(tpcl_group *group, const char *what, const tpcl_tensor *y)
{
    float v[4];
    const tpcl_status status = tpcl_tensor_read(y, v, 4);
    /* in turn, so that the lines come in order */
    for (int r = 0; r < tpcl_group_size(group); r++) {
        if (r == tpcl_group_rank(group) && status == TPCL_OK)
            printf("rank %d %s [[%g, %g], [%g, %g]]\n", r, what, v[0], v[1], v[2], v[3]);
        fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return status;
}

static tpcl_status run(tpcl_group *group)
{
    static const float table[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    static const int32_t tokens[2] = {1, 3};
    static const int64_t n[1] = {2}, shape[2] = {2, 2};
    const tpcl_host_tensor weight = {
        .name = "embedding", .dtype = TPCL_F32, .ndim = 2, .shape = {4, 2}, .data = table};
    tpcl_embedding *embedding = NULL;
    tpcl_tensor *ids = NULL, *y = NULL;

    tpcl_status status = tpcl_embedding_create(group, &weight, NULL, &embedding);
    if (status == TPCL_OK)
        status = tpcl_tensor_create(tpcl_group_device(group), TPCL_I32, 1, n, &ids);
    if (status == TPCL_OK)
        status = tpcl_tensor_create(tpcl_group_device(group), TPCL_F32, 2, shape, &y);
    if (status == TPCL_OK) status = tpcl_tensor_write(ids, tokens, 2);
    if (status == TPCL_OK) status = tpcl_embedding_partial(embedding, ids, y, 2);
    if (status == TPCL_OK) status = show(group, "contributes", y);
    if (status == TPCL_OK) status = tpcl_embedding_forward(embedding, ids, y, 2);
    if (status == TPCL_OK) status = show(group, "has the sum", y);
    tpcl_tensor_destroy(&ids);
    tpcl_tensor_destroy(&y);
    tpcl_embedding_destroy(&embedding);
    return status;
}

int main(int argc, char **argv)
{
    tpcl_group *group = NULL;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    tpcl_status status = tpcl_group_create(MPI_COMM_WORLD, NULL, &group);
    if (status == TPCL_OK) status = run(group);
    if (status != TPCL_OK) {
        fprintf(stderr, "vocab_parallel: %s\n", tpcl_last_error());
        MPI_Abort(MPI_COMM_WORLD, 70);
    }
    tpcl_group_destroy(&group);
    MPI_Finalize();
    return 0;
}
