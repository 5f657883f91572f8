/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "layers/linear.h"
#include "layers/ranges.h"

static tpcl_status check(const tpcl_host_tensor *weight, const tpcl_host_tensor *bias,
                         const tpcl_row_linear_options *o)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(tpi_matrix_check(weight, bias));
    TPI_REQUIRE(
        !bias || !o->partial, TPCL_ERR_UNSUPPORTED,
        "row linear %s: a partial product has no bias, it belongs after the sum: add %s there",
        weight->name, bias ? bias->name : "");
done:
    return status;
}

/* Where x is whole and this rank uses some of its columns, they are copied out. */
static tpcl_status take_columns(tpcl_linear *l, tpcl_range mine)
{
    tpcl_status status = TPCL_OK;
    const int k = l->weight->k;
    if (k == 0 || k == l->in_total) goto done;
    l->turns.first = mine.begin;
    TPI_TRY(tpi_turns_create(l, k > l->weight->n ? k : l->weight->n));
done:
    return status;
}

tpcl_status tpcl_row_linear_create(tpcl_group *group, const tpcl_host_tensor *weight,
                                   const tpcl_host_tensor *bias,
                                   const tpcl_row_linear_options *options, tpcl_linear **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_linear *l = NULL;
    tpcl_range *columns = NULL;
    static const tpcl_row_linear_options defaults;
    const tpcl_row_linear_options *o = options ? options : &defaults;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "row linear: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "row linear: group is NULL");
    TPI_TRY(check(weight, bias, o));
    columns = malloc((size_t)group->size * sizeof *columns);
    TPI_REQUIRE(columns, TPCL_ERR_NOMEM, "ranges of %d ranks", group->size);
    TPI_TRY(tpi_ranges_take(group, weight->name, o->columns, weight->shape[1],
                            tpcl_dtype_block(weight->dtype), columns));
    const tpcl_range mine = columns[group->rank];
    l = calloc(1, sizeof *l);
    TPI_REQUIRE(l, TPCL_ERR_NOMEM, "linear layer");
    l->group = group;
    l->reduce = !o->partial;
    l->whole_input = o->whole_input;
    const tpi_part part = {weight, 0, weight->shape[0], mine.begin, mine.end};
    TPI_TRY(tpi_weight_create(group->dev, &part, 1, &l->weight));
    l->in_total = (int)weight->shape[1];
    l->out_total = l->weight->n;
    if (bias) TPI_TRY(tpi_vector_range(group->dev, bias, 0, bias->shape[0], &l->bias));
    if (o->whole_input) TPI_TRY(take_columns(l, mine));
    *out = l;
    l = NULL;
done:
    free(columns);
    tpcl_linear_destroy(&l);
    return status;
}
