/* One row of f32 and a weight, on a CPU: with and without a norm before it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ops/checks.h"
#include "ops/ops.h"

enum {
    GROUPS_PER_UNIT = 4, /* enough to even out cores, and few enough that making x costs little */
    TURNS_OF_GROUP = 8 /* of a large weight: more groups, so that a core that is held up has less */
};

bool tpi_linear_row_fits(const tpi_weight *w, int tokens)
{
    const tpcl_device_info *info = &w->dev->info;
    return tokens == 1 && info->type == TPCL_DEVICE_CPU && w->n > 0 && w->k > 0 &&
           (uint64_t)w->k * sizeof(float) <= info->local_bytes / 2;
}

bool tpi_norm_linear_fits(const tpi_weight *w, int tokens, bool swiglu)
{
    return tpi_linear_row_fits(w, tokens) && (!swiglu || w->n % (2 * TPI_PANEL) == 0);
}

/* Panels that a work-item streams side by side: two streams a core read memory faster than one, as
 * long as every core still gets several work-items. Nibbles keep the core busy. */
static int panels_for(const tpi_weight *w)
{
    const bool nibbles = w->dtype == TPCL_Q4_0 || w->dtype == TPCL_Q4_1;
    return !nibbles && w->n >= 8 * TPI_PANEL * w->dev->info.compute_units ? 2 : 1;
}

static tpcl_status get(tpi_launch *l, const tpi_weight *w, int np, const char *kernel)
{
    char options[96];
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDT_%s -DP=%d -DNP=%d",
             tpcl_dtype_name(w->dtype), TPI_PANEL, np);
    l->dev = w->dev;
    return tpi_kernel_get(w->dev, "linear_row", options, kernel, &l->kernel);
}

static tpcl_status run(tpi_launch *l, const tpi_weight *w, int np)
{
    const int panels = (w->n + TPI_PANEL - 1) / TPI_PANEL, turns = (panels + np - 1) / np;
    const int even = GROUPS_PER_UNIT * w->dev->info.compute_units, many = turns / TURNS_OF_GROUP;
    const int groups = many > even ? many : even;
    const size_t global = (size_t)(groups < turns ? groups : turns), local = 1;
    tpi_arg(l, (size_t)w->k * sizeof(float), NULL); /* local memory */
    return tpi_launch_run(l, 1, &global, &local, "linear");
}

tpcl_status tpi_linear_row(const tpi_weight *w, const tpcl_tensor *x, const tpcl_tensor *bias,
                           tpcl_tensor *y)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {0};
    const int np = panels_for(w);
    TPI_TRY(get(&l, w, np, "linear_row"));
    tpi_arg_mem(&l, x->mem);
    tpi_arg_mem(&l, w->mem);
    tpi_arg_mem(&l, bias ? bias->mem : x->mem);
    tpi_arg_mem(&l, y->mem);
    tpi_arg_int(&l, w->n);
    tpi_arg_int(&l, w->k);
    tpi_arg_int(&l, bias != NULL);
    TPI_TRY(run(&l, w, np));
done:
    return status;
}

tpcl_status tpi_norm_linear(const tpi_weight *w, const tpi_norm_args *in, const tpcl_tensor *bias,
                            tpcl_tensor *y, bool swiglu)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {0};
    const int outputs = swiglu ? w->n / 2 : w->n, np = 2;
    const tpi_operand operands[] = {{"linear h", in->h, 1, w->k, false},
                                    {"linear norm", in->norm, 1, w->k, false},
                                    {"linear y", y, 1, outputs, true},
                                    {"linear add", in->add, 1, w->k, false},
                                    {"linear sum", in->sum, 1, w->k, true}};
    TPI_TRY(tpi_need_all(operands, in->add ? 5 : 3));
    if (bias) TPI_TRY(tpi_need("linear bias", bias, 1, w->n));
    TPI_TRY(get(&l, w, np, swiglu ? "norm_swiglu" : "norm_linear"));
    tpi_arg_mem(&l, in->h->mem);
    tpi_arg_mem(&l, in->add ? in->add->mem : in->h->mem);
    tpi_arg_mem(&l, in->norm->mem);
    tpi_arg_mem(&l, in->add ? in->sum->mem : y->mem);
    tpi_arg_mem(&l, w->mem);
    tpi_arg_mem(&l, bias ? bias->mem : in->norm->mem);
    tpi_arg_mem(&l, y->mem);
    tpi_arg_int(&l, outputs);
    tpi_arg_int(&l, w->k);
    tpi_arg_float(&l, in->eps);
    tpi_arg_int(&l, in->add != NULL);
    tpi_arg_int(&l, bias != NULL);
    TPI_TRY(run(&l, w, np));
done:
    return status;
}
