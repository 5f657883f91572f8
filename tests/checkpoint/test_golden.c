/* Real checkpoints: the tiny golden ones, and SmolLM2 where it has been fetched (CASES, real model
 * S). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "base/dtype.h"

/* Values were read from the files by an independent program. */
typedef struct golden {
    const char *name;
    tpcl_arch arch;
    int vocab, hidden, layers, heads, kv_heads, head_dim, inter, max_context, n_tensors;
    double theta, eps;
    size_t index[3]; /* elements of the weight below, row-major */
    bool tied, qkv_bias, qk_norm, tokenizer;
    tpcl_weight_role role;
    int layer;
    float value[3];
} golden;

static const golden goldens[] = {
    {"tiny-llama",
     TPCL_ARCH_LLAMA,
     260,
     180,
     2,
     9,
     3,
     20,
     136,
     2048,
     20,
     100000.0,
     1e-5,
     {0, 180, 10799},
     true,
     false,
     false,
     false,
     TPCL_W_K,
     1,
     {0x1.42p-1f, 0x1.2fcp-2f, 0x1.dc8p-2f}},
    {"tiny-llama-ropescale",
     TPCL_ARCH_LLAMA,
     128,
     64,
     2,
     4,
     4,
     16,
     112,
     512,
     21,
     500000.0,
     1e-5,
     {0, 65, 8191},
     false,
     false,
     false,
     false,
     TPCL_W_LM_HEAD,
     0,
     {0x1.383486p-3f, -0x1.5c8356p-2f, 0x1.703574p-3f}},
    {"tiny-qwen2",
     TPCL_ARCH_QWEN2,
     200,
     64,
     2,
     4,
     1,
     16,
     72,
     32768,
     26,
     1000000.0,
     1e-6,
     {0, 7, 15},
     true,
     true,
     false,
     false,
     TPCL_W_K_BIAS,
     0,
     {0x1.b40c1ap-3f, 0x1.50debap-4f, -0x1.ac3434p-3f}},
    {"tiny-qwen3",
     TPCL_ARCH_QWEN3,
     151,
     48,
     3,
     6,
     3,
     16,
     80,
     32768,
     36,
     1000000.0,
     1e-6,
     {0, 7, 15},
     false,
     false,
     true,
     false,
     TPCL_W_Q_NORM,
     2,
     {0x1.bcp-1f, 0x1.06p+0f, 0x1.34p+0f}},
    {"tiny-qwen3-tied",
     TPCL_ARCH_QWEN3,
     512,
     64,
     2,
     4,
     2,
     32,
     96,
     32768,
     24,
     1000000.0,
     1e-6,
     {0, 97, 6143},
     true,
     false,
     true,
     true,
     TPCL_W_DOWN,
     1,
     {0x1.38p-3f, -0x1.12p-2f, 0x1.d6p-4f}},
};

static void opens_golden(void **state)
{
    const golden *g = *state;
    char path[512];
    heard h = {0};
    snprintf(path, sizeof path, "%s/%s", TPCL_GOLDEN_DIR, g->name);
    tpcl_checkpoint *cp = open_good(path, &h);
    const tpcl_model_config *c = tpcl_checkpoint_config(cp);
    assert_int_equal(h.n, 0);
    assert_int_equal(c->arch, g->arch);
    assert_int_equal(c->vocab, g->vocab);
    assert_int_equal(c->hidden, g->hidden);
    assert_int_equal(c->layers, g->layers);
    assert_int_equal(c->heads, g->heads);
    assert_int_equal(c->kv_heads, g->kv_heads);
    assert_int_equal(c->head_dim, g->head_dim);
    assert_int_equal(c->inter, g->inter);
    assert_int_equal(c->max_context, g->max_context);
    assert_true(c->rope_theta == g->theta && c->norm_eps == (float)g->eps);
    assert_int_equal(c->rope_form, TPCL_ROPE_HALF);
    assert_true(c->tied == g->tied && c->qkv_bias == g->qkv_bias && c->qk_norm == g->qk_norm);
    assert_false(c->o_bias || c->mlp_bias);
    assert_int_equal(c->bos_id, 1);
    assert_int_equal(c->n_stop_ids, 1);
    assert_int_equal(c->stop_ids[0], 2);
    const bool scaled = strcmp(g->name, "tiny-llama-ropescale") == 0;
    assert_true(c->rope_scaling.factor == (scaled ? 8.0 : 0.0));
    assert_int_equal(c->rope_scaling.original_context, scaled ? 32 : 0);
    assert_int_equal(tpcl_checkpoint_n_tensors(cp), g->n_tensors);
    const tpcl_tokenizer_source *t = tpcl_checkpoint_tokenizer(cp);
    assert_int_equal(t->present, g->tokenizer);
    assert_int_equal(t->chat_template.length, g->tokenizer ? 193 : 0);

    tpcl_host_tensor w;
    assert_ok(tpcl_checkpoint_weight(cp, g->role, g->layer, &w));
    const size_t size = (size_t)tpcl_dtype_block_bytes(w.dtype);
    for (int i = 0; i < 3; i++) {
        uint8_t raw[4];
        float value;
        assert_ok(w.read(w.context, g->index[i] * size, size, raw));
        tpi_widen(w.dtype, raw, 1, &value);
        assert_true(value == g->value[i]);
    }
    tpcl_checkpoint_close(&cp);
}

#define S_PATH TPCL_MODELS_DIR "/SmolLM2-135M-Instruct.Q4_1.gguf"

enum { S_HEADER = 1785664 };

static void need_s(void)
{
    if (access(S_PATH, R_OK) != 0) skip();
}

static float s_value(const tpcl_checkpoint *cp, tpcl_weight_role role, int64_t row, int64_t column)
{
    tpcl_host_tensor w;
    uint8_t raw[34];
    float values[32];
    assert_ok(tpcl_checkpoint_weight(cp, role, 0, &w));
    const uint64_t block = (uint64_t)((row * w.shape[1] + column) / 32);
    const size_t size = (size_t)tpcl_dtype_block_bytes(w.dtype);
    assert_ok(w.read(w.context, block * size, size, raw));
    tpi_widen(w.dtype, raw, 32, values);
    return values[column % 32];
}

static void facts_of_s(void **state)
{
    (void)state;
    need_s();
    tpcl_checkpoint *cp = open_good(S_PATH, NULL);
    const tpcl_model_config *c = tpcl_checkpoint_config(cp);
    assert_int_equal(c->arch, TPCL_ARCH_LLAMA);
    assert_int_equal(c->rope_form, TPCL_ROPE_INTERLEAVED);
    assert_int_equal(c->hidden, 576);
    assert_int_equal(c->layers, 30);
    assert_int_equal(c->heads, 9);
    assert_int_equal(c->kv_heads, 3);
    assert_int_equal(c->head_dim, 64);
    assert_int_equal(c->inter, 1536);
    assert_int_equal(c->vocab, 49152);
    assert_int_equal(c->max_context, 8192);
    assert_true(c->rope_theta == 100000.0 && c->norm_eps == 1e-5f && c->tied);
    assert_int_equal(c->bos_id, 1);
    assert_int_equal(c->n_stop_ids, 1);
    assert_int_equal(c->stop_ids[0], 2);
    int counts[3] = {0};
    for (int i = 0; i < tpcl_checkpoint_n_tensors(cp); i++) {
        const tpcl_dtype dtype = tpcl_checkpoint_tensor(cp, i)->dtype;
        counts[dtype == TPCL_F32 ? 0 : dtype == TPCL_Q4_1 ? 1 : 2]++;
    }
    assert_true(counts[0] == 61 && counts[1] == 210 && counts[2] == 1);
    const tpcl_tokenizer_source *t = tpcl_checkpoint_tokenizer(cp);
    assert_string_equal(t->model, "gpt2");
    assert_string_equal(t->pre, "smollm");
    assert_int_equal(t->n_tokens, 49152);
    assert_int_equal(t->n_merges, 48900);
    for (int i = 0; i < t->n_tokens; i++) assert_int_equal(t->kinds[i] == 3, i <= 16);
    assert_true(t->bos_id == 1 && t->eos_id == 2 && t->chat_template.length == 368);
    /* read by an independent program */
    assert_true(s_value(cp, TPCL_W_EMBED, 0, 0) == -0.10654449462890625f);
    assert_true(s_value(cp, TPCL_W_LM_HEAD, 49151, 575) == -0.0417022705078125f);
    assert_true(s_value(cp, TPCL_W_DOWN, 0, 0) == -0.330810546875f);
    assert_true(s_value(cp, TPCL_W_DOWN, 575, 1535) == -0.181365966796875f);
    tpcl_checkpoint_close(&cp);
}

/* C26: a download cut short. The header is real, the data a hole. */
static void truncations_of_s(void **state)
{
    (void)state;
    need_s();
    folder f = folder_make();
    tpcl_checkpoint *cp = open_good(S_PATH, NULL);
    uint8_t *header = malloc(S_HEADER);
    FILE *in = fopen(S_PATH, "rb");
    assert_true(header && in);
    assert_int_equal(fread(header, 1, S_HEADER, in), S_HEADER);
    fclose(in);
    uint64_t size = 50000000;
    uint32_t seed = 1;
    for (int i = 0; i < 65; i++) {
        write_file(&f, "s.gguf", header, S_HEADER, size);
        const char *first = NULL;
        for (int k = 0; !first; k++) {
            const tpcl_tensor_info *t = tpcl_checkpoint_tensor(cp, k);
            if (t->offset + t->bytes > size) first = t->name;
        }
        char says[128];
        snprintf(says, sizeof says, "s.gguf & '%s' & file ends at %llu", first,
                 (unsigned long long)size);
        open_bad(f.name, TPCL_ERR_FORMAT, says);
        seed = seed * 1664525u + 1013904223u;
        size = S_HEADER + (uint64_t)(seed >> 5) % (98362432 - S_HEADER);
    }
    for (int i = 0; i < 16; i++) { /* inside the header */
        seed = seed * 1664525u + 1013904223u;
        write_file(&f, "s.gguf", header, (seed >> 5) % (S_HEADER - 64), 0);
        open_bad(f.name, TPCL_ERR_FORMAT, "s.gguf");
    }
    write_file(&f, "s.gguf", header, S_HEADER, 98362432); /* the whole length again */
    tpcl_checkpoint *whole = open_good(f.name, NULL);
    assert_true(tpcl_checkpoint_hash(whole) == tpcl_checkpoint_hash(cp));
    tpcl_checkpoint_close(&whole);
    tpcl_checkpoint_close(&cp);
    free(header);
    folder_remove(&f);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(goldens) + 2];
    size_t n = 0;
    for (size_t i = 0; i < COUNT(goldens); i++)
        tests[n++] = (struct CMUnitTest){.name = goldens[i].name,
                                         .test_func = opens_golden,
                                         .initial_state = (void *)&goldens[i]};
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(facts_of_s);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(truncations_of_s);
    return cmocka_run_group_tests_name("checkpoint/golden", tests, NULL, NULL);
}
