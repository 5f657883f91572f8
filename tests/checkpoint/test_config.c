/* config.json in every spelling: what it means, and what is refused (C1 to C6).
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
    };
    struct CMUnitTest tests[COUNT(fixed) + COUNT(configs)];
    size_t n = COUNT(fixed);
    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < COUNT(configs); i++)
        tests[n++] = (struct CMUnitTest){.name = configs[i].name,
                                         .test_func = refuses_config,
                                         .initial_state = (void *)&configs[i]};
    return cmocka_run_group_tests_name("checkpoint/config", tests, NULL, NULL);
}
