/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "layers/linear.h"
#include "layers/ranges.h"

enum { MAX_PARTS = 8 };

static tpcl_status check_part(const tpcl_linear_part *p, const tpcl_linear_part *first,
                              int64_t *rows)
{
    tpcl_status status = TPCL_OK;
    const tpcl_host_tensor *w = p->weight;
    TPI_TRY(tpi_matrix_check(w, p->bias));
    TPI_REQUIRE(w->shape[1] == first->weight->shape[1], TPCL_ERR_SHAPE,
                "%s: %lld columns beside %lld of %s", w->name, (long long)w->shape[1],
                (long long)first->weight->shape[1], first->weight->name);
    TPI_REQUIRE(p->first >= 0 && p->first <= w->shape[0] && p->out >= 0 &&
                    p->out <= w->shape[0] - p->first,
                TPCL_ERR_SHAPE, "%s: %lld rows from row %lld on wanted, it has %lld", w->name,
                (long long)p->out, (long long)p->first, (long long)w->shape[0]);
    *rows = p->out ? p->out : w->shape[0] - p->first;
done:
    return status;
}

void tpi_gather_free(tpi_gather **gather)
{
    tpi_gather *g = *gather;
    if (!g) return;
    free(g->ranges);
    free(g->outs);
    free(g->row_bytes);
    free(g->bytes);
    free(g->mine);
    free(g->by_rank);
    free(g->by_parts);
    free(g);
    *gather = NULL;
}

static tpcl_status gather_create(tpcl_linear *l, int n_parts, const tpcl_range *ranges,
                                 const int64_t *outs)
{
    tpcl_status status = TPCL_OK;
    const size_t size = (size_t)l->group->size, n = (size_t)n_parts;
    tpi_gather *g = l->gather = calloc(1, sizeof *g);
    TPI_REQUIRE(g, TPCL_ERR_NOMEM, "linear layer");
    TPI_TRY(tpi_turns_create(l, l->out_total));
    const size_t rows = (size_t)l->turns.rows;
    const size_t whole = rows * (size_t)l->out_total * sizeof(float);
    g->n_parts = n_parts;
    g->ranges = malloc(n * size * sizeof *ranges);
    g->outs = malloc(n * sizeof *outs);
    g->row_bytes = calloc(size, sizeof *g->row_bytes);
    g->bytes = calloc(size, sizeof *g->bytes);
    g->mine = malloc(rows * (size_t)l->weight->n * sizeof(float) + 1);
    g->by_rank = malloc(whole + 1);
    g->by_parts = malloc(whole + 1);
    TPI_REQUIRE(g->ranges && g->outs && g->row_bytes && g->bytes && g->mine && g->by_rank &&
                    g->by_parts,
                TPCL_ERR_NOMEM, "gathering %zu rows of %d outputs", rows, l->out_total);
    memcpy(g->ranges, ranges, n * size * sizeof *ranges);
    memcpy(g->outs, outs, n * sizeof *outs);
    for (size_t i = 0; i < n * size; i++)
        g->row_bytes[i % size] += (size_t)tpcl_range_size(ranges[i]) * sizeof(float);
done:
    return status;
}

/* From [rank][row][part] to [row][part][rank]: the order in which one rank has its outputs. */
static void arrange(const tpcl_linear *l, int rows)
{
    const tpi_gather *g = l->gather;
    const float *from = g->by_rank;
    const int size = l->group->size;
    for (int r = 0; r < size; r++) {
        for (int t = 0; t < rows; t++) {
            float *to = g->by_parts + (size_t)t * (size_t)l->out_total;
            for (int p = 0; p < g->n_parts; p++) {
                const tpcl_range mine = g->ranges[p * size + r];
                const size_t n = (size_t)tpcl_range_size(mine);
                memcpy(to + mine.begin, from, n * sizeof *to);
                from += n;
                to += g->outs[p];
            }
        }
    }
}

/* This rank's outputs of rows [at, at + rows) of x, to g->mine. */
static tpcl_status local_rows(tpcl_linear *l, const tpcl_tensor *x, int at, int rows)
{
    tpcl_status status = TPCL_OK;
    if (at > 0) TPI_TRY(tpi_turns_take(l, x, at, rows));
    TPI_TRY(tpi_linear(l->weight, at > 0 ? l->turns.x : x, l->bias, l->turns.y, rows));
    TPI_TRY(tpcl_tensor_read(l->turns.y, l->gather->mine, (size_t)rows * (size_t)l->weight->n));
done:
    return status;
}

tpcl_status tpi_gather_forward(tpcl_linear *l, const tpcl_tensor *x, tpcl_tensor *y, int tokens)
{
    tpcl_status status = TPCL_OK;
    tpi_gather *g = l->gather;
    const size_t row = (size_t)l->out_total * sizeof(float);
    for (int at = 0; at < tokens; at += l->turns.rows) {
        const int rows = tokens - at < l->turns.rows ? tokens - at : l->turns.rows;
        for (int r = 0; r < l->group->size; r++) g->bytes[r] = g->row_bytes[r] * (size_t)rows;
        /* A failure on this rank alone rides along; it ends the call on all. */
        status = local_rows(l, x, at, rows);
        TPI_TRY(tpcl_comm_gather(l->group->comm, status, g->mine, g->bytes, g->by_rank, -1));
        if (row == 0) continue;
        arrange(l, rows);
        /* Blocking: by_parts is free for the next turn, and the layer may be destroyed. */
        TPI_TRY(TPI_CL(clEnqueueWriteBuffer(l->group->dev->queue, y->mem, CL_TRUE, (size_t)at * row,
                                            (size_t)rows * row, g->by_parts, 0, NULL, NULL)));
    }
done:
    return status;
}

/* Each rank's rows of each part, and this rank's as a stack. */
static tpcl_status cut(const tpcl_group *group, const tpcl_linear_part *parts, int n_parts,
                       tpcl_range *ranges, int64_t *outs, tpi_stack *stack)
{
    tpcl_status status = TPCL_OK;
    int64_t total = 0;
    for (int i = 0; i < n_parts; i++) {
        const tpcl_linear_part *p = &parts[i];
        tpcl_range *all = ranges + (size_t)i * (size_t)group->size;
        TPI_TRY(check_part(p, parts, &outs[i]));
        TPI_TRY(tpi_ranges_take(group, p->weight->name, p->rows, outs[i], 1, all));
        stack[i] = (tpi_stack){p->weight, p->bias, p->first + all[group->rank].begin,
                               p->first + all[group->rank].end};
        total += outs[i];
        TPI_REQUIRE(total <= INT32_MAX, TPCL_ERR_SHAPE, "%s: %lld outputs of all parts",
                    p->weight->name, (long long)total);
    }
done:
    return status;
}

tpcl_status tpcl_column_linear_create(tpcl_group *group, const tpcl_linear_part *parts, int n_parts,
                                      const tpcl_column_linear_options *options, tpcl_linear **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_linear *l = NULL;
    tpcl_range *ranges = NULL;
    int64_t outs[MAX_PARTS];
    tpi_stack stack[MAX_PARTS];

    TPI_REQUIRE(out, TPCL_ERR_ARG, "column linear: out is NULL");
    *out = NULL;
    TPI_REQUIRE(group, TPCL_ERR_ARG, "column linear: group is NULL");
    TPI_REQUIRE(parts, TPCL_ERR_ARG, "column linear: parts is NULL");
    TPI_REQUIRE(n_parts >= 1 && n_parts <= MAX_PARTS, TPCL_ERR_ARG,
                "column linear: %d parts, need 1 to %d", n_parts, MAX_PARTS);
    ranges = malloc((size_t)n_parts * (size_t)group->size * sizeof *ranges);
    TPI_REQUIRE(ranges, TPCL_ERR_NOMEM, "ranges of %d ranks", group->size);
    TPI_TRY(cut(group, parts, n_parts, ranges, outs, stack));
    TPI_TRY(tpi_linear_create(group, stack, n_parts, &l));
    l->out_total = 0;
    for (int i = 0; i < n_parts; i++) l->out_total += (int)outs[i];
    if (options && options->gather_output && group->size > 1)
        TPI_TRY(gather_create(l, n_parts, ranges, outs));
    *out = l;
    l = NULL;
done:
    free(ranges);
    tpcl_linear_destroy(&l);
    return status;
}
