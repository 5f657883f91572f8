/* The inside of a linear layer. The kinds differ in how it is made and in the way of its rows. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_LAYERS_LINEAR_H
#define TPI_LAYERS_LINEAR_H

#include <tpcl/linear.h>

#include "layers/group.h"
#include "ops/ops.h"

/* Outputs of all ranks on their way to the order of one rank (layers/column.c). */
typedef struct tpi_gather {
    int n_parts;
    tpcl_range *ranges;               /* [n_parts, size] of each part */
    int64_t *outs;                    /* [n_parts] */
    size_t *row_bytes, *bytes;        /* [size] of a rank's row; of its rows in a turn, scratch */
    float *mine, *by_rank, *by_parts; /* [rows, out], then twice [rows, out_total] */
} tpi_gather;

/* Device staging of a layer that takes its rows in turns, so that any number of them fits. */
typedef struct tpi_turns {
    int rows;           /* of a turn; 0 = the layer takes all rows at once */
    int64_t first;      /* column of x at which this rank's begin */
    tpcl_tensor *x, *y; /* [rows, in], [rows, out] */
} tpi_turns;

struct tpcl_linear {
    tpcl_group *group; /* the caller's; outlives the layer */
    tpi_weight *weight;
    tpcl_tensor *bias; /* this rank's outputs, or NULL */
    int in_total, out_total;
    bool reduce;        /* row-parallel: sum over the ranks, then the bias */
    bool whole_input;   /* x is [tokens, in_total] */
    tpi_gather *gather; /* y is [tokens, out_total]; NULL where one rank has it all */
    tpi_turns turns;
};

/* Rows [row0, row1) of a matrix and of its bias (NULL = none). */
typedef struct tpi_stack {
    const tpcl_host_tensor *weight, *bias;
    int64_t row0, row1;
} tpi_stack;

/* A layer without communication: the rows of `stack` below one another. */
tpcl_status tpi_linear_create(tpcl_group *group, const tpi_stack *stack, int n, tpcl_linear **out);

/* A weight of two dimensions with a bias (or NULL) of one number a row. */
tpcl_status tpi_matrix_check(const tpcl_host_tensor *weight, const tpcl_host_tensor *bias);

/* Turns of about 4 MiB, 1 to 128 rows of `columns`. */
tpcl_status tpi_turns_create(tpcl_linear *layer, int64_t columns);
/* turns.x = rows [at, at + rows) of x [any, in_total], this rank's columns. */
tpcl_status tpi_turns_take(tpcl_linear *layer, const tpcl_tensor *x, int at, int rows);

tpcl_status tpi_gather_forward(tpcl_linear *layer, const tpcl_tensor *x, tpcl_tensor *y,
                               int tokens);
void tpi_gather_free(tpi_gather **gather);

#endif
