/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "layers/linear.h"
#include "layers/ranges.h"

/* Rows of the whole model. */
typedef struct qkv_shape {
    int64_t heads, kv_heads, group; /* group: q heads of a kv head */
    int64_t k_dim, v_dim;           /* of a head */
    int64_t q, k, v;                /* rows of all heads */
} qkv_shape;

static tpcl_status find_shape(const tpcl_qkv_linear_desc *d, qkv_shape *s)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(d->kv_heads >= 1 && d->heads >= d->kv_heads && d->heads % d->kv_heads == 0,
                TPCL_ERR_ARG,
                "qkv: %d heads, %d kv heads: the first must be a multiple of the second", d->heads,
                d->kv_heads);
    TPI_REQUIRE(d->head_dim >= 1 && d->v_head_dim >= 0, TPCL_ERR_ARG,
                "qkv: head_dim %d, v_head_dim %d: the first must be >= 1, the second >= 0",
                d->head_dim, d->v_head_dim);
    *s = (qkv_shape){.heads = d->heads,
                     .kv_heads = d->kv_heads,
                     .group = d->heads / d->kv_heads,
                     .k_dim = d->head_dim,
                     .v_dim = d->v_head_dim ? d->v_head_dim : d->head_dim};
    s->q = s->heads * s->k_dim;
    s->k = s->kv_heads * s->k_dim;
    s->v = s->kv_heads * s->v_dim;
    TPI_REQUIRE(s->q + s->k + s->v <= INT32_MAX, TPCL_ERR_SHAPE,
                "qkv: %lld outputs, the most are %d", (long long)(s->q + s->k + s->v), INT32_MAX);
done:
    return status;
}

static tpcl_status check_rows(const tpcl_host_tensor *w, const tpcl_host_tensor *bias, int64_t rows,
                              const char *what)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(w, TPCL_ERR_ARG, "qkv: %s is NULL: give q, k and v, or fused", what);
    TPI_TRY(tpi_matrix_check(w, bias));
    TPI_REQUIRE(w->shape[0] == rows, TPCL_ERR_SHAPE, "%s: %lld rows, %s of these heads has %lld",
                w->name, (long long)w->shape[0], what, (long long)rows);
done:
    return status;
}

static tpcl_status check_tensors(const tpcl_qkv_linear_desc *d, const qkv_shape *s)
{
    tpcl_status status = TPCL_OK;
    const bool parts = d->q || d->k || d->v || d->q_bias || d->k_bias || d->v_bias;
    TPI_REQUIRE(d->layout == TPCL_QKV_STACKED || d->layout == TPCL_QKV_BY_KV_HEAD, TPCL_ERR_ARG,
                "qkv: unknown layout %d", (int)d->layout);
    if (d->fused) {
        TPI_REQUIRE(!parts, TPCL_ERR_ARG, "qkv: both fused and parts are given: give one");
        TPI_TRY(check_rows(d->fused, d->fused_bias, s->q + s->k + s->v, "fused"));
        goto done;
    }
    TPI_REQUIRE(!d->fused_bias, TPCL_ERR_ARG, "qkv: fused_bias without fused");
    TPI_TRY(check_rows(d->q, d->q_bias, s->q, "q"));
    TPI_TRY(check_rows(d->k, d->k_bias, s->k, "k"));
    TPI_TRY(check_rows(d->v, d->v_bias, s->v, "v"));
    TPI_REQUIRE(d->k->shape[1] == d->q->shape[1] && d->v->shape[1] == d->q->shape[1],
                TPCL_ERR_SHAPE, "qkv: %lld, %lld and %lld columns of %s, %s and %s",
                (long long)d->q->shape[1], (long long)d->k->shape[1], (long long)d->v->shape[1],
                d->q->name, d->k->name, d->v->name);
done:
    return status;
}

/* Separate or stacked: the rows of a range of heads lie together. */
static int stack_parts(const tpcl_qkv_linear_desc *d, const qkv_shape *s, tpcl_head_range mine,
                       tpi_stack *out)
{
    const tpcl_host_tensor *f = d->fused, *fb = d->fused_bias;
    const int64_t k = f ? s->q : 0, v = f ? s->q + s->k : 0;
    out[0] = (tpi_stack){f ? f : d->q, f ? fb : d->q_bias, mine.q.begin * s->k_dim,
                         mine.q.end * s->k_dim};
    out[1] = (tpi_stack){f ? f : d->k, f ? fb : d->k_bias, k + mine.kv.begin * s->k_dim,
                         k + mine.kv.end * s->k_dim};
    out[2] = (tpi_stack){f ? f : d->v, f ? fb : d->v_bias, v + mine.kv.begin * s->v_dim,
                         v + mine.kv.end * s->v_dim};
    return 3;
}

/* By kv head: each holds a piece of q, of k and of v. */
static int stack_groups(const tpcl_qkv_linear_desc *d, const qkv_shape *s, tpcl_head_range mine,
                        tpi_stack *out)
{
    const int64_t k = s->group * s->k_dim, v = k + s->k_dim, stride = v + s->v_dim;
    int n = 0;
    for (int64_t h = mine.q.begin, end; h < mine.q.end; h = end) {
        const int64_t g = h / s->group, base = g * stride - g * s->group * s->k_dim;
        end = (g + 1) * s->group < mine.q.end ? (g + 1) * s->group : mine.q.end;
        out[n++] = (tpi_stack){d->fused, d->fused_bias, base + h * s->k_dim, base + end * s->k_dim};
    }
    for (int64_t g = mine.kv.begin; g < mine.kv.end; g++)
        out[n++] = (tpi_stack){d->fused, d->fused_bias, g * stride + k, g * stride + k + s->k_dim};
    for (int64_t g = mine.kv.begin; g < mine.kv.end; g++)
        out[n++] = (tpi_stack){d->fused, d->fused_bias, g * stride + v, g * stride + v + s->v_dim};
    if (n == 0) out[n++] = (tpi_stack){d->fused, d->fused_bias, 0, 0}; /* a rank without heads */
    return n;
}

tpcl_status tpcl_qkv_linear_create(tpcl_group *group, const tpcl_qkv_linear_desc *d,
                                   tpcl_linear **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_head_range *ranges = NULL;
    tpi_stack *stack = NULL;
    qkv_shape s = {0};

    TPI_REQUIRE(out, TPCL_ERR_ARG, "qkv: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "qkv: group is NULL");
    TPI_REQUIRE(d, TPCL_ERR_ARG, "qkv: desc is NULL");
    TPI_TRY(find_shape(d, &s));
    TPI_TRY(check_tensors(d, &s));
    ranges = malloc((size_t)group->size * sizeof *ranges);
    stack = malloc((size_t)(3 * s.kv_heads) * sizeof *stack);
    TPI_REQUIRE(ranges && stack, TPCL_ERR_NOMEM, "qkv of %d ranks", group->size);
    TPI_TRY(tpi_head_ranges_take(group, d->ranges, d->heads, d->kv_heads, ranges));
    const tpcl_head_range mine = ranges[group->rank];
    const int n = d->fused && d->layout == TPCL_QKV_BY_KV_HEAD ? stack_groups(d, &s, mine, stack)
                                                               : stack_parts(d, &s, mine, stack);
    TPI_TRY(tpi_linear_create(group, stack, n, out));
    (*out)->out_total = (int)(s.q + s.k + s.v);
done:
    free(ranges);
    free(stack);
    return status;
}
