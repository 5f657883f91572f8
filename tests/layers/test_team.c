/* Layers over the ranks of one process, without MPI: embedding, column, row, head, against the
 * references, with equal and unequal shares. TPCL_TEST_DEVICE may name a device for each rank. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <tpcl/tpcl.h>

#include "team_test.h"

enum { VOCAB = 11, DIM = 13, WIDE = 21, TOKENS = 5 };

static float embed[VOCAB * DIM], up[WIDE * DIM], down[DIM * WIDE], bias[DIM];
static const int32_t ids[TOKENS] = {10, 0, 3, 3, 7};
static float want[TOKENS * VOCAB];

static void prepare(void)
{
    float h[TOKENS * DIM], mid[TOKENS * WIDE], y[TOKENS * DIM];
    fill(embed, VOCAB * DIM, 1);
    fill(up, WIDE * DIM, 2);
    fill(down, DIM * WIDE, 3);
    fill(bias, DIM, 4);
    tpcl_ref_embed(ids, embed, h, TOKENS, DIM, 0, VOCAB);
    tpcl_ref_linear(h, up, NULL, mid, TOKENS, WIDE, DIM);
    tpcl_ref_linear(mid, down, bias, y, TOKENS, DIM, WIDE);
    tpcl_ref_linear(y, embed, NULL, want, TOKENS, VOCAB, DIM);
}

static tpcl_host_tensor matrix(const char *name, const float *data, int64_t out, int64_t in)
{
    return (tpcl_host_tensor){
        .name = name, .dtype = TPCL_F32, .ndim = 2, .shape = {out, in}, .data = data};
}

typedef struct net {
    tpcl_embedding *embedding;
    tpcl_linear *up, *down;
    tpcl_lm_head *head;
    tpcl_tensor *h, *mid, *y;
} net;

static tpcl_status make_net(tpcl_group *g, net *n)
{
    const tpcl_host_tensor e = matrix("embed", embed, VOCAB, DIM), u = matrix("up", up, WIDE, DIM),
                           d = matrix("down", down, DIM, WIDE);
    const tpcl_host_tensor b = {
        .name = "bias", .dtype = TPCL_F32, .ndim = 1, .shape = {DIM}, .data = bias};
    const tpcl_linear_part part = {.weight = &u};
    const tpcl_embedding_desc ed = {.weight = &e};
    const int64_t h = TOKENS * DIM, mid = TOKENS * WIDE;
    tpcl_device *dev = tpcl_group_device(g);
    tpcl_status s = tpcl_embedding_create(g, &ed, &n->embedding);
    const tpcl_lm_head_desc hd = {.tied = n->embedding, .output = TPCL_LM_HEAD_ALL_GATHER};
    if (s == TPCL_OK) s = tpcl_column_linear_create(g, &part, 1, NULL, &n->up);
    if (s == TPCL_OK) s = tpcl_row_linear_create(g, &d, &b, NULL, &n->down);
    if (s == TPCL_OK) s = tpcl_lm_head_create(g, &hd, &n->head);
    if (s == TPCL_OK) s = tpcl_tensor_create(dev, TPCL_F32, 1, &h, &n->h);
    if (s == TPCL_OK) s = tpcl_tensor_create(dev, TPCL_F32, 1, &mid, &n->mid);
    if (s == TPCL_OK) s = tpcl_tensor_create(dev, TPCL_F32, 1, &h, &n->y);
    return tpcl_group_agree(g, s, "making the net");
}

static tpcl_status forward(net *n, float *logits)
{
    tpcl_status s = tpcl_embedding_lookup(n->embedding, ids, n->h, TOKENS);
    if (s == TPCL_OK) s = tpcl_linear_forward(n->up, n->h, n->mid, TOKENS);
    if (s == TPCL_OK) s = tpcl_linear_forward(n->down, n->mid, n->y, TOKENS);
    if (s == TPCL_OK) s = tpcl_lm_head_forward(n->head, n->y, NULL, TOKENS, logits);
    return s;
}

static void free_net(net *n)
{
    tpcl_tensor_destroy(&n->h);
    tpcl_tensor_destroy(&n->mid);
    tpcl_tensor_destroy(&n->y);
    tpcl_lm_head_destroy(&n->head);
    tpcl_linear_destroy(&n->up);
    tpcl_linear_destroy(&n->down);
    tpcl_embedding_destroy(&n->embedding);
}

static void run_net(member *me)
{
    const tpcl_group_options options = {
        .device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 60, .weights = me->options};
    tpcl_group *group = NULL;
    net n = {0};
    float logits[TOKENS * VOCAB];
    CHECK(me, tpcl_group_create_in_team(me->team, me->rank, &options, &group) == TPCL_OK);
    if (!group) return;
    CHECK(me, make_net(group, &n) == TPCL_OK);
    for (int turn = 0; turn < 3; turn++) {
        int wrong = 0;
        memset(logits, 0, sizeof logits);
        CHECK(me, forward(&n, logits) == TPCL_OK);
        for (int i = 0; i < TOKENS * VOCAB; i++)
            wrong += !(fabs((double)logits[i] - want[i]) <= 1e-4 + 1e-4 * fabs(want[i]));
        CHECK(me, wrong == 0);
    }
    /* One rank refuses; the group goes on. */
    const tpcl_status local = me->rank == me->size - 1 ? TPCL_ERR_ARG : TPCL_OK;
    CHECK(me, tpcl_group_agree(group, local, "no") != TPCL_OK);
    CHECK(me, !tpcl_group_failed(group, NULL, NULL));
    CHECK(me, forward(&n, logits) == TPCL_OK);
    free_net(&n);
    tpcl_group_destroy(&group);
}

static void equals_the_reference(void **state)
{
    static const double shares[][TEAM_MAX] = {{1, 1, 1, 1}, {3, 1, 1, 2}, {1, 0, 1, 2}};
    const int size = *(const int *)*state;
    for (size_t i = 0; i < COUNT(shares); i++) run_team(size, run_net, shares[i]);
    int started = 1;
    MPI_Initialized(&started);
    assert_false(started);
}

/* The devices that the ranks asked for, in turn. */
static void open_devices(member *me)
{
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 60};
    tpcl_group *group = NULL;
    int64_t index = -1, low, high;
    CHECK(me, tpcl_group_create_in_team(me->team, me->rank, &options, &group) == TPCL_OK);
    if (!group) return;
    index = tpcl_device_get_info(tpcl_group_device(group))->index;
    low = high = index;
    CHECK(me, tpcl_comm_allreduce_min(tpcl_group_comm(group), TPCL_OK, &low, 1) == TPCL_OK);
    CHECK(me, tpcl_comm_allreduce_max(tpcl_group_comm(group), TPCL_OK, &high, 1) == TPCL_OK);
    if (options.device && strchr(options.device, ',')) CHECK(me, low != high);
    tpcl_group_destroy(&group);
}

static void ranks_have_the_devices_they_name(void **state)
{
    (void)state;
    run_team(2, open_devices, NULL);
}

static void make_and_destroy(member *me)
{
    const tpcl_group_options options = {.device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 60};
    tpcl_group *group = NULL;
    CHECK(me, tpcl_group_create_in_team(me->team, me->rank, &options, &group) == TPCL_OK);
    CHECK(me, tpcl_group_agree(group, TPCL_OK, "made") == TPCL_OK);
    tpcl_group_destroy(&group);
}

/* What one rank alone brings ends the making on all of them, and the team goes on. */
static void ends_alike(member *me)
{
    const bool last = me->rank == me->size - 1;
    const char *device = getenv("TPCL_TEST_DEVICE");
    const double none[TEAM_MAX] = {0};
    const tpcl_group_options chunks = {.device = device, .chunk_bytes = last ? 8192 : 4096};
    const tpcl_group_options wrong[] = {{.device = last ? "no such device" : device},
                                        {.device = device, .weights = last ? none : NULL}};
    static const tpcl_status codes[] = {TPCL_ERR_NO_DEVICE, TPCL_ERR_ARG};
    static const char *const words[] = {"no device matches 'no such device'", "are 0"};
    tpcl_group *group = NULL;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CHECK(me, tpcl_group_create_in_team(me->team, me->rank, &wrong[i], &group) ==
                      (last ? codes[i] : TPCL_ERR_PEER));
        CHECK(me, !group && strstr(tpcl_last_error(), words[i]));
        make_and_destroy(me);
    }
    if (me->size == 1) return;
    CHECK(me, tpcl_group_create_in_team(me->team, me->rank, &chunks, &group) == TPCL_ERR_MISMATCH);
    CHECK(me, !group && strstr(tpcl_last_error(), "4096 on rank 0 but 8192 on rank"));
    make_and_destroy(me);
}

static void one_rank_refuses_or_fails(void **state)
{
    (void)state;
    for (int size = 1; size <= TEAM_MAX; size++) run_team(size, ends_alike, NULL);
}

/* Which drivers there are beside the default one is the machine's affair. */
static bool has_devices(void)
{
    for (int rank = 0; rank < 2; rank++) {
        const tpcl_device_options o = {.select = getenv("TPCL_TEST_DEVICE"), .local_rank = rank};
        tpcl_device *device = NULL;
        const tpcl_status status = tpcl_device_open(&o, &device);
        tpcl_device_close(&device);
        if (status == TPCL_ERR_NO_DEVICE) return false;
    }
    return true;
}

int main(void)
{
    static int sizes[] = {1, 2, 3, 4};
    struct CMUnitTest tests[COUNT(sizes) + 2];
    static const char *const names[] = {"one", "two", "three", "four"};
    if (getenv("TPCL_TEST_OPTIONAL") && !has_devices()) return 77;
    prepare();
    for (size_t i = 0; i < COUNT(sizes); i++)
        tests[i] = (struct CMUnitTest){
            .name = names[i], .test_func = equals_the_reference, .initial_state = &sizes[i]};
    tests[COUNT(sizes)] = (struct CMUnitTest)cmocka_unit_test(ranks_have_the_devices_they_name);
    tests[COUNT(sizes) + 1] = (struct CMUnitTest)cmocka_unit_test(one_rank_refuses_or_fails);
    return cmocka_run_group_tests_name("layers/team", tests, NULL, NULL);
}
