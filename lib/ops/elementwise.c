/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ops/checks.h"
#include "ops/ops.h"

/* One row is one work-group where it fits: so little work costs less than waking a second core. */
static tpcl_status run(tpi_launch *l, int64_t elements, int rows, const char *name)
{
    const size_t items = (size_t)(elements + 15) / 16;
    const bool whole = rows == 1 && items > 0 && items <= tpi_single_group(l->dev);
    const size_t global[2] = {items, (size_t)rows}, local[2] = {whole ? items : 1, 1};
    return tpi_launch_run(l, 2, global, local, name);
}

static tpcl_status get(tpi_launch *l, const char *name)
{
    return tpi_kernel_get(l->dev, "elementwise", "-cl-std=CL1.2", name, &l->kernel);
}

tpcl_status tpi_swiglu(const tpcl_tensor *x, tpcl_tensor *y, int tokens, int inter)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = y->dev};
    TPI_TRY(tpi_need("swiglu x", x, tokens, 2 * (int64_t)inter));
    TPI_TRY(tpi_need("swiglu y", y, tokens, inter));
    TPI_TRY(get(&l, "swiglu"));
    tpi_arg_mem(&l, x->mem);
    tpi_arg_mem(&l, y->mem);
    tpi_arg_int(&l, inter);
    TPI_TRY(run(&l, inter, tokens, "swiglu"));
done:
    return status;
}

void tpcl_ref_swiglu(const float *x, float *y, int tokens, int inter)
{
    for (int t = 0; t < tokens; t++) {
        const float *gate = x + (size_t)t * 2 * (size_t)inter, *up = gate + inter;
        for (int i = 0; i < inter; i++)
            y[(size_t)t * (size_t)inter + (size_t)i] =
                (float)(gate[i] / (1.0 + exp(-gate[i])) * up[i]);
    }
}

tpcl_status tpi_add_bias(tpcl_tensor *y, const tpcl_tensor *bias, int tokens, int dim)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = y->dev};
    TPI_TRY(tpi_need("add_bias y", y, tokens, dim));
    TPI_TRY(tpi_need("add_bias bias", bias, 1, dim));
    TPI_TRY(get(&l, "add_bias"));
    tpi_arg_mem(&l, y->mem);
    tpi_arg_mem(&l, bias->mem);
    tpi_arg_int(&l, dim);
    TPI_TRY(run(&l, dim, tokens, "add_bias"));
done:
    return status;
}

tpcl_status tpi_fill_zero(tpcl_device *dev, cl_mem mem, uint64_t elements)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = dev};
    if (!mem || elements == 0) return TPCL_OK;
    TPI_TRY(get(&l, "fill_zero"));
    tpi_arg_mem(&l, mem);
    tpi_arg_ulong(&l, elements);
    TPI_TRY(run(&l, (int64_t)elements, 1, "fill_zero"));
done:
    return status;
}
