/* GGUF files, sound and spoilt: classes G1 to G20 and what the metadata may say. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <inttypes.h>

static int make_folder(void **state)
{
    static folder f;
    f = folder_make();
    *state = &f;
    return 0;
}

static int remove_folder(void **state)
{
    folder_remove(*state);
    return 0;
}

/* ---- sound files ---- */

static void reads_a_sound_file(void **state)
{
    folder *f = *state;
    gguf *g = gguf_tiny("llama");
    gguf_write(g, f, "m.gguf");
    tpcl_checkpoint *cp = open_good(f->name, NULL);
    const tpcl_model_config *c = tpcl_checkpoint_config(cp);

    assert_string_equal(tpcl_checkpoint_format(cp), "gguf v3");
    assert_string_equal(tpcl_checkpoint_path(cp), f->name);
    assert_int_equal(c->arch, TPCL_ARCH_LLAMA);
    assert_int_equal(c->vocab, 8);
    assert_int_equal(c->hidden, 32);
    assert_int_equal(c->layers, 1);
    assert_int_equal(c->heads, 2);
    assert_int_equal(c->kv_heads, 1);
    assert_int_equal(c->head_dim, 16);
    assert_int_equal(c->inter, 64);
    assert_int_equal(c->max_context, 128);
    assert_int_equal(c->rope_form, TPCL_ROPE_INTERLEAVED);
    assert_true(c->rope_theta == 5000.0);
    assert_true(c->norm_eps == 1e-5f);
    assert_true(c->tied);
    assert_false(c->qkv_bias || c->o_bias || c->mlp_bias || c->qk_norm);
    assert_true(c->rope_scaling.factor == 0.0);
    assert_int_equal(c->rope_scaling.n_factors, 0);
    assert_int_equal(c->bos_id, 0);
    assert_int_equal(c->n_stop_ids, 1);
    assert_int_equal(c->stop_ids[0], 1);
    assert_int_equal(tpcl_checkpoint_n_tensors(cp), g->n_tensors);
    tpcl_checkpoint_close(&cp);
    assert_null(cp);
    tpcl_checkpoint_close(&cp); /* no-op */
    gguf_free(g);
}

static void weights_hold_the_bytes_of_the_file(void **state)
{
    static const struct {
        tpcl_weight_role role;
        int tensor; /* its place in gguf_tiny() */
        tpcl_dtype dtype;
        int64_t rows, columns;
    } want[] = {
        {TPCL_W_EMBED, 0, TPCL_Q8_0, 8, 32},    {TPCL_W_LM_HEAD, 0, TPCL_Q8_0, 8, 32}, /* tied */
        {TPCL_W_ATTN_NORM, 1, TPCL_F32, 32, 0}, {TPCL_W_Q, 2, TPCL_Q4_1, 32, 32},
        {TPCL_W_K, 3, TPCL_Q4_0, 16, 32},       {TPCL_W_V, 4, TPCL_F16, 16, 32},
        {TPCL_W_O, 5, TPCL_BF16, 32, 32},       {TPCL_W_FFN_NORM, 6, TPCL_F32, 32, 0},
        {TPCL_W_GATE, 7, TPCL_Q4_1, 64, 32},    {TPCL_W_UP, 8, TPCL_Q4_1, 64, 32},
        {TPCL_W_DOWN, 9, TPCL_Q4_1, 32, 64},    {TPCL_W_OUT_NORM, 10, TPCL_F32, 32, 0},
    };
    folder *f = *state;
    gguf *g = gguf_tiny("llama");
    gguf_write(g, f, "m.gguf");
    tpcl_checkpoint *cp = open_good(f->name, NULL);
    for (size_t i = 0; i < COUNT(want); i++) {
        tpcl_host_tensor t;
        const gguf_tensor *in = &g->tensors[want[i].tensor];
        bytes b = weight_bytes(cp, want[i].role, 0, in->size, &t);
        assert_string_equal(t.name, in->name);
        assert_int_equal(t.dtype, want[i].dtype);
        assert_int_equal(t.ndim, want[i].columns ? 2 : 1);
        assert_int_equal(t.shape[0], want[i].rows);
        assert_int_equal(t.shape[1], want[i].columns);
        for (size_t k = 0; k < b.n; k++)
            assert_int_equal(b.data[k], pattern((size_t)want[i].tensor, k));
        bytes_free(&b);
    }
    tpcl_checkpoint_close(&cp);
    gguf_free(g);
}

static void reads_are_bounded(void **state)
{
    folder *f = *state;
    gguf *g = gguf_tiny("llama");
    uint8_t two[2], many[64];
    tpcl_host_tensor t;
    gguf_write(g, f, "m.gguf");
    tpcl_checkpoint *cp = open_good(f->name, NULL);

    assert_ok(tpcl_checkpoint_weight(cp, TPCL_W_Q, 0, &t));
    const uint64_t n = tensor_at(g, "blk.0.attn_q.weight")->size;
    assert_ok(t.read(t.context, n - 2, 2, two)); /* the very end */
    assert_int_equal(two[1], pattern(2, n - 1));
    assert_ok(t.read(t.context, n, 0, two)); /* nothing, at the end */
    assert_int_equal(t.read(t.context, n - 1, 2, two), TPCL_ERR_ARG);
    assert_int_equal(t.read(t.context, n + 1, 0, two), TPCL_ERR_ARG);
    assert_int_equal(t.read(t.context, UINT64_MAX, 2, two), TPCL_ERR_ARG);
    assert_non_null(strstr(tpcl_last_error(), "blk.0.attn_q.weight"));

    assert_int_equal(tpcl_checkpoint_weight(cp, TPCL_W_Q, 1, &t), TPCL_ERR_ARG); /* one layer */
    assert_int_equal(tpcl_checkpoint_weight(cp, TPCL_W_Q, -1, &t), TPCL_ERR_ARG);
    assert_int_equal(tpcl_checkpoint_weight(cp, TPCL_W_ROLES, 0, &t), TPCL_ERR_ARG);
    memset(&t, 0xff, sizeof t);
    assert_ok(tpcl_checkpoint_weight(cp, TPCL_W_Q_BIAS, 0, &t)); /* no bias: zeroed */
    assert_null(t.name);
    assert_null(t.read);

    /* G20: the file shrinks while it is open */
    assert_ok(tpcl_checkpoint_weight(cp, TPCL_W_OUT_NORM, 0, &t));
    assert_int_equal(truncate(f->name, (off_t)g->header + 8), 0);
    assert_int_equal(t.read(t.context, 0, sizeof many, many), TPCL_ERR_IO);
    assert_non_null(strstr(tpcl_last_error(), "file shrank"));
    assert_non_null(strstr(tpcl_last_error(), f->name));
    tpcl_checkpoint_close(&cp);
    gguf_free(g);
}

static void tells_about_tokenizer_and_metadata(void **state)
{
    folder *f = *state;
    gguf *g = gguf_tiny("llama");
    kv_text(g, "tokenizer.chat_template", "{{ x }}\n\x1b[31m");
    kv_u32(g, "tokenizer.ggml.eot_token_id", 7);
    kv_u32(g, "tokenizer.ggml.eom_token_id", 1); /* again the eos: counted once */
    kv_array(g, "general.tags", KV_U32, 6);
    for (uint32_t i = 0; i < 6; i++) put_le(&kv_at(g, "general.tags")->value, i, 4);
    put_le(kv_set(g, "some.u64", KV_U64), UINT64_MAX, 8);
    put_le(kv_set(g, "some.i8", KV_I8), 0xfe, 1);
    put_le(kv_set(g, "some.bool", KV_BOOL), 1, 1);
    gguf_write(g, f, "m.gguf");
    tpcl_checkpoint *cp = open_good(f->name, NULL);
    const tpcl_tokenizer_source *t = tpcl_checkpoint_tokenizer(cp);

    assert_true(t->present);
    assert_string_equal(t->model, "gpt2");
    assert_string_equal(t->pre, "smollm");
    assert_int_equal(t->n_tokens, 8);
    assert_int_equal(t->n_merges, 2);
    assert_int_equal(t->tokens[7].length, 3);
    assert_memory_equal(t->tokens[7].bytes, "abc", 3);
    assert_memory_equal(t->merges[1].bytes, "b c", 3);
    assert_int_equal(t->kinds[1], 3);
    assert_int_equal(t->kinds[2], 1);
    assert_int_equal(t->bos_id, 0);
    assert_int_equal(t->eos_id, 1);
    assert_int_equal(t->chat_template.length, 13);
    assert_int_equal(tpcl_checkpoint_config(cp)->n_stop_ids, 2);
    assert_int_equal(tpcl_checkpoint_config(cp)->stop_ids[1], 7);

    int found = 0;
    assert_int_equal(tpcl_checkpoint_n_metadata(cp), g->n_kvs);
    for (int i = 0; i < tpcl_checkpoint_n_metadata(cp); i++) {
        static const char *const want[][2] = {
            {"general.architecture", "llama"},
            {"llama.rope.freq_base", "5000"},
            {"tokenizer.chat_template", "{{ x }}\\n\\x1b[31m"},
            {"general.tags", "[u32, 6] 0, 1, 2, 3, ..."},
            {"some.u64", "18446744073709551615"},
            {"some.i8", "-2"},
            {"some.bool", "true"},
            {"tokenizer.ggml.merges", "[string, 2] \"a b\", \"b c\""},
        };
        const char *key, *value;
        tpcl_checkpoint_metadata(cp, i, &key, &value);
        for (size_t k = 0; k < COUNT(want); k++) {
            if (strcmp(key, want[k][0]) != 0) continue;
            assert_string_equal(value, want[k][1]);
            found++;
        }
    }
    assert_int_equal(found, 8);
    tpcl_checkpoint_close(&cp);
    gguf_free(g);
}

/* C26: three 16-byte tensors at the alignments that real files use. */
static void follows_the_alignment(void **state)
{
    static const uint32_t alignments[] = {0, 8, 16, 32, 64}; /* 0: not written */
    folder *f = *state;
    for (size_t i = 0; i < COUNT(alignments); i++) {
        gguf *g = gguf_tiny("llama");
        const size_t first = g->n_tensors;
        tensor_add(g, "one", GT_F32, 4, 0);
        tensor_add(g, "two", GT_F32, 4, 0);
        tensor_add(g, "three", GT_F32, 4, 0);
        if (alignments[i]) kv_u32(g, "general.alignment", alignments[i]);
        g->alignment = alignments[i] ? alignments[i] : 32;
        bytes b = gguf_build(g);
        write_file(f, "m.gguf", b.data, b.n, 0);
        tpcl_checkpoint *cp = open_good(f->name, NULL);
        for (int k = 0; k < 3; k++) {
            const tpcl_tensor_info *t = tpcl_checkpoint_tensor(cp, (int)first + k);
            assert_int_equal(t->bytes, 16);
            assert_int_equal(t->offset % g->alignment, 0);
            assert_int_equal(b.data[t->offset], pattern(first + (size_t)k, 0));
            assert_int_equal(b.data[t->offset + 15], pattern(first + (size_t)k, 15));
        }
        assert_null(tpcl_checkpoint_tensor(cp, tpcl_checkpoint_n_tensors(cp)));
        assert_null(tpcl_checkpoint_tensor(cp, -1));
        tpcl_checkpoint_close(&cp);
        bytes_free(&b);
        gguf_free(g);
    }
}

/* Tensors that no layer uses may be of any type and shape, empty ones and scalars included. */
static void ignores_what_it_does_not_need(void **state)
{
    folder *f = *state;
    gguf *g = gguf_tiny("llama");
    tensor_add(g, "spare.q4_k", GT_Q4_K, 256, 3);
    tensor_add(g, "spare.empty", GT_F32, 0, 0); /* G13 */
    gguf_tensor *t = tensor_add(g, "spare.empty2", GT_Q8_0, 64, 0);
    t->n_dims = 3;
    t->dims[1] = 0;
    t->dims[2] = UINT64_C(1) << 60;
    t->size = 0;
    t = tensor_add(g, "spare.scalar", GT_F32, 1, 0);
    t->n_dims = 0;
    kv_u32(g, "tokenizer.ggml.padding_token_id", 99); /* a warning, since nothing pads */
    g->version = 2;
    gguf_write(g, f, "m.gguf");
    heard warnings = {0};
    tpcl_checkpoint *cp = open_good(f->name, &warnings);
    assert_string_equal(tpcl_checkpoint_format(cp), "gguf v2");
    const int n = tpcl_checkpoint_n_tensors(cp);
    assert_string_equal(tpcl_checkpoint_tensor(cp, n - 4)->type, "Q4_K");
    assert_int_equal(tpcl_checkpoint_tensor(cp, n - 4)->dtype, TPCL_OTHER);
    assert_int_equal(tpcl_checkpoint_tensor(cp, n - 4)->bytes, 432);
    assert_int_equal(tpcl_checkpoint_tensor(cp, n - 4)->shape[0], 3);
    assert_int_equal(tpcl_checkpoint_tensor(cp, n - 3)->bytes, 0);
    assert_int_equal(tpcl_checkpoint_tensor(cp, n - 2)->bytes, 0);
    assert_int_equal(tpcl_checkpoint_tensor(cp, n - 1)->bytes, 4);
    assert_int_equal(tpcl_checkpoint_tensor(cp, n - 1)->ndim, 0);
    assert_int_equal(warnings.n, 1);
    assert_non_null(strstr(warnings.last, "99"));
    tpcl_checkpoint_close(&cp);
    gguf_free(g);
}

static void works_without_tokenizer(void **state)
{
    folder *f = *state;
    gguf *g = gguf_tiny("qwen3");
    kv_drop(g, "tokenizer.ggml.tokens");
    kv_drop(g, "tokenizer.ggml.eos_token_id");
    kv_drop(g, "tokenizer.ggml.bos_token_id");
    gguf_write(g, f, "m.gguf");
    tpcl_checkpoint *cp = open_good(f->name, NULL);
    assert_false(tpcl_checkpoint_tokenizer(cp)->present);
    assert_int_equal(tpcl_checkpoint_config(cp)->n_stop_ids, 0);
    assert_int_equal(tpcl_checkpoint_config(cp)->bos_id, -1);
    assert_true(tpcl_checkpoint_config(cp)->qk_norm);
    assert_int_equal(tpcl_checkpoint_config(cp)->rope_form, TPCL_ROPE_HALF);
    tpcl_checkpoint_close(&cp);
    gguf_free(g);
}

/* ---- spoilt files: one function each spoils the sound one ---- */

typedef struct bad {
    const char *name;
    void (*spoil)(gguf *g);           /* before the file is written */
    void (*patch)(gguf *g, bytes *b); /* after; either may be NULL */
    tpcl_status status;
    const char *says; /* parts of the message, " & " between them */
} bad;

static void patch_le(bytes *b, size_t at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) b->data[at + (size_t)i] = (uint8_t)(value >> (8 * i));
}

/* Where a text first stands in the file. */
static size_t find(const bytes *b, const char *text)
{
    const uint8_t *p = memmem(b->data, b->n, text, strlen(text));
    assert_non_null(p);
    return (size_t)(p - b->data);
}

#define PATCH(name, ...)                \
    static void name(gguf *g, bytes *b) \
    {                                   \
        (void)g;                        \
        __VA_ARGS__;                    \
    }
#define SPOIL(name, ...)      \
    static void name(gguf *g) \
    {                         \
        __VA_ARGS__;          \
    }

PATCH(cut_to_0, b->n = 0)
PATCH(cut_to_23, b->n = 23)
PATCH(bad_magic, b->data[3] = 'X')
PATCH(version_0, patch_le(b, 4, 0, 4))
PATCH(version_1, patch_le(b, 4, 1, 4))
PATCH(version_4, patch_le(b, 4, 4, 4))
PATCH(version_swapped, patch_le(b, 4, 0x03000000, 4))
PATCH(tensors_max, patch_le(b, 8, UINT64_MAX, 8))
PATCH(tensors_many, patch_le(b, 8, UINT64_MAX / 32, 8))
PATCH(values_max, patch_le(b, 16, UINT64_MAX, 8))
PATCH(values_more, patch_le(b, 16, g->n_kvs + 1, 8))
PATCH(key_length_max, patch_le(b, 24, UINT64_MAX, 8))
PATCH(key_empty, patch_le(b, 24, 0, 8))
PATCH(string_too_long, patch_le(b, find(b, "llama") - 8, 1 << 20, 8))
PATCH(string_max, patch_le(b, find(b, "llama") - 8, UINT64_MAX, 8))
PATCH(value_type_13, patch_le(b, find(b, "llama") - 12, 13, 4))
PATCH(key_with_nul, b->data[32 + 3] = 0)
PATCH(name_with_nul, b->data[find(b, "blk.0.attn_q.weight") + 2] = 0)
PATCH(name_with_newline, b->data[find(b, "blk.0.attn_q.weight") + 2] = '\n')
PATCH(name_empty, patch_le(b, find(b, "blk.0.attn_q.weight") - 8, 0, 8))
PATCH(cut_data, b->n -= 4)
PATCH(cut_most_data, b->n = g->header + 16)
PATCH(cut_in_tensors, b->n = find(b, "blk.0.ffn_up.weight") + 5)

SPOIL(key_twice, kv_u32(g, "some.kez", 1); kv_u32(g, "some.key", 2);
      g->kvs[g->n_kvs - 2].key[7] = 'y')
SPOIL(array_in_array, kv_array(g, "some.key", KV_ARRAY, 1))
SPOIL(array_of_type_99, kv_array(g, "some.key", 99, 1))
SPOIL(array_count_max, kv_array(g, "some.key", KV_U64, UINT64_MAX / 4))
SPOIL(array_count_big, kv_array(g, "some.key", KV_U8, UINT64_C(1) << 40))
SPOIL(tokens_count_big, kv_array(g, "tokenizer.ggml.tokens", KV_STRING, UINT64_C(1) << 32))
SPOIL(bool_of_2, put_le(kv_set(g, "some.key", KV_BOOL), 2, 1))
SPOIL(alignment_0, kv_u32(g, "general.alignment", 0))
SPOIL(alignment_13, kv_u32(g, "general.alignment", 13))
SPOIL(alignment_u64, put_le(kv_set(g, "general.alignment", KV_U64), 32, 8))
SPOIL(name_of_64, memset(g->tensors[2].name, 'x', 64); g->tensors[2].name[64] = '\0')
SPOIL(name_twice, memcpy(g->tensors[7].name, g->tensors[8].name, sizeof g->tensors[7].name))
SPOIL(dims_5, g->tensors[2].n_dims = 5)
SPOIL(dim_negative, g->tensors[2].dims[1] = UINT64_MAX)
SPOIL(dims_overflow, g->tensors[2].dims[0] = UINT64_C(1) << 33;
      g->tensors[2].dims[1] = UINT64_C(1) << 33)
SPOIL(bytes_overflow, g->tensors[1].dims[0] = UINT64_C(1) << 62)
SPOIL(zero_dim, g->tensors[2].dims[1] = 0; g->tensors[2].size = 0)
SPOIL(type_5, g->tensors[2].type = 5)
SPOIL(type_77, g->tensors[2].type = 77)
SPOIL(type_negative, g->tensors[2].type = (uint32_t)-1)
SPOIL(rows_of_172, tensor_add(g, "w", GT_Q4_0, 172, 2))
SPOIL(offset_plus_4, g->tensors[4].shift = 4)
SPOIL(offset_overlap, g->tensors[4].shift = -32)
SPOIL(offset_hole, g->tensors[4].shift = 32)
SPOIL(offset_huge, g->tensors[10].shift = INT64_MAX)
SPOIL(size_sum_overflow, gguf_tensor *t = tensor_add(g, "a", GT_F32, UINT64_C(1) << 60, 0);
      t->size = UINT64_C(1) << 62; tensor_add(g, "b", GT_F32, UINT64_C(1) << 60, 0)->size = 0;
      t->size = 0; t[1].shift = INT64_C(1) << 62)
SPOIL(needed_k_quant, gguf_tensor *t = &g->tensors[9]; t->type = GT_Q4_K; t->dims[0] = 256;
      t->size = gguf_bytes_of(GT_Q4_K, UINT64_C(256) * 32))
SPOIL(norm_quantised, g->tensors[6].type = GT_Q8_0; g->tensors[6].size = 34)
SPOIL(needs_i32, g->tensors[4].type = 26; g->tensors[4].size *= 2)
SPOIL(missing_norm, tensor_drop(g, "blk.0.ffn_norm.weight"))
SPOIL(missing_embedding, tensor_drop(g, "token_embd.weight"))
SPOIL(embedding_flat, g->tensors[0].n_dims = 1; g->tensors[0].size = 34)
SPOIL(down_shape, g->tensors[9].dims[0] = 32; g->tensors[9].dims[1] = 64)
SPOIL(k_like_q, g->tensors[3].dims[1] = 32; g->tensors[3].size *= 2)
SPOIL(half_a_bias, tensor_add(g, "blk.0.attn_q.bias", GT_F32, 32, 0))
SPOIL(is_a_part, kv_u32(g, "split.count", 3))

static const bad bads[] = {
    {"G1_empty", NULL, cut_to_0, TPCL_ERR_FORMAT, "not a GGUF file & 0 bytes"},
    {"G1_short", NULL, cut_to_23, TPCL_ERR_FORMAT, "not a GGUF file & 23 bytes"},
    {"G1_magic", NULL, bad_magic, TPCL_ERR_FORMAT, "not a GGUF file & starts with"},
    {"G2_version_0", NULL, version_0, TPCL_ERR_UNSUPPORTED, "version"},
    {"G2_version_1", NULL, version_1, TPCL_ERR_UNSUPPORTED, "version 1"},
    {"G2_version_4", NULL, version_4, TPCL_ERR_UNSUPPORTED, "version 4"},
    {"G2_big_endian", NULL, version_swapped, TPCL_ERR_UNSUPPORTED, "big-endian"},
    {"G3_tensors_max", NULL, tensors_max, TPCL_ERR_FORMAT, "18446744073709551615 tensors"},
    {"G3_tensors_product", NULL, tensors_many, TPCL_ERR_FORMAT, "tensors cannot fit"},
    {"G4_values_max", NULL, values_max, TPCL_ERR_FORMAT, "18446744073709551615 metadata values"},
    {"G4_one_value_more", NULL, values_more, TPCL_ERR_FORMAT, "m.gguf"},
    {"G5_key_length", NULL, key_length_max, TPCL_ERR_FORMAT, "a metadata key at byte 32 & left"},
    {"G5_string_beyond_end", NULL, string_too_long, TPCL_ERR_FORMAT,
     "general.architecture & 1048576"},
    {"G5_string_max", NULL, string_max, TPCL_ERR_FORMAT, "general.architecture"},
    {"G6_empty_key", NULL, key_empty, TPCL_ERR_FORMAT, "metadata key at byte 24 is empty"},
    {"G6_key_twice", key_twice, NULL, TPCL_ERR_FORMAT, "'some.key' comes twice"},
    {"G6_key_with_nul", NULL, key_with_nul, TPCL_ERR_FORMAT, "not plain text"},
    {"G7_value_type", NULL, value_type_13, TPCL_ERR_FORMAT, "general.architecture & type 13"},
    {"G7_nested_array", array_in_array, NULL, TPCL_ERR_UNSUPPORTED, "some.key & array of arrays"},
    {"G7_element_type", array_of_type_99, NULL, TPCL_ERR_FORMAT, "some.key & type 99"},
    {"G7_bool_of_2", bool_of_2, NULL, TPCL_ERR_FORMAT, "some.key & boolean"},
    {"G8_count_overflow", array_count_max, NULL, TPCL_ERR_FORMAT, "some.key & left"},
    {"G8_count_beyond_end", array_count_big, NULL, TPCL_ERR_FORMAT, "some.key & 1099511627776"},
    {"G8_tokens_beyond_end", tokens_count_big, NULL, TPCL_ERR_FORMAT,
     "tokenizer.ggml.tokens & left"},
    {"G9_alignment_0", alignment_0, NULL, TPCL_ERR_FORMAT, "general.alignment & 0"},
    {"G9_alignment_13", alignment_13, NULL, TPCL_ERR_FORMAT, "general.alignment & 13"},
    {"G9_alignment_type", alignment_u64, NULL, TPCL_ERR_FORMAT, "general.alignment & u64"},
    {"G10_name_64", name_of_64, NULL, TPCL_ERR_FORMAT, "a tensor's name & 64 bytes"},
    {"G10_name_nul", NULL, name_with_nul, TPCL_ERR_FORMAT, "tensor name at byte & not plain text"},
    {"G10_name_newline", NULL, name_with_newline, TPCL_ERR_FORMAT, "tensor name at byte"},
    {"G10_name_empty", NULL, name_empty, TPCL_ERR_FORMAT, "tensor name at byte & empty"},
    {"G11_name_twice", name_twice, NULL, TPCL_ERR_FORMAT, "blk.0.ffn_up.weight & twice"},
    {"G12_dims_5", dims_5, NULL, TPCL_ERR_FORMAT, "blk.0.attn_q.weight & 5 dimensions"},
    {"G12_dim_negative", dim_negative, NULL, TPCL_ERR_FORMAT, "blk.0.attn_q.weight & dimension 1"},
    {"G13_zero_dim_needed", zero_dim, NULL, TPCL_ERR_FORMAT,
     "blk.0.attn_q.weight & [0, 32] & [32, 32]"},
    {"G14_dims_overflow", dims_overflow, NULL, TPCL_ERR_FORMAT, "blk.0.attn_q.weight & too many"},
    {"G14_bytes_overflow", bytes_overflow, NULL, TPCL_ERR_FORMAT,
     "blk.0.attn_norm.weight & too many"},
    {"G15_type_removed", type_5, NULL, TPCL_ERR_FORMAT, "blk.0.attn_q.weight & type id 5"},
    {"G15_type_unknown", type_77, NULL, TPCL_ERR_FORMAT, "blk.0.attn_q.weight & type id 77"},
    {"G15_type_negative", type_negative, NULL, TPCL_ERR_FORMAT, "blk.0.attn_q.weight & 4294967295"},
    {"G16_row_of_172", rows_of_172, NULL, TPCL_ERR_FORMAT, "'w' & 172 & 32"},
    {"G17_misaligned", offset_plus_4, NULL, TPCL_ERR_FORMAT, "blk.0.attn_v.weight & offset"},
    {"G17_overlap", offset_overlap, NULL, TPCL_ERR_FORMAT, "blk.0.attn_v.weight & offset"},
    {"G17_hole", offset_hole, NULL, TPCL_ERR_FORMAT, "blk.0.attn_v.weight & offset"},
    {"G17_huge", offset_huge, NULL, TPCL_ERR_FORMAT, "output_norm.weight & offset"},
    {"G18_cut", NULL, cut_data, TPCL_ERR_FORMAT, "output_norm.weight & 128 bytes & file ends"},
    {"G18_cut_more", NULL, cut_most_data, TPCL_ERR_FORMAT, "token_embd.weight & file ends"},
    {"G18_cut_header", NULL, cut_in_tensors, TPCL_ERR_FORMAT, "truncated & left"},
    {"G19_sum_overflow", size_sum_overflow, NULL, TPCL_ERR_FORMAT, "'b' & overflow"},
    {"K_quant_needed", needed_k_quant, NULL, TPCL_ERR_UNSUPPORTED, "blk.0.ffn_down.weight & Q4_K"},
    {"norm_quantised", norm_quantised, NULL, TPCL_ERR_UNSUPPORTED, "blk.0.ffn_norm.weight & Q8_0"},
    {"integer_weight", needs_i32, NULL, TPCL_ERR_UNSUPPORTED, "blk.0.attn_v.weight & I32"},
    {"C3_missing", missing_norm, NULL, TPCL_ERR_FORMAT, "blk.0.ffn_norm.weight & missing"},
    {"C3_no_embedding", missing_embedding, NULL, TPCL_ERR_FORMAT, "token_embd.weight & missing"},
    {"C3_flat_embedding", embedding_flat, NULL, TPCL_ERR_FORMAT, "token_embd.weight"},
    {"C3_transposed", down_shape, NULL, TPCL_ERR_FORMAT,
     "blk.0.ffn_down.weight & [64, 32] & [32, 64]"},
    {"C3_k_as_q", k_like_q, NULL, TPCL_ERR_FORMAT, "blk.0.attn_k.weight & [32, 32] & [16, 32]"},
    {"C3_half_a_bias", half_a_bias, NULL, TPCL_ERR_FORMAT, "blk.0.attn_k.bias & missing"},
    {"split_file", is_a_part, NULL, TPCL_ERR_UNSUPPORTED, "3 parts"},
};

static void refuses(void **state)
{
    const bad *row = *state;
    folder f = folder_make();
    gguf *g = gguf_tiny("llama");
    if (row->spoil) row->spoil(g);
    bytes b = gguf_build(g);
    if (row->patch) row->patch(g, &b);
    write_file(&f, "m.gguf", b.data, b.n, 0);
    open_bad(f.name, row->status, row->says);
    bytes_free(&b);
    gguf_free(g);
    folder_remove(&f);
}

/* A header that goes on and on, in a file that is a hole: refused for its length, not read for
 * ever. */
static void refuses_endless_header(void **state)
{
    folder *f = *state;
    gguf *g = gguf_tiny("llama");
    kv_array(g, "some.key", KV_STRING, UINT64_C(1) << 30);
    bytes b = gguf_build(g);
    write_file(f, "m.gguf", b.data, b.n, UINT64_C(1) << 36);
    open_bad(f->name, TPCL_ERR_UNSUPPORTED, "some.key & header is longer");
    bytes_free(&b);
    gguf_free(g);
}

static void refuses_what_is_no_file(void **state)
{
    folder *f = *state;
    open_bad(path_in(f, "absent.gguf"), TPCL_ERR_OPEN, "absent.gguf & No such file");
    assert_int_equal(mkfifo(path_in(f, "pipe"), 0600), 0);
    open_bad(f->name, TPCL_ERR_OPEN,
             "pipe & not a regular file"); /* and does not wait for a writer */
    open_bad("/dev/zero", TPCL_ERR_OPEN, "/dev/zero");
    open_bad("", TPCL_ERR_ARG, "path");
    tpcl_checkpoint *cp = NULL;
    assert_int_equal(tpcl_checkpoint_open(NULL, NULL, &cp), TPCL_ERR_ARG);
    assert_int_equal(tpcl_checkpoint_open("x", NULL, NULL), TPCL_ERR_ARG);
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test_setup_teardown(reads_a_sound_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(weights_hold_the_bytes_of_the_file, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(reads_are_bounded, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(tells_about_tokenizer_and_metadata, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(follows_the_alignment, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(ignores_what_it_does_not_need, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(works_without_tokenizer, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(refuses_endless_header, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_file, make_folder, remove_folder),
    };
    struct CMUnitTest tests[COUNT(fixed) + COUNT(bads)];
    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < COUNT(bads); i++)
        tests[COUNT(fixed) + i] = (struct CMUnitTest){
            .name = bads[i].name, .test_func = refuses, .initial_state = (void *)&bads[i]};
    return cmocka_run_group_tests_name("checkpoint/gguf", tests, NULL, NULL);
}
