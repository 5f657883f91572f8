/* The attention of Qwen3-0.6B, split over the ranks by heads: what a rank holds of the model, and
 * one attention block run on the ranks there are: qkv product, norms of the heads, RoPE, KV cache,
 * attention, o product with the sum over the ranks.
 *
 *     mpiexec -n 2 ./qwen3_attention
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <tpcl/tpcl.h>

enum { VOCAB = 151936, HIDDEN = 1024, HEADS = 16, KV_HEADS = 8, DIM = 128, LAYERS = 28 };
enum { TOKENS = 5 };

/* The weights are made up. A layer asks for the bytes of its rank's part only. */
static tpcl_status made_up(void *context, uint64_t offset, size_t bytes, void *destination)
{
    float *out = destination;
    for (size_t i = 0; i < bytes / sizeof *out; i++) {
        uint32_t h =
            (uint32_t)(offset / sizeof *out + i) * 2654435761u + *(const uint32_t *)context;
        h = (h ^ h >> 15) * 2246822519u;
        out[i] = ((float)(h >> 8) / (1 << 24) - 0.5f) / 10;
    }
    return TPCL_OK;
}

/* What each of `size` ranks holds of the model; no device is asked. */
static tpcl_status print_shares(int size)
{
    tpcl_range words[TPCL_MAX_RANKS];
    tpcl_head_range heads[TPCL_MAX_RANKS];
    tpcl_status status = tpcl_shard_split(VOCAB, 1, size, NULL, 0, words);
    if (status == TPCL_OK) status = tpcl_shard_heads(HEADS, KV_HEADS, 1, size, NULL, 0, heads);
    for (int r = 0; status == TPCL_OK && r < size; r++) {
        tpcl_head_range mine[LAYERS]; /* all layers alike */
        tpcl_kv_cache_size cache;
        for (int l = 0; l < LAYERS; l++) mine[l] = heads[r];
        const tpcl_kv_cache_desc desc = {
            .layers = LAYERS, .head_dim = DIM, .blocks = 100, .block_size = 256, .heads = mine};
        status = tpcl_kv_cache_plan(&desc, &cache);
        if (status != TPCL_OK) break;
        const int64_t *d = cache.shape;
        printf("rank %d of %d: %d words, %d q heads, %d kv heads, KV cache "
               "(%d, %d, %d, %d, %d, %d), %d bytes a token\n",
               r, size, (int)tpcl_range_size(words[r]), (int)tpcl_range_size(heads[r].q), (int)d[4],
               (int)d[0], (int)d[1], (int)d[2], (int)d[3], (int)d[4], (int)d[5],
               (int)cache.token_bytes);
    }
    return status;
}

struct block {
    tpcl_head_range heads[TPCL_MAX_RANKS], mine;
    tpcl_range q_columns[TPCL_MAX_RANKS]; /* of the o-projection: those of the q heads */
    tpcl_linear *qkv, *o;
    tpcl_tensor *rope, *x, *heads_in, *heads_out, *y;
    tpcl_kv_cache *cache;
    tpcl_batch *batch;
    tpcl_attention *attention;
};

static tpcl_status create_layers(tpcl_group *group, struct block *b)
{
    static uint32_t seeds[4] = {1, 2, 3, 4};
    static float ones[DIM];
    for (int i = 0; i < DIM; i++) ones[i] = 1.0f;
    const tpcl_host_tensor q = {"q", TPCL_F32, 2, {HEADS * DIM, HIDDEN}, NULL, made_up, &seeds[0]};
    const tpcl_host_tensor k = {"k",  TPCL_F32, 2,        {KV_HEADS * DIM, HIDDEN},
                                NULL, made_up,  &seeds[1]};
    const tpcl_host_tensor v = {"v",  TPCL_F32, 2,        {KV_HEADS * DIM, HIDDEN},
                                NULL, made_up,  &seeds[2]};
    const tpcl_host_tensor o = {"o", TPCL_F32, 2, {HIDDEN, HEADS * DIM}, NULL, made_up, &seeds[3]};
    const tpcl_host_tensor norm = {"norm", TPCL_F32, 1, {DIM}, ones, NULL, NULL};
    const tpcl_qkv_linear_desc qkv = {.heads = HEADS,
                                      .kv_heads = KV_HEADS,
                                      .head_dim = DIM,
                                      .q = &q,
                                      .k = &k,
                                      .v = &v,
                                      .ranges = b->heads};
    const tpcl_row_linear_options cut = {.columns = b->q_columns};
    const tpcl_rope_desc rope = {.head_dim = DIM, .context = 64, .theta = 1e6};
    tpcl_status status = tpcl_qkv_linear_create(group, &qkv, &b->qkv);
    if (status == TPCL_OK) status = tpcl_row_linear_create(group, &o, NULL, &cut, &b->o);
    if (status == TPCL_OK)
        status = tpcl_rope_table_create(tpcl_group_device(group), &rope, &b->rope);
    const tpcl_attention_desc attention = {.heads = HEADS,
                                           .kv_heads = KV_HEADS,
                                           .head_dim = DIM,
                                           .mine = b->mine,
                                           .rope_table = b->rope,
                                           .q_norm = &norm,
                                           .k_norm = &norm,
                                           .norm_eps = 1e-6f};
    if (status == TPCL_OK) status = tpcl_attention_create(group, &attention, &b->attention);
    return status;
}

/* Five tokens of one sequence: a cache of one layer, the batch, and what goes between the layers.
 */
static tpcl_status create_tensors(tpcl_group *group, struct block *b)
{
    float x[TOKENS * HIDDEN];
    uint32_t seed = 5;
    const int q = (int)tpcl_range_size(b->mine.q), kv = (int)tpcl_range_size(b->mine.kv);
    const int64_t full[2] = {TOKENS, HIDDEN}, in[2] = {TOKENS, (q + 2 * kv) * DIM},
                  out[2] = {TOKENS, q * DIM};
    const tpcl_kv_cache_desc desc = {.layers = 1,
                                     .head_dim = DIM,
                                     .blocks = 4,
                                     .block_size = 16,
                                     .max_sequences = 1,
                                     .f32 = true,
                                     .heads = &b->mine};
    const int32_t ids[TOKENS] = {0};
    tpcl_device *device = tpcl_group_device(group);
    tpcl_status status = made_up(&seed, 0, sizeof x, x);
    if (status == TPCL_OK) status = tpcl_kv_cache_create(group, &desc, &b->cache);
    const tpcl_batch_options rows = {.max_tokens = TOKENS};
    if (status == TPCL_OK) status = tpcl_batch_create(group, b->cache, &rows, &b->batch);
    if (status == TPCL_OK) status = tpcl_batch_add(b->batch, 0, ids, TOKENS);
    if (status == TPCL_OK) status = tpcl_batch_upload(b->batch);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, full, &b->x);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, in, &b->heads_in);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, out, &b->heads_out);
    if (status == TPCL_OK) status = tpcl_tensor_create(device, TPCL_F32, 2, full, &b->y);
    if (status == TPCL_OK) status = tpcl_tensor_write(b->x, x, TOKENS * HIDDEN);
    return status;
}

static tpcl_status run(tpcl_group *group)
{
    struct block b = {0};
    const int size = tpcl_group_size(group);
    float y[TOKENS * HIDDEN];
    double sum = 0;
    int64_t shape[6] = {0};
    tpcl_status status = tpcl_shard_heads(HEADS, KV_HEADS, 1, size, NULL, 0, b.heads);
    for (int r = 0; r < size; r++) { /* a head's rows of the product lie together */
        const tpcl_head_range h = b.heads[r];
        b.q_columns[r] = (tpcl_range){h.q.begin * DIM, h.q.end * DIM};
    }
    b.mine = b.heads[tpcl_group_rank(group)];
    if (status == TPCL_OK) status = create_layers(group, &b);
    if (status == TPCL_OK) status = create_tensors(group, &b);
    if (status == TPCL_OK) status = tpcl_linear_forward(b.qkv, b.x, b.heads_in, TOKENS);
    if (status == TPCL_OK)
        status = tpcl_attention_forward(b.attention, 0, b.heads_in, b.batch, b.cache, b.heads_out);
    if (status == TPCL_OK) tpcl_kv_cache_shape(b.cache, shape);
    /* The last product sums over the ranks: all go on, or none. */
    status = tpcl_comm_agree(tpcl_group_comm(group), status, "the attention of its heads");
    if (status == TPCL_OK) status = tpcl_linear_forward(b.o, b.heads_out, b.y, TOKENS);
    if (status == TPCL_OK) status = tpcl_tensor_read(b.y, y, TOKENS * HIDDEN);
    for (int i = 0; status == TPCL_OK && i < TOKENS * HIDDEN; i++) sum += fabs((double)y[i]);
    if (status == TPCL_OK && tpcl_group_rank(group) == 0)
        printf("one block on %d ranks: cache of rank 0 (%d, %d, %d, %d, %d, %d), mean |y| %.4f, "
               "y[4][0] %.4f\n",
               size, (int)shape[0], (int)shape[1], (int)shape[2], (int)shape[3], (int)shape[4],
               (int)shape[5], sum / (TOKENS * HIDDEN), (double)y[4 * HIDDEN]);
    tpcl_attention_destroy(&b.attention);
    tpcl_batch_destroy(&b.batch);
    tpcl_kv_cache_destroy(&b.cache);
    tpcl_linear_destroy(&b.qkv);
    tpcl_linear_destroy(&b.o);
    tpcl_tensor *tensors[] = {b.rope, b.x, b.heads_in, b.heads_out, b.y};
    for (int i = 0; i < 5; i++) tpcl_tensor_destroy(&tensors[i]);
    return status;
}

int main(int argc, char **argv)
{
    tpcl_group *group = NULL;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    tpcl_status status = tpcl_group_create(MPI_COMM_WORLD, NULL, &group);
    for (int size = 1; status == TPCL_OK && size <= 2; size++)
        if (tpcl_group_rank(group) == 0) status = print_shares(size);
    if (status == TPCL_OK) status = run(group);
    /* The rank that failed says why and ends the job; the others wait for that in MPI_Finalize. */
    if (status != TPCL_OK && status != TPCL_ERR_PEER) {
        fprintf(stderr, "qwen3_attention: %s\n", tpcl_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tpcl_group_destroy(&group);
    MPI_Finalize();
    return status == TPCL_OK ? 0 : 1;
}
