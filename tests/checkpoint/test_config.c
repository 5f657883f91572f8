/* Configurations, from config.json and from GGUF keys: what they mean, and what is refused (C1-C6).
 */
/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

/* ---- config.json ---- */

/* Replaces members of the tiny Llama's config by those of `patch`; "-key" removes one. */
static json_t *patched(const char *patch)
{
    json_error_t error;
    json_t *config = config_tiny(), *p = json_loads(patch, 0, &error), *value;
    const char *key;
    if (!p) fail_msg("the test's JSON: %s: %s", error.text, patch);
    json_object_foreach(p, key, value)
    {
        if (key[0] == '-')
            assert_int_equal(json_object_del(config, key + 1), 0);
        else
            json_object_set(config, key, value);
    }
    json_decref(p);
    return config;
}

/* A folder with this config and the tiny Llama's tensors, and those of Qwen beside them. */
static folder folder_with(const char *patch, bool biases)
{
    folder f = folder_make();
    json_t *config = patched(patch);
    size_t end;
    json_t *header = st_tiny(&end);
    if (biases) {
        st_add(header, "model.layers.0.self_attn.q_proj.bias", 32, 0, &end);
        st_add(header, "model.layers.0.self_attn.k_proj.bias", 16, 0, &end);
        st_add(header, "model.layers.0.self_attn.v_proj.bias", 16, 0, &end);
        st_add(header, "model.layers.0.self_attn.o_proj.bias", 32, 0, &end);
        st_add(header, "model.layers.0.mlp.gate_proj.bias", 64, 0, &end);
        st_add(header, "model.layers.0.mlp.up_proj.bias", 64, 0, &end);
        st_add(header, "model.layers.0.mlp.down_proj.bias", 32, 0, &end);
        st_add(header, "model.layers.0.self_attn.q_norm.weight", 16, 0, &end);
        st_add(header, "model.layers.0.self_attn.k_norm.weight", 16, 0, &end);
    }
    write_json(&f, "config.json", config);
    st_write_json(&f, "model.safetensors", header, end);
    json_decref(config);
    json_decref(header);
    return f;
}

static tpcl_model_config config_of(const char *patch, bool biases)
{
    folder f = folder_with(patch, biases);
    tpcl_checkpoint *cp = open_good(f.path, NULL);
    const tpcl_model_config c = *tpcl_checkpoint_config(cp);
    tpcl_checkpoint_close(&cp);
    folder_remove(&f);
    return c;
}

static void defaults(void **state)
{
    (void)state;
    tpcl_model_config c = config_of("{}", false);
    assert_true(c.norm_eps == 1e-5f && c.rope_theta == 5000.0 && c.max_context == 128);
    assert_true(c.arch == TPCL_ARCH_LLAMA && c.rope_form == TPCL_ROPE_HALF && !c.tied);
    assert_int_equal(c.n_stop_ids, 1);
    c = config_of(
        "{\"-rms_norm_eps\":0,\"-rope_theta\":0,\"-bos_token_id\":0,\"eos_token_id\":null,"
        "\"head_dim\":null,\"-architectures\":0}",
        false);
    assert_true(c.norm_eps == 1e-6f && c.rope_theta == 10000.0);
    assert_int_equal(c.bos_id, -1);
    assert_int_equal(c.n_stop_ids, 0);
    assert_int_equal(c.head_dim, 16);                             /* hidden / heads */
    c = config_of("{\"-model_type\":0,\"rope_theta\":7}", false); /* a whole number is a number */
    assert_true(c.rope_theta == 7.0);
}

static void rope_in_every_spelling(void **state)
{
    (void)state;
    static const char *const llama3[] = {
        "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
        "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":32}}",
        "{\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
        "\"high_freq_factor\":4,\"original_max_position_embeddings\":32}}",
        "{\"-rope_theta\":0,\"rope_parameters\":{\"rope_theta\":5000.0,\"rope_type\":\"llama3\","
        "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
        "\"original_max_position_embeddings\":32},\"dtype\":\"bfloat16\"}",
    };
    for (size_t i = 0; i < COUNT(llama3); i++) {
        const tpcl_model_config c = config_of(llama3[i], false);
        assert_true(c.rope_theta == 5000.0 && c.rope_scaling.factor == 8.0);
        assert_true(c.rope_scaling.low_freq_factor == 1.0);
        assert_true(c.rope_scaling.high_freq_factor == 4.0);
        assert_int_equal(c.rope_scaling.original_context, 32);
        assert_false(c.rope_scaling.linear);
    }
    tpcl_model_config c =
        config_of("{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}", false);
    assert_true(c.rope_scaling.linear && c.rope_scaling.factor == 2.5);
    static const char *const none[] = {
        "{\"rope_scaling\":null}", "{\"rope_parameters\":null,\"rope_scaling\":null}",
        "{\"rope_scaling\":{\"rope_type\":\"default\"}}",
        "{\"rope_parameters\":{\"rope_theta\":5000.0,\"rope_type\":\"default\"}}",
        "{\"rope_parameters\":{\"partial_rotary_factor\":1.0}}"};
    for (size_t i = 0; i < COUNT(none); i++) {
        c = config_of(none[i], false);
        assert_true(c.rope_scaling.factor == 0.0 && c.rope_theta == 5000.0);
    }
}

#define QWEN2 "\"architectures\":[\"Qwen2ForCausalLM\"],\"model_type\":\"qwen2\""
#define QWEN3 "\"architectures\":[\"Qwen3ForCausalLM\"],\"model_type\":\"qwen3\""

static void biases_and_norms(void **state)
{
    (void)state;
    tpcl_model_config c = config_of("{" QWEN2 "}", true);
    assert_true(c.arch == TPCL_ARCH_QWEN2 && c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.qk_norm);
    c = config_of("{" QWEN3 "}", true);
    assert_true(c.arch == TPCL_ARCH_QWEN3 && !c.qkv_bias && !c.o_bias && c.qk_norm);
    c = config_of("{" QWEN3 ",\"attention_bias\":true}", true);
    assert_true(c.qkv_bias && c.o_bias && c.qk_norm);
    c = config_of("{\"attention_bias\":true,\"mlp_bias\":true}", true);
    assert_true(c.qkv_bias && c.o_bias && c.mlp_bias && !c.qk_norm);

    /* switched off but there: not used, and somebody is told */
    folder f = folder_with("{\"attention_bias\":false}", true);
    heard h = {0};
    tpcl_host_tensor t;
    tpcl_checkpoint *cp = open_good(f.path, &h);
    assert_int_equal(h.n, 7);
    assert_ok(tpcl_checkpoint_weight(cp, TPCL_W_O_BIAS, 0, &t));
    assert_null(t.name);
    tpcl_checkpoint_close(&cp);
    folder_remove(&f);
}

/* C18: heads x head_dim differs from hidden. */
static void head_dim_of_its_own(void **state)
{
    (void)state;
    folder f = folder_make();
    size_t end = 0;
    json_t *h = json_object(), *config = patched("{\"hidden_size\":8,\"head_dim\":8,\"intermediate_"
                                                 "size\":8,\"tie_word_embeddings\":true}");
    st_add(h, "model.embed_tokens.weight", 8, 8, &end);
    st_add(h, "model.layers.0.input_layernorm.weight", 8, 0, &end);
    st_add(h, "model.layers.0.self_attn.q_proj.weight", 16, 8, &end);
    st_add(h, "model.layers.0.self_attn.k_proj.weight", 8, 8, &end);
    st_add(h, "model.layers.0.self_attn.v_proj.weight", 8, 8, &end);
    st_add(h, "model.layers.0.self_attn.o_proj.weight", 8, 16, &end);
    st_add(h, "model.layers.0.post_attention_layernorm.weight", 8, 0, &end);
    st_add(h, "model.layers.0.mlp.gate_proj.weight", 8, 8, &end);
    st_add(h, "model.layers.0.mlp.up_proj.weight", 8, 8, &end);
    st_add(h, "model.layers.0.mlp.down_proj.weight", 8, 8, &end);
    st_add(h, "model.norm.weight", 8, 0, &end);
    write_json(&f, "config.json", config);
    st_write_json(&f, "model.safetensors", h, end);
    tpcl_checkpoint *cp = open_good(f.path, NULL);
    tpcl_host_tensor t;
    assert_ok(tpcl_checkpoint_weight(cp, TPCL_W_O, 0, &t));
    assert_int_equal(t.shape[0], 8);
    assert_int_equal(t.shape[1], 16);
    tpcl_checkpoint_close(&cp);
    json_decref(h);
    json_decref(config);
    folder_remove(&f);
}

static void stop_ids_are_a_union(void **state)
{
    (void)state;
    folder f = folder_with("{\"eos_token_id\":[1,3]}", false);
    static const char list[] = "{\"eos_token_id\":[3,5,1],\"temperature\":0.6}",
                      one[] = "{\"eos_token_id\":7}";
    write_file(&f, "generation_config.json", list, strlen(list), 0);
    tpcl_checkpoint *cp = open_good(f.path, NULL);
    const tpcl_model_config *c = tpcl_checkpoint_config(cp);
    assert_int_equal(c->n_stop_ids, 3);
    assert_int_equal(c->stop_ids[0], 1);
    assert_int_equal(c->stop_ids[1], 3);
    assert_int_equal(c->stop_ids[2], 5);
    tpcl_checkpoint_close(&cp);
    write_file(&f, "generation_config.json", one, strlen(one), 0);
    cp = open_good(f.path, NULL);
    assert_int_equal(tpcl_checkpoint_config(cp)->n_stop_ids, 3);
    assert_int_equal(tpcl_checkpoint_config(cp)->stop_ids[2], 7);
    tpcl_checkpoint_close(&cp);
    write_file(&f, "generation_config.json", "{\"eos_token_id\":[8]}", 20, 0);
    open_bad(f.path, TPCL_ERR_FORMAT, "generation_config.json & eos_token_id & 8");
    write_file(&f, "generation_config.json", "[]", 2, 0);
    open_bad(f.path, TPCL_ERR_FORMAT, "generation_config.json & object");
    folder_remove(&f);
}

static void windows_that_do_not_matter(void **state)
{
    (void)state;
    static const char *const patches[] = {
        "{\"use_sliding_window\":false,\"sliding_window\":16,\"max_window_layers\":0}",
        "{\"use_sliding_window\":true,\"sliding_window\":null,\"max_window_layers\":0}",
        "{\"use_sliding_window\":true,\"sliding_window\":128,\"max_window_layers\":0}",
        "{\"use_sliding_window\":true,\"sliding_window\":16,\"max_window_layers\":1}",
        "{\"use_sliding_window\":true,\"sliding_window\":16,\"layer_types\":[\"full_attention\"]}",
    };
    for (size_t i = 0; i < COUNT(patches); i++) config_of(patches[i], false);
}

typedef struct bad_config {
    const char *name, *patch;
    tpcl_status status;
    const char *says;
} bad_config;

#define SCALING(members) "{\"rope_scaling\":{" members "}}"

static const bad_config configs[] = {
    {"arch_mistral", "{\"architectures\":[\"MistralForCausalLM\"],\"model_type\":\"mistral\"}",
     TPCL_ERR_UNSUPPORTED, "MistralForCausalLM & mistral"},
    {"arch_moe", "{\"architectures\":[\"Qwen3MoeForCausalLM\"],\"model_type\":\"qwen3_moe\"}",
     TPCL_ERR_UNSUPPORTED, "Qwen3MoeForCausalLM"},
    {"arch_classifier",
     "{\"architectures\":[\"Qwen2ForSequenceClassification\"],\"model_type\":\"qwen2\"}",
     TPCL_ERR_UNSUPPORTED, "Qwen2ForSequenceClassification"},
    {"arch_contradiction", "{\"model_type\":\"qwen3\"}", TPCL_ERR_UNSUPPORTED,
     "LlamaForCausalLM & qwen3"},
    {"arch_none", "{\"-model_type\":0,\"-architectures\":0}", TPCL_ERR_FORMAT, "model_type"},
    {"arch_two", "{\"architectures\":[\"LlamaForCausalLM\",\"X\"]}", TPCL_ERR_FORMAT,
     "architectures"},
    {"arch_number", "{\"model_type\":3}", TPCL_ERR_FORMAT, "model_type & string"},
    {"C1_layers_0", "{\"num_hidden_layers\":0}", TPCL_ERR_FORMAT, "layers is 0"},
    {"C1_layers_negative", "{\"num_hidden_layers\":-1}", TPCL_ERR_FORMAT, "layers is -1"},
    {"C1_layers_many", "{\"num_hidden_layers\":2000000000}", TPCL_ERR_UNSUPPORTED, "2000000000"},
    {"C1_layers_more", "{\"num_hidden_layers\":2}", TPCL_ERR_FORMAT,
     "model.layers.1.input_layernorm.weight & missing"},
    {"C1_2_31", "{\"hidden_size\":2147483648}", TPCL_ERR_FORMAT, "hidden_size & 2147483648"},
    {"C1_hidden_0", "{\"hidden_size\":0}", TPCL_ERR_FORMAT, "hidden"},
    {"C1_hidden_huge", "{\"hidden_size\":2000000000}", TPCL_ERR_UNSUPPORTED, "hidden & 2000000000"},
    {"C1_hidden_other", "{\"hidden_size\":64}", TPCL_ERR_FORMAT,
     "model.embed_tokens.weight & [8, 32] & [8, 64]"},
    {"C1_heads_0", "{\"num_attention_heads\":0}", TPCL_ERR_FORMAT, "heads is 0"},
    {"C1_heads_negative", "{\"num_attention_heads\":-2}", TPCL_ERR_FORMAT, "heads is -2"},
    {"C1_kv_0", "{\"num_key_value_heads\":0}", TPCL_ERR_FORMAT, "kv heads is 0"},
    {"C1_inter_0", "{\"intermediate_size\":0}", TPCL_ERR_FORMAT, "feed-forward"},
    {"C1_inter_other", "{\"intermediate_size\":65}", TPCL_ERR_FORMAT,
     "mlp.gate_proj.weight & [65, 32]"},
    {"C1_context_0", "{\"max_position_embeddings\":0}", TPCL_ERR_FORMAT, "context"},
    {"C1_vocab_0", "{\"vocab_size\":0}", TPCL_ERR_FORMAT, "vocabulary"},
    {"C1_float", "{\"hidden_size\":32.0}", TPCL_ERR_FORMAT, "hidden_size & integer"},
    {"C1_text", "{\"hidden_size\":\"32\"}", TPCL_ERR_FORMAT, "hidden_size & integer"},
    {"C1_absent", "{\"-hidden_size\":0}", TPCL_ERR_FORMAT, "hidden_size & missing"},
    {"C1_null", "{\"vocab_size\":null}", TPCL_ERR_FORMAT, "vocab_size & missing"},
    {"C2_kv_no_divisor", "{\"num_attention_heads\":4,\"num_key_value_heads\":3}", TPCL_ERR_FORMAT,
     "4 heads & 3 kv"},
    {"C2_kv_more", "{\"num_key_value_heads\":4}", TPCL_ERR_FORMAT, "2 heads & 4 kv"},
    {"C2_head_dim_odd", "{\"head_dim\":15}", TPCL_ERR_FORMAT, "head_dim 15 is odd"},
    {"C2_head_dim_0", "{\"head_dim\":0}", TPCL_ERR_FORMAT, "head_dim is 0"},
    {"C2_head_dim_320", "{\"head_dim\":320}", TPCL_ERR_UNSUPPORTED, "head_dim is 320 & 256"},
    {"C2_head_dim_other", "{\"head_dim\":32}", TPCL_ERR_FORMAT,
     "q_proj.weight & [32, 32] & [64, 32]"},
    {"C2_hidden_no_multiple", "{\"hidden_size\":33}", TPCL_ERR_FORMAT, "33 & 2 heads"},
    {"C2_theta_0", "{\"rope_theta\":0}", TPCL_ERR_FORMAT, "theta is 0"},
    {"C2_theta_negative", "{\"rope_theta\":-1.5}", TPCL_ERR_FORMAT, "theta is -1.5"},
    {"C2_theta_text", "{\"rope_theta\":\"NaN\"}", TPCL_ERR_FORMAT, "rope_theta & number"},
    {"C2_eps_negative", "{\"rms_norm_eps\":-1e-5}", TPCL_ERR_FORMAT, "epsilon & -1e-05"},
    {"C2_eps_0", "{\"rms_norm_eps\":0.0}", TPCL_ERR_FORMAT, "epsilon & 0"},
    {"C4_vocab_9", "{\"vocab_size\":9}", TPCL_ERR_FORMAT,
     "embed_tokens.weight & [8, 32] & [9, 32]"},
    {"C6_bos", "{\"bos_token_id\":8}", TPCL_ERR_FORMAT, "bos_token_id & 8"},
    {"C6_bos_negative", "{\"bos_token_id\":-1}", TPCL_ERR_FORMAT, "bos_token_id & -1"},
    {"C6_eos", "{\"eos_token_id\":8}", TPCL_ERR_FORMAT, "eos_token_id & 8"},
    {"C6_eos_list", "{\"eos_token_id\":[1,-1]}", TPCL_ERR_FORMAT, "eos_token_id & -1"},
    {"C6_eos_text", "{\"eos_token_id\":[\"1\"]}", TPCL_ERR_FORMAT, "eos_token_id"},
    {"C6_eos_object", "{\"eos_token_id\":{}}", TPCL_ERR_FORMAT, "eos_token_id"},
    {"C6_eos_2_40", "{\"eos_token_id\":1099511627776}", TPCL_ERR_FORMAT, "1099511627776"},
    {"rope_yarn", SCALING("\"rope_type\":\"yarn\",\"factor\":4.0"), TPCL_ERR_UNSUPPORTED, "yarn"},
    {"rope_dynamic", SCALING("\"type\":\"dynamic\",\"factor\":4.0"), TPCL_ERR_UNSUPPORTED,
     "dynamic"},
    {"rope_no_factor", SCALING("\"type\":\"linear\""), TPCL_ERR_FORMAT, "factor & missing"},
    {"rope_factor_0", SCALING("\"type\":\"linear\",\"factor\":0"), TPCL_ERR_FORMAT, "factor is 0"},
    {"rope_factor_negative", SCALING("\"type\":\"linear\",\"factor\":-2"), TPCL_ERR_FORMAT,
     "factor is -2"},
    {"rope_llama3_partial", SCALING("\"rope_type\":\"llama3\",\"factor\":8.0"), TPCL_ERR_FORMAT,
     "low_freq_factor & missing"},
    {"rope_llama3_order",
     SCALING("\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":4.0,"
             "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":32"),
     TPCL_ERR_FORMAT, "low_freq_factor 4 & high_freq_factor 4"},
    {"rope_llama3_context",
     SCALING("\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
             "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":0"),
     TPCL_ERR_FORMAT, "original_max_position_embeddings & 0"},
    {"rope_two_thetas", "{\"rope_parameters\":{\"rope_theta\":1.0}}", TPCL_ERR_FORMAT, "5000 & 1"},
    {"rope_list", "{\"rope_scaling\":[]}", TPCL_ERR_FORMAT, "rope parameters"},
    {"rope_partial", "{\"partial_rotary_factor\":0.5}", TPCL_ERR_UNSUPPORTED,
     "partial_rotary_factor 0.5"},
    {"act_gelu", "{\"hidden_act\":\"gelu\"}", TPCL_ERR_UNSUPPORTED, "gelu"},
    {"quantised", "{\"quantization_config\":{\"quant_method\":\"gptq\"}}", TPCL_ERR_UNSUPPORTED,
     "gptq"},
    {"window", "{\"use_sliding_window\":true,\"sliding_window\":16,\"max_window_layers\":0}",
     TPCL_ERR_UNSUPPORTED, "sliding window of 16 & 128"},
    {"window_by_layer",
     "{\"use_sliding_window\":true,\"sliding_window\":16,\"max_window_layers\":1,"
     "\"layer_types\":[\"sliding_attention\"]}",
     TPCL_ERR_UNSUPPORTED, "sliding window of 16"},
    {"layer_type", "{\"layer_types\":[\"linear_attention\"]}", TPCL_ERR_UNSUPPORTED,
     "layer 0 & linear_attention"},
    {"qwen2_no_bias", "{" QWEN2 "}", TPCL_ERR_FORMAT, "q_proj.bias & missing"},
    {"qwen3_no_norm", "{" QWEN3 "}", TPCL_ERR_FORMAT, "q_norm.weight & missing"},
    {"llama_no_bias", "{\"attention_bias\":true}", TPCL_ERR_FORMAT, "q_proj.bias & missing"},
    {"llama_no_mlp_bias", "{\"mlp_bias\":true}", TPCL_ERR_FORMAT, "gate_proj.bias & missing"},
    {"flag_is_text", "{\"tie_word_embeddings\":\"yes\"}", TPCL_ERR_FORMAT, "tie_word_embeddings"},
};

static void refuses_config(void **state)
{
    const bad_config *row = *state;
    folder f = folder_with(row->patch, false);
    open_bad(f.path, row->status, row->says);
    folder_remove(&f);
}

static void refuses_bad_json(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } rows[] = {{"", "bad JSON"},
                {"{", "bad JSON"},
                {"[]", "not an object"},
                {"{\"a\":1,\"a\":2}", "duplicate"},
                {"{\"a\":NaN}", "bad JSON"}};
    folder f = folder_with("{}", false);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char says[128];
        snprintf(says, sizeof says, "config.json & %s", rows[i].says);
        write_file(&f, "config.json", rows[i].text, strlen(rows[i].text), 0);
        open_bad(f.path, TPCL_ERR_FORMAT, says);
    }
    write_file(&f, "config.json", "{}", 2, 5000000);
    open_bad(f.path, TPCL_ERR_UNSUPPORTED, "config.json & 5000000 bytes");
    folder_remove(&f);
}

/* ---- GGUF keys ---- */

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
    for (int i = 0; i < 8; i++) {
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

/* More stop ids than there is room for. */
static void refuses_too_many_stop_ids(void **state)
{
    (void)state;
    folder f = folder_make();
    json_t *config = patched("{\"vocab_size\":100,\"tie_word_embeddings\":true}"),
           *ids = json_array();
    for (int i = 0; i <= TPCL_MAX_STOP_IDS; i++) json_array_append_new(ids, json_integer(i));
    json_object_set_new(config, "eos_token_id", ids);
    write_json(&f, "config.json", config);
    open_bad(f.path, TPCL_ERR_UNSUPPORTED, "eos_token_id & 64");
    json_decref(config);
    folder_remove(&f);
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(rope_in_every_spelling),
        cmocka_unit_test(biases_and_norms),
        cmocka_unit_test(head_dim_of_its_own),
        cmocka_unit_test(stop_ids_are_a_union),
        cmocka_unit_test(windows_that_do_not_matter),
        cmocka_unit_test(refuses_bad_json),
        cmocka_unit_test(refuses_too_many_stop_ids),
        cmocka_unit_test(gguf_architectures),
        cmocka_unit_test(gguf_rope),
        cmocka_unit_test(gguf_rope_factors),
    };
    struct CMUnitTest tests[COUNT(fixed) + COUNT(configs) + COUNT(keys)];
    size_t n = COUNT(fixed);
    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < COUNT(configs); i++)
        tests[n++] = (struct CMUnitTest){.name = configs[i].name,
                                         .test_func = refuses_config,
                                         .initial_state = (void *)&configs[i]};
    for (size_t i = 0; i < COUNT(keys); i++)
        tests[n++] = (struct CMUnitTest){
            .name = keys[i].name, .test_func = refuses_key, .initial_state = (void *)&keys[i]};
    return cmocka_run_group_tests_name("checkpoint/config", tests, NULL, NULL);
}
