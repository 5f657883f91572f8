/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm.h"

#include <clblast_c.h>
#include <pthread.h>
#include <stdio.h>

static const size_t SCRATCH_MAX = 256u << 20; /* larger weights stay with the panel kernels */

/* CLBlast 1.5.3 keeps a cache of compiled routines that is not safe to use from two threads. */
static pthread_mutex_t clblast_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t padded(const tpi_weight *w)
{
    return (size_t)(w->n + TPI_PANEL - 1) / TPI_PANEL * TPI_PANEL;
}

static size_t scratch_bytes(const tpi_weight *w)
{
    return padded(w) * (size_t)w->k * sizeof(float);
}

/* A CPU's panel kernels beat CLBlast's defaults several times over; a GPU's tuned GEMM does not
 * lose to ours. */
static bool allowed(const tpi_weight *w)
{
    const tpcl_device *dev = w->dev;
    if (dev->gemm == TPCL_GEMM_PANEL || w->bytes == 0) return false;
    if (dev->gemm == TPCL_GEMM_AUTO && dev->info.type == TPCL_DEVICE_CPU) return false;
    return scratch_bytes(w) <= SCRATCH_MAX && scratch_bytes(w) <= dev->info.max_alloc_bytes;
}

bool tpi_gemm_wanted(const tpi_weight *w, int tokens)
{
    return tokens >= TPI_GEMM_FROM && allowed(w);
}

tpcl_status tpi_gemm_reserve(const tpi_weight *w)
{
    tpcl_status status = TPCL_OK;
    tpcl_device *dev = w->dev;
    const size_t bytes = scratch_bytes(w);
    if (!allowed(w) || bytes <= dev->gemm_scratch_bytes) return TPCL_OK;
    tpi_buffer_release(&dev->gemm_scratch);
    dev->gemm_scratch_bytes = 0;
    TPI_TRY(tpi_buffer_create(dev, bytes, "CLBlast's copy of a weight", &dev->gemm_scratch));
    dev->gemm_scratch_bytes = bytes;
done:
    return status;
}

static tpcl_status unpack(const tpi_weight *w)
{
    tpcl_status status = TPCL_OK;
    tpi_launch l = {.dev = w->dev};
    char options[64];
    snprintf(options, sizeof options, "-cl-std=CL1.2 -DDT_%s -DP=%d", tpcl_dtype_name(w->dtype),
             TPI_PANEL);
    TPI_TRY(tpi_kernel_get(w->dev, "unpack", options, "unpack", &l.kernel));
    tpi_arg_mem(&l, w->mem);
    tpi_arg_mem(&l, w->dev->gemm_scratch);
    tpi_arg_int(&l, w->k);
    const size_t global[2] = {padded(w) / TPI_PANEL, (size_t)(w->k + 31) / 32}, local[2] = {1, 1};
    TPI_TRY(tpi_launch_run(&l, 2, global, local, "unpack"));
done:
    return status;
}

tpcl_status tpi_gemm(const tpi_weight *w, const tpcl_tensor *x, tpcl_tensor *y, int tokens)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(scratch_bytes(w) <= w->dev->gemm_scratch_bytes, TPCL_ERR_SHAPE,
                "CLBlast: %zu bytes of scratch, %zu needed", w->dev->gemm_scratch_bytes,
                scratch_bytes(w));
    TPI_TRY(unpack(w));
    pthread_mutex_lock(&clblast_lock);
    const CLBlastStatusCode code = CLBlastSgemm(
        CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, (size_t)tokens, (size_t)w->n,
        (size_t)w->k, 1.0f, x->mem, 0, (size_t)w->k, w->dev->gemm_scratch, 0, padded(w), 0.0f,
        y->mem, 0, (size_t)w->n, &w->dev->queue, NULL);
    pthread_mutex_unlock(&clblast_lock);
    TPI_REQUIRE(code == CLBlastSuccess, TPCL_ERR_DEVICE,
                "CLBlast error %d: product of %d x %d x %d", (int)code, tokens, w->n, w->k);
done:
    return status;
}
