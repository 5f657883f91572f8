/* A linear layer behind a residual addition and an RMSNorm: one launch where that is faster. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_LAYERS_NORMED_H
#define TPI_LAYERS_NORMED_H

#include "layers/linear.h"

/* The residual stream and the way out of it. One launch reads h in every work-group, so that the
 * new sum has to go elsewhere: to `spare`, with which h then changes places. */
typedef struct tpi_normed_args {
    tpcl_tensor **h, **spare; /* [tokens, in]; spare: [1, in] is enough */
    const tpcl_tensor *add;   /* [tokens, in], or NULL */
    const tpcl_tensor *norm;  /* [in] */
    float eps;
    tpcl_tensor *x;    /* [tokens, in] scratch */
    tpcl_tensor *wide; /* [tokens, 2 inter] scratch of SwiGLU; NULL: y is what the layer gives */
    tpcl_tensor *y;    /* [tokens, out], or [tokens, inter] */
} tpi_normed_args;

/* h += add; y = layer(norm(h)), or SwiGLU of that. No collective where the layer has none. */
tpcl_status tpi_normed_forward(tpcl_linear *layer, const tpi_normed_args *a, int tokens);

#endif
