/* References that belong to no kernel alone, and those of the small ops. rope.c and attention.c
 * have their own. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <tpcl/reference.h>

#include "base/dtype.h"
#include "base/error.h"

static tpcl_status check_dtype(tpcl_dtype dtype, int64_t n)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(tpcl_dtype_block_bytes(dtype) > 0 && dtype != TPCL_I32, TPCL_ERR_UNSUPPORTED,
                "widen: dtype %s has no value in f32", tpcl_dtype_name(dtype));
    TPI_REQUIRE(n >= 0 && n % tpcl_dtype_block(dtype) == 0, TPCL_ERR_SHAPE,
                "widen: %lld elements are not whole %s blocks of %d", (long long)n,
                tpcl_dtype_name(dtype), tpcl_dtype_block(dtype));
done:
    return status;
}

tpcl_status tpcl_ref_widen(tpcl_dtype dtype, const void *src, size_t n, float *dst)
{
    const tpcl_status status = check_dtype(dtype, (int64_t)n);
    if (status == TPCL_OK && n > 0) tpi_widen(dtype, src, n, dst);
    return status;
}

void tpcl_ref_linear(const float *x, const float *w, const float *bias, float *y, int tokens, int n,
                     int k)
{
    for (int t = 0; t < tokens; t++) {
        for (int o = 0; o < n; o++) {
            double sum = bias ? bias[o] : 0.0;
            for (int i = 0; i < k; i++)
                sum += (double)x[(size_t)t * (size_t)k + (size_t)i] *
                       w[(size_t)o * (size_t)k + (size_t)i];
            y[(size_t)t * (size_t)n + (size_t)o] = (float)sum;
        }
    }
}

/* Elements [at, at + n) of the tensor, n <= 32: one block, or as many single values. */
static tpcl_status read_piece(const tpcl_host_tensor *w, int64_t at, int n, float *dst)
{
    tpcl_status status = TPCL_OK;
    uint8_t raw[32 * sizeof(float)];
    const size_t offset = tpi_dtype_bytes(w->dtype, (size_t)at);
    const size_t bytes = tpi_dtype_bytes(w->dtype, (size_t)n);
    if (w->data)
        memcpy(raw, (const uint8_t *)w->data + offset, bytes);
    else
        TPI_TRY(w->read(w->context, offset, bytes, raw));
    tpi_widen(w->dtype, raw, (size_t)n, dst);
done:
    return status;
}

tpcl_status tpcl_ref_linear_stored(const float *x, const tpcl_host_tensor *w, const float *bias,
                                   float *y, int tokens)
{
    tpcl_status status = TPCL_OK;
    enum { PIECE = 32 };
    float piece[PIECE];
    TPI_REQUIRE(x && w && y && (w->data || w->read), TPCL_ERR_ARG,
                "reference linear: a pointer is NULL");
    TPI_REQUIRE(w->ndim == 2, TPCL_ERR_SHAPE, "%s: %d dimensions, need [out, in]", w->name,
                w->ndim);
    const int64_t n = w->shape[0], k = w->shape[1];
    TPI_TRY(check_dtype(w->dtype, k));
    for (int64_t t = 0; t < tokens; t++) {
        for (int64_t o = 0; o < n; o++) {
            double sum = bias ? bias[o] : 0.0;
            for (int64_t i = 0; i < k; i += PIECE) {
                const int width = k - i < PIECE ? (int)(k - i) : PIECE;
                TPI_TRY(read_piece(w, o * k + i, width, piece));
                for (int j = 0; j < width; j++) sum += (double)x[t * k + i + j] * piece[j];
            }
            y[t * n + o] = (float)sum;
        }
    }
done:
    return status;
}

void tpcl_ref_embed(const int32_t *ids, const float *w, float *y, int tokens, int k, int v0,
                    int rows)
{
    tpcl_ref_embed_added(ids, w, y, tokens, k, (tpcl_range){v0, (int64_t)v0 + rows},
                         (tpcl_range){0, 0});
}

void tpcl_ref_embed_added(const int32_t *ids, const float *w, float *y, int tokens, int k,
                          tpcl_range base, tpcl_range added)
{
    for (int t = 0; t < tokens; t++) {
        const int64_t id = ids[t];
        float *to = y + (size_t)t * (size_t)k;
        int64_t row = -1;
        if (id >= base.begin && id < base.end)
            row = id - base.begin;
        else if (id >= added.begin && id < added.end)
            row = tpcl_range_size(base) + id - added.begin;
        if (row >= 0)
            memcpy(to, w + (size_t)row * (size_t)k, (size_t)k * sizeof *to);
        else
            memset(to, 0, (size_t)k * sizeof *to);
    }
}

void tpcl_ref_rmsnorm(float *h, const float *add, const float *w, float *y, int tokens, int dim,
                      float eps)
{
    for (int t = 0; t < tokens; t++) {
        const size_t at = (size_t)t * (size_t)dim;
        double sum = 0.0;
        for (int i = 0; i < dim; i++) {
            if (add) h[at + (size_t)i] += add[at + (size_t)i];
            sum += (double)h[at + (size_t)i] * h[at + (size_t)i];
        }
        const double scale = 1.0 / sqrt(sum / dim + eps);
        for (int i = 0; i < dim; i++) y[at + (size_t)i] = (float)(h[at + (size_t)i] * scale * w[i]);
    }
}

void tpcl_ref_swiglu(const float *x, float *y, int tokens, int inter)
{
    for (int t = 0; t < tokens; t++) {
        const float *gate = x + (size_t)t * 2 * (size_t)inter, *up = gate + inter;
        for (int i = 0; i < inter; i++)
            y[(size_t)t * (size_t)inter + (size_t)i] =
                (float)(gate[i] / (1.0 + exp(-(double)gate[i])) * up[i]);
    }
}

void tpcl_ref_silu(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = (float)(x[i] / (1.0 + exp(-(double)x[i])));
}

void tpcl_ref_gelu(const float *x, float *y, size_t n)
{
    const double scale = 0.79788456080286535588; /* sqrt(2 / pi) */
    for (size_t i = 0; i < n; i++) {
        const double v = x[i], inner = scale * (v + 0.044715 * v * v * v);
        y[i] = (float)(v / (1.0 + exp(-2.0 * inner))); /* (1 + tanh z) / 2 = 1 / (1 + exp(-2 z)) */
    }
}

void tpcl_ref_add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] += x[i];
}

void tpcl_ref_add_bias(float *y, const float *bias, int tokens, int dim)
{
    for (int t = 0; t < tokens; t++) tpcl_ref_add(y + (size_t)t * (size_t)dim, bias, (size_t)dim);
}

void tpcl_ref_lm_head(const float *x, const float *w, const float *bias, float *y, int tokens,
                      int vocab, int k, int valid)
{
    tpcl_ref_linear(x, w, bias, y, tokens, vocab, k);
    for (int t = 0; t < tokens; t++)
        for (int o = valid; o < vocab; o++) y[(size_t)t * (size_t)vocab + (size_t)o] = -INFINITY;
}

int tpcl_ref_argmax(const float *v, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (!isnan(v[i]) && (best < 0 || v[i] > v[best])) best = i;
    return best;
}

/* log(sum(exp(v))), the greatest taken out so that nothing overflows. */
static double log_sum_exp(const float *v, int n)
{
    double peak = -INFINITY, sum = 0.0;
    for (int i = 0; i < n; i++) peak = fmax(peak, v[i]);
    for (int i = 0; i < n; i++) sum += exp(v[i] - peak);
    return peak + log(sum);
}

void tpcl_ref_log_softmax(const float *v, double *logp, int n)
{
    const double total = log_sum_exp(v, n);
    for (int i = 0; i < n; i++) logp[i] = v[i] - total;
}

void tpcl_ref_softmax(const float *v, double *p, int n)
{
    const double total = log_sum_exp(v, n);
    for (int i = 0; i < n; i++) p[i] = exp(v[i] - total);
}
