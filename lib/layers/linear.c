/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/linear.h"

#include <stdlib.h>

#include "ops/checks.h"

tpcl_status tpi_matrix_check(const tpcl_host_tensor *w, const tpcl_host_tensor *bias)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(w && w->name, TPCL_ERR_ARG, "linear: the weight or its name is NULL");
    TPI_REQUIRE(w->ndim == 2, TPCL_ERR_SHAPE, "%s: %d dimensions, need [out, in]", w->name,
                w->ndim);
    TPI_REQUIRE(w->shape[0] >= 0 && w->shape[0] <= INT32_MAX && w->shape[1] >= 0 &&
                    w->shape[1] <= INT32_MAX,
                TPCL_ERR_SHAPE, "%s: shape [%lld, %lld], each must be 0 to %d", w->name,
                (long long)w->shape[0], (long long)w->shape[1], INT32_MAX);
    if (!bias) goto done;
    TPI_REQUIRE(bias->name, TPCL_ERR_ARG, "%s: the name of its bias is NULL", w->name);
    TPI_REQUIRE(bias->ndim == 1, TPCL_ERR_SHAPE, "%s: %d dimensions, need 1", bias->name,
                bias->ndim);
    TPI_REQUIRE(bias->shape[0] == w->shape[0], TPCL_ERR_SHAPE,
                "%s: %lld elements beside %lld outputs of %s", bias->name,
                (long long)bias->shape[0], (long long)w->shape[0], w->name);
done:
    return status;
}

tpcl_status tpi_turns_create(tpcl_linear *l, int64_t columns)
{
    tpcl_status status = TPCL_OK;
    const int64_t most = 128, fit = (INT64_C(4) << 20) / 4 / (columns > 0 ? columns : 1);
    const int64_t rows = fit < 1 ? 1 : fit > most ? most : fit;
    const int64_t x_shape[2] = {rows, l->weight->k}, y_shape[2] = {rows, l->weight->n};
    TPI_TRY(tpcl_tensor_create(l->group->dev, TPCL_F32, 2, x_shape, &l->turns.x));
    TPI_TRY(tpcl_tensor_create(l->group->dev, TPCL_F32, 2, y_shape, &l->turns.y));
    l->turns.rows = (int)rows;
done:
    return status;
}

tpcl_status tpi_turns_take(tpcl_linear *l, const tpcl_tensor *x, int at, int rows)
{
    const size_t pitch = (size_t)l->in_total * sizeof(float);
    const size_t width = (size_t)l->weight->k * sizeof(float);
    const size_t from[3] = {(size_t)l->turns.first * sizeof(float), (size_t)at, 0};
    const size_t to[3] = {0, 0, 0}, region[3] = {width, (size_t)rows, 1};
    if (width == 0) return TPCL_OK;
    return TPI_CL(clEnqueueCopyBufferRect(l->group->dev->queue, x->mem, l->turns.x->mem, from, to,
                                          region, pitch, 0, width, 0, 0, NULL, NULL));
}

/* The biases of the rows, below one another like them; zeros where a matrix has none. */
static tpcl_status stack_bias(tpcl_linear *l, const tpi_stack *stack, int n)
{
    tpcl_status status = TPCL_OK;
    bool any = false;
    const int64_t outputs = l->weight->n;
    float *values = calloc((size_t)outputs + 1, sizeof *values), *to = values;
    TPI_REQUIRE(values, TPCL_ERR_NOMEM, "bias of %lld", (long long)outputs);
    for (int i = 0; i < n; i++) {
        if (stack[i].bias) {
            const tpi_part part = {stack[i].bias, 0, 1, stack[i].row0, stack[i].row1};
            TPI_TRY(tpi_part_check(&part));
            TPI_TRY(tpi_part_read_f32(&part, 0, to));
            any = true;
        }
        to += stack[i].row1 - stack[i].row0;
    }
    if (!any) goto done;
    TPI_TRY(tpcl_tensor_create(l->group->dev, TPCL_F32, 1, &outputs, &l->bias));
    TPI_TRY(tpcl_tensor_write(l->bias, values, (size_t)outputs));
done:
    free(values);
    return status;
}

tpcl_status tpi_linear_create(tpcl_group *group, const tpi_stack *stack, int n, tpcl_linear **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_linear *l = calloc(1, sizeof *l);
    tpi_part *parts = calloc((size_t)n, sizeof *parts);
    TPI_REQUIRE(l && parts, TPCL_ERR_NOMEM, "linear layer of %d parts", n);
    for (int i = 0; i < n; i++)
        parts[i] =
            (tpi_part){stack[i].weight, stack[i].row0, stack[i].row1, 0, stack[i].weight->shape[1]};
    l->group = group;
    TPI_TRY(tpi_weight_create(group->dev, parts, n, &l->weight));
    TPI_TRY(stack_bias(l, stack, n));
    l->in_total = l->weight->k;
    l->out_total = l->weight->n;
    *out = l;
    l = NULL;
done:
    free(parts);
    tpcl_linear_destroy(&l);
    return status;
}

tpcl_status tpcl_replicated_linear_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                          const tpcl_host_tensor *bias, tpcl_linear **out)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "replicated linear: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "replicated linear: group is NULL");
    TPI_TRY(tpi_matrix_check(weight, bias));
    const tpi_stack all = {weight, bias, 0, weight->shape[0]};
    TPI_TRY(tpi_linear_create(group, &all, 1, out));
done:
    return status;
}

void tpcl_linear_destroy(tpcl_linear **layer)
{
    if (!layer || !*layer) return;
    tpi_weight_destroy(&(*layer)->weight);
    tpcl_tensor_destroy(&(*layer)->bias);
    tpi_gather_free(&(*layer)->gather);
    tpcl_tensor_destroy(&(*layer)->turns.x);
    tpcl_tensor_destroy(&(*layer)->turns.y);
    free(*layer);
    *layer = NULL;
}

static tpcl_status check_forward(const tpcl_linear *l, const tpcl_tensor *x, const tpcl_tensor *y,
                                 int tokens)
{
    tpcl_status status = TPCL_OK;
    const tpi_operand operands[] = {
        {"linear x", x, tokens, l->whole_input ? l->in_total : l->weight->k, TPI_READ},
        {"linear y", y, tokens, l->gather ? l->out_total : l->weight->n, TPI_WRITTEN}};
    TPI_REQUIRE(tokens >= 0, TPCL_ERR_ARG, "linear: %d tokens, need 0 or more", tokens);
    TPI_TRY(tpi_need_all(operands, 2));
    TPI_REQUIRE(x->dev == l->group->dev, TPCL_ERR_ARG,
                "linear x is a tensor of another device than the layer");
done:
    return status;
}

/* This rank's columns of a whole x, and y in as many turns. */
static tpcl_status forward_in_turns(tpcl_linear *l, const tpcl_tensor *x, tpcl_tensor *y,
                                    int tokens)
{
    tpcl_status status = TPCL_OK;
    const size_t row = (size_t)l->weight->n * sizeof(float);
    const bool once = tokens <= l->turns.rows;
    for (int at = 0; at < tokens; at += l->turns.rows) {
        const int rows = tokens - at < l->turns.rows ? tokens - at : l->turns.rows;
        TPI_TRY(tpi_turns_take(l, x, at, rows));
        TPI_TRY(tpi_linear(l->weight, l->turns.x, NULL, once ? y : l->turns.y, rows));
        if (once || row == 0) continue;
        TPI_TRY(TPI_CL(clEnqueueCopyBuffer(l->group->dev->queue, l->turns.y->mem, y->mem, 0,
                                           (size_t)at * row, (size_t)rows * row, 0, NULL, NULL)));
    }
done:
    return status;
}

tpcl_status tpcl_linear_forward(tpcl_linear *l, const tpcl_tensor *x, tpcl_tensor *y, int tokens)
{
    if (!l) return tpi_fail(TPCL_ERR_ARG, "linear: layer is NULL");
    tpcl_status status = check_forward(l, x, y, tokens);
    if (status != TPCL_OK || tokens == 0)
        return l->reduce || l->gather ? tpi_meet(l->group, status, "linear") : status;
    if (l->gather) return tpi_gather_forward(l, x, y, tokens);
    if (l->turns.rows)
        status = forward_in_turns(l, x, y, tokens);
    else
        status = tpi_linear(l->weight, x, l->reduce ? NULL : l->bias, y, tokens);
    if (!l->reduce) return status;
    status = tpi_reduce(l->group, status, y, (size_t)tokens * (size_t)l->weight->n);
    if (status == TPCL_OK && l->bias) status = tpcl_add_bias(y, l->bias, tokens, l->weight->n);
    return status;
}

int tpcl_linear_in(const tpcl_linear *layer)
{
    return layer ? layer->weight->k : 0;
}

int tpcl_linear_out(const tpcl_linear *layer)
{
    return layer ? layer->weight->n : 0;
}

int tpcl_linear_in_total(const tpcl_linear *layer)
{
    return layer ? layer->in_total : 0;
}

int tpcl_linear_out_total(const tpcl_linear *layer)
{
    return layer ? layer->out_total : 0;
}

uint64_t tpcl_linear_bytes(const tpcl_linear *layer)
{
    return layer ? layer->weight->bytes + (layer->bias ? layer->bias->bytes : 0) : 0;
}
