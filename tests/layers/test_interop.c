/* Layers inside a program with an OpenCL context, queue, buffers and kernels of its own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "layers_test.h"

#include <string.h>
#include <tpcl/attention.h>
#include <tpcl/checkpoint.h>
#include <tpcl/kv_cache.h>
#include <tpcl/model.h>
#include <tpcl/opencl.h>
#include <tpcl/ops.h>
#include <tpcl/reference.h>
#include <tpcl/tokenizer.h>
#include <unistd.h>

#define cl_ok(expr) assert_int_equal((expr), CL_SUCCESS)

static cl_device_id id;
static cl_context context;
static cl_command_queue queue, theirs; /* the group's, and another of the program */
static size_t align;                   /* bytes */

static cl_command_queue new_queue(cl_context c)
{
    cl_int err = CL_SUCCESS;
    cl_command_queue q = clCreateCommandQueue(c, id, 0, &err);
    cl_ok(err);
    return q;
}

static cl_context new_context(void)
{
    cl_int err = CL_SUCCESS;
    cl_context c = clCreateContext(NULL, 1, &id, NULL, NULL, &err);
    cl_ok(err);
    return c;
}

static cl_mem new_buffer(size_t bytes)
{
    cl_int err = CL_SUCCESS;
    cl_mem mem = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &err);
    cl_ok(err);
    return mem;
}

static cl_uint context_refs(void)
{
    cl_uint n = 0;
    cl_ok(clGetContextInfo(context, CL_CONTEXT_REFERENCE_COUNT, sizeof n, &n, NULL));
    return n;
}

static cl_uint queue_refs(void)
{
    cl_uint n = 0;
    cl_ok(clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof n, &n, NULL));
    return n;
}

static cl_uint mem_refs(cl_mem mem)
{
    cl_uint n = 0;
    cl_ok(clGetMemObjectInfo(mem, CL_MEM_REFERENCE_COUNT, sizeof n, &n, NULL));
    return n;
}

/* Drivers let go of finished commands on threads of their own, a little later. */
#define assert_comes_to(count, want)                                                 \
    do {                                                                             \
        for (int turn_ = 0; turn_ < 400 && (count) != (want); turn_++) usleep(5000); \
        assert_int_equal((count), (want));                                           \
    } while (0)

static void open_program(void)
{
    const tpcl_device_options options = {.select = getenv("TPCL_TEST_DEVICE"), .cache_dir = ""};
    tpcl_device *dev = NULL;
    cl_uint bits = 0;
    assert_ok(tpcl_device_open(&options, &dev));
    id = tpcl_device_id(dev); /* no sub-device: it outlives dev */
    tpcl_device_close(&dev);
    clGetDeviceInfo(id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL);
    align = bits / 8;
    context = new_context();
    queue = new_queue(context);
    theirs = new_queue(context);
}

static void open_their_group(void)
{
    const tpcl_group_options options = {.timeout_s = 30};
    assert_ok(tpcl_group_create_from_cl(MPI_COMM_WORLD, context, id, queue, &options, &group));
    rank = tpcl_group_rank(group);
    size = tpcl_group_size(group);
}

static int open_both(void **state)
{
    (void)state;
    open_program();
    open_their_group();
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    tpcl_group_destroy(&group);
    cl_ok(clReleaseCommandQueue(theirs));
    cl_ok(clReleaseCommandQueue(queue));
    cl_ok(clReleaseContext(context));
    return 0;
}

static tpcl_tensor *wrap(cl_mem mem, size_t offset, tpcl_dtype dtype, int64_t n)
{
    tpcl_tensor *t = NULL;
    assert_ok(tpcl_tensor_wrap(tpcl_group_device(group), mem, offset, dtype, 1, &n, &t));
    return t;
}

/* The program's own kernel: v[i] = v[i] * scale + add. */
static cl_kernel their_kernel(void)
{
    static const char *const text =
        "__kernel void scale(__global float *v, float scale, float add)\n"
        "{\n    v[get_global_id(0)] = v[get_global_id(0)] * scale + add;\n}\n";
    cl_int err = CL_SUCCESS;
    cl_program program =
        clCreateProgramWithSource(context, 1, (const char **)(uintptr_t)&text, NULL, &err);
    cl_ok(err);
    cl_ok(clBuildProgram(program, 1, &id, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "scale", &err);
    cl_ok(err);
    cl_ok(clReleaseProgram(program));
    return kernel;
}

static void run_theirs(cl_kernel kernel, cl_mem mem, size_t n, float scale, float add,
                       const cl_event *after, cl_event *done)
{
    cl_ok(clSetKernelArg(kernel, 0, sizeof mem, &mem));
    cl_ok(clSetKernelArg(kernel, 1, sizeof scale, &scale));
    cl_ok(clSetKernelArg(kernel, 2, sizeof add, &add));
    cl_ok(clEnqueueNDRangeKernel(theirs, kernel, 1, NULL, &n, NULL, after ? 1 : 0, after, done));
}

enum { TOKENS = 3, IN = 37, INTER = 43, OUT = 29 };

/* A column-parallel layer and the row-parallel one behind it. */
typedef struct pair {
    table first, second;
    tpcl_linear *column, *row;
} pair;

static pair make_pair(void)
{
    pair p = {make_table("first", TPCL_F32, INTER, IN, 1),
              make_table("second", TPCL_F32, OUT, INTER, 2), NULL, NULL};
    const tpcl_linear_part part = {.weight = &p.first.host};
    assert_ok(tpcl_column_linear_create(group, &part, 1, NULL, &p.column));
    assert_ok(tpcl_row_linear_create(group, &p.second.host, NULL, NULL, &p.row));
    return p;
}

static void free_pair(pair *p)
{
    tpcl_linear_destroy(&p->column);
    tpcl_linear_destroy(&p->row);
    free_table(&p->first);
    free_table(&p->second);
}

/* Their kernel doubles x, the layers multiply, their kernel adds 1 to y: in two queues, by events
 * alone. Rounds with other numbers, as a race that is won once proves nothing. */
static void layers_between_kernels(void **state)
{
    (void)state;
    open_program();
    const cl_uint contexts = context_refs(), queues = queue_refs();
    const size_t x_at = align, y_bytes = TOKENS * OUT * 4;
    cl_mem xs = new_buffer(align + TOKENS * IN * 4), ys = new_buffer(y_bytes);
    const cl_uint x_refs = mem_refs(xs), y_refs = mem_refs(ys);
    open_their_group();
    pair p = make_pair();
    tpcl_tensor *x = wrap(xs, x_at, TPCL_F32, TOKENS * IN),
                *y = wrap(ys, 0, TPCL_F32, TOKENS * OUT),
                *mid = tensor_of(NULL, TPCL_F32, TOKENS * INTER);
    cl_kernel kernel = their_kernel();
    assert_ptr_equal(tpcl_tensor_mem(y), ys);
    for (uint32_t round = 0; round < 8; round++) {
        float in[TOKENS * IN], inner[TOKENS * INTER], want[TOKENS * OUT], got[TOKENS * OUT];
        cl_event before = NULL, after = NULL;
        fill(in, TOKENS * IN, 10 + round);
        cl_ok(clEnqueueWriteBuffer(theirs, xs, CL_FALSE, x_at, sizeof in, in, 0, NULL, NULL));
        run_theirs(kernel, tpcl_tensor_mem(x), TOKENS * IN, 2.0f, 0.0f, NULL, &before);
        assert_ok(tpcl_group_wait_for(group, 1, &before)); /* which also flushes their queue */
        assert_ok(tpcl_linear_forward(p.column, x, mid, TOKENS));
        assert_ok(tpcl_linear_forward(p.row, mid, y, TOKENS));
        assert_ok(tpcl_group_event(group, &after));
        run_theirs(kernel, ys, TOKENS * OUT, 1.0f, 1.0f, &after, NULL);
        cl_ok(clEnqueueReadBuffer(theirs, ys, CL_TRUE, 0, y_bytes, got, 0, NULL, NULL));
        for (int i = 0; i < TOKENS * IN; i++) in[i] *= 2.0f;
        tpcl_ref_linear(in, p.first.wide, NULL, inner, TOKENS, INTER, IN);
        tpcl_ref_linear(inner, p.second.wide, NULL, want, TOKENS, OUT, INTER);
        for (int i = 0; i < TOKENS * OUT; i++) want[i] += 1.0f;
        assert_close(got, want, TOKENS * OUT, 1e-4, 1e-4); /* sums of 43 in f32 */
        cl_ok(clReleaseEvent(before));
        cl_ok(clReleaseEvent(after));
    }
    cl_ok(clReleaseKernel(kernel));
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&y);
    tpcl_tensor_destroy(&mid);
    free_pair(&p);
    tpcl_group_destroy(&group);
    assert_comes_to(mem_refs(xs), x_refs);
    assert_comes_to(mem_refs(ys), y_refs);
    /* A buffer of PoCL holds the event that last used it, and that its queue. */
    cl_ok(clReleaseMemObject(xs));
    cl_ok(clReleaseMemObject(ys));
    assert_comes_to(queue_refs(), queues);
    assert_comes_to(context_refs(), contexts);
    close_both(NULL);
}

/* In the group's own queue nothing else is needed: it is in order. */
static void one_queue_for_both(void **state)
{
    (void)state;
    float in[TOKENS * IN], inner[TOKENS * INTER], want[TOKENS * OUT], got[TOKENS * OUT];
    pair p = make_pair();
    tpcl_tensor *x = tensor_of(NULL, TPCL_F32, TOKENS * IN),
                *mid = tensor_of(NULL, TPCL_F32, TOKENS * INTER),
                *y = tensor_of(NULL, TPCL_F32, TOKENS * OUT);
    assert_ptr_equal(tpcl_device_queue(tpcl_group_device(group)), queue);
    fill(in, TOKENS * IN, 5);
    cl_ok(
        clEnqueueWriteBuffer(queue, tpcl_tensor_mem(x), CL_FALSE, 0, sizeof in, in, 0, NULL, NULL));
    assert_ok(tpcl_linear_forward(p.column, x, mid, TOKENS));
    assert_ok(tpcl_linear_forward(p.row, mid, y, TOKENS));
    cl_ok(
        clEnqueueReadBuffer(queue, tpcl_tensor_mem(y), CL_TRUE, 0, sizeof got, got, 0, NULL, NULL));
    tpcl_ref_linear(in, p.first.wide, NULL, inner, TOKENS, INTER, IN);
    tpcl_ref_linear(inner, p.second.wide, NULL, want, TOKENS, OUT, INTER);
    assert_close(got, want, TOKENS * OUT, 1e-4, 1e-4);
    tpcl_tensor_destroy(&x);
    tpcl_tensor_destroy(&mid);
    tpcl_tensor_destroy(&y);
    free_pair(&p);
}

/* One rank's mistake ends the call on all; then the right call works. */
static void refusals_are_agreed(void **state)
{
    (void)state;
    open_program();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const cl_uint contexts = context_refs(), queues = queue_refs();
    cl_context other = new_context();
    cl_command_queue foreign = new_queue(other);
    const tpcl_group_options named = {.timeout_s = 30, .device = "gpu"}, plain = {.timeout_s = 30};
    const struct {
        cl_context context;
        cl_device_id id;
        cl_command_queue queue;
        const tpcl_group_options *options;
        const char *text;
    } wrong[] = {{context, id, foreign, &plain, "queue is of another context"},
                 {NULL, id, queue, &plain, "context is NULL"},
                 {context, NULL, queue, &plain, "id is NULL"},
                 {context, id, queue, &named, "device 'gpu'"}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const bool bad = rank == size - 1;
        tpcl_group *g = NULL;
        const tpcl_status status = tpcl_group_create_from_cl(
            MPI_COMM_WORLD, bad ? wrong[i].context : context, bad ? wrong[i].id : id,
            bad ? wrong[i].queue : queue, bad ? wrong[i].options : &plain, &g);
        assert_int_equal(status, bad ? TPCL_ERR_ARG : TPCL_ERR_PEER);
        assert_non_null(strstr(tpcl_last_error(), wrong[i].text));
        assert_null(g);
        assert_comes_to(queue_refs(), queues);
        assert_comes_to(context_refs(), contexts);
    }
    assert_refused(tpcl_group_create_from_cl(MPI_COMM_WORLD, context, id, queue, &plain, NULL),
                   TPCL_ERR_ARG, "out is NULL");
    cl_ok(clReleaseCommandQueue(foreign));
    cl_ok(clReleaseContext(other));
    open_their_group();
    cl_event event = (cl_event)&contexts;
    assert_refused(tpcl_group_event(NULL, &event), TPCL_ERR_ARG, "group is NULL");
    assert_null(event);
    assert_refused(tpcl_group_event(group, NULL), TPCL_ERR_ARG, "out is NULL");
    assert_refused(tpcl_group_wait_for(NULL, 0, NULL), TPCL_ERR_ARG, "group is NULL");
    assert_refused(tpcl_group_wait_for(group, 1, NULL), TPCL_ERR_ARG, "events is NULL");
    close_both(NULL);
}

/* Two tensors of one buffer that share their bytes but for the first `align`, and a third that
 * shares none. */
typedef struct shared {
    cl_mem mem;
    int n; /* elements of each */
    tpcl_tensor *low, *high, *ids, *apart;
} shared;

static shared make_shared(void)
{
    const int step = (int)(align / 4), n = 4 * step;
    shared s = {.mem = new_buffer((size_t)(10 * step) * 4), .n = n};
    s.low = wrap(s.mem, 0, TPCL_F32, n);
    s.high = wrap(s.mem, align, TPCL_F32, n);
    s.ids = wrap(s.mem, align, TPCL_I32, n);
    s.apart = wrap(s.mem, 5 * align, TPCL_F32, n);
    return s;
}

static void free_shared(shared *s)
{
    tpcl_tensor **all[] = {&s->low, &s->high, &s->ids, &s->apart};
    for (size_t i = 0; i < COUNT(all); i++) tpcl_tensor_destroy(all[i]);
    cl_ok(clReleaseMemObject(s->mem));
}

#define overlaps(expr) assert_refused(expr, TPCL_ERR_ARG, "overlaps")

static void ops_refuse_overlap(void **state)
{
    (void)state;
    shared s = make_shared();
    const int n = s.n, half = n / 2;
    tpcl_tensor *again = wrap(s.mem, 0, TPCL_F32, n); /* exactly s.low */
    assert_ok(tpcl_tensor_write(s.low, (float[4096]){0}, (size_t)n));
    overlaps(tpcl_swiglu(s.low, s.high, 1, half));
    overlaps(tpcl_swiglu(s.high, s.low, 1, half));
    overlaps(tpcl_silu(s.low, s.high, (size_t)n));
    overlaps(tpcl_silu(s.high, s.low, (size_t)n));
    overlaps(tpcl_gelu(s.low, s.high, (size_t)n));
    overlaps(tpcl_add(s.low, s.high, (size_t)n));
    overlaps(tpcl_add(s.low, again, (size_t)n));
    overlaps(tpcl_add_bias(s.low, s.high, 1, n));
    overlaps(tpcl_rmsnorm(s.low, NULL, s.apart, s.high, 1, n, 0.1f));
    overlaps(tpcl_rmsnorm(s.low, s.high, s.apart, s.apart, 1, n, 0.1f));
    overlaps(tpcl_rmsnorm(s.apart, NULL, s.low, s.high, 1, n, 0.1f));
    overlaps(tpcl_rmsnorm(s.apart, s.low, s.high, again, 1, n, 0.1f));
    /* In place is the same place, whichever tensor names it; and what ends before is no overlap. */
    assert_ok(tpcl_silu(s.low, again, (size_t)n));
    assert_ok(tpcl_gelu(again, s.low, (size_t)n));
    assert_ok(tpcl_rmsnorm(s.low, NULL, s.apart, again, 1, n, 0.1f));
    assert_ok(tpcl_silu(s.low, s.high, align / 4));
    assert_ok(tpcl_add(s.low, s.apart, (size_t)n));
    tpcl_tensor_destroy(&again);
    free_shared(&s);
}

static void layers_refuse_overlap(void **state)
{
    (void)state;
    shared s = make_shared();
    const int n = s.n;
    table w = make_table("w", TPCL_F32, n, n, 4);
    const tpcl_linear_part part = {.weight = &w.host};
    const tpcl_column_linear_options gather = {.gather_output = true};
    const tpcl_row_linear_options whole = {.whole_input = true};
    tpcl_linear *l[5] = {NULL};
    assert_ok(tpcl_replicated_linear_create(group, &w.host, NULL, &l[0]));
    assert_ok(tpcl_column_linear_create(group, &part, 1, NULL, &l[1]));
    assert_ok(tpcl_column_linear_create(group, &part, 1, &gather, &l[2]));
    assert_ok(tpcl_row_linear_create(group, &w.host, NULL, NULL, &l[3]));
    assert_ok(tpcl_row_linear_create(group, &w.host, NULL, &whole, &l[4]));
    for (size_t i = 0; i < COUNT(l); i++) {
        assert_ok(tpcl_linear_forward(l[i], s.low, s.apart, 1));
        if (i == 2 || i >= 3) continue; /* collective: a refusal is agreed, see below */
        overlaps(tpcl_linear_forward(l[i], s.low, s.high, 1));
        overlaps(tpcl_linear_forward(l[i], s.high, s.low, 1));
    }
    /* Each in a group of one rank, where nobody has to agree. */
    tpcl_group *solo = NULL;
    assert_ok(tpcl_group_create_from_cl(MPI_COMM_SELF, context, id, queue, NULL, &solo));
    tpcl_tensor *low = NULL, *high = NULL, *ids = NULL;
    const int64_t count = n;
    tpcl_device *dev = tpcl_group_device(solo);
    assert_ok(tpcl_tensor_wrap(dev, s.mem, 0, TPCL_F32, 1, &count, &low));
    assert_ok(tpcl_tensor_wrap(dev, s.mem, align, TPCL_F32, 1, &count, &high));
    assert_ok(tpcl_tensor_wrap(dev, s.mem, align, TPCL_I32, 1, &count, &ids));
    tpcl_linear *row = NULL, *column = NULL;
    tpcl_embedding *embedding = NULL;
    const tpcl_embedding_desc desc = {.weight = &w.host};
    assert_ok(tpcl_row_linear_create(solo, &w.host, NULL, NULL, &row));
    assert_ok(tpcl_column_linear_create(solo, &part, 1, &gather, &column));
    assert_ok(tpcl_embedding_create(solo, &desc, &embedding));
    overlaps(tpcl_linear_forward(row, low, high, 1));
    overlaps(tpcl_linear_forward(column, high, low, 1));
    overlaps(tpcl_embedding_partial(embedding, ids, low, 1));
    overlaps(tpcl_embedding_forward(embedding, ids, high, 1));
    tpcl_linear_destroy(&row);
    tpcl_linear_destroy(&column);
    tpcl_embedding_destroy(&embedding);
    tpcl_tensor_destroy(&low);
    tpcl_tensor_destroy(&high);
    tpcl_tensor_destroy(&ids);
    tpcl_group_destroy(&solo);
    for (size_t i = 0; i < COUNT(l); i++) tpcl_linear_destroy(&l[i]);
    free_table(&w);
    free_shared(&s);
}

static void attention_refuses_overlap(void **state)
{
    (void)state;
    enum { D = 4 }; /* qkv is 3 * D, out D: within what the tensors share */
    shared s = make_shared();
    const tpcl_head_range mine = {{0, 1}, {0, 1}};
    const tpcl_rope_desc rope = {.head_dim = D, .context = 2, .theta = 1e4};
    const tpcl_kv_cache_desc room = {.layers = 1,
                                     .head_dim = D,
                                     .blocks = 1,
                                     .block_size = 16,
                                     .max_sequences = 1,
                                     .f32 = true,
                                     .heads = &mine};
    const int32_t word = 0;
    const int64_t many = 3 * D, at = (int64_t)align / 4;
    const int64_t angles_shape[3] = {(at + many) / D, D / 2, 2}; /* of angles, over all of qkv */
    tpcl_tensor *angles = NULL, *qkv = wrap(s.mem, 0, TPCL_F32, at + many), *in_qkv_angles = NULL;
    tpcl_kv_cache *cache = NULL;
    tpcl_batch *batch = NULL;
    tpcl_attention *layer = NULL, *bad = NULL;
    assert_ok(tpcl_rope_table_create(tpcl_group_device(group), &rope, &angles));
    const tpcl_attention_desc desc = {
        .heads = 1, .kv_heads = 1, .head_dim = D, .mine = mine, .rope_table = angles};
    tpcl_attention_desc in_qkv = desc;
    assert_ok(tpcl_tensor_wrap(tpcl_group_device(group), s.mem, 0, TPCL_F32, 3, angles_shape,
                               &in_qkv_angles));
    in_qkv.rope_table = in_qkv_angles;
    assert_ok(tpcl_kv_cache_create(group, &room, &cache));
    assert_ok(tpcl_batch_create(group, cache, &(tpcl_batch_options){.max_tokens = 1}, &batch));
    assert_ok(tpcl_attention_create(group, &desc, &layer));
    assert_ok(tpcl_attention_create(group, &in_qkv, &bad));
    assert_ok(tpcl_batch_add(batch, 0, &word, 1));
    assert_ok(tpcl_batch_upload(batch));
    overlaps(tpcl_attention_forward(layer, 0, qkv, batch, cache, s.low));
    overlaps(tpcl_attention_forward(bad, 0, qkv, batch, cache, s.apart));
    assert_ok(tpcl_attention_forward(layer, 0, s.low, batch, cache, s.apart));
    tpcl_attention_destroy(&layer);
    tpcl_attention_destroy(&bad);
    tpcl_batch_destroy(&batch);
    tpcl_kv_cache_destroy(&cache);
    tpcl_tensor_destroy(&angles);
    tpcl_tensor_destroy(&in_qkv_angles);
    tpcl_tensor_destroy(&qkv);
    free_shared(&s);
}

/* What tells something of an object tells nothing of NULL. */
static void queries_of_null(void **state)
{
    (void)state;
    assert_int_equal(tpcl_linear_in(NULL) + tpcl_linear_out(NULL), 0);
    assert_int_equal(tpcl_linear_in_total(NULL) + tpcl_linear_out_total(NULL), 0);
    assert_int_equal(tpcl_embedding_vocab(NULL) + tpcl_embedding_dim(NULL), 0);
    assert_int_equal(tpcl_lm_head_vocab(NULL) + tpcl_lm_head_n_words(NULL), 0);
    assert_int_equal(tpcl_range_size(tpcl_embedding_words(NULL, 0)), 0);
    assert_int_equal(tpcl_range_size(tpcl_embedding_added_words(NULL, 0)), 0);
    assert_int_equal(tpcl_range_size(tpcl_lm_head_words(NULL, 0)), 0);
    assert_int_equal(tpcl_range_size(tpcl_lm_head_added_words(NULL, 0)), 0);
    assert_true(tpcl_linear_bytes(NULL) == 0 && tpcl_embedding_bytes(NULL) == 0 &&
                tpcl_lm_head_bytes(NULL) == 0);
    assert_int_equal(tpcl_group_rank(NULL) + tpcl_group_size(NULL), 0);
    assert_null(tpcl_group_device(NULL));
    assert_null(tpcl_group_comm(NULL));
    assert_int_equal(tpcl_comm_rank(NULL) + tpcl_comm_size(NULL), 0);
    assert_int_equal(tpcl_comm_local_rank(NULL) + tpcl_comm_local_size(NULL), 0);
    assert_false(tpcl_comm_failed(NULL, NULL, NULL));
    assert_null(tpcl_comm_stage(NULL));
    assert_int_equal(tpcl_comm_chunk(NULL), 0);
    assert_true(tpcl_comm_set_timeout(NULL, 1.0) == 0.0);
    tpcl_comm_set_interrupt(NULL, NULL);
    int64_t shape[6] = {1, 1, 1, 1, 1, 1};
    tpcl_kv_cache_shape(NULL, shape);
    for (int i = 0; i < 6; i++) assert_int_equal(shape[i], 0);
    assert_true(tpcl_kv_cache_bytes(NULL) == 0 && tpcl_kv_cache_length(NULL, 0) == 0 &&
                tpcl_kv_cache_blocks_used(NULL, 0) == 0);
    tpcl_kv_cache_free(NULL, 0);
    assert_int_equal(tpcl_batch_tokens(NULL), 0);
    assert_null(tpcl_batch_ids(NULL));
}

static void model_queries_of_null(void **state)
{
    (void)state;
    const char *key = NULL, *value = NULL;
    assert_int_equal(tpcl_tokenizer_vocab(NULL), 0);
    assert_int_equal(tpcl_tokenizer_eos(NULL), -1);
    assert_int_equal(tpcl_tokenizer_find_special(NULL, "x"), -1);
    assert_false(tpcl_chat_has_template(NULL));
    assert_null(tpcl_chat_template_name(NULL));
    assert_null(tpcl_checkpoint_config(NULL));
    assert_null(tpcl_checkpoint_path(NULL));
    assert_null(tpcl_checkpoint_format(NULL));
    assert_int_equal(tpcl_checkpoint_n_tensors(NULL) + tpcl_checkpoint_n_metadata(NULL), 0);
    assert_null(tpcl_checkpoint_tensor(NULL, 0));
    tpcl_checkpoint_metadata(NULL, 0, &key, &value);
    assert_string_equal(key, "");
    assert_string_equal(value, "");
    assert_null(tpcl_checkpoint_tokenizer(NULL));
    assert_true(tpcl_checkpoint_hash(NULL) == 0);
    assert_int_equal(tpcl_model_context(NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest alone[] = {
        cmocka_unit_test(layers_between_kernels),
        cmocka_unit_test(refusals_are_agreed),
    };
    const struct CMUnitTest within[] = {
        cmocka_unit_test(one_queue_for_both),    cmocka_unit_test(ops_refuse_overlap),
        cmocka_unit_test(layers_refuse_overlap), cmocka_unit_test(attention_refuses_overlap),
        cmocka_unit_test(queries_of_null),       cmocka_unit_test(model_queries_of_null),
    };
    layers_main_begin(&argc, &argv);
    int failed = cmocka_run_group_tests_name("layers/interop", alone, NULL, NULL);
    failed += cmocka_run_group_tests_name("layers/interop", within, open_both, close_both);
    return layers_main_end(failed);
}
