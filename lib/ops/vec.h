/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_OPS_VEC_H
#define TPI_OPS_VEC_H

/* The widest vector that cuts a head into equal pieces; head_dim is even. */
static inline int tpi_vec(int head_dim)
{
    return head_dim % 16 == 0 ? 16 : head_dim % 4 == 0 ? 4 : 2;
}

#endif
