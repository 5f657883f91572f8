/** @file checkpoint.h  Model files: GGUF, or a folder with safetensors and config.json. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_CHECKPOINT_H
#define TPCL_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tpcl/log.h>
#include <tpcl/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tpcl_arch { TPCL_ARCH_LLAMA, TPCL_ARCH_QWEN2, TPCL_ARCH_QWEN3 } tpcl_arch;

/** Which pairs of a head's elements a rotation turns: (i, i + d/2), or (2i, 2i + 1). */
typedef enum tpcl_rope_form { TPCL_ROPE_HALF, TPCL_ROPE_INTERLEAVED } tpcl_rope_form;

enum { TPCL_MAX_STOP_IDS = 64 };

/** A decoder's shape and constants, checked: every field is in range and they fit each other. */
typedef struct tpcl_model_config {
    tpcl_arch arch;
    int vocab;       /**< rows of the embedding and the head, padding rows included */
    int hidden, layers, heads, kv_heads, head_dim, inter;
    int max_context;
    float norm_eps;
    bool tied;       /**< the head is the embedding */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;    /**< RMSNorm over each q and k head, weight [head_dim] */
    tpcl_rope_form rope_form;
    double rope_theta;
    /** Llama-3 frequency scaling; factor 0 = none. `linear` = plain division of the positions. */
    struct {
        double factor, low_freq_factor, high_freq_factor;
        int original_context;
        bool linear;
        /** GGUF's precomputed divisors (rope_freqs.weight), head_dim/2 of them, when n_factors > 0 */
        int n_factors;
        float factors[256];
    } rope_scaling;
    int bos_id; /**< -1 = none */
    int n_stop_ids;
    int32_t stop_ids[TPCL_MAX_STOP_IDS]; /**< config.json, generation_config.json, GGUF eos/eot/eom */
} tpcl_model_config;

/** What a tensor is for, whatever its file calls it. Layer tensors also have a layer number. */
typedef enum tpcl_weight_role {
    TPCL_W_EMBED,      /**< [vocab, hidden] */
    TPCL_W_OUT_NORM,   /**< [hidden] */
    TPCL_W_LM_HEAD,    /**< [vocab, hidden]; when tied, the embedding itself is returned */
    TPCL_W_ATTN_NORM,  /**< [hidden] */
    TPCL_W_Q, TPCL_W_K, TPCL_W_V,                /**< [heads * head_dim, hidden]; kv_heads for K, V */
    TPCL_W_Q_BIAS, TPCL_W_K_BIAS, TPCL_W_V_BIAS, /**< [heads * head_dim]; kv_heads for K, V */
    TPCL_W_Q_NORM, TPCL_W_K_NORM,                /**< [head_dim] */
    TPCL_W_O, TPCL_W_O_BIAS,                     /**< [hidden, heads * head_dim], [hidden] */
    TPCL_W_FFN_NORM,                             /**< [hidden] */
    TPCL_W_GATE, TPCL_W_UP, TPCL_W_DOWN,         /**< [inter, hidden] twice, [hidden, inter] */
    TPCL_W_GATE_BIAS, TPCL_W_UP_BIAS, TPCL_W_DOWN_BIAS,
    TPCL_W_ROLES
} tpcl_weight_role;

/** One text of a file: bytes, not terminated, maybe with NUL inside. */
typedef struct tpcl_text {
    const char *bytes;
    size_t length;
} tpcl_text;

typedef struct tpcl_checkpoint tpcl_checkpoint;

/**
 * Opens MODEL (a .gguf file, or a folder with config.json and model.safetensors or
 * model.safetensors.index.json), reads and checks every header, the configuration, and that each
 * weight the architecture needs is there with the right shape. No tensor data is read, but for
 * GGUF's rope_freqs.weight, which is configuration.
 *
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_OPEN, TPCL_ERR_IO, TPCL_ERR_FORMAT, TPCL_ERR_UNSUPPORTED (architecture; K-quants,
 * with type and tensor), TPCL_ERR_NOMEM. Each message names file, tensor or key, and numbers.
 */
TPCL_NODISCARD tpcl_status tpcl_checkpoint_open(const char *path, const tpcl_log *log,
                                                tpcl_checkpoint **out);
void tpcl_checkpoint_close(tpcl_checkpoint **checkpoint);

const tpcl_model_config *tpcl_checkpoint_config(const tpcl_checkpoint *checkpoint);
const char *tpcl_checkpoint_path(const tpcl_checkpoint *checkpoint);
/** "gguf v3" or "safetensors". */
const char *tpcl_checkpoint_format(const tpcl_checkpoint *checkpoint);

/** Every tensor of the file(s), used or not. */
typedef struct tpcl_tensor_info {
    const char *name, *file, *type; /**< type as the file spells it, also where it is not supported */
    tpcl_dtype dtype;
    int ndim;
    int64_t shape[4];
    uint64_t offset, bytes; /**< in `file`, absolute */
} tpcl_tensor_info;
int tpcl_checkpoint_n_tensors(const tpcl_checkpoint *checkpoint);
const tpcl_tensor_info *tpcl_checkpoint_tensor(const tpcl_checkpoint *checkpoint, int i);

/**
 * A weight as a full host tensor that reads by range from its file (`pread`); valid while the
 * checkpoint lives. *out is zeroed and TPCL_OK returned where the model has no such weight (a bias).
 */
TPCL_NODISCARD tpcl_status tpcl_checkpoint_weight(const tpcl_checkpoint *checkpoint,
                                                  tpcl_weight_role role, int layer,
                                                  tpcl_host_tensor *out);

/** Metadata for people: GGUF's keys, or config.json's top level; arrays are summarised. */
int tpcl_checkpoint_n_metadata(const tpcl_checkpoint *checkpoint);
void tpcl_checkpoint_metadata(const tpcl_checkpoint *checkpoint, int i, const char **key,
                              const char **value);

/** The tokenizer's raw material. Valid while the checkpoint lives. */
typedef struct tpcl_tokenizer_source {
    bool present; /**< false: work with ids only */
    /* a folder: the texts of the files; length 0 where a file is missing */
    tpcl_text tokenizer_json, tokenizer_config_json;
    /* GGUF: the arrays. kinds: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte */
    const char *model, *pre; /**< tokenizer.ggml.model / .pre; NULL for a folder */
    int n_tokens, n_merges;
    const tpcl_text *tokens, *merges;
    const int32_t *kinds;    /**< [n_tokens], or NULL */
    int bos_id, eos_id;      /**< -1 = none */
    /** tokenizer.chat_template, or chat_template.jinja, or tokenizer_config.json's; else length 0 */
    tpcl_text chat_template;
} tpcl_tokenizer_source;
const tpcl_tokenizer_source *tpcl_checkpoint_tokenizer(const tpcl_checkpoint *checkpoint);

/** A hash of names, shapes, types and configuration: ranks compare it before they load. */
uint64_t tpcl_checkpoint_hash(const tpcl_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
