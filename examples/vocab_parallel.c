/* A vocabulary of four words, split over the ranks: what each rank contributes, and the sum.
 *
 *     mpiexec -n 2 ./vocab_parallel
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <tpcl/tpcl.h>

/* Rank 0 prints what every rank has. A rank that failed before still takes part, with its status.
 */
static tpcl_status show(tpcl_group *group, tpcl_status status, const char *what,
                        const tpcl_tensor *y)
{
    float mine[4], all[TPCL_MAX_RANKS][4];
    size_t bytes[TPCL_MAX_RANKS];
    const int size = tpcl_group_size(group);
    for (int r = 0; r < size; r++) bytes[r] = sizeof mine;
    if (status == TPCL_OK) status = tpcl_tensor_read(y, mine, 4);
    status = tpcl_comm_gather(tpcl_group_comm(group), status, mine, bytes, all, 0);
    for (int r = 0; status == TPCL_OK && tpcl_group_rank(group) == 0 && r < size; r++)
        printf("rank %d %s [[%g, %g], [%g, %g]]\n", r, what, (double)all[r][0], (double)all[r][1],
               (double)all[r][2], (double)all[r][3]);
    return status;
}

static tpcl_status run(tpcl_group *group)
{
    static const float table[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    static const int32_t tokens[2] = {1, 3};
    static const int64_t n[1] = {2}, shape[2] = {2, 2};
    const tpcl_host_tensor weight = {
        .name = "embedding", .dtype = TPCL_F32, .ndim = 2, .shape = {4, 2}, .data = table};
    const tpcl_embedding_desc desc = {.weight = &weight};
    tpcl_device *device = tpcl_group_device(group);
    tpcl_embedding *embedding = NULL;
    tpcl_tensor *ids = NULL, *y = NULL;

    tpcl_status status = tpcl_embedding_create(group, &desc, &embedding);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_I32, 1, n, &ids);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, shape, &y);
    if (status == TPCL_OK) status = tpcl_tensor_write(ids, tokens, 2);
    if (status == TPCL_OK) status = tpcl_embedding_partial(embedding, ids, y, 2);
    status = show(group, status, "contributes", y);
    if (status == TPCL_OK) status = tpcl_embedding_forward(embedding, ids, y, 2);
    if (status == TPCL_OK) status = show(group, status, "has the sum", y);
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
    /* The rank that failed says why and ends the job; the others wait for that in MPI_Finalize. */
    if (status != TPCL_OK && status != TPCL_ERR_PEER) {
        fprintf(stderr, "vocab_parallel: %s\n", tpcl_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tpcl_group_destroy(&group);
    MPI_Finalize();
    return status == TPCL_OK ? 0 : 1;
}
