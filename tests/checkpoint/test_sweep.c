/* Small sound files cut and changed everywhere: never a crash, never a big allocation, no leak. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <fcntl.h>
#include <malloc.h>

/* ---- every allocation of the library and of jansson comes through here ---- */

static struct {
    size_t live, peak, blocks; /* bytes, bytes, number */
    int fail_in;               /* the n-th from now fails; 0: none */
    bool failed;
} memory;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *text);
void __wrap_free(void *p);

static bool fails(void)
{
    if (memory.fail_in == 0 || --memory.fail_in > 0) return false;
    return memory.failed = true;
}

static void *count(void *p, size_t n)
{
    if (!p) return NULL;
    memory.blocks++;
    memory.live += malloc_usable_size(p);
    /* A request counts in full, even where the pages are never touched. */
    if (memory.live > memory.peak) memory.peak = memory.live;
    if (n > memory.peak) memory.peak = n;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : count(__real_malloc(n), n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : count(__real_calloc(n, size), n * size);
}

void *__wrap_realloc(void *p, size_t n)
{
    if (fails()) return NULL;
    const size_t before = p ? malloc_usable_size(p) : 0;
    void *moved = __real_realloc(p, n);
    if (!moved) return NULL;
    memory.live -= before;
    memory.blocks -= p != NULL;
    return count(moved, n);
}

void __wrap_free(void *p)
{
    if (p) {
        memory.blocks--;
        memory.live -= malloc_usable_size(p);
    }
    __real_free(p);
}

char *__wrap_strdup(const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = __wrap_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

/* ---- one attempt ---- */

enum { MOST_MEMORY = 1 << 20 }; /* for files of a few kB: buffers of 64 and 256 KiB included */

static long opened, refused;

static void read_everything(const tpcl_checkpoint *cp)
{
    uint8_t chunk[256];
    for (int role = 0; role < TPCL_W_ROLES; role++) {
        for (int layer = 0; layer < tpcl_checkpoint_config(cp)->layers; layer++) {
            tpcl_host_tensor t;
            if (tpcl_checkpoint_weight(cp, (tpcl_weight_role)role, layer, &t) || !t.read) continue;
            (void)!t.read(t.context, 0, sizeof chunk, chunk);
        }
    }
    for (int i = 0; i < tpcl_checkpoint_n_metadata(cp); i++) {
        const char *key, *value;
        tpcl_checkpoint_metadata(cp, i, &key, &value);
        assert_non_null(value);
    }
    (void)tpcl_checkpoint_hash(cp);
}

/* Either way is right; what counts is memory and that nothing is left behind. */
static tpcl_status attempt(const char *path, const char *what, size_t at, uint64_t value)
{
    tpcl_checkpoint *cp = NULL;
    const size_t blocks = memory.blocks, live = memory.live;
    memory.peak = memory.live;
    memory.failed = false;
    const tpcl_status status = tpcl_checkpoint_open(path, NULL, &cp);
    memory.fail_in = 0;
    if (status == TPCL_OK) read_everything(cp);
    tpcl_checkpoint_close(&cp);
    if (memory.peak - live > MOST_MEMORY)
        fail_msg("%s %zu, %llu: %zu bytes of memory", what, at, (unsigned long long)value,
                 memory.peak - live);
    if (memory.blocks != blocks)
        fail_msg("%s %zu, %llu: %zu blocks leak", what, at, (unsigned long long)value,
                 memory.blocks - blocks);
    status == TPCL_OK ? opened++ : refused++;
    return status;
}

/* ---- sweeps over one file of a checkpoint ---- */

typedef struct target {
    const char *open, *file; /* what is opened, and the file of it that is changed */
    bytes sound;
    size_t header; /* bytes that are swept */
} target;

static void overwrite(const target *t, size_t at, const void *data, size_t n)
{
    const int fd = open(t->file, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, n, (off_t)at), n);
    close(fd);
}

static void write_sound(const target *t, size_t n)
{
    FILE *out = fopen(t->file, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(t->sound.data, 1, n, out), n);
    fclose(out);
}

static void flip_every_bit(const target *t)
{
    write_sound(t, t->sound.n);
    for (size_t at = 0; at < t->header; at++) {
        for (int bit = 0; bit < 8; bit++) {
            const uint8_t byte = (uint8_t)(t->sound.data[at] ^ (1 << bit));
            overwrite(t, at, &byte, 1);
            attempt(t->open, "bit flip at", at, (uint64_t)bit);
        }
        overwrite(t, at, &t->sound.data[at], 1);
    }
    assert_int_equal(attempt(t->open, "restored", 0, 0), TPCL_OK);
}

/* Lengths, counts, offsets and dimensions are somewhere: each place gets the nasty numbers. */
static void put_every_number(const target *t)
{
    static const uint64_t numbers[] = {
        0,          1,         0x7fffffff,         0x80000000u,
        UINT64_MAX, INT64_MAX, UINT64_MAX / 4 + 1, UINT64_C(1) << 40};
    write_sound(t, t->sound.n);
    for (size_t at = 0; at + 8 <= t->header; at++) {
        for (size_t k = 0; k < COUNT(numbers); k++) {
            uint8_t word[8];
            for (int i = 0; i < 8; i++) word[i] = (uint8_t)(numbers[k] >> (8 * i));
            overwrite(t, at, word, k % 2 ? 8 : 4);
            attempt(t->open, "number at", at, numbers[k]);
            overwrite(t, at, t->sound.data + at, 8);
        }
    }
}

/* `strict`: no shorter file is a sound one. */
static void cut_everywhere(const target *t, bool strict)
{
    for (size_t n = 0; n < t->sound.n;
         n += n < t->header ? 1 : 1 + (t->sound.n - t->header) / 200) {
        write_sound(t, n);
        const tpcl_status status = attempt(t->open, "cut to", n, 0);
        if (strict && status == TPCL_OK) fail_msg("cut to %zu of %zu bytes: opened", n, t->sound.n);
        if (strict && status != TPCL_ERR_FORMAT)
            fail_msg("cut to %zu: %s", n, tpcl_status_text(status));
    }
    write_sound(t, t->sound.n);
    assert_int_equal(attempt(t->open, "whole", 0, 0), TPCL_OK);
}

/* The n-th allocation fails, for all n. Within jansson that may end in any error, or in a text that
 * lost a byte: there only memory is judged. */
static void fail_every_allocation(const target *t, bool json)
{
    write_sound(t, t->sound.n);
    int n = 1;
    for (;; n++) {
        memory.fail_in = n;
        const tpcl_status status = attempt(t->open, "allocation", (size_t)n, 0);
        if (!memory.failed) break; /* there is no n-th */
        if (!json && status != TPCL_ERR_NOMEM)
            fail_msg("allocation %d: %s: %s", n, tpcl_status_text(status), tpcl_last_error());
    }
    assert_true(n > 5);
    assert_int_equal(attempt(t->open, "whole", 0, 0), TPCL_OK);
}

static target load(const char *open_path, const char *file)
{
    target t = {.open = open_path, .file = file};
    uint8_t buffer[4096];
    size_t n;
    FILE *in = fopen(file, "rb");
    assert_non_null(in);
    while ((n = fread(buffer, 1, sizeof buffer, in)) > 0) put(&t.sound, buffer, n);
    fclose(in);
    t.header = t.sound.n;
    return t;
}

static void sweeps_gguf(void **state)
{
    (void)state;
    folder f = folder_make();
    gguf *g = gguf_tiny("llama");
    kv_u32(g, "general.alignment", 32);
    kv_text(g, "tokenizer.chat_template", "x");
    tensor_add(g, "rope_freqs.weight", GT_F32, 8, 0);
    bytes b = gguf_build(g);
    const float one = 1.0f;
    for (size_t i = 0; i < 8; i++) memcpy(b.data + b.n - 32 + 4 * i, &one, 4);
    write_file(&f, "m.gguf", b.data, b.n, 0);
    target t = load(f.name, f.name);
    t.header = g->header;
    opened = refused = 0;
    cut_everywhere(&t, true);
    flip_every_bit(&t);
    put_every_number(&t);
    fail_every_allocation(&t, false);
    print_message("gguf: %ld opened, %ld refused\n", opened, refused);
    assert_true(opened > 100 && refused > 10000);
    bytes_free(&t.sound);
    bytes_free(&b);
    gguf_free(g);
    folder_remove(&f);
}

static void sweeps_folder(void **state)
{
    (void)state;
    folder f = folder_make();
    char path[160];
    size_t end;
    json_t *header = st_tiny(&end), *config = config_tiny(), *map = json_object(), *value;
    const char *name;
    static const char words[] = "{\"chat_template\":\"x\",\"eos_token\":\"</s>\"}";
    json_object_foreach(header, name, value)
    {
        json_object_set_new(map, name, json_string("one.safetensors"));
    }
    json_t *index = json_pack("{s:o}", "weight_map", map);
    write_json(&f, "config.json", config);
    write_json(&f, "generation_config.json", config);
    write_json(&f, "model.safetensors.index.json", index);
    write_file(&f, "tokenizer_config.json", words, strlen(words), 0);
    st_write_json(&f, "one.safetensors", header, end);
    opened = refused = 0;
    static const char *const files[] = {"one.safetensors", "config.json", "generation_config.json",
                                        "model.safetensors.index.json", "tokenizer_config.json"};
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "%s", path_in(&f, files[i]));
        target t = load(f.path, path);
        if (i == 0) t.header = t.sound.n - end;
        /* A tokenizer_config.json of no bytes passes for one that is not there. */
        cut_everywhere(&t, strcmp(files[i], "tokenizer_config.json") != 0);
        flip_every_bit(&t);
        if (i == 0) put_every_number(&t);
        if (i == 0) fail_every_allocation(&t, true);
        bytes_free(&t.sound);
    }
    print_message("folder: %ld opened, %ld refused\n", opened, refused);
    assert_true(opened > 100 && refused > 10000);
    json_decref(header);
    json_decref(config);
    json_decref(index);
    folder_remove(&f);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sweeps_gguf),
        cmocka_unit_test(sweeps_folder),
    };
    json_set_alloc_funcs(__wrap_malloc, __wrap_free);
    return cmocka_run_group_tests_name("checkpoint/sweep", tests, NULL, NULL);
}
