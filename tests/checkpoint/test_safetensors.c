/* safetensors files, sound and spoilt: classes S1 to S11 and CASES C21 to C23. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

/* ---- sound folders ---- */

static void reads_a_sound_folder(void **state)
{
    (void)state;
    model m = model_make();
    model_write(&m);
    tpcl_checkpoint *cp = open_good(m.f.path, NULL);
    const tpcl_model_config *c = tpcl_checkpoint_config(cp);
    tpcl_host_tensor t;
    assert_string_equal(tpcl_checkpoint_format(cp), "safetensors");
    assert_int_equal(tpcl_checkpoint_n_tensors(cp), 12);
    assert_int_equal(c->rope_form, TPCL_ROPE_HALF);
    assert_int_equal(c->head_dim, 16);
    assert_false(c->tied);
    /* the head is the last tensor: its bytes come from the end of the file */
    bytes b = weight_bytes(cp, TPCL_W_LM_HEAD, 0, (size_t)8 * 32 * 4, &t);
    assert_string_equal(t.name, "lm_head.weight");
    assert_int_equal(t.shape[0], 8);
    assert_int_equal(t.shape[1], 32);
    for (size_t i = 0; i < b.n; i++) assert_int_equal(b.data[i], pattern(0, m.end - b.n + i));
    bytes_free(&b);
    assert_false(tpcl_checkpoint_tokenizer(cp)->present);
    assert_int_equal(tpcl_checkpoint_n_metadata(cp), json_object_size(m.config));
    tpcl_checkpoint_close(&cp);
    model_free(&m);
}

/* C08: the flag decides, also when both tensors are there and differ. */
static void tied_follows_the_flag(void **state)
{
    (void)state;
    model m = model_make();
    tpcl_host_tensor t;
    json_object_set_new(m.config, "tie_word_embeddings", json_true());
    model_write(&m);
    tpcl_checkpoint *cp = open_good(m.f.path, NULL);
    assert_ok(tpcl_checkpoint_weight(cp, TPCL_W_LM_HEAD, 0, &t));
    assert_string_equal(t.name, "model.embed_tokens.weight");
    tpcl_checkpoint_close(&cp);
    model_free(&m);
}

/* C22, C23: no alignment, empty tensors, scalars, five dimensions, odd types, odd data start. */
static void reads_odd_files(void **state)
{
    (void)state;
    static const char *const spare =
        "{\"odd\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
        "\"empty\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[3,3]},"
        "\"empty2\":{\"dtype\":\"F32\",\"shape\":[2,0],\"data_offsets\":[3,3]},"
        "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[3,7]},"
        "\"five\":{\"dtype\":\"I64\",\"shape\":[2,1,3,1,2],\"data_offsets\":[7,103]},"
        "\"f4\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[103,106]},"
        "\"new\":{\"dtype\":\"X9\",\"shape\":[7],\"data_offsets\":[106,117],\"more\":null},"
        "\"bools\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[117,119]}}";
    for (size_t padding = 0; padding < 4; padding++) { /* each remainder of the data start */
        model m = model_make();
        json_decref(m.header);
        m.header = parse(spare);
        json_t *rest = st_tiny(&m.end), *value;
        const char *name;
        m.end += 119;
        json_object_foreach(rest, name, value)
        {
            json_t *range = json_object_get(value, "data_offsets");
            for (size_t i = 0; i < 2; i++) {
                const json_int_t at = json_integer_value(json_array_get(range, i));
                json_array_set_new(range, i, json_integer(at + 119));
            }
            json_object_set(m.header, name, value);
        }
        json_decref(rest);
        write_json(&m.f, "config.json", m.config);
        char *text = json_dumps(m.header, JSON_COMPACT), padded[8192];
        snprintf(padded, sizeof padded, "%s%.*s", text, (int)padding, "   ");
        st_write(&m.f, "model.safetensors", padded, m.end, 0);
        free(text);

        tpcl_checkpoint *cp = open_good(m.f.path, NULL);
        tpcl_host_tensor t;
        bytes b = weight_bytes(cp, TPCL_W_EMBED, 0, 1024, &t);
        for (size_t i = 0; i < b.n; i++) assert_int_equal(b.data[i], pattern(0, 119 + i));
        bytes_free(&b);
        assert_string_equal(tpcl_checkpoint_tensor(cp, 1)->name, "empty");
        assert_int_equal(tpcl_checkpoint_tensor(cp, 1)->bytes, 0);
        assert_int_equal(tpcl_checkpoint_tensor(cp, 3)->ndim, 0);
        assert_int_equal(tpcl_checkpoint_tensor(cp, 4)->ndim, 4); /* the first two are folded */
        assert_int_equal(tpcl_checkpoint_tensor(cp, 4)->shape[0], 2);
        assert_int_equal(tpcl_checkpoint_tensor(cp, 4)->shape[1], 3);
        assert_int_equal(tpcl_checkpoint_tensor(cp, 4)->shape[3], 2);
        assert_string_equal(tpcl_checkpoint_tensor(cp, 6)->type, "X9");
        assert_int_equal(tpcl_checkpoint_tensor(cp, 6)->dtype, TPCL_OTHER);
        tpcl_checkpoint_close(&cp);
        model_free(&m);
    }
}

/* S10, C22: whatever is in __metadata__, the model loads; one warning where it is not as it should.
 */
static void metadata_never_stops_a_model(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int warnings;
    } rows[] = {{"{}", 0},   {"{\"format\":\"pt\"}", 0}, {"{\"n\":0}", 1},
                {"null", 1}, {"{\"a\":{\"b\":1}}", 1},   {"[1]", 1},
                {"\"x\"", 1}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        model m = model_make();
        heard h = {0};
        json_object_set_new(m.header, "__metadata__", parse(rows[i].json));
        model_write(&m);
        tpcl_checkpoint *cp = open_good(m.f.path, &h);
        assert_int_equal(h.n, rows[i].warnings);
        if (h.n) assert_non_null(strstr(h.last, "__metadata__"));
        assert_int_equal(tpcl_checkpoint_n_tensors(cp), 12);
        tpcl_checkpoint_close(&cp);
        model_free(&m);
    }
}

/* C21: a header of exactly 100,000 bytes. */
static void reads_a_long_header(void **state)
{
    (void)state;
    model m = model_make();
    write_json(&m.f, "config.json", m.config);
    char *text = json_dumps(m.header, JSON_COMPACT), *padded = malloc(100001);
    memset(padded, ' ', 100000);
    memcpy(padded, text, strlen(text));
    padded[100000] = '\0';
    st_write(&m.f, "model.safetensors", padded, m.end, 0);
    tpcl_checkpoint *cp = open_good(m.f.path, NULL);
    tpcl_checkpoint_close(&cp);
    free(padded);
    free(text);
    model_free(&m);
}

/* ---- the tokenizer's texts ---- */

static void collects_tokenizer_texts(void **state)
{
    (void)state;
    model m = model_make();
    model_write(&m);
    static const char words[] = "{\"model\": 1}";
    static const char list[] = "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"no\"},"
                               "{\"name\":\"default\",\"template\":\"yes\"}]}";
    write_file(&m.f, "tokenizer.json", words, strlen(words), 0);
    tpcl_checkpoint *cp = open_good(m.f.path, NULL);
    const tpcl_tokenizer_source *t = tpcl_checkpoint_tokenizer(cp);
    assert_true(t->present);
    assert_null(t->model);
    assert_int_equal(t->bos_id, -1);
    assert_int_equal(t->tokenizer_json.length, strlen(words));
    assert_memory_equal(t->tokenizer_json.bytes, words, strlen(words));
    assert_int_equal(t->tokenizer_config_json.length, 0);
    assert_int_equal(t->chat_template.length, 0);
    tpcl_checkpoint_close(&cp);

    write_file(&m.f, "tokenizer_config.json", list, strlen(list), 0);
    cp = open_good(m.f.path, NULL);
    t = tpcl_checkpoint_tokenizer(cp);
    assert_int_equal(t->tokenizer_config_json.length, strlen(list));
    assert_int_equal(t->chat_template.length, 3);
    assert_memory_equal(t->chat_template.bytes, "yes", 3);
    tpcl_checkpoint_close(&cp);

    write_file(&m.f, "chat_template.jinja", "file", 4, 0); /* goes first */
    cp = open_good(m.f.path, NULL);
    assert_memory_equal(tpcl_checkpoint_tokenizer(cp)->chat_template.bytes, "file", 4);
    tpcl_checkpoint_close(&cp);

    assert_int_equal(unlink(path_in(&m.f, "chat_template.jinja")), 0);
    write_file(&m.f, "tokenizer_config.json", "{\"chat", 6, 0);
    open_bad(m.f.path, TPCL_ERR_FORMAT, "tokenizer_config.json & bad JSON");
    write_file(&m.f, "tokenizer_config.json", "{}", 2, 0);
    write_file(&m.f, "tokenizer.json", "{}", 2, (UINT64_C(128) << 20) + 1);
    open_bad(m.f.path, TPCL_ERR_UNSUPPORTED, "tokenizer.json & 134217729 bytes");
    model_free(&m);
}

/* ---- spoilt tensors: a member of the header replaced, added or (value NULL) removed ---- */

typedef struct bad_member {
    const char *name, *key, *value;
    tpcl_status status;
    const char *says;
} bad_member;

#define EMBED "model.embed_tokens.weight"
#define F32(shape, begin, end) \
    "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static const bad_member members[] = {
    {"C21_short_data", EMBED, F32("[1000,1000]", "0", "4"), TPCL_ERR_FORMAT,
     EMBED " & 4000000 & 4"},
    {"S4_begin_after_end", EMBED, F32("[8,32]", "8", "4"), TPCL_ERR_FORMAT, EMBED " & [8, 4]"},
    {"S4_negative", EMBED, F32("[8,32]", "-4", "1020"), TPCL_ERR_FORMAT, EMBED " & [-4, 1020]"},
    {"S4_float", EMBED, F32("[8,32]", "0.0", "1024"), TPCL_ERR_FORMAT, EMBED " & data_offsets"},
    {"S4_float_2_53", EMBED, F32("[8,32]", "9007199254740993.0", "1024"), TPCL_ERR_FORMAT, EMBED},
    {"S4_huge", EMBED, F32("[8,32]", "9223372036854774783", "9223372036854775807"), TPCL_ERR_FORMAT,
     EMBED " & incomplete"},
    {"S4_one_offset", EMBED, "{\"dtype\":\"F32\",\"shape\":[8,32],\"data_offsets\":[0]}",
     TPCL_ERR_FORMAT, EMBED " & data_offsets"},
    {"S4_three_offsets", EMBED,
     "{\"dtype\":\"F32\",\"shape\":[8,32],\"data_offsets\":[0,1024,2048]}", TPCL_ERR_FORMAT,
     EMBED " & data_offsets"},
    {"S4_no_offsets", EMBED, "{\"dtype\":\"F32\",\"shape\":[8,32]}", TPCL_ERR_FORMAT,
     EMBED " & data_offsets"},
    {"S5_overlap", "model.layers.0.input_layernorm.weight", F32("[32]", "1020", "1148"),
     TPCL_ERR_FORMAT, "overlap & " EMBED " & input_layernorm"},
    {"S5_same_range", "copy", F32("[8,32]", "0", "1024"), TPCL_ERR_FORMAT, "overlap & copy"},
    {"S6_hole_at_start", EMBED, NULL, TPCL_ERR_FORMAT, "no tensor claims bytes 0 to 1024"},
    {"S6_tail", "lm_head.weight", NULL, TPCL_ERR_FORMAT, "no tensor claims the last 1024 bytes"},
    {"S7_size", EMBED, F32("[8,31]", "0", "1024"), TPCL_ERR_FORMAT, EMBED " & 992 & 1024"},
    {"S7_product", EMBED, F32("[4294967296,4294967296]", "0", "1024"), TPCL_ERR_FORMAT,
     EMBED " & too many"},
    {"S7_bytes", EMBED, F32("[1152921504606846976]", "0", "1024"), TPCL_ERR_FORMAT,
     EMBED " & too many"},
    {"S7_negative_dim", EMBED, F32("[-1]", "0", "1024"), TPCL_ERR_FORMAT, EMBED " & shape"},
    {"S7_float_dim", EMBED, F32("[8.0,32]", "0", "1024"), TPCL_ERR_FORMAT, EMBED " & shape"},
    {"S7_33_dims", EMBED,
     F32("[8,32,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "0", "1024"),
     TPCL_ERR_FORMAT, EMBED " & shape"},
    {"S7_no_shape", EMBED, "{\"dtype\":\"F32\",\"data_offsets\":[0,1024]}", TPCL_ERR_FORMAT,
     EMBED " & shape"},
    {"S8_dtype_needed", EMBED, "{\"dtype\":\"Q77\",\"shape\":[8,32],\"data_offsets\":[0,1024]}",
     TPCL_ERR_UNSUPPORTED, EMBED " & Q77"},
    {"S8_i64_needed", EMBED, "{\"dtype\":\"I64\",\"shape\":[8,16],\"data_offsets\":[0,1024]}",
     TPCL_ERR_UNSUPPORTED, EMBED " & I64"},
    {"S8_f8_needed", EMBED, "{\"dtype\":\"F8_E4M3\",\"shape\":[32,32],\"data_offsets\":[0,1024]}",
     TPCL_ERR_UNSUPPORTED, EMBED " & F8_E4M3"},
    {"S8_sub_byte_odd", EMBED, "{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}",
     TPCL_ERR_FORMAT, EMBED " & whole bytes"},
    {"S8_dtype_number", EMBED, "{\"dtype\":7,\"shape\":[8,32],\"data_offsets\":[0,1024]}",
     TPCL_ERR_FORMAT, EMBED " & dtype"},
    {"S2_no_object", EMBED, "[]", TPCL_ERR_FORMAT, EMBED " & object"},
    {"S2_null", EMBED, "null", TPCL_ERR_FORMAT, EMBED " & object"},
    {"S9_empty_needed", EMBED, F32("[0,32]", "0", "0"), TPCL_ERR_FORMAT, "no tensor claims"},
    {"C3_wrong_shape", EMBED, F32("[32,8]", "0", "1024"), TPCL_ERR_FORMAT,
     EMBED " & [32, 8] & [8, 32]"},
    {"C3_three_dims", EMBED, F32("[8,32,1]", "0", "1024"), TPCL_ERR_FORMAT, EMBED " & [8, 32, 1]"},
};

static void refuses_member(void **state)
{
    const bad_member *row = *state;
    model m = model_make();
    if (row->value)
        json_object_set_new(m.header, row->key, parse(row->value));
    else
        assert_int_equal(json_object_del(m.header, row->key), 0);
    model_write(&m);
    open_bad(m.f.path, row->status, row->says);
    model_free(&m);
}

/* ---- spoilt containers: the whole file given ---- */

typedef struct bad_file {
    const char *name, *header;
    size_t data;
    tpcl_status status;
    const char *says;
} bad_file;

static const bad_file files[] = {
    {"S2_no_json", "{ this is no JSON", 0, TPCL_ERR_FORMAT, "bad JSON at byte"},
    {"S2_array", "[]", 0, TPCL_ERR_FORMAT, "does not start with '{'"},
    {"S2_space_first", " {}", 0, TPCL_ERR_FORMAT, "does not start with '{'"},
    {"S2_empty", "", 0, TPCL_ERR_FORMAT, "does not start with '{'"},
    {"S2_bad_utf8", "{\"\xff\":1}", 0, TPCL_ERR_FORMAT, "bad JSON"},
    {"S2_nul_in_name", "{\"a\\u0000b\":1}", 0, TPCL_ERR_FORMAT, "bad JSON"},
    {"S2_rest_behind", "{}x", 0, TPCL_ERR_FORMAT, "bad JSON"},
    {"S3_twice",
     "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"t\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}",
     4, TPCL_ERR_FORMAT, "bad JSON & duplicate"},
    {"S4_number_of_70_bits", "{\"t\":{\"dtype\":\"F32\",\"shape\":[1180591620717411303424]}}", 0,
     TPCL_ERR_FORMAT, "bad JSON"},
    {"no_tensors", "{}", 0, TPCL_ERR_FORMAT, "missing"},
};

static void refuses_file(void **state)
{
    const bad_file *row = *state;
    model m = model_make();
    write_json(&m.f, "config.json", m.config);
    st_write(&m.f, "model.safetensors", row->header, row->data, 0);
    char says[256];
    snprintf(says, sizeof says, "%s & %s", m.f.path, row->says);
    open_bad(m.f.path, row->status, says);
    model_free(&m);
}

/* S1: the length word against the file. */
static void refuses_lengths(void **state)
{
    (void)state;
    static const struct {
        uint64_t length, size;
        tpcl_status status;
        const char *says;
    } rows[] = {
        {0, 8, TPCL_ERR_FORMAT, "does not start"},
        {UINT64_MAX, 64, TPCL_ERR_FORMAT, "18446744073709551615"},
        {64, 64, TPCL_ERR_FORMAT, "header of 64 bytes in a file of 64"},
        {57, 64, TPCL_ERR_FORMAT, "header of 57 bytes"},
        {100000001, 100000100, TPCL_ERR_UNSUPPORTED, "100000001 bytes"},
        {UINT64_C(1) << 40, UINT64_C(1) << 41, TPCL_ERR_UNSUPPORTED, "1099511627776 bytes"},
    };
    model m = model_make();
    write_json(&m.f, "config.json", m.config);
    for (size_t i = 0; i < COUNT(rows); i++) {
        bytes b = {NULL, 0, 0};
        put_le(&b, rows[i].length, 8);
        write_file(&m.f, "model.safetensors", b.data, b.n, rows[i].size);
        open_bad(m.f.path, rows[i].status, rows[i].says);
        bytes_free(&b);
    }
    for (size_t n = 0; n < 8; n++) {
        write_file(&m.f, "model.safetensors", "\0\0\0\0\0\0\0", n, 0);
        open_bad(m.f.path, TPCL_ERR_FORMAT, "model.safetensors & length alone takes 8");
    }
    model_free(&m);
}

/* S2: nesting and width are bounded. */
static void refuses_bombs(void **state)
{
    (void)state;
    model m = model_make();
    write_json(&m.f, "config.json", m.config);
    enum { DEEP = 100000, WIDE = 2000000 };
    char *text = malloc(WIDE + 64);
    size_t n = (size_t)sprintf(text, "{\"a\":");
    memset(text + n, '[', DEEP);
    text[n + DEEP] = '\0';
    st_write(&m.f, "model.safetensors", text, 0, 0);
    open_bad(m.f.path, TPCL_ERR_FORMAT, "model.safetensors & depth");
    n = (size_t)sprintf(text, "{\"a\":[0");
    for (size_t i = 0; i < WIDE / 2; i++) n += (size_t)sprintf(text + n, ",0");
    sprintf(text + n, "]}");
    st_write(&m.f, "model.safetensors", text, 0, 0);
    open_bad(m.f.path, TPCL_ERR_UNSUPPORTED, "model.safetensors & JSON values");
    free(text);
    model_free(&m);
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(reads_a_sound_folder), cmocka_unit_test(tied_follows_the_flag),
        cmocka_unit_test(reads_odd_files),      cmocka_unit_test(metadata_never_stops_a_model),
        cmocka_unit_test(reads_a_long_header),  cmocka_unit_test(collects_tokenizer_texts),
        cmocka_unit_test(refuses_lengths),      cmocka_unit_test(refuses_bombs),
    };
    struct CMUnitTest tests[COUNT(fixed) + COUNT(members) + COUNT(files)];
    size_t n = COUNT(fixed);
    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < COUNT(members); i++)
        tests[n++] = (struct CMUnitTest){.name = members[i].name,
                                         .test_func = refuses_member,
                                         .initial_state = (void *)&members[i]};
    for (size_t i = 0; i < COUNT(files); i++)
        tests[n++] = (struct CMUnitTest){
            .name = files[i].name, .test_func = refuses_file, .initial_state = (void *)&files[i]};
    return cmocka_run_group_tests_name("checkpoint/safetensors", tests, NULL, NULL);
}
