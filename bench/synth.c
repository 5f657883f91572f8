/* SPDX-License-Identifier: Apache-2.0 */
#include "synth.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tpcl/reference.h>
#include <unistd.h>

#include "base/dtype.h"
#include "checkpoint/checkpoint.h"
#include "data.h"

/* The rows of a weight by its width, and the norms. */
enum width { HIDDEN, QUERIES, INTER, NORM, WIDTHS };
enum { ROWS = 127, NAME = 48, CONTEXT = 1 << 20 };
static const double theta = 10000.0;
static const float eps = 1e-5f;

/* What a model of this kind has: rows and width of each role. */
static const struct role {
    tpcl_weight_role role;
    const char *name; /* in GGUF; %d is the layer */
    enum width width;
} roles[] = {
    {TPCL_W_EMBED, "token_embd.weight", HIDDEN},
    {TPCL_W_OUT_NORM, "output_norm.weight", NORM},
    {TPCL_W_ATTN_NORM, "blk.%d.attn_norm.weight", NORM},
    {TPCL_W_Q, "blk.%d.attn_q.weight", HIDDEN},
    {TPCL_W_K, "blk.%d.attn_k.weight", HIDDEN},
    {TPCL_W_V, "blk.%d.attn_v.weight", HIDDEN},
    {TPCL_W_O, "blk.%d.attn_output.weight", QUERIES},
    {TPCL_W_FFN_NORM, "blk.%d.ffn_norm.weight", NORM},
    {TPCL_W_GATE, "blk.%d.ffn_gate.weight", HIDDEN},
    {TPCL_W_UP, "blk.%d.ffn_up.weight", HIDDEN},
    {TPCL_W_DOWN, "blk.%d.ffn_down.weight", INTER},
};
enum { KINDS = sizeof roles / sizeof roles[0], WHOLE_MODEL = 2 /* the first of them */ };

struct bench_synth {
    struct model_shape shape;
    struct bench_rows rows[NORM];
    float *norm; /* [hidden], of every norm */
    tpi_file files[WIDTHS];
    tpcl_checkpoint ck;
    char (*names)[NAME];
    uint64_t bytes;
};

/* Every weight begins at another row, so that no two are the same. */
static size_t first_row(tpcl_weight_role role, int layer)
{
    return (size_t)(13 * (int)role + 5 * layer) % ROWS;
}

static long rows_of(const struct model_shape *m, tpcl_weight_role role)
{
    switch (role) {
    case TPCL_W_EMBED:
        return m->vocab;
    case TPCL_W_Q:
        return m->heads * m->head_dim;
    case TPCL_W_K:
    case TPCL_W_V:
        return m->kv_heads * m->head_dim;
    case TPCL_W_GATE:
    case TPCL_W_UP:
        return m->inter;
    default:
        return m->hidden;
    }
}

static tpcl_status write_all(int fd, const void *from, size_t bytes)
{
    tpcl_status status = TPCL_OK;
    for (const char *at = from; bytes > 0;) {
        const ssize_t n = write(fd, at, bytes);
        TPI_REQUIRE(n > 0, TPCL_ERR_IO, "a synthetic model could not be written: %s",
                    strerror(errno));
        at += n;
        bytes -= (size_t)n;
    }
done:
    return status;
}

static tpcl_status make_file(struct bench_synth *s, enum width w, const void *period, size_t bytes,
                             size_t times)
{
    tpcl_status status = TPCL_OK;
    s->files[w].path = s->ck.path;
    s->files[w].size = (uint64_t)bytes * times;
    s->files[w].fd = memfd_create("tpcl-bench", MFD_CLOEXEC);
    TPI_REQUIRE(s->files[w].fd >= 0, TPCL_ERR_NOMEM, "memory for a synthetic model: %s",
                strerror(errno));
    for (size_t i = 0; i < times; i++) TPI_TRY(write_all(s->files[w].fd, period, bytes));
done:
    return status;
}

static tpcl_status make_rows(struct bench_synth *s, tpcl_dtype dtype)
{
    tpcl_status status = TPCL_OK;
    const struct model_shape *m = &s->shape;
    const long widths[NORM] = {m->hidden, m->heads * m->head_dim, m->inter};
    long most[NORM] = {m->vocab, m->hidden, m->hidden};
    if (m->inter > most[HIDDEN]) most[HIDDEN] = m->inter;
    if (widths[QUERIES] > most[HIDDEN]) most[HIDDEN] = widths[QUERIES];
    for (int w = 0; w < NORM; w++) {
        const float amplitude = 1.5f / sqrtf((float)widths[w]); /* keeps sums at about 1 */
        TPI_TRY(bench_rows_create_small(dtype, ROWS, widths[w], amplitude, &s->rows[w]));
        TPI_TRY(make_file(s, (enum width)w, s->rows[w].stored, ROWS * s->rows[w].row_bytes,
                          (size_t)most[w] / ROWS + 2));
    }
    s->norm = malloc((size_t)m->hidden * sizeof *s->norm);
    TPI_REQUIRE(s->norm, TPCL_ERR_NOMEM, "norm of %ld", m->hidden);
    bench_fill(s->norm, (size_t)m->hidden, 17);
    for (long i = 0; i < m->hidden; i++) s->norm[i] = 1.0f + 0.1f * s->norm[i];
    TPI_TRY(make_file(s, NORM, s->norm, (size_t)m->hidden * sizeof *s->norm, 1));
done:
    return status;
}

static void make_entry(struct bench_synth *s, const struct role *role, int layer, int i)
{
    tpi_entry *e = &s->ck.entries[i];
    const bool norm = role->width == NORM;
    const long rows = rows_of(&s->shape, role->role);
    char *name = s->names[i];
    const char *number = strstr(role->name, "%d");
    if (number)
        snprintf(name, NAME, "%.*s%d%s", (int)(number - role->name), role->name, layer, number + 2);
    else
        snprintf(name, NAME, "%s", role->name);
    e->file = &s->files[role->width];
    e->info = (tpcl_tensor_info){.name = name,
                                 .file = s->ck.path,
                                 .dtype = norm ? TPCL_F32 : s->rows[0].dtype,
                                 .ndim = norm ? 1 : 2,
                                 .shape = {norm ? s->shape.hidden : rows}};
    e->info.type = tpcl_dtype_name(e->info.dtype);
    e->info.bytes = (uint64_t)s->shape.hidden * sizeof(float);
    if (!norm) {
        const struct bench_rows *b = &s->rows[role->width];
        e->info.shape[1] = b->k;
        e->info.bytes = (uint64_t)rows * b->row_bytes;
        e->info.offset = first_row(role->role, layer) * b->row_bytes;
    }
    s->bytes += e->info.bytes;
    s->ck.by_name[i] = e;
    s->ck.weights[(size_t)layer * TPCL_W_ROLES + (size_t)role->role] = e;
}

static tpcl_status make_entries(struct bench_synth *s)
{
    tpcl_status status = TPCL_OK;
    tpcl_checkpoint *ck = &s->ck;
    const int layers = (int)s->shape.layers;
    const size_t n = (size_t)(WHOLE_MODEL + layers * (KINDS - WHOLE_MODEL));
    ck->entries = calloc(n, sizeof *ck->entries);
    ck->by_name = calloc(n, sizeof *ck->by_name);
    ck->weights = calloc((size_t)layers * TPCL_W_ROLES, sizeof *ck->weights);
    s->names = calloc(n, sizeof *s->names);
    TPI_REQUIRE(ck->entries && ck->by_name && ck->weights && s->names, TPCL_ERR_NOMEM,
                "%zu tensors", n);
    for (int k = 0; k < WHOLE_MODEL; k++) make_entry(s, &roles[k], 0, ck->n_entries++);
    for (int layer = 0; layer < layers; layer++)
        for (int k = WHOLE_MODEL; k < KINDS; k++) make_entry(s, &roles[k], layer, ck->n_entries++);
done:
    return status;
}

tpcl_status bench_synth_create(const struct model_shape *shape, tpcl_dtype dtype,
                               struct bench_synth **out)
{
    tpcl_status status = TPCL_OK;
    struct bench_synth *s = calloc(1, sizeof *s);
    TPI_REQUIRE(s, TPCL_ERR_NOMEM, "synthetic model");
    for (int w = 0; w < WIDTHS; w++) s->files[w].fd = -1;
    s->shape = *shape;
    s->ck.path = "synthetic model";
    s->ck.format = "memory";
    s->ck.config = (tpcl_model_config){.arch = TPCL_ARCH_LLAMA,
                                       .vocab = (int)shape->vocab,
                                       .hidden = (int)shape->hidden,
                                       .layers = (int)shape->layers,
                                       .heads = (int)shape->heads,
                                       .kv_heads = (int)shape->kv_heads,
                                       .head_dim = (int)shape->head_dim,
                                       .inter = (int)shape->inter,
                                       .max_context = CONTEXT,
                                       .norm_eps = eps,
                                       .tied = true,
                                       .rope_theta = theta,
                                       .bos_id = -1};
    TPI_TRY(make_rows(s, dtype));
    TPI_TRY(make_entries(s));
    *out = s;
    s = NULL;
done:
    bench_synth_destroy(&s);
    return status;
}

void bench_synth_destroy(struct bench_synth **synth)
{
    struct bench_synth *s = *synth;
    if (!s) return;
    *synth = NULL;
    for (int w = 0; w < NORM; w++) bench_rows_free(&s->rows[w]);
    for (int w = 0; w < WIDTHS; w++)
        if (s->files[w].fd >= 0) close(s->files[w].fd);
    free(s->ck.entries);
    free(s->ck.by_name);
    free(s->ck.weights);
    free(s->names);
    free(s->norm);
    free(s);
}

const tpcl_checkpoint *bench_synth_checkpoint(const struct bench_synth *s)
{
    return &s->ck;
}

uint64_t bench_synth_bytes(const struct bench_synth *s)
{
    return s->bytes;
}

/* ---- the file ---- */

static void put_text(FILE *f, const char *text)
{
    const uint64_t n = strlen(text);
    fwrite(&n, sizeof n, 1, f);
    fwrite(text, 1, n, f);
}

static void put_u32(FILE *f, uint32_t v)
{
    fwrite(&v, sizeof v, 1, f);
}

static void put_u64(FILE *f, uint64_t v)
{
    fwrite(&v, sizeof v, 1, f);
}

static void put_metadata(const struct bench_synth *s, FILE *f)
{
    enum { TEXT = 8, U32 = 4, F32 = 6 };
    const struct model_shape *m = &s->shape;
    const struct {
        const char *key;
        long value;
    } numbers[] = {
        {"llama.embedding_length", m->hidden},       {"llama.block_count", m->layers},
        {"llama.feed_forward_length", m->inter},     {"llama.context_length", CONTEXT},
        {"llama.attention.head_count", m->heads},    {"llama.attention.head_count_kv", m->kv_heads},
        {"llama.attention.key_length", m->head_dim}, {"llama.attention.value_length", m->head_dim}};
    const size_t n = sizeof numbers / sizeof numbers[0];
    put_u64(f, n + 2);
    put_text(f, "general.architecture");
    put_u32(f, TEXT);
    put_text(f, "llama");
    put_text(f, "llama.attention.layer_norm_rms_epsilon");
    put_u32(f, F32);
    fwrite(&eps, sizeof eps, 1, f);
    for (size_t i = 0; i < n; i++) {
        put_text(f, numbers[i].key);
        put_u32(f, U32);
        put_u32(f, (uint32_t)numbers[i].value);
    }
}

static uint32_t gguf_type(tpcl_dtype dtype)
{
    switch (dtype) {
    case TPCL_F16:
        return 1;
    case TPCL_Q4_0:
        return 2;
    case TPCL_Q4_1:
        return 3;
    case TPCL_Q8_0:
        return 8;
    case TPCL_BF16:
        return 30;
    default:
        return 0;
    }
}

enum { ALIGNMENT = 32 };

static void put_zeros(FILE *f, uint64_t at)
{
    for (; at % ALIGNMENT; at++) putc(0, f);
}

static void put_header(const struct bench_synth *s, FILE *f)
{
    uint64_t offset = 0;
    fwrite("GGUF", 1, 4, f);
    put_u32(f, 3);
    put_u64(f, (uint64_t)s->ck.n_entries);
    put_metadata(s, f);
    for (int i = 0; i < s->ck.n_entries; i++) {
        const tpcl_tensor_info *t = &s->ck.entries[i].info;
        put_text(f, t->name);
        put_u32(f, (uint32_t)t->ndim);
        for (int d = t->ndim - 1; d >= 0; d--) put_u64(f, (uint64_t)t->shape[d]);
        put_u32(f, gguf_type(t->dtype));
        put_u64(f, offset);
        offset += (t->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    put_zeros(f, (uint64_t)ftell(f));
}

tpcl_status bench_synth_write(const struct bench_synth *s, const char *path)
{
    enum { PIECE = 1 << 20 };
    tpcl_status status = TPCL_OK;
    char *piece = malloc(PIECE);
    FILE *f = fopen(path, "wbe");
    TPI_REQUIRE(f, TPCL_ERR_OPEN, "%s: %s", path, strerror(errno));
    TPI_REQUIRE(piece, TPCL_ERR_NOMEM, "a piece of a file");
    put_header(s, f);
    for (int i = 0; i < s->ck.n_entries; i++) {
        const tpi_entry *e = &s->ck.entries[i];
        for (uint64_t at = 0; at < e->info.bytes; at += PIECE) {
            const uint64_t left = e->info.bytes - at, n = left < PIECE ? left : PIECE;
            TPI_TRY(tpi_file_read(e->file, e->info.offset + at, n, piece));
            fwrite(piece, 1, n, f);
        }
        put_zeros(f, e->info.bytes);
    }
    /* on the disk, so that dropping it from the cache is possible */
    TPI_REQUIRE(fflush(f) == 0 && !ferror(f) && fsync(fileno(f)) == 0, TPCL_ERR_IO, "%s: %s", path,
                strerror(errno));
done:
    if (f) fclose(f);
    free(piece);
    return status;
}

/* ---- the reference ---- */

struct reference {
    const struct bench_synth *s;
    int n; /* tokens */
    bool interleaved;
    float *h;         /* [n, hidden] */
    float *x;         /* [n, hidden] */
    float *base;      /* [n, ROWS]: products with each row that there is */
    float *q;         /* [n, heads * head_dim] */
    float *k, *v;     /* [kv head][n][head_dim] */
    float *attention; /* [n, heads * head_dim] */
    float *gate_up;   /* [2 inter] */
    float *act;       /* [n, inter] */
    float *angles;    /* [n, head_dim / 2, 2] */
};

/* All products of x [n, width] with a width's rows; a weight's output i is number
 * (first_row + i) % ROWS of them. */
static void multiply(const struct reference *f, enum width w, const float *x)
{
    const struct bench_rows *b = &f->s->rows[w];
    tpcl_ref_linear(x, b->wide, NULL, f->base, f->n, ROWS, b->k);
}

static float product(const struct reference *f, int token, tpcl_weight_role role, int layer, long i)
{
    return f->base[(size_t)token * ROWS + (first_row(role, layer) + (size_t)i) % ROWS];
}

static void reference_heads(const struct reference *f, int layer)
{
    const struct model_shape *m = &f->s->shape;
    const long dim = m->head_dim, q_row = m->heads * dim, per_kv = m->heads / m->kv_heads;
    for (int t = 0; t < f->n; t++) {
        float *q = f->q + t * q_row;
        const float *angles = f->angles + t * dim;
        for (long i = 0; i < q_row; i++) q[i] = product(f, t, TPCL_W_Q, layer, i);
        for (long h = 0; h < m->heads; h++)
            tpcl_ref_rope(q + h * dim, NULL, angles, (int)dim, f->interleaved, 0.0f);
        for (long h = 0; h < m->kv_heads; h++) {
            float *k = f->k + (h * f->n + t) * dim, *v = f->v + (h * f->n + t) * dim;
            for (long i = 0; i < dim; i++) {
                k[i] = product(f, t, TPCL_W_K, layer, h * dim + i);
                v[i] = product(f, t, TPCL_W_V, layer, h * dim + i);
            }
            tpcl_ref_rope(k, NULL, angles, (int)dim, f->interleaved, 0.0f);
            for (long i = 0; i < dim; i++) { /* as the cache stores them */
                k[i] = tpi_half_to_float(tpi_float_to_half(k[i]));
                v[i] = tpi_half_to_float(tpi_float_to_half(v[i]));
            }
        }
    }
    for (int t = 0; t < f->n; t++)
        for (long h = 0; h < m->heads; h++) {
            const long kv = h / per_kv * f->n * dim;
            tpcl_ref_attention(f->q + t * q_row + h * dim, f->k + kv, f->v + kv,
                               f->attention + t * q_row + h * dim, t + 1, (int)dim, (int)dim, 0.0f);
        }
}

static void add_product(const struct reference *f, tpcl_weight_role role, int layer)
{
    const long hidden = f->s->shape.hidden;
    for (int t = 0; t < f->n; t++)
        for (long i = 0; i < hidden; i++) f->h[t * hidden + i] += product(f, t, role, layer, i);
}

static void reference_layer(const struct reference *f, int layer)
{
    const long hidden = f->s->shape.hidden, inter = f->s->shape.inter;
    tpcl_ref_rmsnorm(f->h, NULL, f->s->norm, f->x, f->n, (int)hidden, eps);
    multiply(f, HIDDEN, f->x);
    reference_heads(f, layer);
    multiply(f, QUERIES, f->attention);
    add_product(f, TPCL_W_O, layer);
    tpcl_ref_rmsnorm(f->h, NULL, f->s->norm, f->x, f->n, (int)hidden, eps);
    multiply(f, HIDDEN, f->x);
    for (int t = 0; t < f->n; t++) {
        for (long i = 0; i < inter; i++) {
            f->gate_up[i] = product(f, t, TPCL_W_GATE, layer, i);
            f->gate_up[inter + i] = product(f, t, TPCL_W_UP, layer, i);
        }
        tpcl_ref_swiglu(f->gate_up, f->act + t * inter, 1, (int)inter);
    }
    multiply(f, INTER, f->act);
    add_product(f, TPCL_W_DOWN, layer);
}

static void reference_begin(const struct reference *f, const int32_t *ids)
{
    const long hidden = f->s->shape.hidden, dim = f->s->shape.head_dim;
    for (int t = 0; t < f->n; t++) {
        const size_t row = (first_row(TPCL_W_EMBED, 0) + (size_t)ids[t]) % ROWS;
        memcpy(f->h + t * hidden, f->s->rows[HIDDEN].wide + row * (size_t)hidden,
               (size_t)hidden * sizeof *f->h);
        for (long i = 0; i < dim / 2; i++) {
            const double angle = t * pow(theta, -2.0 * (double)i / (double)dim);
            f->angles[t * dim + 2 * i] = (float)cos(angle);
            f->angles[t * dim + 2 * i + 1] = (float)sin(angle);
        }
    }
}

tpcl_status bench_synth_logits(const struct bench_synth *s, const int32_t *ids, int n,
                               bool interleaved, float **logits, int *period)
{
    tpcl_status status = TPCL_OK;
    const struct model_shape *m = &s->shape;
    const size_t rows = (size_t)n, hidden = (size_t)m->hidden, inter = (size_t)m->inter;
    const size_t q = (size_t)(m->heads * m->head_dim), kv = (size_t)(m->kv_heads * m->head_dim);
    const size_t sizes[] = {
        rows * hidden, rows * hidden, rows * ROWS, rows * q,     rows * kv,
        rows * kv,     rows * q,      2 * inter,   rows * inter, rows * (size_t)m->head_dim};
    size_t total = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) total += sizes[i];
    float *all = malloc(total * sizeof *all), *at = all;
    struct reference f = {.s = s, .n = n, .interleaved = interleaved};
    float **parts[] = {&f.h, &f.x,         &f.base,    &f.q,   &f.k,
                       &f.v, &f.attention, &f.gate_up, &f.act, &f.angles};
    *logits = malloc(ROWS * sizeof **logits);
    TPI_REQUIRE(all && *logits, TPCL_ERR_NOMEM, "reference of %d tokens", n);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; at += sizes[i++]) *parts[i] = at;
    reference_begin(&f, ids);
    for (int layer = 0; layer < m->layers; layer++) reference_layer(&f, layer);
    tpcl_ref_rmsnorm(f.h, NULL, s->norm, f.x, n, (int)hidden, eps);
    multiply(&f, HIDDEN, f.x);
    for (size_t w = 0; w < ROWS; w++) (*logits)[w] = product(&f, n - 1, TPCL_W_EMBED, 0, (long)w);
    *period = ROWS;
done:
    free(all);
    return status;
}
