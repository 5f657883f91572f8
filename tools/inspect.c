/* tpcl inspect: what a model file holds, and what each rank would hold of it. No MPI, no device. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <tpcl/model.h>

#include "commands.h"
#include "report.h"
#include "text.h"

enum { VALUE_MAX = 160 }; /* bytes of a metadata value shown to people */

static const char *arch_name(tpcl_arch arch)
{
    static const char *const names[] = {"llama", "qwen2", "qwen3"};
    return names[arch];
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void put_config(const tpcl_checkpoint *checkpoint)
{
    const tpcl_model_config *c = tpcl_checkpoint_config(checkpoint);
    char path[1024];
    text_escape(tpcl_checkpoint_path(checkpoint), strlen(tpcl_checkpoint_path(checkpoint)), path,
                sizeof path);
    printf("%s: %s, %s, %d layers, hidden %d, inter %d, %d heads, %d kv heads, head_dim %d, "
           "vocab %d, context %d%s\n",
           path, tpcl_checkpoint_format(checkpoint), arch_name(c->arch), c->layers, c->hidden,
           c->inter, c->heads, c->kv_heads, c->head_dim, c->vocab, c->max_context,
           c->tied ? ", head tied to the embedding" : "");
}

static void put_metadata(const tpcl_checkpoint *checkpoint)
{
    const int n = tpcl_checkpoint_n_metadata(checkpoint);
    printf("\nMetadata: %d\n", n);
    for (int i = 0; i < n; i++) {
        const char *key = "", *value = "";
        char clean_key[256], clean[VALUE_MAX + 8];
        tpcl_checkpoint_metadata(checkpoint, i, &key, &value);
        text_escape(key, strlen(key), clean_key, sizeof clean_key);
        text_escape(value, strlen(value), clean, VALUE_MAX);
        const bool cut = strlen(value) >= VALUE_MAX;
        printf("  %s = %s%s", clean_key, clean, cut ? "..." : "");
        printf(cut ? " (%zu bytes)\n" : "\n", strlen(value));
    }
}

static void put_tensors(const tpcl_checkpoint *checkpoint)
{
    const int n = tpcl_checkpoint_n_tensors(checkpoint);
    printf("\nTensors: %d\n  %-40s %-6s %-20s %14s %12s  %s\n", n, "name", "type", "shape",
           "offset", "bytes", "file");
    for (int i = 0; i < n; i++) {
        const tpcl_tensor_info *t = tpcl_checkpoint_tensor(checkpoint, i);
        char name[256], file[256], type[32], shape[128] = "[";
        text_escape(t->name, strlen(t->name), name, sizeof name);
        text_escape(t->type, strlen(t->type), type, sizeof type);
        const char *base = base_name(t->file);
        text_escape(base, strlen(base), file, sizeof file);
        for (int d = 0; d < t->ndim; d++)
            snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%" PRId64,
                     d ? ", " : "", t->shape[d]);
        printf("  %-40s %-6s %s]%*s %14" PRIu64 " %12" PRIu64 "  %s\n", name, type, shape,
               strlen(shape) < 19 ? (int)(19 - strlen(shape)) : 0, "", t->offset, t->bytes, file);
    }
}

static void put_range(tpcl_range r)
{
    char text[48];
    snprintf(text, sizeof text, "%" PRId64 "..%" PRId64, r.begin, r.end);
    printf(" %15s", text);
}

static void put_plan(const tpcl_model_share *shares, int size)
{
    printf("\nPlan for %d rank%s (rows and heads of the first layer)\n", size,
           size == 1 ? "" : "s");
    printf("  %4s %15s %15s %15s %15s %11s %11s %11s\n", "rank", "vocab", "heads", "kv heads",
           "inter", "weights", "kv cache", "scratch");
    for (int r = 0; r < size; r++) {
        const tpcl_model_share *h = &shares[r];
        char a[32], b[32], c[32];
        printf("  %4d", r);
        put_range(h->vocab);
        put_range(h->heads.q);
        put_range(h->heads.kv);
        put_range(h->inter);
        printf(" %11s %11s %11s\n", text_bytes(h->weight_bytes, a, sizeof a),
               text_bytes(h->kv_bytes, b, sizeof b), text_bytes(h->scratch_bytes, c, sizeof c));
    }
}

static json_t *json_range(tpcl_range r)
{
    return json_pack("[I, I]", (json_int_t)r.begin, (json_int_t)r.end);
}

static json_t *json_text(const char *text)
{
    return text_json(text, strlen(text));
}

static json_t *json_config(const tpcl_model_config *c)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "architecture",
                     arch_name(c->arch), "vocab", c->vocab, "hidden", c->hidden, "layers",
                     c->layers, "heads", c->heads, "kv_heads", c->kv_heads, "head_dim", c->head_dim,
                     "inter", c->inter, "max_context", c->max_context, "tied", (int)c->tied);
}

static json_t *json_tensors(const tpcl_checkpoint *checkpoint)
{
    json_t *tensors = json_array();
    for (int i = 0; i < tpcl_checkpoint_n_tensors(checkpoint); i++) {
        const tpcl_tensor_info *t = tpcl_checkpoint_tensor(checkpoint, i);
        json_t *shape = json_array();
        for (int d = 0; d < t->ndim; d++)
            json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
        json_array_append_new(tensors,
                              json_pack("{s:o*, s:o*, s:o, s:o*, s:I, s:I}", "name",
                                        json_text(t->name), "type", json_text(t->type), "shape",
                                        shape, "file", json_text(t->file), "offset",
                                        (json_int_t)t->offset, "bytes", (json_int_t)t->bytes));
    }
    return tensors;
}

static json_t *json_plan(const tpcl_model_share *shares, int size)
{
    json_t *ranks = json_array();
    for (int r = 0; r < size; r++) {
        const tpcl_model_share *h = &shares[r];
        json_array_append_new(
            ranks, json_pack("{s:i, s:o, s:o, s:o, s:o, s:I, s:I, s:I}", "rank", r, "vocab",
                             json_range(h->vocab), "heads", json_range(h->heads.q), "kv_heads",
                             json_range(h->heads.kv), "inter", json_range(h->inter), "weight_bytes",
                             (json_int_t)h->weight_bytes, "kv_bytes", (json_int_t)h->kv_bytes,
                             "scratch_bytes", (json_int_t)h->scratch_bytes));
    }
    return ranks;
}

static void put_json(const tpcl_checkpoint *checkpoint, const tpcl_model_share *shares, int size)
{
    json_t *metadata = json_object();
    for (int i = 0; i < tpcl_checkpoint_n_metadata(checkpoint); i++) {
        const char *key = "", *value = "";
        char clean_key[1024];
        tpcl_checkpoint_metadata(checkpoint, i, &key, &value);
        text_escape(key, strlen(key), clean_key, sizeof clean_key);
        json_object_set_new(metadata, clean_key, json_text(value));
    }
    json_t *object = json_pack(
        "{s:o*, s:s, s:o, s:o, s:o, s:o}", "path", json_text(tpcl_checkpoint_path(checkpoint)),
        "format", tpcl_checkpoint_format(checkpoint), "config",
        json_config(tpcl_checkpoint_config(checkpoint)), "metadata", metadata, "tensors",
        json_tensors(checkpoint), "ranks", json_plan(shares, size));
    json_dumpf(object, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(object);
}

static void log_warning(void *context, tpcl_log_level level, const char *line)
{
    (void)context;
    if (level == TPCL_LOG_WARN) report_warning("%s", line);
}

static int plan(const tpcl_checkpoint *checkpoint, const struct settings *s, int size,
                tpcl_model_share *shares)
{
    const tpcl_model_options options = {
        .context = (int)s->ctx, .chunk = (int)s->chunk, .kv_f32 = s->kv == KV_F32};
    for (int r = 0; r < size; r++) {
        const int code =
            report_status(tpcl_model_plan(checkpoint, size, r, NULL, &options, &shares[r]));
        if (code) return code;
    }
    return 0;
}

int inspect_command(const struct settings *s)
{
    const tpcl_log log = {.write = log_warning};
    const int size = s->tp > 0 ? (int)s->tp : 1;
    tpcl_model_share *shares = calloc((size_t)size, sizeof *shares);
    tpcl_checkpoint *checkpoint = NULL;
    if (!shares) return report_fail(EX_OSERR, "out of memory for %d ranks", size);
    int code = report_status(tpcl_checkpoint_open(s->model, &log, &checkpoint));
    if (!code) code = plan(checkpoint, s, size, shares);
    if (!code && s->json) put_json(checkpoint, shares, size);
    if (!code && !s->json) {
        put_config(checkpoint);
        put_metadata(checkpoint);
        put_tensors(checkpoint);
        put_plan(shares, size);
    }
    tpcl_checkpoint_close(&checkpoint);
    free(shares);
    return code;
}
