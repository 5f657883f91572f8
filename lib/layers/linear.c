/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <tpcl/linear.h>

#include "layers/group.h"
#include "ops/ops.h"

enum { MAX_PARTS = 8 };

struct tpcl_linear {
    tpcl_group *group; /* the caller's; outlives the layer */
    tpi_weight *weight;
    tpcl_tensor *bias; /* this rank's outputs, or NULL */
    bool reduce;       /* row-parallel: sum over the ranks, then the bias */
};

static tpcl_status check_matrix(const tpcl_host_tensor *w, const tpcl_host_tensor *bias)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(w && w->name, TPCL_ERR_ARG, "linear: weight is NULL");
    TPI_REQUIRE(w->ndim == 2, TPCL_ERR_SHAPE, "%s: %d dimensions, need [out, in]", w->name,
                w->ndim);
    TPI_REQUIRE(!bias || (bias->ndim == 1 && bias->shape[0] == w->shape[0]), TPCL_ERR_SHAPE,
                "%s: %lld elements beside %lld outputs of %s", bias ? bias->name : "",
                bias ? (long long)bias->shape[0] : 0, (long long)w->shape[0], w->name);
done:
    return status;
}

/* The biases of the parts' rows, stacked like them; zeros where a part has none. */
static tpcl_status stack_bias(tpcl_linear *l, const tpcl_linear_part *parts, const tpi_part *rows,
                              int n_parts)
{
    tpcl_status status = TPCL_OK;
    bool any = false;
    const int64_t n = l->weight->n;
    float *values = calloc((size_t)n + 1, sizeof *values), *to = values;
    TPI_REQUIRE(values, TPCL_ERR_NOMEM, "bias of %lld", (long long)n);
    for (int i = 0; i < n_parts; i++) {
        const int64_t count = rows[i].row1 - rows[i].row0;
        if (parts[i].bias) {
            const tpi_part part = {parts[i].bias, 0, 1, rows[i].row0, rows[i].row1};
            TPI_TRY(tpi_part_read_f32(&part, 0, to));
            any = true;
        }
        to += count;
    }
    if (!any) goto done;
    TPI_TRY(tpcl_tensor_create(l->group->dev, TPCL_F32, 1, &n, &l->bias));
    TPI_TRY(tpcl_tensor_write(l->bias, values, (size_t)n));
done:
    free(values);
    return status;
}

static tpcl_status equal_split(const tpcl_group *g, int64_t total, int granule, int rank,
                               tpcl_range *out)
{
    tpcl_status status = TPCL_OK;
    tpcl_range *all = malloc((size_t)g->size * sizeof *all);
    TPI_REQUIRE(all, TPCL_ERR_NOMEM, "ranges of %d ranks", g->size);
    TPI_TRY(tpcl_shard_split(total, granule, g->size, g->weights, 0, all));
    *out = all[rank];
done:
    free(all);
    return status;
}

tpcl_status tpcl_column_linear_create(tpcl_group *group, const tpcl_linear_part *parts, int n_parts,
                                      tpcl_linear **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_linear *l = NULL;
    tpi_part rows[MAX_PARTS];

    TPI_REQUIRE(group && parts && out, TPCL_ERR_ARG, "column linear: a pointer is NULL");
    *out = NULL;
    TPI_REQUIRE(n_parts >= 1 && n_parts <= MAX_PARTS, TPCL_ERR_ARG,
                "column linear: %d parts, need 1 to %d", n_parts, MAX_PARTS);
    for (int i = 0; i < n_parts; i++) {
        const tpcl_host_tensor *w = parts[i].weight;
        tpcl_range mine;
        TPI_TRY(check_matrix(w, parts[i].bias));
        if (parts[i].rows)
            mine = parts[i].rows[group->rank];
        else
            TPI_TRY(equal_split(group, w->shape[0], 1, group->rank, &mine));
        rows[i] = (tpi_part){w, mine.begin, mine.end, 0, w->shape[1]};
    }
    l = calloc(1, sizeof *l);
    TPI_REQUIRE(l, TPCL_ERR_NOMEM, "linear object");
    l->group = group;
    TPI_TRY(tpi_weight_create(group->dev, rows, n_parts, &l->weight));
    TPI_TRY(stack_bias(l, parts, rows, n_parts));
    *out = l;
    l = NULL;
done:
    tpcl_linear_destroy(&l);
    return status;
}

tpcl_status tpcl_row_linear_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                   const tpcl_host_tensor *bias, const tpcl_range *columns,
                                   tpcl_linear **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_linear *l = NULL;
    tpcl_range mine;

    TPI_REQUIRE(group && out, TPCL_ERR_ARG, "row linear: a pointer is NULL");
    *out = NULL;
    TPI_TRY(check_matrix(weight, bias));
    if (columns)
        mine = columns[group->rank];
    else
        TPI_TRY(equal_split(group, weight->shape[1], tpcl_dtype_block(weight->dtype), group->rank,
                            &mine));
    l = calloc(1, sizeof *l);
    TPI_REQUIRE(l, TPCL_ERR_NOMEM, "linear object");
    l->group = group;
    l->reduce = true;
    const tpi_part part = {weight, 0, weight->shape[0], mine.begin, mine.end};
    TPI_TRY(tpi_weight_create(group->dev, &part, 1, &l->weight));
    if (bias) TPI_TRY(tpi_vector_create(group, bias, 0, bias->shape[0], &l->bias));
    *out = l;
    l = NULL;
done:
    tpcl_linear_destroy(&l);
    return status;
}

tpcl_status tpcl_replicated_linear_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                          const tpcl_host_tensor *bias, tpcl_linear **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_range *all = NULL;
    TPI_REQUIRE(group && out, TPCL_ERR_ARG, "replicated linear: a pointer is NULL");
    *out = NULL;
    TPI_TRY(check_matrix(weight, bias));
    all = malloc((size_t)group->size * sizeof *all);
    TPI_REQUIRE(all, TPCL_ERR_NOMEM, "ranges of %d ranks", group->size);
    for (int r = 0; r < group->size; r++) all[r] = (tpcl_range){0, weight->shape[0]};
    const tpcl_linear_part part = {weight, bias, all};
    TPI_TRY(tpcl_column_linear_create(group, &part, 1, out));
done:
    free(all);
    return status;
}

void tpcl_linear_destroy(tpcl_linear **layer)
{
    if (!layer || !*layer) return;
    tpi_weight_destroy(&(*layer)->weight);
    tpcl_tensor_destroy(&(*layer)->bias);
    free(*layer);
    *layer = NULL;
}

tpcl_status tpcl_linear_forward(tpcl_linear *l, const tpcl_tensor *x, tpcl_tensor *y, int tokens)
{
    if (!l->reduce) return tpi_linear(l->weight, x, l->bias, y, tokens);
    tpcl_status status = tpi_linear(l->weight, x, NULL, y, tokens);
    status = tpi_reduce(l->group, status, y, (size_t)tokens * (size_t)l->weight->n);
    if (status == TPCL_OK && l->bias) status = tpcl_add_bias(y, l->bias, tokens, l->weight->n);
    return status;
}

int tpcl_linear_in(const tpcl_linear *layer)
{
    return layer->weight->k;
}

int tpcl_linear_out(const tpcl_linear *layer)
{
    return layer->weight->n;
}

uint64_t tpcl_linear_bytes(const tpcl_linear *layer)
{
    return layer->weight->bytes + (layer->bias ? layer->bias->bytes : 0);
}
