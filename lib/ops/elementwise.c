/* SPDX-License-Identifier: Apache-2.0 */
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

tpcl_status tpcl_swiglu(const tpcl_tensor *x, tpcl_tensor *y, int tokens, int inter)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {0};
    const tpi_operand operands[] = {{"swiglu x", x, tokens, 2 * (int64_t)inter, TPI_READ},
                                    {"swiglu y", y, tokens, inter, TPI_WRITTEN}};
    TPI_TRY(tpi_need_all(operands, 2));
    l.dev = y->dev;
    TPI_TRY(get(&l, "swiglu"));
    tpi_arg_mem(&l, x->mem);
    tpi_arg_mem(&l, y->mem);
    tpi_arg_int(&l, inter);
    TPI_TRY(run(&l, inter, tokens, "swiglu"));
done:
    return status;
}

/* kernel(x, y, elements), after the operands were checked. */
static tpcl_status map(const char *kernel, const tpcl_tensor *x, tpcl_tensor *y, size_t elements)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = y->dev};
    TPI_TRY(get(&l, kernel));
    tpi_arg_mem(&l, x->mem);
    tpi_arg_mem(&l, y->mem);
    tpi_arg_ulong(&l, elements);
    TPI_TRY(run(&l, (int64_t)elements, 1, kernel));
done:
    return status;
}

/* A count that no tensor has, so that the check names it, where a cast would turn it negative. */
static int64_t count(size_t elements)
{
    return elements < INT64_MAX ? (int64_t)elements : INT64_MAX;
}

tpcl_status tpcl_silu(const tpcl_tensor *x, tpcl_tensor *y, size_t elements)
{
    const tpi_operand operands[] = {{"silu y", y, 1, count(elements), TPI_WRITTEN},
                                    {"silu x", x, 1, count(elements), TPI_READ_IN_PLACE}};
    const tpcl_status status = tpi_need_all(operands, 2);
    return status == TPCL_OK ? map("silu", x, y, elements) : status;
}

tpcl_status tpcl_gelu(const tpcl_tensor *x, tpcl_tensor *y, size_t elements)
{
    const tpi_operand operands[] = {{"gelu y", y, 1, count(elements), TPI_WRITTEN},
                                    {"gelu x", x, 1, count(elements), TPI_READ_IN_PLACE}};
    const tpcl_status status = tpi_need_all(operands, 2);
    return status == TPCL_OK ? map("gelu", x, y, elements) : status;
}

tpcl_status tpcl_add(tpcl_tensor *y, const tpcl_tensor *x, size_t elements)
{
    const tpi_operand operands[] = {{"add y", y, 1, count(elements), TPI_WRITTEN},
                                    {"add x", x, 1, count(elements), TPI_READ}};
    const tpcl_status status = tpi_need_all(operands, 2);
    return status == TPCL_OK ? map("add", x, y, elements) : status;
}

tpcl_status tpcl_add_bias(tpcl_tensor *y, const tpcl_tensor *bias, int tokens, int dim)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {0};
    const tpi_operand operands[] = {{"add_bias y", y, tokens, dim, TPI_WRITTEN},
                                    {"add_bias bias", bias, 1, dim, TPI_READ}};
    TPI_TRY(tpi_need_all(operands, 2));
    l.dev = y->dev;
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
