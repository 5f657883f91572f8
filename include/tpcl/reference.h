/** @file reference.h  Plain C references of every op: slow, simple, f64 inside, for tests and
 * ports.
 */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_REFERENCE_H
#define TPCL_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Host arrays, row-major, f32. Nothing is allocated, nothing fails, no rank is asked. */

/** y [tokens, n] = x [tokens, k] W^T + bias [n] (NULL = none); w [n, k]. */
void tpcl_ref_linear(const float *x, const float *w, const float *bias, float *y, int tokens, int n,
                     int k);
/** y [tokens, k] = rows ids[t] - v0 of w [rows, k]; a zero row where that is outside of it. */
void tpcl_ref_embed(const int32_t *ids, const float *w, float *y, int tokens, int k, int v0,
                    int rows);
/** h += add (NULL = nothing); y = rmsnorm(h) * w. h, add, y [tokens, dim], w [dim]. */
void tpcl_ref_rmsnorm(float *h, const float *add, const float *w, float *y, int tokens, int dim,
                      float eps);
/** One head row in place: optional norm [head_dim], then rotation by angles [head_dim/2] (cos,
 * sin).
 */
void tpcl_ref_rope(float *x, const float *norm, const float *angles, int head_dim, bool interleaved,
                   float eps);
/** One q row [head_dim] against `keys` contiguous K and V rows [keys, head_dim]. */
void tpcl_ref_attention(const float *q, const float *k, const float *v, float *out, int keys,
                        int head_dim);
/** y [tokens, inter] = silu(x[:, :inter]) * x[:, inter:]. */
void tpcl_ref_swiglu(const float *x, float *y, int tokens, int inter);

#ifdef __cplusplus
}
#endif
#endif
