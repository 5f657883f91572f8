/* Folders of several files: classes S12 to S14, CASES C24, and the hash. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

/* The tiny model in two files: the head in the second. */
static json_t *model_split(model *m, json_t **second)
{
    json_t *map = json_object(), *value;
    const char *name;
    size_t end = 0;
    json_object_foreach(m->header, name, value)
    {
        json_object_set_new(map, name, json_string("one.safetensors"));
    }
    json_object_set_new(map, "lm_head.weight", json_string("two.safetensors"));
    json_object_del(m->header, "lm_head.weight");
    m->end -= (size_t)8 * 32 * 4;
    *second = json_object();
    st_add(*second, "lm_head.weight", 8, 32, &end);
    return json_pack("{s:{},s:o}", "metadata", "weight_map", map);
}

static void split_write(model *m, const json_t *index, const json_t *second, size_t end)
{
    write_json(&m->f, "config.json", m->config);
    st_write_json(&m->f, "one.safetensors", m->header, m->end);
    st_write_json(&m->f, "two.safetensors", second, end);
    write_json(&m->f, "model.safetensors.index.json", index);
}

static void reads_two_shards(void **state)
{
    (void)state;
    model m = model_make();
    json_t *second, *index = model_split(&m, &second);
    tpcl_host_tensor t;
    split_write(&m, index, second, 1024);
    /* C24: a stale file beside the shards, and it is not even sound */
    write_file(&m.f, "stale.safetensors", "junk", 4, 0);
    tpcl_checkpoint *cp = open_good(m.f.path, NULL);
    assert_int_equal(tpcl_checkpoint_n_tensors(cp), 12);
    bytes b = weight_bytes(cp, TPCL_W_LM_HEAD, 0, 1024, &t);
    for (size_t i = 0; i < b.n; i++) assert_int_equal(b.data[i], pattern(0, i));
    bytes_free(&b);
    const uint64_t split_hash = tpcl_checkpoint_hash(cp);
    tpcl_checkpoint_close(&cp);

    /* Download caches are folders of links. */
    char real[160];
    snprintf(real, sizeof real, "%s", path_in(&m.f, "blob"));
    assert_int_equal(rename(path_in(&m.f, "two.safetensors"), real), 0);
    assert_int_equal(symlink("blob", path_in(&m.f, "two.safetensors")), 0);
    cp = open_good(m.f.path, NULL);
    tpcl_checkpoint_close(&cp);

    /* The same model in one file: the same hash, whatever the files are. */
    model one = model_make();
    model_write(&one);
    cp = open_good(one.f.path, NULL);
    assert_true(tpcl_checkpoint_hash(cp) == split_hash);
    tpcl_checkpoint_close(&cp);
    model_free(&one);
    json_decref(index);
    json_decref(second);
    model_free(&m);
}

static void hash_sees_every_change(void **state)
{
    (void)state;
    static const char *const patches[] = {
        "{}",
        "{\"rms_norm_eps\":1e-6}",
        "{\"rope_theta\":5001.0}",
        "{\"max_position_embeddings\":129}",
        "{\"eos_token_id\":2}",
        "{\"bos_token_id\":1}",
        "{\"tie_word_embeddings\":true}",
        "{\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.0}}"};
    uint64_t hashes[COUNT(patches) + 1];
    for (size_t i = 0; i <= COUNT(patches); i++) {
        model m = model_make();
        size_t more = m.end;
        if (i < COUNT(patches)) {
            json_t *patch = parse(patches[i]);
            json_object_update(m.config, patch);
            json_decref(patch);
        } else {
            st_add(m.header, "spare", 1, 0, &more);
            m.end = more;
        }
        model_write(&m);
        tpcl_checkpoint *cp = open_good(m.f.path, NULL);
        hashes[i] = tpcl_checkpoint_hash(cp);
        assert_true(hashes[i] == tpcl_checkpoint_hash(cp));
        for (size_t k = 0; k < i; k++)
            if (hashes[k] == hashes[i]) fail_msg("changes %zu and %zu hash alike", k, i);
        tpcl_checkpoint_close(&cp);
        model_free(&m);
    }
}

typedef struct bad_index {
    const char *name;
    const char *key, *value; /* of weight_map; value NULL: removed */
    tpcl_status status;
    const char *says;
} bad_index;

static const bad_index indexes[] = {
    {"S12_parent", "lm_head.weight", "\"../two.safetensors\"", TPCL_ERR_FORMAT,
     "lm_head.weight & ../two"},
    {"S12_absolute", "lm_head.weight", "\"/etc/passwd\"", TPCL_ERR_FORMAT,
     "lm_head.weight & /etc/passwd"},
    {"S12_inside", "lm_head.weight", "\"x/two.safetensors\"", TPCL_ERR_FORMAT, "plain file name"},
    {"S12_backslash", "lm_head.weight", "\"..\\\\two.safetensors\"", TPCL_ERR_FORMAT,
     "plain file name"},
    {"S12_dot", "lm_head.weight", "\".\"", TPCL_ERR_FORMAT, "plain file name"},
    {"S12_dots", "lm_head.weight", "\"..\"", TPCL_ERR_FORMAT, "plain file name"},
    {"S12_empty", "lm_head.weight", "\"\"", TPCL_ERR_FORMAT, "plain file name"},
    {"S12_number", "lm_head.weight", "7", TPCL_ERR_FORMAT, "lm_head.weight & not a string"},
    {"S13_no_file", "lm_head.weight", "\"three.safetensors\"", TPCL_ERR_OPEN,
     "three.safetensors & No such file"},
    {"S13_folder", "lm_head.weight", "\"sub\"", TPCL_ERR_OPEN, "sub & not a regular file"},
    {"S14_not_in_shard", "lm_head.weight", "\"one.safetensors\"", TPCL_ERR_FORMAT,
     "lm_head.weight & one.safetensors"},
    {"S14_in_no_shard", "ghost.weight", "\"two.safetensors\"", TPCL_ERR_FORMAT,
     "ghost.weight & two.safetensors"},
    {"S14_shard_not_named", "lm_head.weight", NULL, TPCL_ERR_FORMAT, "lm_head.weight & missing"},
};

static void refuses_index(void **state)
{
    const bad_index *row = *state;
    model m = model_make();
    json_t *second, *index = model_split(&m, &second), *map = json_object_get(index, "weight_map");
    if (row->value)
        json_object_set_new(map, row->key, parse(row->value));
    else
        json_object_del(map, row->key);
    split_write(&m, index, second, 1024);
    assert_int_equal(mkdir(path_in(&m.f, "sub"), 0700), 0);
    open_bad(m.f.path, row->status, row->says);
    json_decref(index);
    json_decref(second);
    model_free(&m);
}

static void refuses_other_shard_faults(void **state)
{
    (void)state;
    model m = model_make();
    json_t *second, *index = model_split(&m, &second);
    size_t end = 1024;

    /* C24: the second shard is gone */
    split_write(&m, index, second, end);
    assert_int_equal(unlink(path_in(&m.f, "two.safetensors")), 0);
    open_bad(m.f.path, TPCL_ERR_OPEN, "two.safetensors & No such file");
    /* a link that leads nowhere */
    assert_int_equal(symlink("nowhere", path_in(&m.f, "two.safetensors")), 0);
    open_bad(m.f.path, TPCL_ERR_OPEN, "two.safetensors & No such file");
    assert_int_equal(unlink(path_in(&m.f, "two.safetensors")), 0);
    /* S14: a tensor in both */
    st_add(second, "model.norm.weight", 32, 0, &end);
    split_write(&m, index, second, end);
    open_bad(m.f.path, TPCL_ERR_FORMAT, "model.norm.weight & twice & one.safe & two.safe");
    /* S14: a shard of another model */
    end = 0;
    json_object_clear(second);
    st_add(second, "lm_head.weight", 8, 64, &end);
    split_write(&m, index, second, end);
    open_bad(m.f.path, TPCL_ERR_FORMAT, "two.safetensors & lm_head.weight & [8, 64] & [8, 32]");
    /* the index itself */
    write_file(&m.f, "model.safetensors.index.json", "{}", 2, 0);
    open_bad(m.f.path, TPCL_ERR_FORMAT, "index.json & weight_map");
    write_file(&m.f, "model.safetensors.index.json", "{\"weight_map\":{}}", 17, 0);
    open_bad(m.f.path, TPCL_ERR_FORMAT, "index.json & weight_map & empty");
    write_file(&m.f, "model.safetensors.index.json", "", 0, 0);
    open_bad(m.f.path, TPCL_ERR_FORMAT, "index.json & bad JSON");
    json_decref(index);
    json_decref(second);
    model_free(&m);
}

static void refuses_missing_files(void **state)
{
    (void)state;
    model m = model_make();
    open_bad(m.f.path, TPCL_ERR_OPEN, "config.json & no such file");
    write_json(&m.f, "config.json", m.config);
    open_bad(m.f.path, TPCL_ERR_OPEN, "model.safetensors & index.json");
    json_object_del(m.header, "lm_head.weight");
    m.end -= 1024;
    model_write(&m);
    open_bad(m.f.path, TPCL_ERR_FORMAT, "lm_head.weight & tie_word_embeddings");
    model_free(&m);
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(reads_two_shards),
        cmocka_unit_test(hash_sees_every_change),
        cmocka_unit_test(refuses_other_shard_faults),
        cmocka_unit_test(refuses_missing_files),
    };
    struct CMUnitTest tests[COUNT(fixed) + COUNT(indexes)];
    memcpy(tests, fixed, sizeof fixed);
    for (size_t i = 0; i < COUNT(indexes); i++)
        tests[COUNT(fixed) + i] = (struct CMUnitTest){.name = indexes[i].name,
                                                      .test_func = refuses_index,
                                                      .initial_state = (void *)&indexes[i]};
    return cmocka_run_group_tests_name("checkpoint/shards", tests, NULL, NULL);
}
