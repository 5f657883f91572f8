/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "ops/checks.h"
#include "ops/ops.h"

enum {
    DIM_MAX = 8192,     /* inputs: 32 KiB of local memory */
    GROUPS_PER_UNIT = 4 /* enough to even out cores, and few enough that the norm costs little */
};

bool tpi_norm_linear_fits(const tpi_weight *w, int tokens, bool swiglu)
{
    const tpcl_device_info *info = &w->dev->info;
    return tokens == 1 && info->type == TPCL_DEVICE_CPU && w->n > 0 && w->k > 0 &&
           w->k <= DIM_MAX && (uint64_t)w->k * sizeof(float) <= info->local_bytes &&
           (!swiglu || w->n % (2 * TPI_PANEL) == 0);
}

tpcl_status tpi_norm_linear(const tpi_weight *w, const tpi_norm_args *in, const tpcl_tensor *bias,
                            tpcl_tensor *y, bool swiglu)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = w->dev};
    char options[128];
    const int outputs = swiglu ? w->n / 2 : w->n;
    const int panels = (w->n + TPI_PANEL - 1) / TPI_PANEL, pairs = (panels + 1) / 2;
    const tpi_operand operands[] = {{"linear h", in->h, 1, w->k, TPI_READ},
                                    {"linear norm", in->norm, 1, w->k, TPI_READ},
                                    {"linear y", y, 1, outputs, TPI_WRITTEN},
                                    {"linear add", in->add, 1, w->k, TPI_READ},
                                    {"linear sum", in->sum, 1, w->k, TPI_WRITTEN}};
    TPI_TRY(tpi_need_all(operands, in->add ? 5 : 3));
    if (bias) TPI_TRY(tpi_need("linear bias", bias, 1, w->n));
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDT_%s -DP=%d -DNP=2 -DX_SPACE=__local",
             tpcl_dtype_name(w->dtype), TPI_PANEL);
    TPI_TRY(tpi_kernel_get(w->dev, "linear_norm", options, swiglu ? "norm_swiglu" : "norm_linear",
                           &l.kernel));
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
    tpi_arg(&l, (size_t)w->k * sizeof(float), NULL); /* local memory */
    const int most = GROUPS_PER_UNIT * w->dev->info.compute_units;
    const size_t global = (size_t)(pairs < most ? pairs : most), local = 1;
    TPI_TRY(tpi_launch_run(&l, 1, &global, &local, "linear"));
done:
    return status;
}
