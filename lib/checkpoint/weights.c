/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

enum { NAME_ROOM = 96, SHAPE_ROOM = 128 };

/* Names of one role in the two formats; %d is the layer. */
static const struct role {
    const char *what, *folder, *gguf;
} roles[TPCL_W_ROLES] = {
    [TPCL_W_EMBED] = {"the embedding", "model.embed_tokens.weight", "token_embd.weight"},
    [TPCL_W_OUT_NORM] = {"the last norm", "model.norm.weight", "output_norm.weight"},
    [TPCL_W_LM_HEAD] = {"the LM head", "lm_head.weight", "output.weight"},
    [TPCL_W_ATTN_NORM] = {"the attention norm", "model.layers.%d.input_layernorm.weight",
                          "blk.%d.attn_norm.weight"},
    [TPCL_W_Q] = {"the q projection", "model.layers.%d.self_attn.q_proj.weight",
                  "blk.%d.attn_q.weight"},
    [TPCL_W_K] = {"the k projection", "model.layers.%d.self_attn.k_proj.weight",
                  "blk.%d.attn_k.weight"},
    [TPCL_W_V] = {"the v projection", "model.layers.%d.self_attn.v_proj.weight",
                  "blk.%d.attn_v.weight"},
    [TPCL_W_Q_BIAS] = {"the q bias", "model.layers.%d.self_attn.q_proj.bias", "blk.%d.attn_q.bias"},
    [TPCL_W_K_BIAS] = {"the k bias", "model.layers.%d.self_attn.k_proj.bias", "blk.%d.attn_k.bias"},
    [TPCL_W_V_BIAS] = {"the v bias", "model.layers.%d.self_attn.v_proj.bias", "blk.%d.attn_v.bias"},
    [TPCL_W_Q_NORM] = {"the q norm", "model.layers.%d.self_attn.q_norm.weight",
                       "blk.%d.attn_q_norm.weight"},
    [TPCL_W_K_NORM] = {"the k norm", "model.layers.%d.self_attn.k_norm.weight",
                       "blk.%d.attn_k_norm.weight"},
    [TPCL_W_O] = {"the o projection", "model.layers.%d.self_attn.o_proj.weight",
                  "blk.%d.attn_output.weight"},
    [TPCL_W_O_BIAS] = {"the o bias", "model.layers.%d.self_attn.o_proj.bias",
                       "blk.%d.attn_output.bias"},
    [TPCL_W_FFN_NORM] = {"the feed-forward norm", "model.layers.%d.post_attention_layernorm.weight",
                         "blk.%d.ffn_norm.weight"},
    [TPCL_W_GATE] = {"the gate projection", "model.layers.%d.mlp.gate_proj.weight",
                     "blk.%d.ffn_gate.weight"},
    [TPCL_W_UP] = {"the up projection", "model.layers.%d.mlp.up_proj.weight",
                   "blk.%d.ffn_up.weight"},
    [TPCL_W_DOWN] = {"the down projection", "model.layers.%d.mlp.down_proj.weight",
                     "blk.%d.ffn_down.weight"},
    [TPCL_W_GATE_BIAS] = {"the gate bias", "model.layers.%d.mlp.gate_proj.bias",
                          "blk.%d.ffn_gate.bias"},
    [TPCL_W_UP_BIAS] = {"the up bias", "model.layers.%d.mlp.up_proj.bias", "blk.%d.ffn_up.bias"},
    [TPCL_W_DOWN_BIAS] = {"the down bias", "model.layers.%d.mlp.down_proj.bias",
                          "blk.%d.ffn_down.bias"},
};

static bool per_layer(tpcl_weight_role role)
{
    return role > TPCL_W_LM_HEAD;
}

/* Puts the layer in place of the pattern's %d. */
static void name_of(const tpcl_checkpoint *cp, tpcl_weight_role role, int layer, char *name)
{
    const char *pattern = cp->format[0] == 'g' ? roles[role].gguf : roles[role].folder;
    const char *mark = strstr(pattern, "%d");
    if (mark)
        snprintf(name, NAME_ROOM, "%.*s%d%s", (int)(mark - pattern), pattern, layer, mark + 2);
    else
        snprintf(name, NAME_ROOM, "%s", pattern);
}

const tpi_entry *tpi_weight_lookup(const tpcl_checkpoint *cp, tpcl_weight_role role, int layer)
{
    char name[NAME_ROOM];
    name_of(cp, role, layer, name);
    return tpi_entry_find(cp, name);
}

bool tpi_weight_present(const tpcl_checkpoint *cp, tpcl_weight_role role)
{
    const int layers = per_layer(role) ? cp->config.layers : 1;
    for (int layer = 0; layer < layers; layer++)
        if (tpi_weight_lookup(cp, role, layer)) return true;
    return false;
}

static bool is_bias(tpcl_weight_role role)
{
    return (role >= TPCL_W_Q_BIAS && role <= TPCL_W_V_BIAS) || role == TPCL_W_O_BIAS ||
           role >= TPCL_W_GATE_BIAS;
}

static bool is_needed(const tpcl_model_config *c, tpcl_weight_role role)
{
    switch (role) {
    case TPCL_W_LM_HEAD:
        return !c->tied;
    case TPCL_W_Q_BIAS:
    case TPCL_W_K_BIAS:
    case TPCL_W_V_BIAS:
        return c->qkv_bias;
    case TPCL_W_Q_NORM:
    case TPCL_W_K_NORM:
        return c->qk_norm;
    case TPCL_W_O_BIAS:
        return c->o_bias;
    case TPCL_W_GATE_BIAS:
    case TPCL_W_UP_BIAS:
    case TPCL_W_DOWN_BIAS:
        return c->mlp_bias;
    default:
        return true;
    }
}

/* The shape that the configuration asks for; the number of dimensions. */
static int shape_of(const tpcl_model_config *c, tpcl_weight_role role, int64_t shape[2])
{
    const int64_t q = (int64_t)c->heads * c->head_dim, kv = (int64_t)c->kv_heads * c->head_dim;
    const int64_t rows[TPCL_W_ROLES] = {
        [TPCL_W_EMBED] = c->vocab,
        [TPCL_W_OUT_NORM] = c->hidden,
        [TPCL_W_LM_HEAD] = c->vocab,
        [TPCL_W_ATTN_NORM] = c->hidden,
        [TPCL_W_Q] = q,
        [TPCL_W_K] = kv,
        [TPCL_W_V] = kv,
        [TPCL_W_Q_BIAS] = q,
        [TPCL_W_K_BIAS] = kv,
        [TPCL_W_V_BIAS] = kv,
        [TPCL_W_Q_NORM] = c->head_dim,
        [TPCL_W_K_NORM] = c->head_dim,
        [TPCL_W_O] = c->hidden,
        [TPCL_W_O_BIAS] = c->hidden,
        [TPCL_W_FFN_NORM] = c->hidden,
        [TPCL_W_GATE] = c->inter,
        [TPCL_W_UP] = c->inter,
        [TPCL_W_DOWN] = c->hidden,
        [TPCL_W_GATE_BIAS] = c->inter,
        [TPCL_W_UP_BIAS] = c->inter,
        [TPCL_W_DOWN_BIAS] = c->hidden,
    };
    const int64_t columns[TPCL_W_ROLES] = {
        [TPCL_W_EMBED] = c->hidden, [TPCL_W_LM_HEAD] = c->hidden, [TPCL_W_Q] = c->hidden,
        [TPCL_W_K] = c->hidden,     [TPCL_W_V] = c->hidden,       [TPCL_W_O] = q,
        [TPCL_W_GATE] = c->hidden,  [TPCL_W_UP] = c->hidden,      [TPCL_W_DOWN] = c->inter,
    };
    shape[0] = rows[role];
    shape[1] = columns[role];
    return columns[role] ? 2 : 1;
}

static const char *shape_text(int ndim, const int64_t *shape, char *text)
{
    int n = snprintf(text, SHAPE_ROOM, "[");
    for (int i = 0; i < ndim; i++)
        n += snprintf(text + n, (size_t)(SHAPE_ROOM - n), "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(text + n, (size_t)(SHAPE_ROOM - n), "]");
    return text;
}

static tpcl_status check_entry(const tpcl_checkpoint *cp, tpcl_weight_role role, const tpi_entry *e)
{
    tpcl_status status = TPCL_OK;
    const tpcl_tensor_info *t = &e->info;
    char want_text[SHAPE_ROOM], have_text[SHAPE_ROOM];
    int64_t want[2];

    const int ndim = shape_of(&cp->config, role, want);
    const bool floats = t->dtype == TPCL_F32 || t->dtype == TPCL_F16 || t->dtype == TPCL_BF16;
    const bool blocks = t->dtype == TPCL_Q8_0 || t->dtype == TPCL_Q4_0 || t->dtype == TPCL_Q4_1;
    TPI_REQUIRE(floats || (blocks && ndim == 2), TPCL_ERR_UNSUPPORTED,
                "%s: tensor '%s' is %s: for %s tpcl reads F32, F16, BF16%s", t->file, t->name,
                t->type, roles[role].what, ndim == 2 ? ", Q8_0, Q4_0 and Q4_1" : "");
    bool same = t->ndim == ndim;
    for (int i = 0; same && i < ndim; i++) same = t->shape[i] == want[i];
    TPI_REQUIRE(same, TPCL_ERR_FORMAT,
                "%s: tensor '%s' (%s) has shape %s, the configuration needs %s", t->file, t->name,
                roles[role].what, shape_text(t->ndim, t->shape, have_text),
                shape_text(ndim, want, want_text));
done:
    return status;
}

static tpcl_status resolve(tpcl_checkpoint *cp, tpcl_weight_role role, int layer)
{
    tpcl_status status = TPCL_OK;
    char name[NAME_ROOM];
    name_of(cp, role, layer, name);
    const tpi_entry *e = tpi_entry_find(cp, name);
    TPI_REQUIRE(e || role != TPCL_W_LM_HEAD, TPCL_ERR_FORMAT,
                "%s: tensor '%s' is missing, and tie_word_embeddings is not true in config.json",
                cp->path, name);
    TPI_REQUIRE(e, TPCL_ERR_FORMAT, "%s: tensor '%s' (%s) is missing", cp->path, name,
                roles[role].what);
    TPI_TRY(check_entry(cp, role, e));
    cp->weights[(size_t)layer * TPCL_W_ROLES + role] = e;
done:
    return status;
}

/* A bias that the configuration switches off is not an error, but somebody should know. */
static void warn_unused(const tpcl_checkpoint *cp)
{
    for (int role = 0; role < TPCL_W_ROLES; role++)
        if (is_bias((tpcl_weight_role)role) && !is_needed(&cp->config, (tpcl_weight_role)role) &&
            tpi_weight_present(cp, (tpcl_weight_role)role))
            tpi_log(cp->log, TPCL_LOG_WARN, "%s: %s is there but switched off by the configuration",
                    cp->path, roles[role].what);
}

tpcl_status tpi_weights_resolve(tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    const int layers = cp->config.layers;
    cp->weights = tpi_arena_alloc(&cp->arena, (size_t)layers * TPCL_W_ROLES * sizeof *cp->weights);
    TPI_REQUIRE(cp->weights, TPCL_ERR_NOMEM, "%s: out of memory for %d layers", cp->path, layers);
    for (int role = 0; role < TPCL_W_ROLES; role++) {
        if (!is_needed(&cp->config, (tpcl_weight_role)role)) continue;
        const int n = per_layer((tpcl_weight_role)role) ? layers : 1;
        for (int layer = 0; layer < n; layer++) TPI_TRY(resolve(cp, (tpcl_weight_role)role, layer));
    }
    warn_unused(cp);
done:
    return status;
}

static tpcl_status read_entry(void *context, uint64_t offset, size_t bytes, void *dst)
{
    tpcl_status status = TPCL_OK;
    const tpi_entry *e = context;
    TPI_REQUIRE(offset <= e->info.bytes && bytes <= e->info.bytes - offset, TPCL_ERR_ARG,
                "tensor '%s': bytes %" PRIu64 " to %" PRIu64 " + %zu of %" PRIu64, e->info.name,
                offset, offset, bytes, e->info.bytes);
    TPI_TRY(tpi_file_read(e->file, e->info.offset + offset, bytes, dst));
done:
    return status;
}

tpcl_status tpcl_checkpoint_weight(const tpcl_checkpoint *cp, tpcl_weight_role role, int layer,
                                   tpcl_host_tensor *out)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(cp && out && (int)role >= 0 && role < TPCL_W_ROLES, TPCL_ERR_ARG,
                "checkpoint weight: a pointer is NULL, or role %d is none", (int)role);
    *out = (tpcl_host_tensor){.name = NULL};
    if (role == TPCL_W_LM_HEAD && cp->config.tied) role = TPCL_W_EMBED;
    if (!per_layer(role)) layer = 0;
    TPI_REQUIRE(layer >= 0 && layer < cp->config.layers, TPCL_ERR_ARG, "%s: layer %d of %d",
                cp->path, layer, cp->config.layers);
    const tpi_entry *e = cp->weights[(size_t)layer * TPCL_W_ROLES + (size_t)role];
    if (!e) goto done;
    *out = (tpcl_host_tensor){.name = e->info.name, .dtype = e->info.dtype, .ndim = e->info.ndim};
    memcpy(out->shape, e->info.shape, sizeof out->shape);
    out->read = read_entry;
    out->context = (void *)e; /* read() takes it as const */
done:
    return status;
}
