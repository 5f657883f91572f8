/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <tpcl/attention.h>

#include "base/error.h"
#include "ops/ops.h"

static const double PI = 3.14159265358979323846;

/* Llama-3: long wavelengths are stretched by `factor`, short ones kept, those between blended. */
static double scaled_frequency(const tpcl_rope_desc *d, int pair)
{
    double f = pow(d->theta, -2.0 * pair / d->head_dim);
    if (d->factors) f /= (double)d->factors[pair];
    if (d->factor == 0.0) return f;
    if (d->linear) return f / d->factor;
    const double wavelength = 2.0 * PI / f;
    const double low = d->original_context / d->low_freq_factor;
    const double high = d->original_context / d->high_freq_factor;
    if (wavelength < high) return f;
    if (wavelength > low) return f / d->factor;
    const double blend = (d->original_context / wavelength - d->low_freq_factor) /
                         (d->high_freq_factor - d->low_freq_factor);
    return (1.0 - blend) * f / d->factor + blend * f;
}

static tpcl_status check_scaling(const tpcl_rope_desc *d)
{
    tpcl_status status = TPCL_OK;
    for (int j = 0; d->factors && j < d->head_dim / 2; j++)
        TPI_REQUIRE(isfinite(d->factors[j]) && d->factors[j] > 0.0f, TPCL_ERR_ARG,
                    "rope table: factors[%d] is %g, need more than 0", j, (double)d->factors[j]);
    if (d->factor == 0.0) goto done;
    TPI_REQUIRE(isfinite(d->factor) && d->factor >= 1.0, TPCL_ERR_ARG,
                "rope table: factor %g, need 0 for none or 1 and more", d->factor);
    if (d->linear) goto done;
    TPI_REQUIRE(d->low_freq_factor > 0.0 && isfinite(d->high_freq_factor) &&
                    d->low_freq_factor < d->high_freq_factor,
                TPCL_ERR_ARG,
                "rope table: low_freq_factor %g, high_freq_factor %g, need 0 < low < high",
                d->low_freq_factor, d->high_freq_factor);
    TPI_REQUIRE(d->original_context >= 1, TPCL_ERR_ARG,
                "rope table: original_context %d, need 1 or more", d->original_context);
done:
    return status;
}

static tpcl_status check_desc(const tpcl_rope_desc *d)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(tpi_head_dim_ok(d->head_dim), TPCL_ERR_ARG,
                "rope table: head_dim %d, need an even number from 2 to 256", d->head_dim);
    TPI_REQUIRE(d->context >= 1, TPCL_ERR_ARG, "rope table: context %d, need 1 or more",
                d->context);
    TPI_REQUIRE(isfinite(d->theta) && d->theta > 0.0, TPCL_ERR_ARG,
                "rope table: theta %g, need more than 0", d->theta);
    TPI_TRY(check_scaling(d));
done:
    return status;
}

tpcl_status tpcl_rope_table_create(tpcl_device *device, const tpcl_rope_desc *d, tpcl_tensor **out)
{
    tpcl_status status = TPCL_OK;
    float *table = NULL;

    TPI_REQUIRE(out, TPCL_ERR_ARG, "rope table: out is NULL");
    *out = NULL;
    TPI_REQUIRE(device, TPCL_ERR_ARG, "rope table: device is NULL");
    TPI_REQUIRE(d, TPCL_ERR_ARG, "rope table: desc is NULL");
    TPI_TRY(check_desc(d));
    const int pairs = d->head_dim / 2;
    const int64_t shape[3] = {d->context, pairs, 2};
    const size_t n = (size_t)d->context * (size_t)pairs * 2;
    table = malloc(n * sizeof *table);
    TPI_REQUIRE(table, TPCL_ERR_NOMEM, "rope table of %d positions", d->context);
    for (int j = 0; j < pairs; j++) {
        /* The reference keeps frequencies and angles in f32: match its roundings. */
        const float frequency = (float)scaled_frequency(d, j);
        for (int p = 0; p < d->context; p++) {
            const float angle = (float)p * frequency;
            const size_t at = ((size_t)p * (size_t)pairs + (size_t)j) * 2;
            table[at] = (float)cos((double)angle);
            table[at + 1] = (float)sin((double)angle);
        }
    }
    TPI_TRY(tpcl_tensor_create(device, TPCL_F32, 3, shape, out));
    TPI_TRY(tpcl_tensor_write(*out, table, n));
done:
    if (status != TPCL_OK && out) tpcl_tensor_destroy(out);
    free(table);
    return status;
}
