/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "checkpoint/config.h"
#include "checkpoint/gguf.h"
#include "checkpoint/weights.h"

enum { KEY_ROOM = 96 };

static bool text_is(tpcl_text text, const char *want)
{
    return text.length == strlen(want) && memcmp(text.bytes, want, text.length) == 0;
}

static tpcl_status read_arch(const tpi_gguf *g, tpcl_arch *arch, const char **name)
{
    static const char *const names[] = {
        [TPCL_ARCH_LLAMA] = "llama", [TPCL_ARCH_QWEN2] = "qwen2", [TPCL_ARCH_QWEN3] = "qwen3"};
    tpcl_status status = TPCL_OK;
    tpcl_text text;
    TPI_TRY(tpi_gguf_get_string(g, "general.architecture", true, &text));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!text_is(text, names[i])) continue;
        *arch = (tpcl_arch)i;
        *name = names[i];
        goto done;
    }
    TPI_FAIL(TPCL_ERR_UNSUPPORTED,
             "%s: architecture '%s' is not supported (llama, qwen2 and qwen3 are)", g->file->path,
             text.bytes);
done:
    return status;
}

/* The keys of an architecture start with its name. */
typedef struct keys {
    const tpi_gguf *g;
    const char *arch;
    char key[KEY_ROOM];
} keys;

static const char *key_of(keys *k, const char *suffix)
{
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch, suffix);
    return k->key;
}

static tpcl_status arch_int(keys *k, const char *suffix, bool required, int *out)
{
    return tpi_gguf_get_int(k->g, key_of(k, suffix), required, out);
}

static tpcl_status arch_number(keys *k, const char *suffix, bool required, double *out)
{
    return tpi_gguf_get_number(k->g, key_of(k, suffix), required, out);
}

static tpcl_status read_sizes(keys *k, tpcl_model_config *c)
{
    tpcl_status status = TPCL_OK;
    double eps = 0.0;

    TPI_TRY(arch_int(k, "embedding_length", true, &c->hidden));
    TPI_TRY(arch_int(k, "block_count", true, &c->layers));
    TPI_TRY(arch_int(k, "feed_forward_length", true, &c->inter));
    TPI_TRY(arch_int(k, "context_length", true, &c->max_context));
    TPI_TRY(arch_int(k, "attention.head_count", true, &c->heads));
    c->kv_heads = c->heads;
    TPI_TRY(arch_int(k, "attention.head_count_kv", false, &c->kv_heads));
    TPI_TRY(arch_number(k, "attention.layer_norm_rms_epsilon", true, &eps));
    c->norm_eps = (float)eps;
    if (tpi_gguf_find(k->g, key_of(k, "attention.key_length"))) {
        TPI_TRY(arch_int(k, "attention.key_length", true, &c->head_dim));
    } else if (c->heads > 0) {
        TPI_REQUIRE(
            c->hidden % c->heads == 0, TPCL_ERR_FORMAT,
            "%s: embedding_length %d is not a multiple of %d heads and there is no key_length",
            k->g->file->path, c->hidden, c->heads);
        c->head_dim = c->hidden / c->heads;
    }
done:
    return status;
}

/* What would silently compute something else. */
static tpcl_status refuse_variants(keys *k, const tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    const tpcl_model_config *c = &cp->config;
    const char *path = k->g->file->path;
    int experts = 0, value_length = c->head_dim, rotated = c->head_dim, window = 0;

    TPI_TRY(arch_int(k, "expert_count", false, &experts));
    TPI_REQUIRE(experts == 0, TPCL_ERR_UNSUPPORTED, "%s: a mixture of %d experts is not supported",
                path, experts);
    TPI_TRY(arch_int(k, "attention.value_length", false, &value_length));
    TPI_REQUIRE(value_length == c->head_dim, TPCL_ERR_UNSUPPORTED,
                "%s: value_length %d differs from key_length %d", path, value_length, c->head_dim);
    TPI_TRY(arch_int(k, "rope.dimension_count", false, &rotated));
    TPI_REQUIRE(rotated == c->head_dim, TPCL_ERR_UNSUPPORTED,
                "%s: rope.dimension_count %d: only whole heads of %d can be rotated", path, rotated,
                c->head_dim);
    TPI_TRY(arch_int(k, "attention.sliding_window", false, &window));
    if (window > 0 && window < c->max_context)
        tpi_log(cp->log, TPCL_LOG_WARN,
                "%s: the sliding window of %d is ignored, as usual for this architecture in GGUF",
                path, window);
done:
    return status;
}

/* Llama-3 models carry the scaling as a tensor of divisors. It is small, so it is read here. */
static tpcl_status read_factors(tpcl_checkpoint *cp, const char *path)
{
    tpcl_status status = TPCL_OK;
    tpcl_model_config *c = &cp->config;
    const tpi_entry *e = tpi_entry_find(cp, "rope_freqs.weight");
    if (!e) goto done;
    const int n = c->head_dim / 2;
    TPI_REQUIRE(e->info.dtype == TPCL_F32, TPCL_ERR_UNSUPPORTED,
                "%s: tensor 'rope_freqs.weight' is %s, tpcl reads F32", path, e->info.type);
    TPI_REQUIRE(e->info.ndim == 1 && e->info.shape[0] == n, TPCL_ERR_FORMAT,
                "%s: tensor 'rope_freqs.weight' has %" PRId64 " values, head_dim %d needs %d", path,
                e->info.shape[0], c->head_dim, n);
    TPI_TRY(tpi_file_read(e->file, e->info.offset, e->info.bytes, c->rope_scaling.factors));
    for (int i = 0; i < n; i++)
        TPI_REQUIRE(isfinite(c->rope_scaling.factors[i]) && c->rope_scaling.factors[i] > 0.0f,
                    TPCL_ERR_FORMAT, "%s: tensor 'rope_freqs.weight': value %d is %g", path, i,
                    (double)c->rope_scaling.factors[i]);
    c->rope_scaling.n_factors = n;
done:
    return status;
}

static tpcl_status read_rope(keys *k, tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    tpcl_model_config *c = &cp->config;
    const char *path = k->g->file->path;
    tpcl_text type = {"linear", 6};
    double factor = 0.0;

    c->rope_form = c->arch == TPCL_ARCH_LLAMA ? TPCL_ROPE_INTERLEAVED : TPCL_ROPE_HALF;
    c->rope_theta = 10000.0;
    TPI_TRY(arch_number(k, "rope.freq_base", false, &c->rope_theta));
    TPI_TRY(tpi_gguf_get_string(k->g, key_of(k, "rope.scaling.type"), false, &type));
    TPI_REQUIRE(text_is(type, "none") || text_is(type, "linear"), TPCL_ERR_UNSUPPORTED,
                "%s: rope scaling '%s' is not supported (none, linear and rope_freqs.weight are)",
                path, type.bytes);
    /* A factor without a type means linear; older files call it scale_linear. */
    TPI_TRY(arch_number(k, "rope.scale_linear", false, &factor));
    TPI_TRY(arch_number(k, "rope.scaling.factor", false, &factor));
    if (text_is(type, "linear") && factor != 0.0 && factor != 1.0) {
        c->rope_scaling.factor = factor;
        c->rope_scaling.linear = true;
    }
done:
    return status;
}

/* The vocabulary is what the embedding holds; the metadata may only agree. */
static tpcl_status read_vocab(keys *k, tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    const char *path = k->g->file->path;
    const tpi_entry *e = tpi_entry_find(cp, "token_embd.weight");

    TPI_REQUIRE(e, TPCL_ERR_FORMAT, "%s: tensor 'token_embd.weight' is missing", path);
    TPI_REQUIRE(e->info.ndim == 2 && e->info.shape[0] <= INT32_MAX, TPCL_ERR_FORMAT,
                "%s: tensor 'token_embd.weight' (%d dimensions, %" PRId64
                " rows) is no [vocabulary, %d]",
                path, e->info.ndim, e->info.shape[0], cp->config.hidden);
    int said = (int)e->info.shape[0];
    cp->config.vocab = said;
    TPI_TRY(arch_int(k, "vocab_size", false, &said));
    TPI_REQUIRE(said == cp->config.vocab, TPCL_ERR_FORMAT,
                "%s: '%s.vocab_size' is %d, but token_embd.weight has %d rows", path, k->arch, said,
                cp->config.vocab);
done:
    return status;
}

static void read_flags(tpcl_checkpoint *cp)
{
    tpcl_model_config *c = &cp->config;
    c->tied = !tpi_weight_present(cp, TPCL_W_LM_HEAD);
    c->qk_norm = c->arch == TPCL_ARCH_QWEN3;
    c->qkv_bias = c->arch == TPCL_ARCH_QWEN2 || tpi_weight_present(cp, TPCL_W_Q_BIAS) ||
                  tpi_weight_present(cp, TPCL_W_K_BIAS) || tpi_weight_present(cp, TPCL_W_V_BIAS);
    c->o_bias = tpi_weight_present(cp, TPCL_W_O_BIAS);
    c->mlp_bias = tpi_weight_present(cp, TPCL_W_GATE_BIAS) ||
                  tpi_weight_present(cp, TPCL_W_UP_BIAS) ||
                  tpi_weight_present(cp, TPCL_W_DOWN_BIAS);
}

static tpcl_status read_ids(tpcl_checkpoint *cp, const tpi_gguf *g)
{
    static const char *const stops[] = {"tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id"};
    tpcl_status status = TPCL_OK;
    tpcl_model_config *c = &cp->config;
    const char *path = g->file->path, *bos_key = "tokenizer.ggml.bos_token_id";
    int pad = 0;

    c->bos_id = -1;
    if (tpi_gguf_find(g, bos_key)) {
        TPI_TRY(tpi_gguf_get_int(g, bos_key, true, &c->bos_id));
        TPI_TRY(tpi_config_check_id(c, c->bos_id, path, bos_key));
    }
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        int id;
        if (!tpi_gguf_find(g, stops[i])) continue;
        TPI_TRY(tpi_gguf_get_int(g, stops[i], true, &id));
        TPI_TRY(tpi_config_add_stop(c, id, path, stops[i]));
    }
    /* Nothing here pads, so a wrong id does no harm; it may point at a damaged file. */
    TPI_TRY(tpi_gguf_get_int(g, "tokenizer.ggml.padding_token_id", false, &pad));
    if (pad < 0 || pad >= c->vocab)
        tpi_log(cp->log, TPCL_LOG_WARN,
                "%s: padding token %d is outside the vocabulary of %d; ignored", path, pad,
                c->vocab);
done:
    return status;
}

tpcl_status tpi_gguf_config(tpcl_checkpoint *cp, const tpi_gguf *g)
{
    tpcl_status status = TPCL_OK;
    tpcl_model_config *c = &cp->config;
    keys k = {.g = g};

    TPI_TRY(read_arch(g, &c->arch, &k.arch));
    TPI_TRY(read_sizes(&k, c));
    TPI_TRY(read_vocab(&k, cp));
    TPI_TRY(read_rope(&k, cp));
    TPI_TRY(tpi_config_check(c, g->file->path));
    TPI_TRY(refuse_variants(&k, cp));
    TPI_TRY(read_factors(cp, g->file->path));
    TPI_TRY(read_ids(cp, g));
    read_flags(cp);
done:
    return status;
}

/* An array of one element type; NULL when the key is absent. */
static tpcl_status get_array(const tpi_gguf *g, const char *key, tpi_gguf_type element,
                             const tpi_gguf_value **out)
{
    tpcl_status status = TPCL_OK;
    const tpi_gguf_value *v = tpi_gguf_find(g, key);
    *out = v;
    if (!v) goto done;
    TPI_REQUIRE(v->type == TPI_GGUF_ARRAY && v->element == element, TPCL_ERR_FORMAT,
                "%s: '%s' is a %s%s, not an array of %s", g->file->path, key,
                v->type == TPI_GGUF_ARRAY ? "array of " : "",
                tpi_gguf_type_name(v->type == TPI_GGUF_ARRAY ? v->element : v->type),
                tpi_gguf_type_name(element));
done:
    return status;
}

/* An array with one element a token. */
static tpcl_status get_per_token(const tpi_gguf *g, const char *key, tpi_gguf_type element, int n,
                                 const tpi_gguf_value **out)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(get_array(g, key, element, out));
    TPI_REQUIRE(!*out || (*out)->count == (uint64_t)n, TPCL_ERR_FORMAT,
                "%s: '%s' has %" PRIu64 " elements for %d tokens", g->file->path, key,
                (*out)->count, n);
done:
    return status;
}

static tpcl_status get_id(const tpi_gguf *g, const char *key, int n, int *out)
{
    tpcl_status status = TPCL_OK;
    *out = -1;
    TPI_TRY(tpi_gguf_get_int(g, key, false, out));
    TPI_REQUIRE(*out < n, TPCL_ERR_FORMAT, "%s: '%s' is %d, but there are %d tokens", g->file->path,
                key, *out, n);
done:
    return status;
}

static tpcl_status read_words(tpcl_tokenizer_source *t, const tpi_gguf *g, int vocab)
{
    tpcl_status status = TPCL_OK;
    const char *path = g->file->path;
    const tpi_gguf_value *tokens, *merges, *kinds, *scores;

    TPI_TRY(get_array(g, "tokenizer.ggml.tokens", TPI_GGUF_STRING, &tokens));
    if (!tokens) goto done;
    TPI_REQUIRE(tokens->count <= (uint64_t)vocab, TPCL_ERR_FORMAT,
                "%s: %" PRIu64 " tokens, but the embedding has %d rows", path, tokens->count,
                vocab);
    t->present = true;
    t->n_tokens = (int)tokens->count;
    t->tokens = tokens->texts;
    TPI_TRY(get_array(g, "tokenizer.ggml.merges", TPI_GGUF_STRING, &merges));
    t->n_merges = merges ? (int)merges->count : 0;
    t->merges = merges ? merges->texts : NULL;
    TPI_TRY(get_per_token(g, "tokenizer.ggml.token_type", TPI_GGUF_I32, t->n_tokens, &kinds));
    t->kinds = kinds ? kinds->ints : NULL;
    for (int i = 0; kinds && i < t->n_tokens; i++)
        TPI_REQUIRE(t->kinds[i] >= 0 && t->kinds[i] <= 6, TPCL_ERR_FORMAT,
                    "%s: 'tokenizer.ggml.token_type' of token %d is %" PRId32 ", not 0 to 6", path,
                    i, t->kinds[i]);
    TPI_TRY(get_per_token(g, "tokenizer.ggml.scores", TPI_GGUF_F32, t->n_tokens, &scores));
done:
    return status;
}

tpcl_status tpi_gguf_tokenizer(tpcl_checkpoint *cp, const tpi_gguf *g)
{
    tpcl_status status = TPCL_OK;
    tpcl_tokenizer_source *t = &cp->tokenizer;
    tpcl_text model = {NULL, 0}, pre = {NULL, 0};

    t->bos_id = t->eos_id = -1;
    TPI_TRY(read_words(t, g, cp->config.vocab));
    if (!t->present) goto done;
    TPI_TRY(tpi_gguf_get_string(g, "tokenizer.ggml.model", true, &model));
    TPI_TRY(tpi_gguf_get_string(g, "tokenizer.ggml.pre", false, &pre));
    t->model = model.bytes;
    t->pre = pre.bytes;
    TPI_TRY(get_id(g, "tokenizer.ggml.bos_token_id", t->n_tokens, &t->bos_id));
    TPI_TRY(get_id(g, "tokenizer.ggml.eos_token_id", t->n_tokens, &t->eos_id));
    TPI_TRY(tpi_gguf_get_string(g, "tokenizer.chat_template", false, &t->chat_template));
done:
    return status;
}
