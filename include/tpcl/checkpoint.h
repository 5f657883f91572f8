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

/** The decoders that are known. */
typedef enum tpcl_arch {
    TPCL_ARCH_LLAMA, /**< Llama, and what has its layers: SmolLM2, ... */
    TPCL_ARCH_QWEN2, /**< with biases on q, k and v */
    TPCL_ARCH_QWEN3  /**< with a norm over each q and k head */
} tpcl_arch;

/** Which pairs of a head's d elements a rotation turns. */
typedef enum tpcl_rope_form {
    TPCL_ROPE_HALF,       /**< (i, i + d/2) */
    TPCL_ROPE_INTERLEAVED /**< (2i, 2i + 1) */
} tpcl_rope_form;

/** Limits of a configuration. */
enum {
    TPCL_MAX_STOP_IDS = 64 /**< most stop ids of a model */
};

/** How the frequencies of the rotation are scaled; factor 0 and n_factors 0 = not at all. */
typedef struct tpcl_rope_scaling {
    double factor;           /**< of the Llama-3 or the linear scaling; 0 = none */
    double low_freq_factor;  /**< Llama-3: longer waves than original_context / this are divided */
    double high_freq_factor; /**< Llama-3: shorter ones than original_context / this are kept */
    int original_context;    /**< Llama-3: tokens before the scaling */
    bool linear;             /**< all frequencies are divided by factor */
    int n_factors;           /**< how many of `factors` there are: 0, or head_dim / 2 */
    float factors[256];      /**< GGUF's divisors of the frequencies (rope_freqs.weight) */
} tpcl_rope_scaling;

/** A decoder's shape and constants, checked: every field is in range and they fit each other. */
typedef struct tpcl_model_config {
    tpcl_arch arch;           /**< which decoder */
    int vocab;                /**< rows of the embedding and the head, padding rows included */
    int hidden;               /**< width of a token between the layers */
    int layers;               /**< blocks of attention and MLP */
    int heads;                /**< query heads, a multiple of kv_heads */
    int kv_heads;             /**< key and value heads */
    int head_dim;             /**< width of a head, even, at most 256 */
    int inter;                /**< width inside the MLP */
    int max_context;          /**< tokens that the model was made for */
    float norm_eps;           /**< of every RMSNorm */
    bool tied;                /**< the head is the embedding */
    bool qkv_bias;            /**< q, k and v have biases */
    bool o_bias;              /**< the o-projection has one */
    bool mlp_bias;            /**< gate, up and down have biases */
    bool qk_norm;             /**< RMSNorm over each q and k head, weight [head_dim] */
    tpcl_rope_form rope_form; /**< which elements are turned together */
    double rope_theta;        /**< base of the rotation's frequencies */
    tpcl_rope_scaling rope_scaling; /**< how the rotation is stretched beyond the first context */
    int bos_id;                     /**< -1 = none */
    int n_stop_ids;                 /**< how many of `stop_ids` there are */
    /** Of config.json and generation_config.json, or GGUF's eos, eot and eom. */
    int32_t stop_ids[TPCL_MAX_STOP_IDS];
} tpcl_model_config;

/** What a tensor is for, whatever its file calls it. Layer tensors also have a layer number. */
typedef enum tpcl_weight_role {
    TPCL_W_EMBED,     /**< embedding [vocab, hidden] */
    TPCL_W_OUT_NORM,  /**< norm before the head [hidden] */
    TPCL_W_LM_HEAD,   /**< [vocab, hidden]; when tied, the embedding itself is returned */
    TPCL_W_ATTN_NORM, /**< norm before the attention [hidden] */
    TPCL_W_Q,         /**< [heads * head_dim, hidden] */
    TPCL_W_K,         /**< [kv_heads * head_dim, hidden] */
    TPCL_W_V,         /**< [kv_heads * head_dim, hidden] */
    TPCL_W_Q_BIAS,    /**< [heads * head_dim] */
    TPCL_W_K_BIAS,    /**< [kv_heads * head_dim] */
    TPCL_W_V_BIAS,    /**< [kv_heads * head_dim] */
    TPCL_W_Q_NORM,    /**< norm of each q head [head_dim] */
    TPCL_W_K_NORM,    /**< norm of each k head [head_dim] */
    TPCL_W_O,         /**< [hidden, heads * head_dim] */
    TPCL_W_O_BIAS,    /**< [hidden] */
    TPCL_W_FFN_NORM,  /**< norm before the MLP [hidden] */
    TPCL_W_GATE,      /**< [inter, hidden] */
    TPCL_W_UP,        /**< [inter, hidden] */
    TPCL_W_DOWN,      /**< [hidden, inter] */
    TPCL_W_GATE_BIAS, /**< [inter] */
    TPCL_W_UP_BIAS,   /**< [inter] */
    TPCL_W_DOWN_BIAS, /**< [hidden] */
    TPCL_W_ROLES      /**< how many roles there are */
} tpcl_weight_role;

/** One text of a file: bytes, not terminated, maybe with NUL inside. */
typedef struct tpcl_text {
    const char *bytes; /**< [length] */
    size_t length;     /**< in bytes */
} tpcl_text;

/** A model file whose headers have been read and checked. Opaque; read-only, and may be used by
 * several threads at a time. */
typedef struct tpcl_checkpoint tpcl_checkpoint;

/**
 * Opens MODEL (a .gguf file, or a folder with config.json and model.safetensors or
 * model.safetensors.index.json), reads and checks every header, the configuration, and that each
 * weight the architecture needs is there with the right shape. No tensor data is read, but for
 * GGUF's rope_freqs.weight, which is configuration.
 *
 * @param log  in   for warnings, used during this call; NULL = silence
 * @param out  out  NULL on failure; release with tpcl_checkpoint_close()
 * Collective: no.  Blocks: yes.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_OPEN, TPCL_ERR_IO, TPCL_ERR_FORMAT, TPCL_ERR_UNSUPPORTED
 * (architecture; K-quants, with type and tensor), TPCL_ERR_NOMEM. Each message names file, tensor
 * or key, and numbers.
 */
TPCL_NODISCARD tpcl_status tpcl_checkpoint_open(const char *path, const tpcl_log *log,
                                                tpcl_checkpoint **out);
/**
 * Closes the files and frees all that was handed out of them. NULL and *NULL are no-ops; sets
 * *checkpoint to NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_checkpoint_close(tpcl_checkpoint **checkpoint);

/**
 * The model's configuration, the path as it was given to tpcl_checkpoint_open(), and the format:
 * "gguf v2", "gguf v3" or "safetensors". Valid while the checkpoint lives.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
const tpcl_model_config *tpcl_checkpoint_config(const tpcl_checkpoint *checkpoint);
const char *tpcl_checkpoint_path(const tpcl_checkpoint *checkpoint);
const char *tpcl_checkpoint_format(const tpcl_checkpoint *checkpoint);

/** One tensor of the file(s), used or not. */
typedef struct tpcl_tensor_info {
    const char *name; /**< as the file has it */
    const char *file; /**< path of the file that it is in */
    const char *type; /**< as the file spells it, also where it is not supported */
    tpcl_dtype dtype; /**< TPCL_OTHER: not supported */
    int ndim;         /**< 0..4 */
    int64_t shape[4]; /**< outermost first */
    uint64_t offset;  /**< of its first byte in `file` */
    uint64_t bytes;   /**< how many it has there */
} tpcl_tensor_info;

/**
 * How many tensors there are, in all files together, and one of them.
 *
 * @param i  in  0..n-1, in the order of the files
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_checkpoint_n_tensors(const tpcl_checkpoint *checkpoint);
const tpcl_tensor_info *tpcl_checkpoint_tensor(const tpcl_checkpoint *checkpoint, int i);

/**
 * A weight as a full host tensor that reads by range from its file (`pread`); valid while the
 * checkpoint lives. *out is zeroed and TPCL_OK returned where the model has no such weight (a
 * bias).
 *
 * @param layer  in  0..layers-1; not looked at for a role without a layer
 * Collective: no.  Blocks: no (reading through it does).  Allocates: no.
 * Errors: TPCL_ERR_ARG (no such role or layer).
 */
TPCL_NODISCARD tpcl_status tpcl_checkpoint_weight(const tpcl_checkpoint *checkpoint,
                                                  tpcl_weight_role role, int layer,
                                                  tpcl_host_tensor *out);

/**
 * Metadata for people: GGUF's keys, or config.json's top level; arrays are summarised. Texts are
 * valid while the checkpoint lives.
 *
 * @param i  in  0..n-1
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_checkpoint_n_metadata(const tpcl_checkpoint *checkpoint);
void tpcl_checkpoint_metadata(const tpcl_checkpoint *checkpoint, int i, const char **key,
                              const char **value);

/** The tokenizer's raw material. Valid while the checkpoint lives. */
typedef struct tpcl_tokenizer_source {
    bool present;                    /**< false: work with ids only */
    tpcl_text tokenizer_json;        /**< a folder's file; length 0 where it is missing */
    tpcl_text tokenizer_config_json; /**< likewise */
    const char *model;               /**< GGUF's tokenizer.ggml.model; NULL for a folder */
    const char *pre;                 /**< GGUF's tokenizer.ggml.pre; NULL for a folder */
    int n_tokens, n_merges;          /**< GGUF: lengths of the arrays below */
    const tpcl_text *tokens;         /**< GGUF: [n_tokens] */
    const tpcl_text *merges;         /**< GGUF: [n_merges] */
    /** GGUF: [n_tokens], or NULL. 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
     */
    const int32_t *kinds;
    int bos_id, eos_id; /**< -1 = none */
    /** tokenizer.chat_template, or chat_template.jinja, or tokenizer_config.json's; else length 0
     */
    tpcl_text chat_template;
} tpcl_tokenizer_source;

/**
 * What tpcl_tokenizer_create() takes. Valid while the checkpoint lives.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
const tpcl_tokenizer_source *tpcl_checkpoint_tokenizer(const tpcl_checkpoint *checkpoint);

/**
 * A hash of names, shapes, types and configuration: ranks compare it before they load.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
uint64_t tpcl_checkpoint_hash(const tpcl_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
