/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/config_json.h"

#include <string.h>

#include "base/error.h"
#include "checkpoint/config.h"

typedef struct source {
    const json_t *root;
    const char *file;
} source;

static tpcl_status read_arch(const source *s, tpcl_arch *arch)
{
    static const struct {
        const char *class_name, *model_type;
    } known[] = {
        [TPCL_ARCH_LLAMA] = {"LlamaForCausalLM", "llama"},
        [TPCL_ARCH_QWEN2] = {"Qwen2ForCausalLM", "qwen2"},
        [TPCL_ARCH_QWEN3] = {"Qwen3ForCausalLM", "qwen3"},
    };
    tpcl_status status = TPCL_OK;
    const char *type = NULL, *class_name = NULL;
    const json_t *list = json_object_get(s->root, "architectures");

    TPI_TRY(tpi_json_string(s->root, s->file, "model_type", &type));
    if (list && !json_is_null(list)) {
        class_name = json_string_value(json_array_get(list, 0));
        TPI_REQUIRE(class_name && json_array_size(list) == 1, TPCL_ERR_FORMAT,
                    "%s: 'architectures' is not a list of one name", s->file);
    }
    TPI_REQUIRE(type || class_name, TPCL_ERR_FORMAT,
                "%s: neither 'architectures' nor 'model_type' says what the model is", s->file);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const bool same_class = !class_name || strcmp(class_name, known[i].class_name) == 0;
        const bool same_type = !type || strcmp(type, known[i].model_type) == 0;
        if (!same_class || !same_type) continue;
        *arch = (tpcl_arch)i;
        goto done;
    }
    TPI_FAIL(TPCL_ERR_UNSUPPORTED,
             "%s: architecture '%s' (model type '%s') is not supported (LlamaForCausalLM, "
             "Qwen2ForCausalLM and Qwen3ForCausalLM are)",
             s->file, class_name ? class_name : "unnamed", type ? type : "unnamed");
done:
    return status;
}

static tpcl_status read_sizes(const source *s, tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    double eps = 1e-6; /* the three architectures' default */

    TPI_TRY(tpi_json_int(s->root, s->file, "vocab_size", true, &c->vocab));
    TPI_TRY(tpi_json_int(s->root, s->file, "hidden_size", true, &c->hidden));
    TPI_TRY(tpi_json_int(s->root, s->file, "num_hidden_layers", true, &c->layers));
    TPI_TRY(tpi_json_int(s->root, s->file, "num_attention_heads", true, &c->heads));
    c->kv_heads = c->heads;
    TPI_TRY(tpi_json_int(s->root, s->file, "num_key_value_heads", false, &c->kv_heads));
    TPI_TRY(tpi_json_int(s->root, s->file, "intermediate_size", true, &c->inter));
    TPI_TRY(tpi_json_int(s->root, s->file, "max_position_embeddings", true, &c->max_context));
    TPI_TRY(tpi_json_number(s->root, s->file, "rms_norm_eps", false, &eps));
    c->norm_eps = (float)eps;
    const json_t *head_dim = json_object_get(s->root, "head_dim");
    if (head_dim && !json_is_null(head_dim)) {
        TPI_TRY(tpi_json_int(s->root, s->file, "head_dim", true, &c->head_dim));
    } else if (c->heads > 0) {
        TPI_REQUIRE(c->hidden % c->heads == 0, TPCL_ERR_FORMAT,
                    "%s: hidden_size %d is not a multiple of %d heads and there is no 'head_dim'",
                    s->file, c->hidden, c->heads);
        c->head_dim = c->hidden / c->heads;
    }
done:
    return status;
}

static tpcl_status read_flags(const source *s, tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    bool attention_bias = false;

    TPI_TRY(tpi_json_bool(s->root, s->file, "tie_word_embeddings", &c->tied));
    TPI_TRY(tpi_json_bool(s->root, s->file, "attention_bias", &attention_bias));
    if (c->arch == TPCL_ARCH_LLAMA)
        TPI_TRY(tpi_json_bool(s->root, s->file, "mlp_bias", &c->mlp_bias));
    /* Qwen2 always has biases on q, k and v, and never on o; the others follow the flag. */
    c->qkv_bias = c->arch == TPCL_ARCH_QWEN2 || attention_bias;
    c->o_bias = c->arch != TPCL_ARCH_QWEN2 && attention_bias;
    c->qk_norm = c->arch == TPCL_ARCH_QWEN3;
done:
    return status;
}

/* The settings may stand under either name; a theta in both places must agree. */
static tpcl_status read_rope_theta(const source *s, const json_t *rope, tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    double outer = 0.0, inner = 0.0;
    TPI_TRY(tpi_json_number(s->root, s->file, "rope_theta", false, &outer));
    if (rope) TPI_TRY(tpi_json_number(rope, s->file, "rope_theta", false, &inner));
    const bool has_outer = json_is_number(json_object_get(s->root, "rope_theta"));
    const bool has_inner = rope && json_is_number(json_object_get(rope, "rope_theta"));
    TPI_REQUIRE(!has_outer || !has_inner || outer == inner, TPCL_ERR_FORMAT,
                "%s: rope_theta is %g at the top and %g among the rope parameters", s->file, outer,
                inner);
    c->rope_theta = has_inner ? inner : has_outer ? outer : 10000.0;
done:
    return status;
}

static tpcl_status read_rope_scaling(const source *s, const json_t *rope, tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    const char *type = "default";

    TPI_TRY(tpi_json_string(rope, s->file, "type", &type)); /* the older name of rope_type */
    TPI_TRY(tpi_json_string(rope, s->file, "rope_type", &type));
    if (strcmp(type, "default") == 0) goto done;
    c->rope_scaling.linear = strcmp(type, "linear") == 0;
    TPI_REQUIRE(c->rope_scaling.linear || strcmp(type, "llama3") == 0, TPCL_ERR_UNSUPPORTED,
                "%s: rope type '%s' is not supported (default, linear and llama3 are)", s->file,
                type);
    TPI_TRY(tpi_json_number(rope, s->file, "factor", true, &c->rope_scaling.factor));
    TPI_REQUIRE(c->rope_scaling.factor != 0.0, TPCL_ERR_FORMAT, "%s: rope scaling factor is 0",
                s->file);
    if (c->rope_scaling.linear) goto done;
    TPI_TRY(
        tpi_json_number(rope, s->file, "low_freq_factor", true, &c->rope_scaling.low_freq_factor));
    TPI_TRY(tpi_json_number(rope, s->file, "high_freq_factor", true,
                            &c->rope_scaling.high_freq_factor));
    TPI_TRY(tpi_json_int(rope, s->file, "original_max_position_embeddings", true,
                         &c->rope_scaling.original_context));
done:
    return status;
}

static tpcl_status read_rope(const source *s, tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    const json_t *rope = json_object_get(s->root, "rope_parameters");
    const json_t *older = json_object_get(s->root, "rope_scaling");
    double rotated = 1.0;

    c->rope_form = TPCL_ROPE_HALF;
    if (!rope || json_is_null(rope)) rope = older;
    if (rope && json_is_null(rope)) rope = NULL;
    TPI_REQUIRE(!rope || json_is_object(rope), TPCL_ERR_FORMAT,
                "%s: the rope parameters are not an object", s->file);
    TPI_TRY(read_rope_theta(s, rope, c));
    if (rope) TPI_TRY(read_rope_scaling(s, rope, c));
    TPI_TRY(tpi_json_number(s->root, s->file, "partial_rotary_factor", false, &rotated));
    if (rope) TPI_TRY(tpi_json_number(rope, s->file, "partial_rotary_factor", false, &rotated));
    TPI_REQUIRE(rotated == 1.0, TPCL_ERR_UNSUPPORTED,
                "%s: partial_rotary_factor %g: only whole heads can be rotated", s->file, rotated);
done:
    return status;
}

/* Whether some layer would see less than the context. */
static tpcl_status check_window(const source *s, const tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    const json_t *types = json_object_get(s->root, "layer_types"), *type;
    bool use = false, sliding = false;
    int window = 0, full_layers = 0;
    size_t i;

    TPI_TRY(tpi_json_bool(s->root, s->file, "use_sliding_window", &use));
    TPI_TRY(tpi_json_int(s->root, s->file, "sliding_window", false, &window));
    TPI_TRY(tpi_json_int(s->root, s->file, "max_window_layers", false, &full_layers));
    json_array_foreach(types, i, type)
    {
        const char *name = json_is_string(type) ? json_string_value(type) : "?";
        const bool slides = strcmp(name, "sliding_attention") == 0;
        sliding = sliding || slides;
        TPI_REQUIRE(slides || strcmp(name, "full_attention") == 0, TPCL_ERR_UNSUPPORTED,
                    "%s: layer %zu has attention of type '%s', tpcl has full attention only",
                    s->file, i, name);
    }
    if (!json_is_array(types)) sliding = full_layers < c->layers;
    TPI_REQUIRE(!use || !sliding || window <= 0 || window >= c->max_context, TPCL_ERR_UNSUPPORTED,
                "%s: a sliding window of %d in a context of %d: tpcl has full attention only",
                s->file, window, c->max_context);
done:
    return status;
}

static tpcl_status refuse_variants(const source *s, const tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    const char *act = "silu", *method = "an unnamed method";
    const json_t *quantised = json_object_get(s->root, "quantization_config");

    TPI_TRY(tpi_json_string(s->root, s->file, "hidden_act", &act));
    TPI_REQUIRE(strcmp(act, "silu") == 0 || strcmp(act, "swish") == 0, TPCL_ERR_UNSUPPORTED,
                "%s: activation '%s' is not supported (silu is)", s->file, act);
    if (json_is_object(quantised)) {
        TPI_TRY(tpi_json_string(quantised, s->file, "quant_method", &method));
        TPI_FAIL(
            TPCL_ERR_UNSUPPORTED,
            "%s: weights quantised by %s are not supported (plain F32, F16 and BF16 are; GGUF for "
            "quantised ones)",
            s->file, method);
        goto done;
    }
    TPI_TRY(check_window(s, c));
done:
    return status;
}

/* One id or a list of them. */
static tpcl_status read_stop_ids(const source *s, tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    const char *key = "eos_token_id";
    const json_t *ids = json_object_get(s->root, key), *id;
    size_t i;

    if (json_is_integer(ids))
        TPI_TRY(tpi_config_add_stop(c, json_integer_value(ids), s->file, key));
    TPI_REQUIRE(!ids || json_is_integer(ids) || json_is_array(ids) || json_is_null(ids),
                TPCL_ERR_FORMAT, "%s: '%s' is neither an id nor a list of ids", s->file, key);
    json_array_foreach(ids, i, id)
    {
        TPI_REQUIRE(json_is_integer(id), TPCL_ERR_FORMAT, "%s: element %zu of '%s' is not an id",
                    s->file, i, key);
        TPI_TRY(tpi_config_add_stop(c, json_integer_value(id), s->file, key));
    }
done:
    return status;
}

tpcl_status tpi_config_from_json(const json_t *root, const char *file, tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    const source s = {root, file};

    TPI_TRY(read_arch(&s, &c->arch));
    TPI_TRY(read_sizes(&s, c));
    TPI_TRY(read_flags(&s, c));
    TPI_TRY(read_rope(&s, c));
    TPI_TRY(tpi_config_check(c, file));
    TPI_TRY(refuse_variants(&s, c));
    c->bos_id = -1;
    TPI_TRY(tpi_json_int(root, file, "bos_token_id", false, &c->bos_id));
    if (json_is_integer(json_object_get(root, "bos_token_id")))
        TPI_TRY(tpi_config_check_id(c, c->bos_id, file, "bos_token_id"));
    TPI_TRY(read_stop_ids(&s, c));
done:
    return status;
}

tpcl_status tpi_config_add_generation(const json_t *root, const char *file, tpcl_model_config *c)
{
    const source s = {root, file};
    return read_stop_ids(&s, c);
}
