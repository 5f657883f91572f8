/* The feed-forward block of a decoder, y = down(silu(gate(x)) * up(x)), split over the ranks: gate
 * and up by rows and merged into one product, down by columns, and one sum at the end.
 *
 *     mpiexec -n 2 ./parallel_mlp        any number of ranks prints the same y
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <tpcl/tpcl.h>

enum { TOKENS = 2, HIDDEN = 4, INTER = 6 };

struct mlp {
    tpcl_range cut[TPCL_MAX_RANKS]; /* of INTER: gate, up and down are cut at the same places */
    tpcl_linear *gate_up, *down;
    tpcl_tensor *x, *wide, *inner, *y;
};

static const float *numbers(float *v, int n, int seed)
{
    for (int i = 0; i < n; i++) v[i] = (float)((i * 7 + seed * 3) % 11 - 5) / 4;
    return v;
}

static tpcl_status create(tpcl_group *group, struct mlp *m)
{
    float gate[INTER * HIDDEN], up[INTER * HIDDEN], down[HIDDEN * INTER], x[TOKENS * HIDDEN];
    const tpcl_host_tensor g = {
        "gate", TPCL_F32, 2, {INTER, HIDDEN}, numbers(gate, INTER * HIDDEN, 1), NULL, NULL};
    const tpcl_host_tensor u = {"up", TPCL_F32, 2, {INTER, HIDDEN}, numbers(up, INTER * HIDDEN, 2),
                                NULL, NULL};
    const tpcl_host_tensor d = {
        "down", TPCL_F32, 2, {HIDDEN, INTER}, numbers(down, HIDDEN * INTER, 3), NULL, NULL};
    const tpcl_linear_part parts[2] = {{.weight = &g, .rows = m->cut},
                                       {.weight = &u, .rows = m->cut}};
    const tpcl_row_linear_options cut = {.columns = m->cut};
    tpcl_device *device = tpcl_group_device(group);

    tpcl_status status = tpcl_shard_split(INTER, 1, tpcl_group_size(group), NULL, 0, m->cut);
    const int64_t mine = tpcl_range_size(m->cut[tpcl_group_rank(group)]);
    const int64_t full[2] = {TOKENS, HIDDEN}, wide[2] = {TOKENS, 2 * mine},
                  inner[2] = {TOKENS, mine};
    if (status == TPCL_OK) status = tpcl_column_linear_create(group, parts, 2, NULL, &m->gate_up);
    if (status == TPCL_OK) status = tpcl_row_linear_create(group, &d, NULL, &cut, &m->down);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, full, &m->x);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, wide, &m->wide);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, inner, &m->inner);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, full, &m->y);
    if (status == TPCL_OK)
        status = tpcl_tensor_write(m->x, numbers(x, TOKENS * HIDDEN, 4), TOKENS * HIDDEN);
    return status;
}

static tpcl_status forward(tpcl_group *group, struct mlp *m)
{
    const int mine = (int)tpcl_range_size(m->cut[tpcl_group_rank(group)]);
    tpcl_status status = tpcl_linear_forward(m->gate_up, m->x, m->wide, TOKENS);
    if (status == TPCL_OK) status = tpcl_swiglu(m->wide, m->inner, TOKENS, mine);
    /* The next product sums over the ranks: all go on, or none. */
    status = tpcl_comm_agree(tpcl_group_comm(group), status, "gate and up");
    if (status == TPCL_OK) status = tpcl_linear_forward(m->down, m->inner, m->y, TOKENS);
    return status;
}

static tpcl_status print(tpcl_group *group, const struct mlp *m)
{
    float y[TOKENS][HIDDEN];
    const tpcl_status status = tpcl_tensor_read(m->y, y, TOKENS * HIDDEN);
    if (status != TPCL_OK || tpcl_group_rank(group) != 0) return status; /* y is the same on all */
    for (int r = 0; r < tpcl_group_size(group); r++)
        printf("rank %d holds rows %d..%d of gate and up, the same columns of down\n", r,
               (int)m->cut[r].begin, (int)m->cut[r].end);
    for (int t = 0; t < TOKENS; t++)
        printf("y[%d] = [%.4f, %.4f, %.4f, %.4f]\n", t, (double)y[t][0], (double)y[t][1],
               (double)y[t][2], (double)y[t][3]);
    return status;
}

static tpcl_status run(tpcl_group *group)
{
    struct mlp m = {0};
    tpcl_status status = create(group, &m);
    status = tpcl_comm_agree(tpcl_group_comm(group), status, "making the layers");
    if (status == TPCL_OK) status = forward(group, &m);
    if (status == TPCL_OK) status = print(group, &m);
    tpcl_linear_destroy(&m.gate_up);
    tpcl_linear_destroy(&m.down);
    tpcl_tensor_destroy(&m.x);
    tpcl_tensor_destroy(&m.wide);
    tpcl_tensor_destroy(&m.inner);
    tpcl_tensor_destroy(&m.y);
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
        fprintf(stderr, "parallel_mlp: %s\n", tpcl_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tpcl_group_destroy(&group);
    MPI_Finalize();
    return status == TPCL_OK ? 0 : 1;
}
