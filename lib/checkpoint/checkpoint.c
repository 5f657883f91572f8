/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "checkpoint/weights.h"

tpcl_status tpcl_checkpoint_open(const char *path, const tpcl_log *log, tpcl_checkpoint **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_checkpoint *cp = NULL;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "checkpoint open: out is NULL");
    *out = NULL;
    TPI_REQUIRE(path && *path, TPCL_ERR_ARG, "checkpoint open: no path given");
    cp = calloc(1, sizeof *cp);
    TPI_REQUIRE(cp, TPCL_ERR_NOMEM, "%s: out of memory", path);
    cp->log = log;
    cp->path = strdup(path);
    TPI_REQUIRE(cp->path, TPCL_ERR_NOMEM, "%s: out of memory", path);
    if (tpi_path_is_folder(path))
        TPI_TRY(tpi_folder_open(cp));
    else
        TPI_TRY(tpi_gguf_open(cp));
    TPI_TRY(tpi_weights_resolve(cp));
    cp->log = NULL; /* the caller's log need not outlive this call */
    *out = cp;
    cp = NULL;
done:
    tpcl_checkpoint_close(&cp);
    return status;
}

void tpcl_checkpoint_close(tpcl_checkpoint **checkpoint)
{
    if (!checkpoint || !*checkpoint) return;
    tpcl_checkpoint *cp = *checkpoint;
    for (int i = 0; i < cp->n_files; i++) tpi_file_close(&cp->files[i]);
    free(cp->files);
    free(cp->entries);
    free(cp->metadata);
    free(cp->path);
    tpi_arena_free(&cp->arena);
    free(cp);
    *checkpoint = NULL;
}

/* Room for one more element of a list that doubles; NULL when memory is out. */
static void *grow(void *list, int n, int *room, size_t element)
{
    if (n < *room) return list;
    const int wanted = *room ? 2 * *room : 64;
    void *bigger = realloc(list, (size_t)wanted * element);
    if (bigger) *room = wanted;
    return bigger;
}

tpcl_status tpi_entry_add(tpcl_checkpoint *cp, tpi_entry **out)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(cp->n_entries < TPI_MAX_TENSORS, TPCL_ERR_UNSUPPORTED, "%s: more than %d tensors",
                cp->path, TPI_MAX_TENSORS);
    tpi_entry *list = grow(cp->entries, cp->n_entries, &cp->entry_room, sizeof *list);
    TPI_REQUIRE(list, TPCL_ERR_NOMEM, "%s: out of memory for %d tensors", cp->path, cp->n_entries);
    cp->entries = list;
    *out = &list[cp->n_entries++];
    memset(*out, 0, sizeof **out);
done:
    return status;
}

static int by_name(const void *pa, const void *pb)
{
    const tpi_entry *const *a = pa, *const *b = pb;
    return strcmp((*a)->info.name, (*b)->info.name);
}

tpcl_status tpi_entries_index(tpcl_checkpoint *cp)
{
    tpcl_status status = TPCL_OK;
    const size_t n = (size_t)cp->n_entries;
    cp->by_name = tpi_arena_alloc(&cp->arena, n * sizeof(tpi_entry *));
    TPI_REQUIRE(cp->by_name, TPCL_ERR_NOMEM, "%s: out of memory for %zu tensors", cp->path, n);
    for (size_t i = 0; i < n; i++) cp->by_name[i] = &cp->entries[i];
    qsort(cp->by_name, n, sizeof cp->by_name[0], by_name);
    for (size_t i = 1; i < n; i++) {
        const tpcl_tensor_info *a = &cp->by_name[i - 1]->info, *b = &cp->by_name[i]->info;
        TPI_REQUIRE(strcmp(a->name, b->name) != 0, TPCL_ERR_FORMAT,
                    "tensor '%s' is there twice: in %s and in %s", a->name, a->file, b->file);
    }
done:
    return status;
}

const tpi_entry *tpi_entry_find(const tpcl_checkpoint *cp, const char *name)
{
    const tpi_entry wanted = {.info = {.name = name}}, *p = &wanted;
    tpi_entry **found =
        bsearch(&p, cp->by_name, (size_t)cp->n_entries, sizeof cp->by_name[0], by_name);
    return found ? *found : NULL;
}

/* One line of plain text out of anything. Returns the length; `line` holds TPI_MAX_VALUE_TEXT. */
static size_t plain_line(const char *value, size_t length, char *line)
{
    const size_t room = TPI_MAX_VALUE_TEXT - 40; /* for the last escape and the note */
    size_t n = 0, i = 0;
    for (; i < length && n < room; i++) {
        const unsigned char c = (unsigned char)value[i];
        if (c == '\n')
            n += (size_t)sprintf(line + n, "\\n");
        else if (c == '\t')
            n += (size_t)sprintf(line + n, "\\t");
        else if (c < 0x20 || c == 0x7f)
            n += (size_t)sprintf(line + n, "\\x%02x", c);
        else
            line[n++] = (char)c;
    }
    if (i == length) return n;
    while (n > 0 && ((unsigned char)value[i] & 0xc0) == 0x80) { /* not inside a UTF-8 character */
        n--;
        i--;
    }
    return n + (size_t)sprintf(line + n, "... (%zu bytes)", length);
}

tpcl_status tpi_metadata_add(tpcl_checkpoint *cp, const char *key, const char *value, size_t length)
{
    tpcl_status status = TPCL_OK;
    char line[TPI_MAX_VALUE_TEXT];
    tpi_metadata *list = grow(cp->metadata, cp->n_metadata, &cp->metadata_room, sizeof *list);
    TPI_REQUIRE(list, TPCL_ERR_NOMEM, "%s: out of memory for metadata", cp->path);
    cp->metadata = list;
    const size_t n = plain_line(value, length, line);
    const tpi_metadata m = {key, tpi_arena_copy(&cp->arena, line, n)};
    TPI_REQUIRE(m.value, TPCL_ERR_NOMEM, "%s: out of memory for metadata", cp->path);
    list[cp->n_metadata++] = m;
done:
    return status;
}

const tpcl_model_config *tpcl_checkpoint_config(const tpcl_checkpoint *cp)
{
    return cp ? &cp->config : NULL;
}

const char *tpcl_checkpoint_path(const tpcl_checkpoint *cp)
{
    return cp ? cp->path : NULL;
}

const char *tpcl_checkpoint_format(const tpcl_checkpoint *cp)
{
    return cp ? cp->format : NULL;
}

int tpcl_checkpoint_n_tensors(const tpcl_checkpoint *cp)
{
    return cp ? cp->n_entries : 0;
}

const tpcl_tensor_info *tpcl_checkpoint_tensor(const tpcl_checkpoint *cp, int i)
{
    return cp && i >= 0 && i < cp->n_entries ? &cp->entries[i].info : NULL;
}

int tpcl_checkpoint_n_metadata(const tpcl_checkpoint *cp)
{
    return cp ? cp->n_metadata : 0;
}

void tpcl_checkpoint_metadata(const tpcl_checkpoint *cp, int i, const char **key,
                              const char **value)
{
    const bool inside = cp && i >= 0 && i < cp->n_metadata;
    *key = inside ? cp->metadata[i].key : "";
    *value = inside ? cp->metadata[i].value : "";
}

const tpcl_tokenizer_source *tpcl_checkpoint_tokenizer(const tpcl_checkpoint *cp)
{
    return cp ? &cp->tokenizer : NULL;
}

/* A running hash: each field is hashed with what came before as the seed. */
static void mix(uint64_t *hash, const void *bytes, size_t n)
{
    *hash = XXH3_64bits_withSeed(bytes, n, *hash);
}

static void mix_config(uint64_t *hash, const tpcl_model_config *c)
{
    /* Field by field: the padding of a struct has no defined content. */
    const int ints[] = {(int)c->arch,
                        c->vocab,
                        c->hidden,
                        c->layers,
                        c->heads,
                        c->kv_heads,
                        c->head_dim,
                        c->inter,
                        c->max_context,
                        c->tied,
                        c->qkv_bias,
                        c->o_bias,
                        c->mlp_bias,
                        c->qk_norm,
                        (int)c->rope_form,
                        c->rope_scaling.original_context,
                        c->rope_scaling.linear,
                        c->rope_scaling.n_factors,
                        c->bos_id,
                        c->n_stop_ids};
    const double numbers[] = {(double)c->norm_eps, c->rope_theta, c->rope_scaling.factor,
                              c->rope_scaling.low_freq_factor, c->rope_scaling.high_freq_factor};
    mix(hash, ints, sizeof ints);
    mix(hash, numbers, sizeof numbers);
    mix(hash, c->rope_scaling.factors, sizeof c->rope_scaling.factors);
    mix(hash, c->stop_ids, sizeof c->stop_ids);
}

uint64_t tpcl_checkpoint_hash(const tpcl_checkpoint *cp)
{
    uint64_t hash = 0;
    if (!cp) return 0;
    for (int i = 0; i < cp->n_entries; i++) { /* by name: the order of the files does not count */
        const tpcl_tensor_info *t = &cp->by_name[i]->info;
        mix(&hash, t->name, strlen(t->name) + 1);
        mix(&hash, t->type, strlen(t->type) + 1);
        mix(&hash, t->shape, (size_t)t->ndim * sizeof t->shape[0]);
    }
    mix_config(&hash, &cp->config);
    return hash;
}
