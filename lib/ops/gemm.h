/* The third provider of linear: CLBlast on a widened copy of the weight. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_OPS_GEMM_H
#define TPI_OPS_GEMM_H

#include "ops/weight.h"

enum { TPI_GEMM_FROM = 32 }; /* tokens; below, reading the weight once is what counts */

/* Whether `tokens` rows of this weight go through CLBlast, as the device's choice says. */
bool tpi_gemm_wanted(const tpi_weight *w, int tokens);
/* Makes the device's scratch large enough for the weight, where CLBlast may be used for it. */
tpcl_status tpi_gemm_reserve(const tpi_weight *w);
/* y [tokens, n] = x [tokens, k] W^T, as tpi_linear without bias. */
tpcl_status tpi_gemm(const tpi_weight *w, const tpcl_tensor *x, tpcl_tensor *y, int tokens);

#endif
