/* What the tests of sharded layers share: a group for each set of weights, tensors, counted reads.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAYERS_TEST_H
#define LAYERS_TEST_H

#include <mpi.h>
#include <tpcl/linear.h>
#include <tpcl/vocab.h>

#include "ops/ops.h"
#include "stored.h"

enum { MAX_RANKS = 16 };
static tpcl_group *group;
static int rank, size;

/* Shares of the ranks; the first `size` count. The first set is given as NULL: equal. */
static const double weight_sets[][4] = {{1, 1, 1, 1}, {3, 1, 1, 2}, {1, 0, 1, 2}};
static const char *const weight_names[] = {"equal", "3:1:1:2", "1:0:1:2"};
static int weight_set;

static inline const double *test_weights(void)
{
    return weight_set ? weight_sets[weight_set] : NULL;
}

static inline int open_group(void **state)
{
    (void)state;
    const tpcl_group_options options = {
        .device = getenv("TPCL_TEST_DEVICE"), .timeout_s = 30, .weights = test_weights()};
    const tpcl_status status = tpcl_group_create(MPI_COMM_WORLD, &options, &group);
    if (status != TPCL_OK) {
        print_error("group: %s\n", tpcl_last_error());
        return -1;
    }
    rank = tpcl_group_rank(group);
    size = tpcl_group_size(group);
    return 0;
}

static inline int close_group(void **state)
{
    (void)state;
    tpcl_group_destroy(&group);
    return 0;
}

/* Runs `tests` once for each set of weights; every rank returns what the worst has. */
#define run_layer_tests(name, tests)                                                     \
    do {                                                                                 \
        for (weight_set = 0; weight_set < (int)COUNT(weight_sets); weight_set++) {       \
            print_message("# %s, weights %s\n", name, weight_names[weight_set]);         \
            failed += cmocka_run_group_tests_name(name, tests, open_group, close_group); \
        }                                                                                \
        weight_set = 0;                                                                  \
    } while (0)

static inline int layers_main_begin(int *argc, char ***argv)
{
    int provided = 0;
    return MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
}

static inline int layers_main_end(int failed)
{
    int any = 0;
    MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any != 0;
}

/* A device tensor of n elements holding `values`, or NaN where values is NULL. */
static inline tpcl_tensor *tensor_of(const void *values, tpcl_dtype dtype, int64_t n)
{
    tpcl_tensor *t = NULL;
    assert_ok(tpcl_tensor_create(tpcl_group_device(group), dtype, 1, &n, &t));
    float *nan = malloc((size_t)n * sizeof *nan + 1);
    for (int64_t i = 0; i < n; i++) nan[i] = NAN;
    assert_ok(tpcl_tensor_write(t, values ? values : nan, (size_t)n));
    free(nan);
    return t;
}

static inline tpcl_host_tensor matrix(const char *name, const void *data, int64_t out, int64_t in)
{
    return (tpcl_host_tensor){
        .name = name, .dtype = TPCL_F32, .ndim = 2, .shape = {out, in}, .data = data};
}

static inline tpcl_host_tensor vector(const char *name, const void *data, int64_t n)
{
    return (tpcl_host_tensor){
        .name = name, .dtype = TPCL_F32, .ndim = 1, .shape = {n}, .data = data};
}

/* A stored matrix and its values. Block types need `in` in whole blocks. */
typedef struct table {
    uint8_t *stored;
    float *wide;
    tpcl_host_tensor host;
} table;

static inline table make_table(const char *name, tpcl_dtype dtype, int64_t out, int64_t in,
                               uint32_t seed)
{
    const size_t n = (size_t)out * (size_t)in;
    table t = {random_stored(dtype, n, seed), malloc(n * sizeof(float) + 1),
               matrix(name, NULL, out, in)};
    tpi_widen(dtype, t.stored, n, t.wide);
    t.host.dtype = dtype;
    t.host.data = t.stored;
    return t;
}

static inline void free_table(table *t)
{
    free(t->stored);
    free(t->wide);
}

/* A source that counts, and that fails at its read number `fail_at` (from 1; 0 = never). */
typedef struct source {
    const uint8_t *data;
    uint64_t bytes;
    uint64_t read, end; /* bytes read, and the furthest byte */
    int reads, fail_at;
    tpcl_status code;
} source;

static inline tpcl_status source_read(void *context, uint64_t offset, size_t bytes, void *to)
{
    source *s = context;
    if (++s->reads == s->fail_at) return s->code;
    if (offset + bytes > s->bytes) return TPCL_ERR_IO;
    memcpy(to, s->data + offset, bytes);
    s->read += bytes;
    if (offset + bytes > s->end) s->end = offset + bytes;
    return TPCL_OK;
}

static inline tpcl_host_tensor through(const tpcl_host_tensor *host, source *s)
{
    tpcl_host_tensor t = *host;
    const int64_t elements = host->shape[0] * (host->ndim == 2 ? host->shape[1] : 1);
    *s = (source){.data = host->data, .bytes = tpi_dtype_bytes(host->dtype, (size_t)elements)};
    t.data = NULL;
    t.read = source_read;
    t.context = s;
    return t;
}

#define assert_refused(expr, code, text)                                                           \
    do {                                                                                           \
        const tpcl_status r_ = (expr);                                                             \
        if (r_ != (code)) fail_msg("%s: %s (%s)", #expr, tpcl_status_text(r_), tpcl_last_error()); \
        if (!strstr(tpcl_last_error(), text))                                                      \
            fail_msg("%s: \"%s\" lacks \"%s\"", #expr, tpcl_last_error(), text);                   \
    } while (0)

static const tpcl_dtype all_dtypes[] = {TPCL_F32,  TPCL_F16,  TPCL_BF16,
                                        TPCL_Q8_0, TPCL_Q4_0, TPCL_Q4_1};

#endif
