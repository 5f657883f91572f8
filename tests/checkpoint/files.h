/* Builds model files, sound or spoilt, in a temporary folder. No binary files in the repository. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CHECKPOINT_FILES_H
#define TESTS_CHECKPOINT_FILES_H

#include "tpcl_test.h"

#include <ftw.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <tpcl/checkpoint.h>
#include <unistd.h>

/* ---- bytes ---- */

typedef struct bytes {
    uint8_t *data;
    size_t n, room;
} bytes;

static inline void put(bytes *b, const void *data, size_t n)
{
    if (n == 0) return;
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n);
        b->data = realloc(b->data, b->room);
        assert_non_null(b->data);
    }
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

static inline void put_zeros(bytes *b, size_t n)
{
    for (size_t i = 0; i < n; i++) put(b, "", 1);
}

static inline void put_le(bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) {
        const uint8_t byte = (uint8_t)(value >> (8 * i));
        put(b, &byte, 1);
    }
}

static inline void put_f32(bytes *b, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_le(b, bits, 4);
}

static inline void put_text(bytes *b, const char *text)
{
    put_le(b, strlen(text), 8);
    put(b, text, strlen(text));
}

static inline void bytes_free(bytes *b)
{
    free(b->data);
    *b = (bytes){NULL, 0, 0};
}

/* ---- the folder ---- */

typedef struct folder {
    char path[64];
    char name[160]; /* what path_in() returned last */
} folder;

static inline folder folder_make(void)
{
    folder f = {.path = "/tmp/tpcl-checkpoint-XXXXXX"};
    assert_non_null(mkdtemp(f.path));
    return f;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline void folder_remove(folder *f)
{
    nftw(f->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline const char *path_in(folder *f, const char *name)
{
    snprintf(f->name, sizeof f->name, "%s/%s", f->path, name);
    return f->name;
}

/* n bytes, then a hole up to `size` */
static inline void write_file(folder *f, const char *name, const void *data, size_t n,
                              uint64_t size)
{
    FILE *out = fopen(path_in(f, name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, n, out), n);
    assert_int_equal(fclose(out), 0);
    if (size > n) assert_int_equal(truncate(f->name, (off_t)size), 0);
}

static inline void write_json(folder *f, const char *name, const json_t *value)
{
    assert_int_equal(json_dump_file(value, path_in(f, name), JSON_COMPACT), 0);
}

/* ---- GGUF ---- */

enum { KV_U8, KV_I8, KV_U16, KV_I16, KV_U32, KV_I32, KV_F32, KV_BOOL, KV_STRING, KV_ARRAY, KV_U64 };
enum { GT_F32 = 0, GT_F16 = 1, GT_Q4_0 = 2, GT_Q4_1 = 3, GT_Q8_0 = 8, GT_Q4_K = 12, GT_BF16 = 30 };

typedef struct gguf_kv {
    char key[96];
    uint32_t type;
    bytes value;
} gguf_kv;

typedef struct gguf_tensor {
    char name[80];
    uint32_t type, n_dims;
    uint64_t dims[5]; /* contiguous first, as in the file */
    uint64_t size;    /* bytes of data */
    int64_t shift;    /* added to the right offset, to spoil it */
} gguf_tensor;

typedef struct gguf {
    uint32_t version;
    uint64_t alignment;
    gguf_kv kvs[64];
    gguf_tensor tensors[64];
    size_t n_kvs, n_tensors;
    size_t header; /* out: bytes before the data */
} gguf;

static inline gguf_kv *kv_at(gguf *g, const char *key)
{
    for (size_t i = 0; i < g->n_kvs; i++)
        if (strcmp(g->kvs[i].key, key) == 0) return &g->kvs[i];
    return NULL;
}

/* Replaces the value where the key is there. */
static inline bytes *kv_set(gguf *g, const char *key, uint32_t type)
{
    gguf_kv *kv = kv_at(g, key);
    if (!kv) {
        assert_true(g->n_kvs < COUNT(g->kvs));
        kv = &g->kvs[g->n_kvs++];
        snprintf(kv->key, sizeof kv->key, "%s", key);
    }
    kv->type = type;
    kv->value.n = 0;
    return &kv->value;
}

static inline void kv_u32(gguf *g, const char *key, uint32_t value)
{
    put_le(kv_set(g, key, KV_U32), value, 4);
}

static inline void kv_f32(gguf *g, const char *key, float value)
{
    put_f32(kv_set(g, key, KV_F32), value);
}

static inline void kv_text(gguf *g, const char *key, const char *text)
{
    put_text(kv_set(g, key, KV_STRING), text);
}

static inline void kv_array(gguf *g, const char *key, uint32_t element, uint64_t count)
{
    bytes *b = kv_set(g, key, KV_ARRAY);
    put_le(b, element, 4);
    put_le(b, count, 8);
}

static inline void kv_drop(gguf *g, const char *key)
{
    gguf_kv *kv = kv_at(g, key);
    assert_non_null(kv);
    bytes_free(&kv->value);
    *kv = g->kvs[--g->n_kvs];
    g->kvs[g->n_kvs].value = (bytes){NULL, 0, 0};
}

static inline uint64_t gguf_bytes_of(uint32_t type, uint64_t elements)
{
    switch (type) {
    case GT_F16:
    case GT_BF16:
        return elements * 2;
    case GT_Q4_0:
        return elements / 32 * 18;
    case GT_Q4_1:
        return elements / 32 * 20;
    case GT_Q8_0:
        return elements / 32 * 34;
    case GT_Q4_K:
        return elements / 256 * 144;
    default:
        return elements * 4;
    }
}

/* rows 0: one dimension */
static inline gguf_tensor *tensor_add(gguf *g, const char *name, uint32_t type, uint64_t columns,
                                      uint64_t rows)
{
    assert_true(g->n_tensors < COUNT(g->tensors));
    gguf_tensor *t = &g->tensors[g->n_tensors++];
    *t = (gguf_tensor){.type = type, .n_dims = rows ? 2 : 1, .dims = {columns, rows}};
    snprintf(t->name, sizeof t->name, "%s", name);
    t->size = gguf_bytes_of(type, columns * (rows ? rows : 1));
    return t;
}

static inline gguf_tensor *tensor_at(gguf *g, const char *name)
{
    for (size_t i = 0; i < g->n_tensors; i++)
        if (strcmp(g->tensors[i].name, name) == 0) return &g->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static inline void tensor_drop(gguf *g, const char *name)
{
    gguf_tensor *t = tensor_at(g, name), *end = &g->tensors[g->n_tensors--];
    memmove(t, t + 1, (size_t)((char *)end - (char *)(t + 1)));
}

/* Byte i of tensor t holds a value that tells both. */
static inline uint8_t pattern(size_t tensor, size_t i)
{
    return (uint8_t)(tensor * 31 + i * 7 + 1);
}

static inline void gguf_pad(bytes *b, uint64_t alignment)
{
    while (alignment && b->n % alignment) put(b, "", 1);
}

/* The whole file. */
static inline bytes gguf_build(gguf *g)
{
    bytes b = {NULL, 0, 0};
    uint64_t offset = 0;
    put(&b, "GGUF", 4);
    put_le(&b, g->version, 4);
    put_le(&b, g->n_tensors, 8);
    put_le(&b, g->n_kvs, 8);
    for (size_t i = 0; i < g->n_kvs; i++) {
        put_text(&b, g->kvs[i].key);
        put_le(&b, g->kvs[i].type, 4);
        put(&b, g->kvs[i].value.data, g->kvs[i].value.n);
    }
    for (size_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensors[i];
        put_text(&b, t->name);
        put_le(&b, t->n_dims, 4);
        for (uint32_t d = 0; d < t->n_dims && d < COUNT(t->dims); d++) put_le(&b, t->dims[d], 8);
        put_le(&b, t->type, 4);
        put_le(&b, offset + (uint64_t)t->shift, 8);
        offset += t->size;
        if (g->alignment) offset = (offset + g->alignment - 1) / g->alignment * g->alignment;
    }
    gguf_pad(&b, g->alignment);
    g->header = b.n;
    for (size_t i = 0; i < g->n_tensors; i++) {
        gguf_pad(&b, g->alignment);
        for (size_t k = 0; k < g->tensors[i].size; k++) {
            const uint8_t byte = pattern(i, k);
            put(&b, &byte, 1);
        }
    }
    return b;
}

static inline void gguf_write(gguf *g, folder *f, const char *name)
{
    bytes b = gguf_build(g);
    write_file(f, name, b.data, b.n, 0);
    bytes_free(&b);
}

static inline void gguf_free(gguf *g)
{
    for (size_t i = 0; i < COUNT(g->kvs); i++) bytes_free(&g->kvs[i].value);
    free(g);
}

/* A sound model: hidden 32, one layer, 2 heads and 1 kv head of 16, inter 64, 8 words, tied. */
static inline gguf *gguf_tiny(const char *arch)
{
    static const char *const words[] = {"<s>", "</s>", "a", "b", "c", "ab", "bc", "abc"};
    gguf *g = calloc(1, sizeof *g);
    char key[96];
    assert_non_null(g);
    g->version = 3;
    g->alignment = 32;
    kv_text(g, "general.architecture", arch);
#define KEY(suffix) (snprintf(key, sizeof key, "%s.%s", arch, suffix), key)
    kv_u32(g, KEY("embedding_length"), 32);
    kv_u32(g, KEY("block_count"), 1);
    kv_u32(g, KEY("feed_forward_length"), 64);
    kv_u32(g, KEY("context_length"), 128);
    kv_u32(g, KEY("attention.head_count"), 2);
    kv_u32(g, KEY("attention.head_count_kv"), 1);
    kv_f32(g, KEY("attention.layer_norm_rms_epsilon"), 1e-5f);
    kv_f32(g, KEY("rope.freq_base"), 5000.0f);
#undef KEY
    kv_text(g, "tokenizer.ggml.model", "gpt2");
    kv_text(g, "tokenizer.ggml.pre", "smollm");
    kv_array(g, "tokenizer.ggml.tokens", KV_STRING, COUNT(words));
    for (size_t i = 0; i < COUNT(words); i++)
        put_text(&kv_at(g, "tokenizer.ggml.tokens")->value, words[i]);
    kv_array(g, "tokenizer.ggml.token_type", KV_I32, COUNT(words));
    for (size_t i = 0; i < COUNT(words); i++)
        put_le(&kv_at(g, "tokenizer.ggml.token_type")->value, i < 2 ? 3 : 1, 4);
    kv_array(g, "tokenizer.ggml.merges", KV_STRING, 2);
    put_text(&kv_at(g, "tokenizer.ggml.merges")->value, "a b");
    put_text(&kv_at(g, "tokenizer.ggml.merges")->value, "b c");
    kv_u32(g, "tokenizer.ggml.bos_token_id", 0);
    kv_u32(g, "tokenizer.ggml.eos_token_id", 1);
    tensor_add(g, "token_embd.weight", GT_Q8_0, 32, 8);
    tensor_add(g, "blk.0.attn_norm.weight", GT_F32, 32, 0);
    tensor_add(g, "blk.0.attn_q.weight", GT_Q4_1, 32, 32);
    tensor_add(g, "blk.0.attn_k.weight", GT_Q4_0, 32, 16);
    tensor_add(g, "blk.0.attn_v.weight", GT_F16, 32, 16);
    tensor_add(g, "blk.0.attn_output.weight", GT_BF16, 32, 32);
    tensor_add(g, "blk.0.ffn_norm.weight", GT_F32, 32, 0);
    tensor_add(g, "blk.0.ffn_gate.weight", GT_Q4_1, 32, 64);
    tensor_add(g, "blk.0.ffn_up.weight", GT_Q4_1, 32, 64);
    tensor_add(g, "blk.0.ffn_down.weight", GT_Q4_1, 64, 32);
    tensor_add(g, "output_norm.weight", GT_F32, 32, 0);
    if (strcmp(arch, "qwen2") == 0) {
        tensor_add(g, "blk.0.attn_q.bias", GT_F32, 32, 0);
        tensor_add(g, "blk.0.attn_k.bias", GT_F32, 16, 0);
        tensor_add(g, "blk.0.attn_v.bias", GT_F32, 16, 0);
    }
    if (strcmp(arch, "qwen3") == 0) {
        tensor_add(g, "blk.0.attn_q_norm.weight", GT_F32, 16, 0);
        tensor_add(g, "blk.0.attn_k_norm.weight", GT_F32, 16, 0);
    }
    return g;
}

/* ---- safetensors ---- */

/* Length word, header text, n bytes of pattern; `size` beyond that is a hole. */
static inline void st_write(folder *f, const char *name, const char *header, size_t n,
                            uint64_t size)
{
    bytes b = {NULL, 0, 0};
    put_le(&b, strlen(header), 8);
    put(&b, header, strlen(header));
    for (size_t i = 0; i < n; i++) {
        const uint8_t byte = pattern(0, i);
        put(&b, &byte, 1);
    }
    write_file(f, name, b.data, b.n, size);
    bytes_free(&b);
}

static inline void st_write_json(folder *f, const char *name, const json_t *header, size_t n)
{
    char *text = json_dumps(header, JSON_COMPACT);
    assert_non_null(text);
    st_write(f, name, text, n, 0);
    free(text);
}

/* An F32 tensor behind the others; columns 0: one dimension. */
static inline void st_add(json_t *header, const char *name, int rows, int columns, size_t *end)
{
    const size_t n = (size_t)rows * (columns ? (size_t)columns : 1) * 4;
    json_t *shape = columns ? json_pack("[i,i]", rows, columns) : json_pack("[i]", rows);
    json_object_set_new(header, name,
                        json_pack("{s:s,s:o,s:[I,I]}", "dtype", "F32", "shape", shape,
                                  "data_offsets", (json_int_t)*end,
                                  (json_int_t)*end + (json_int_t)n));
    *end += n;
}

/* The tiny Llama, untied, as a folder: header and number of data bytes; config. */
static inline json_t *st_tiny(size_t *end)
{
    json_t *h = json_object();
    *end = 0;
    st_add(h, "model.embed_tokens.weight", 8, 32, end);
    st_add(h, "model.layers.0.input_layernorm.weight", 32, 0, end);
    st_add(h, "model.layers.0.self_attn.q_proj.weight", 32, 32, end);
    st_add(h, "model.layers.0.self_attn.k_proj.weight", 16, 32, end);
    st_add(h, "model.layers.0.self_attn.v_proj.weight", 16, 32, end);
    st_add(h, "model.layers.0.self_attn.o_proj.weight", 32, 32, end);
    st_add(h, "model.layers.0.post_attention_layernorm.weight", 32, 0, end);
    st_add(h, "model.layers.0.mlp.gate_proj.weight", 64, 32, end);
    st_add(h, "model.layers.0.mlp.up_proj.weight", 64, 32, end);
    st_add(h, "model.layers.0.mlp.down_proj.weight", 32, 64, end);
    st_add(h, "model.norm.weight", 32, 0, end);
    st_add(h, "lm_head.weight", 8, 32, end);
    return h;
}

static inline json_t *config_tiny(void)
{
    return json_pack("{s:[s],s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:f,s:b,s:i,s:i}", "architectures",
                     "LlamaForCausalLM", "model_type", "llama", "vocab_size", 8, "hidden_size", 32,
                     "num_hidden_layers", 1, "num_attention_heads", 2, "num_key_value_heads", 1,
                     "intermediate_size", 64, "max_position_embeddings", 128, "rms_norm_eps", 1e-5,
                     "rope_theta", 5000.0, "tie_word_embeddings", 0, "bos_token_id", 0,
                     "eos_token_id", 1);
}

/* ---- a folder of the tiny model, to be changed and written ---- */

typedef struct model {
    folder f;
    json_t *header, *config;
    size_t end; /* bytes of tensor data */
} model;

static inline model model_make(void)
{
    model m = {.f = folder_make()};
    m.header = st_tiny(&m.end);
    m.config = config_tiny();
    return m;
}

static inline void model_write(model *m)
{
    write_json(&m->f, "config.json", m->config);
    st_write_json(&m->f, "model.safetensors", m->header, m->end);
}

static inline void model_free(model *m)
{
    json_decref(m->header);
    json_decref(m->config);
    folder_remove(&m->f);
}

static inline json_t *parse(const char *text)
{
    json_error_t error;
    json_t *value = json_loads(text, JSON_DECODE_ANY, &error);
    if (!value) fail_msg("the test's JSON: %s: %s", error.text, text);
    return value;
}

/* ---- opening ---- */

typedef struct heard {
    int n;
    char last[600];
} heard;

static inline void hear(void *context, tpcl_log_level level, const char *line)
{
    heard *h = context;
    if (level != TPCL_LOG_WARN) return;
    h->n++;
    snprintf(h->last, sizeof h->last, "%s", line);
}

static inline tpcl_checkpoint *open_good(const char *path, heard *warnings)
{
    tpcl_checkpoint *cp = NULL;
    const tpcl_log log = {hear, warnings};
    assert_ok(tpcl_checkpoint_open(path, warnings ? &log : NULL, &cp));
    assert_non_null(cp);
    return cp;
}

/* Refused with this status, and a message of one line that names each of `says` (" & " between). */
static inline void open_bad(const char *path, tpcl_status want, const char *says)
{
    tpcl_checkpoint *cp = (tpcl_checkpoint *)&want; /* must come back NULL */
    const tpcl_status status = tpcl_checkpoint_open(path, NULL, &cp);
    const char *text = tpcl_last_error();
    assert_null(cp);
    if (status != want)
        fail_msg("%s, expected %s: %s", tpcl_status_text(status), tpcl_status_text(want),
                 status ? text : "opened");
    assert_null(strchr(text, '\n'));
    char parts[256];
    snprintf(parts, sizeof parts, "%s", says);
    for (char *part = parts, *next; part; part = next) {
        next = strstr(part, " & ");
        if (next) {
            *next = '\0';
            next += 3;
        }
        if (!strstr(text, part)) fail_msg("'%s' not in: %s", part, text);
    }
}

/* All bytes of a weight. */
static inline bytes weight_bytes(const tpcl_checkpoint *cp, tpcl_weight_role role, int layer,
                                 size_t n, tpcl_host_tensor *t)
{
    bytes b = {calloc(n + 1, 1), n, n + 1};
    assert_ok(tpcl_checkpoint_weight(cp, role, layer, t));
    assert_non_null(t->name);
    assert_null(t->data);
    assert_ok(t->read(t->context, 0, n, b.data));
    return b;
}

#endif
