/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config_json.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weights.h"

enum {
    MAX_CONFIG = 1 << 20,
    MAX_INDEX = 32 << 20,
    MAX_TOKENIZER = 128 << 20,
    MAX_TOKENIZER_CONFIG = 16 << 20,
    MAX_TEMPLATE = 4 << 20,
    MAX_SHARDS = 512, /* each stays open */
    MAX_FILE_NAME = 255
};

/* The text of folder/name; bytes stays NULL where the file is absent. *file: its path, for
 * messages. */
static tpcl_status load_text(tpcl_checkpoint *cp, const char *name, uint64_t limit,
                             const char **file, tpcl_text *text)
{
    tpcl_status status = TPCL_OK;
    char *path = tpi_path_join(cp->path, name);
    *text = (tpcl_text){NULL, 0};
    *file = cp->path;
    TPI_REQUIRE(path, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
    *file = tpi_arena_copy(&cp->arena, path, strlen(path));
    TPI_REQUIRE(*file, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
    if (tpi_path_exists(path))
        TPI_TRY(tpi_file_load(&cp->arena, path, limit, &text->bytes, &text->length));
done:
    free(path);
    return status;
}

/* *root stays NULL where the file is absent. */
static tpcl_status load_json(tpcl_checkpoint *cp, const char *name, uint64_t limit,
                             const char **file, json_t **root)
{
    tpcl_status status = TPCL_OK;
    tpcl_text text;

    *root = NULL;
    TPI_TRY(load_text(cp, name, limit, file, &text));
    if (text.bytes) TPI_TRY(tpi_json_parse(text.bytes, text.length, *file, root));
done:
    return status;
}

/* The top level of config.json, for people. */
static tpcl_status add_metadata(tpcl_checkpoint *cp, const json_t *root)
{
    tpcl_status status = TPCL_OK;
    const char *name;
    json_t *value;
    char *dump = NULL;

    json_object_foreach((json_t *)root, name, value)
    {
        const char *key = tpi_arena_copy(&cp->arena, name, strlen(name));
        TPI_REQUIRE(key, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
        if (json_is_string(value)) {
            TPI_TRY(tpi_metadata_add(cp, key, json_string_value(value), json_string_length(value)));
            continue;
        }
        free(dump);
        dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        TPI_REQUIRE(dump, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
        TPI_TRY(tpi_metadata_add(cp, key, dump, strlen(dump)));
    }
done:
    free(dump);
    return status;
}

static tpcl_status read_config(tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    const char *file;
    json_t *config = NULL, *generation = NULL;

    TPI_TRY(load_json(cp, "config.json", MAX_CONFIG, &file, &config));
    TPI_REQUIRE(
        config, TPCL_ERR_OPEN,
        "%s: no such file (a checkpoint folder has config.json; for GGUF give the .gguf file)",
        file);
    TPI_TRY(tpi_config_from_json(config, file, &cp->config));
    TPI_TRY(add_metadata(cp, config));
    TPI_TRY(load_json(cp, "generation_config.json", MAX_CONFIG, &file, &generation));
    if (generation) TPI_TRY(tpi_config_add_generation(generation, file, &cp->config));
done:
    json_decref(config);
    json_decref(generation);
    return status;
}

static tpcl_status open_shard(tpcl_checkpoint *cp, const char *name)
{
    tpcl_status status = TPCL_OK;
    char *path = tpi_path_join(cp->path, name);
    TPI_REQUIRE(path, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
    TPI_TRY(tpi_file_open(path, &cp->files[cp->n_files]));
    cp->n_files++;
    TPI_TRY(tpi_safetensors_read(cp, &cp->files[cp->n_files - 1]));
done:
    free(path);
    return status;
}

/* A plain name in the folder itself: an index must not reach elsewhere. Links may be followed,
 * since download caches are made of them. */
static bool plain_name(const char *name)
{
    const size_t n = strlen(name);
    return n > 0 && n <= MAX_FILE_NAME && !strpbrk(name, "/\\") && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The different files that the map names, sorted. */
static tpcl_status list_shards(const json_t *map, const char *file, const char ***names, size_t *n)
{
    tpcl_status status = TPCL_OK;
    const char *tensor;
    json_t *value;
    size_t all = 0, kept = 0;
    const char **list = malloc((json_object_size(map) + 1) * sizeof *list);

    TPI_REQUIRE(list, TPCL_ERR_NOMEM, "%s: out of memory", file);
    json_object_foreach((json_t *)map, tensor, value)
    {
        TPI_REQUIRE(json_is_string(value) && plain_name(json_string_value(value)), TPCL_ERR_FORMAT,
                    "%s: 'weight_map' puts tensor '%s' in '%s', which is no plain file name", file,
                    tensor, json_is_string(value) ? json_string_value(value) : "(not a string)");
        list[all++] = json_string_value(value);
    }
    qsort(list, all, sizeof *list, by_text);
    for (size_t i = 0; i < all; i++)
        if (kept == 0 || strcmp(list[kept - 1], list[i]) != 0) list[kept++] = list[i];
    TPI_REQUIRE(kept > 0, TPCL_ERR_FORMAT, "%s: 'weight_map' is empty", file);
    TPI_REQUIRE(kept <= MAX_SHARDS, TPCL_ERR_UNSUPPORTED,
                "%s: %zu shard files, tpcl takes at most %d", file, kept, MAX_SHARDS);
    *names = list;
    *n = kept;
    list = NULL;
done:
    free(list);
    return status;
}

/* Each tensor is where the index says. */
static tpcl_status check_map(const tpcl_checkpoint *cp, const json_t *map, const char *file)
{
    tpcl_status status = TPCL_OK;
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *shard = json_string_value(value);
        const tpi_entry *e = tpi_entry_find(cp, tensor);
        const char *slash = e ? strrchr(e->info.file, '/') : NULL;
        TPI_REQUIRE(slash && strcmp(slash + 1, shard) == 0, TPCL_ERR_FORMAT,
                    "%s: 'weight_map' puts tensor '%s' in %s, which does not have it", file, tensor,
                    shard);
    }
done:
    return status;
}

static tpcl_status read_shards(tpcl_checkpoint *cp, const json_t *index, const char *file)
{
    tpcl_status status = TPCL_OK;
    const json_t *map = json_object_get(index, "weight_map");
    const char **names = NULL;
    size_t n = 0;

    TPI_REQUIRE(json_is_object(map), TPCL_ERR_FORMAT,
                "%s: 'weight_map' is missing or not an object", file);
    TPI_TRY(list_shards(map, file, &names, &n));
    cp->files = calloc(n, sizeof *cp->files);
    TPI_REQUIRE(cp->files, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
    for (size_t i = 0; i < n; i++) TPI_TRY(open_shard(cp, names[i]));
    TPI_TRY(tpi_entries_index(cp));
    TPI_TRY(check_map(cp, map, file));
done:
    free(names);
    return status;
}

static tpcl_status read_tensors(tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    const char *file;
    json_t *index = NULL;
    char *single = tpi_path_join(cp->path, "model.safetensors");

    TPI_REQUIRE(single, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
    if (tpi_path_exists(single)) {
        cp->files = calloc(1, sizeof *cp->files);
        TPI_REQUIRE(cp->files, TPCL_ERR_NOMEM, "%s: out of memory", cp->path);
        TPI_TRY(open_shard(cp, "model.safetensors"));
        TPI_TRY(tpi_entries_index(cp));
        goto done;
    }
    TPI_TRY(load_json(cp, "model.safetensors.index.json", MAX_INDEX, &file, &index));
    TPI_REQUIRE(index, TPCL_ERR_OPEN,
                "%s: neither model.safetensors nor model.safetensors.index.json is there",
                cp->path);
    TPI_TRY(read_shards(cp, index, file));
done:
    json_decref(index);
    free(single);
    return status;
}

/* A string, or a list of named ones of which "default" counts. */
static const json_t *pick_template(const json_t *value)
{
    size_t i;
    const json_t *item;
    if (json_is_string(value)) return value;
    json_array_foreach(value, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        const json_t *text = json_object_get(item, "template");
        if (name && strcmp(name, "default") == 0 && json_is_string(text)) return text;
    }
    return NULL;
}

static tpcl_status read_tokenizer(tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    tpcl_tokenizer_source *t = &cp->tokenizer;
    const char *file;
    json_t *config = NULL;

    t->bos_id = t->eos_id = -1;
    TPI_TRY(load_text(cp, "tokenizer.json", MAX_TOKENIZER, &file, &t->tokenizer_json));
    t->present = t->tokenizer_json.length > 0;
    TPI_TRY(load_text(cp, "chat_template.jinja", MAX_TEMPLATE, &file, &t->chat_template));
    TPI_TRY(load_text(cp, "tokenizer_config.json", MAX_TOKENIZER_CONFIG, &file,
                      &t->tokenizer_config_json));
    if (t->chat_template.length > 0 || t->tokenizer_config_json.length == 0) goto done;
    TPI_TRY(tpi_json_parse(t->tokenizer_config_json.bytes, t->tokenizer_config_json.length, file,
                           &config));
    const json_t *text = pick_template(json_object_get(config, "chat_template"));
    if (!text) goto done;
    t->chat_template.length = json_string_length(text);
    t->chat_template.bytes =
        tpi_arena_copy(&cp->arena, json_string_value(text), json_string_length(text));
    TPI_REQUIRE(t->chat_template.bytes, TPCL_ERR_NOMEM, "%s: out of memory", file);
done:
    json_decref(config);
    return status;
}

tpcl_status tpi_folder_open(tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    cp->format = "safetensors";
    TPI_TRY(read_config(cp));
    TPI_TRY(read_tensors(cp));
    TPI_TRY(read_tokenizer(cp));
done:
    return status;
}
