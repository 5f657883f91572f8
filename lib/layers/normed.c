/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/normed.h"

static tpcl_status in_one_launch(tpcl_linear *l, const tpi_normed_args *a)
{
    const tpi_norm_args in = {
        .h = *a->h, .add = a->add, .norm = a->norm, .sum = *a->spare, .eps = a->eps};
    const tpcl_status status = tpi_norm_linear(l->weight, &in, l->bias, a->y, a->wide != NULL);
    if (status == TPCL_OK && a->add) {
        tpcl_tensor *sum = *a->spare;
        *a->spare = *a->h;
        *a->h = sum;
    }
    return status;
}

tpcl_status tpi_normed_forward(tpcl_linear *l, const tpi_normed_args *a, int tokens)
{
    tpcl_status status = TPCL_OK;
    const bool plain = !l->reduce && !l->gather && !l->turns.rows;
    if (plain && tpi_norm_linear_fits(l->weight, tokens, a->wide != NULL))
        return in_one_launch(l, a);
    TPI_TRY(tpcl_rmsnorm(*a->h, a->add, a->norm, a->x, tokens, l->in_total, a->eps));
    TPI_TRY(tpcl_linear_forward(l, a->x, a->wide ? a->wide : a->y, tokens));
    if (a->wide) TPI_TRY(tpcl_swiglu(a->wide, a->y, tokens, l->weight->n / 2));
done:
    return status;
}
