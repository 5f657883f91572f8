/* GGUF's keys: what they mean, and what is refused (C1 to C6). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

static tpcl_checkpoint *open_gguf(folder *f, gguf *g)
{
    gguf_write(g, f, "m.gguf");
    return open_good(f->name, NULL);
}

static void gguf_architectures(void **state)
{
    (void)state;
    folder f = folder_make();
    gguf *g = gguf_tiny("qwen2");
    tpcl_checkpoint *cp = open_gguf(&f, g);
    const tpcl_model_config *c = tpcl_checkpoint_config(cp);
    assert_true(c->arch == TPCL_ARCH_QWEN2 && c->qkv_bias && c->rope_form == TPCL_ROPE_HALF);
    tpcl_checkpoint_close(&cp);
    gguf_free(g);

    g = gguf_tiny("qwen3"); /* untied, head_dim written, own context */
    kv_u32(g, "qwen3.attention.key_length", 16);
    kv_u32(g, "qwen3.attention.value_length", 16);
    put_le(kv_set(g, "qwen3.context_length", KV_U64), 40960, 8);
    tensor_add(g, "output.weight", GT_F16, 32, 8);
    cp = open_gguf(&f, g);
    c = tpcl_checkpoint_config(cp);
    assert_true(c->arch == TPCL_ARCH_QWEN3 && c->qk_norm && !c->tied && c->max_context == 40960);
    tpcl_checkpoint_close(&cp);
    gguf_free(g);

    g = gguf_tiny("llama"); /* biases count because they are there */
    tensor_add(g, "blk.0.attn_q.bias", GT_F32, 32, 0);
    tensor_add(g, "blk.0.attn_k.bias", GT_F16, 16, 0);
    tensor_add(g, "blk.0.attn_v.bias", GT_BF16, 16, 0);
    tensor_add(g, "blk.0.attn_output.bias", GT_F32, 32, 0);
    kv_drop(g, "llama.attention.head_count_kv");
    tensor_at(g, "blk.0.attn_k.bias")->dims[0] = 32;
    tensor_at(g, "blk.0.attn_k.bias")->size = 64;
    tensor_at(g, "blk.0.attn_v.bias")->dims[0] = 32;
    tensor_at(g, "blk.0.attn_v.bias")->size = 64;
    tensor_at(g, "blk.0.attn_k.weight")->dims[1] = 32;
    tensor_at(g, "blk.0.attn_k.weight")->size *= 2;
    tensor_at(g, "blk.0.attn_v.weight")->dims[1] = 32;
    tensor_at(g, "blk.0.attn_v.weight")->size *= 2;
    cp = open_gguf(&f, g);
    c = tpcl_checkpoint_config(cp);
    assert_true(c->qkv_bias && c->o_bias && !c->mlp_bias);
    assert_int_equal(c->kv_heads, 2); /* absent: as many as heads */
    tpcl_checkpoint_close(&cp);
    gguf_free(g);
    folder_remove(&f);
}

static void gguf_rope(void **state)
{
    (void)state;
    static const struct {
        const char *type, *key;
        float factor;
        double want;
    } rows[] = {
        {NULL, NULL, 0.0f, 0.0},
        {"none", "llama.rope.scaling.factor", 4.0f, 0.0},
        {"linear", "llama.rope.scaling.factor", 4.0f, 4.0},
        {NULL, "llama.rope.scaling.factor", 4.0f, 4.0}, /* the type's default is linear */
        {NULL, "llama.rope.scale_linear", 2.0f, 2.0},
        {"linear", "llama.rope.scaling.factor", 1.0f, 0.0},
    };
    folder f = folder_make();
    for (size_t i = 0; i < COUNT(rows); i++) {
        gguf *g = gguf_tiny("llama");
        if (rows[i].type) kv_text(g, "llama.rope.scaling.type", rows[i].type);
        if (rows[i].key) kv_f32(g, rows[i].key, rows[i].factor);
        tpcl_checkpoint *cp = open_gguf(&f, g);
        const tpcl_model_config *c = tpcl_checkpoint_config(cp);
        assert_true(c->rope_scaling.factor == rows[i].want);
        assert_int_equal(c->rope_scaling.linear, rows[i].want != 0.0);
        tpcl_checkpoint_close(&cp);
        gguf_free(g);
    }
    folder_remove(&f);
}

static void gguf_rope_factors(void **state)
{
    (void)state;
    folder f = folder_make();
    gguf *g = gguf_tiny("llama");
    tensor_add(g, "rope_freqs.weight", GT_F32, 8, 0);
    bytes b = gguf_build(g);
    const size_t at = b.n - 32;
    for (size_t i = 0; i < 8; i++) {
        const float value = 1.0f + 0.5f * (float)i;
        memcpy(b.data + at + 4 * i, &value, 4);
    }
    write_file(&f, "m.gguf", b.data, b.n, 0);
    tpcl_checkpoint *cp = open_good(f.name, NULL);
    const tpcl_model_config *c = tpcl_checkpoint_config(cp);
    assert_int_equal(c->rope_scaling.n_factors, 8);
    for (int i = 0; i < 8; i++) assert_true(c->rope_scaling.factors[i] == 1.0f + 0.5f * (float)i);
    tpcl_checkpoint_close(&cp);

    static const float bad[] = {0.0f, -1.0f, NAN, INFINITY};
    for (size_t i = 0; i < COUNT(bad); i++) {
        memcpy(b.data + at + 12, &bad[i], 4);
        write_file(&f, "m.gguf", b.data, b.n, 0);
        open_bad(f.name, TPCL_ERR_FORMAT, "rope_freqs.weight & value 3");
    }
    bytes_free(&b);
    tensor_at(g, "rope_freqs.weight")->dims[0] = 16;
    tensor_at(g, "rope_freqs.weight")->size = 64;
    gguf_write(g, &f, "m.gguf");
    open_bad(f.name, TPCL_ERR_FORMAT, "rope_freqs.weight & 16 values & 8");
    gguf_free(g);
    folder_remove(&f);
}

typedef struct bad_key {
    const char *name;
    void (*spoil)(gguf *g);
    tpcl_status status;
    const char *says;
} bad_key;

#define SPOIL(name, ...)      \
    static void name(gguf *g) \
    {                         \
        __VA_ARGS__;          \
    }

SPOIL(arch_mamba, kv_text(g, "general.architecture", "mamba"))
SPOIL(arch_number, kv_u32(g, "general.architecture", 1))
SPOIL(arch_none, kv_drop(g, "general.architecture"))
SPOIL(no_hidden, kv_drop(g, "llama.embedding_length"))
SPOIL(hidden_0, kv_u32(g, "llama.embedding_length", 0))
SPOIL(hidden_33, kv_u32(g, "llama.embedding_length", 33))
SPOIL(hidden_2_32, kv_u32(g, "llama.embedding_length", 0xffffffffu))
SPOIL(hidden_f32, kv_f32(g, "llama.embedding_length", 32.0f))
SPOIL(layers_2, kv_u32(g, "llama.block_count", 2))
SPOIL(layers_negative, put_le(kv_set(g, "llama.block_count", KV_I32), 0xffffffffu, 4))
SPOIL(heads_0, kv_u32(g, "llama.attention.head_count", 0))
SPOIL(heads_u64, put_le(kv_set(g, "llama.attention.head_count", KV_U64), UINT64_MAX, 8))
SPOIL(kv_array_of, kv_array(g, "llama.attention.head_count_kv", KV_U32, 1);
      put_le(&kv_at(g, "llama.attention.head_count_kv")->value, 1, 4))
SPOIL(kv_0, kv_u32(g, "llama.attention.head_count_kv", 0))
SPOIL(kv_3, kv_u32(g, "llama.attention.head_count_kv", 3))
SPOIL(key_length_0, kv_u32(g, "llama.attention.key_length", 0))
SPOIL(key_length_17, kv_u32(g, "llama.attention.key_length", 17))
SPOIL(key_length_512, kv_u32(g, "llama.attention.key_length", 512))
SPOIL(value_length_8, kv_u32(g, "llama.attention.value_length", 8))
SPOIL(rotated_8, kv_u32(g, "llama.rope.dimension_count", 8))
SPOIL(eps_negative, kv_f32(g, "llama.attention.layer_norm_rms_epsilon", -1e-5f))
SPOIL(eps_nan, kv_f32(g, "llama.attention.layer_norm_rms_epsilon", NAN))
SPOIL(theta_0, kv_f32(g, "llama.rope.freq_base", 0.0f))
SPOIL(theta_nan, kv_f32(g, "llama.rope.freq_base", NAN))
SPOIL(theta_int, kv_u32(g, "llama.rope.freq_base", 10000))
SPOIL(yarn, kv_text(g, "llama.rope.scaling.type", "yarn"))
SPOIL(factor_negative, kv_f32(g, "llama.rope.scaling.factor", -2.0f))
SPOIL(experts, kv_u32(g, "llama.expert_count", 8))
SPOIL(vocab_size_9, kv_u32(g, "llama.vocab_size", 9))
SPOIL(bos_8, kv_u32(g, "tokenizer.ggml.bos_token_id", 8))
SPOIL(eos_8, kv_u32(g, "tokenizer.ggml.eos_token_id", 8))
SPOIL(eos_max, kv_u32(g, "tokenizer.ggml.eos_token_id", 0xffffffffu))
SPOIL(eot_8, kv_u32(g, "tokenizer.ggml.eot_token_id", 8))
SPOIL(tokens_9, bytes *b = &kv_at(g, "tokenizer.ggml.tokens")->value; b->data[4] = 9;
      put_text(b, "more"))
SPOIL(tokens_of_numbers, kv_array(g, "tokenizer.ggml.tokens", KV_U8, 0))
SPOIL(tokens_no_array, kv_text(g, "tokenizer.ggml.tokens", "abc"))
SPOIL(types_short, bytes *b = &kv_at(g, "tokenizer.ggml.token_type")->value; b->data[4] = 7;
      b->n -= 4)
SPOIL(types_narrow, kv_array(g, "tokenizer.ggml.token_type", KV_I8, 8);
      put_zeros(&kv_at(g, "tokenizer.ggml.token_type")->value, 8))
SPOIL(types_of_9, kv_at(g, "tokenizer.ggml.token_type")->value.data[12 + 4 * 5] = 9)
SPOIL(scores_short, kv_array(g, "tokenizer.ggml.scores", KV_F32, 7);
      put_zeros(&kv_at(g, "tokenizer.ggml.scores")->value, 28))
SPOIL(scores_narrow, kv_array(g, "tokenizer.ggml.scores", KV_I16, 8);
      put_zeros(&kv_at(g, "tokenizer.ggml.scores")->value, 16))
SPOIL(merges_of_numbers, kv_array(g, "tokenizer.ggml.merges", KV_U32, 0))
SPOIL(no_tokenizer_model, kv_drop(g, "tokenizer.ggml.model"))
SPOIL(template_of_numbers, kv_u32(g, "tokenizer.chat_template", 1))

static const bad_key keys[] = {
    {"arch_mamba", arch_mamba, TPCL_ERR_UNSUPPORTED, "architecture 'mamba'"},
    {"arch_number", arch_number, TPCL_ERR_FORMAT, "general.architecture & u32"},
    {"arch_none", arch_none, TPCL_ERR_FORMAT, "general.architecture & missing"},
    {"C1_no_hidden", no_hidden, TPCL_ERR_FORMAT, "llama.embedding_length & missing"},
    {"C1_hidden_0", hidden_0, TPCL_ERR_FORMAT, "hidden size is 0"},
    {"C1_hidden_33", hidden_33, TPCL_ERR_FORMAT, "33 & 2 heads"},
    {"C1_hidden_2_32", hidden_2_32, TPCL_ERR_FORMAT, "llama.embedding_length & 4294967295"},
    {"C1_hidden_f32", hidden_f32, TPCL_ERR_FORMAT, "llama.embedding_length & f32"},
    {"C1_layers_2", layers_2, TPCL_ERR_FORMAT, "blk.1.attn_norm.weight & missing"},
    {"C1_layers_negative", layers_negative, TPCL_ERR_FORMAT, "layers is -1"},
    {"C1_heads_0", heads_0, TPCL_ERR_FORMAT, "heads is 0"},
    {"C1_heads_u64", heads_u64, TPCL_ERR_FORMAT,
     "llama.attention.head_count & 18446744073709551615"},
    {"C1_kv_by_layer", kv_array_of, TPCL_ERR_UNSUPPORTED, "llama.attention.head_count_kv & array"},
    {"C1_kv_0", kv_0, TPCL_ERR_FORMAT, "kv heads is 0"},
    {"C2_kv_3", kv_3, TPCL_ERR_FORMAT, "2 heads & 3 kv"},
    {"C2_key_length_0", key_length_0, TPCL_ERR_FORMAT, "head_dim is 0"},
    {"C2_key_length_17", key_length_17, TPCL_ERR_FORMAT, "head_dim 17 is odd"},
    {"C2_key_length_512", key_length_512, TPCL_ERR_UNSUPPORTED, "head_dim is 512"},
    {"value_length_8", value_length_8, TPCL_ERR_UNSUPPORTED, "value_length 8 & 16"},
    {"rotated_8", rotated_8, TPCL_ERR_UNSUPPORTED, "rope.dimension_count 8 & 16"},
    {"C2_eps_negative", eps_negative, TPCL_ERR_FORMAT, "epsilon"},
    {"C2_eps_nan", eps_nan, TPCL_ERR_FORMAT, "epsilon & nan"},
    {"C2_theta_0", theta_0, TPCL_ERR_FORMAT, "theta is 0"},
    {"C2_theta_nan", theta_nan, TPCL_ERR_FORMAT, "theta is & nan"},
    {"C2_theta_int", theta_int, TPCL_ERR_FORMAT, "llama.rope.freq_base & u32"},
    {"rope_yarn", yarn, TPCL_ERR_UNSUPPORTED, "yarn"},
    {"rope_factor", factor_negative, TPCL_ERR_FORMAT, "factor is -2"},
    {"experts", experts, TPCL_ERR_UNSUPPORTED, "8 experts"},
    {"C4_vocab_size", vocab_size_9, TPCL_ERR_FORMAT, "llama.vocab_size & 9 & 8 rows"},
    {"C4_tokens_9", tokens_9, TPCL_ERR_FORMAT, "9 tokens & 8 rows"},
    {"C5_types_short", types_short, TPCL_ERR_FORMAT, "token_type & 7 elements & 8 tokens"},
    {"C5_types_narrow", types_narrow, TPCL_ERR_FORMAT, "token_type & array of i8"},
    {"C5_types_value", types_of_9, TPCL_ERR_FORMAT, "token_type & token 5 & 9"},
    {"C5_scores_short", scores_short, TPCL_ERR_FORMAT, "scores & 7 elements"},
    {"C5_scores_narrow", scores_narrow, TPCL_ERR_FORMAT, "scores & array of i16"},
    {"C6_bos", bos_8, TPCL_ERR_FORMAT, "bos_token_id & 8"},
    {"C6_eos", eos_8, TPCL_ERR_FORMAT, "eos_token_id & 8"},
    {"C6_eos_max", eos_max, TPCL_ERR_FORMAT, "eos_token_id & 4294967295"},
    {"C6_eot", eot_8, TPCL_ERR_FORMAT, "eot_token_id & 8"},
    {"tokens_of_numbers", tokens_of_numbers, TPCL_ERR_FORMAT, "tokenizer.ggml.tokens & u8"},
    {"tokens_no_array", tokens_no_array, TPCL_ERR_FORMAT, "tokenizer.ggml.tokens & string"},
    {"merges_of_numbers", merges_of_numbers, TPCL_ERR_FORMAT, "tokenizer.ggml.merges & u32"},
    {"no_tokenizer_model", no_tokenizer_model, TPCL_ERR_FORMAT, "tokenizer.ggml.model & missing"},
    {"template_of_numbers", template_of_numbers, TPCL_ERR_FORMAT, "tokenizer.chat_template & u32"},
};

static void refuses_key(void **state)
{
    const bad_key *row = *state;
    folder f = folder_make();
    gguf *g = gguf_tiny("llama");
    row->spoil(g);
    gguf_write(g, &f, "m.gguf");
    char says[256];
    snprintf(says, sizeof says, "m.gguf & %s", row->says);
    open_bad(f.name, row->status, says);
    gguf_free(g);
    folder_remove(&f);
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(gguf_architectures),
        cmocka_unit_test(gguf_rope),
        cmocka_unit_test(gguf_rope_factors),
    };
    struct CMUnitTest tests[COUNT(fixed) + COUNT(keys)];
    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < COUNT(keys); i++)
        tests[COUNT(fixed) + i] = (struct CMUnitTest){
            .name = keys[i].name, .test_func = refuses_key, .initial_state = (void *)&keys[i]};
    return cmocka_run_group_tests_name("checkpoint/gguf_config", tests, NULL, NULL);
}
