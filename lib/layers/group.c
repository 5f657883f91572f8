/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tpcl/team.h>
#include <unistd.h>

#include "base/log.h"
#include "device/affinity.h"
#include "device/select.h"
#include "layers/group.h"

/* What a rank tells the others on its host before devices are opened. */
typedef struct seat {
    char host[64];
    int local_rank;
    int device;    /* index in the host's list */
    bool on_cores; /* the device is a CPU: this rank computes on the host's cores */
    tpi_cpus mask;
} seat;

/* This rank's share of its host: what to open, and on which cores. */
typedef struct placement {
    int units; /* of a CPU device; 0 = all */
    tpi_cpus cpus;
    bool bind;
    int sharers;  /* local ranks on this device, this one included */
    bool crowded; /* some of them have no cores of their own */
} placement;

static tpcl_status choose(tpcl_group *g, const tpcl_group_options *o, seat *mine,
                          tpcl_device_info *info)
{
    tpcl_status status = TPCL_OK;
    tpcl_device_info *list = NULL;
    int n = 0;
    gethostname(mine->host, sizeof mine->host - 1);
    mine->local_rank = tpcl_comm_local_rank(g->comm);
    tpi_affinity_get(&mine->mask);
    TPI_TRY(tpcl_device_list(&list, &n));
    TPI_TRY(tpi_device_choose(list, n, o->device, mine->local_rank, &mine->device));
    *info = list[mine->device];
    mine->on_cores = info->type == TPCL_DEVICE_CPU;
done:
    tpcl_device_list_free(&list);
    return status;
}

/* Divides the host's cores among its ranks whose device is a CPU. */
static tpcl_status place(const seat *seats, int n, int rank, const tpcl_device_info *info,
                         placement *out)
{
    tpcl_status status = TPCL_OK;
    const seat *mine = &seats[rank];
    tpi_cpus *masks = calloc((size_t)n, sizeof *masks);
    int on_cores = 0, my_place = 0;
    TPI_REQUIRE(masks, TPCL_ERR_NOMEM, "affinity of %d ranks", n);
    for (int r = 0; r < n; r++) {
        if (strcmp(seats[r].host, mine->host) != 0) continue;
        if (seats[r].device == mine->device) out->sharers++;
        if (!seats[r].on_cores) continue;
        if (r == rank) my_place = on_cores;
        masks[on_cores++] = seats[r].mask;
    }
    out->crowded = out->sharers > 1;
    if (!mine->on_cores) goto done;
    bool shared = false;
    tpi_affinity_plan(masks, on_cores, my_place, &out->cpus, &shared);
    out->bind = out->cpus.n > 0 && out->cpus.n < mine->mask.n;
    if (out->cpus.n > 0 && out->cpus.n < info->compute_units && info->partitionable)
        out->units = out->cpus.n;
    out->crowded = out->sharers > 1 && (shared || !out->units);
done:
    free(masks);
    return status;
}

static void warn_crowded(const tpcl_group *g, const placement *p, const tpcl_device_info *info)
{
    if (!p->crowded || tpcl_comm_local_rank(g->comm) != 0) return;
    if (info->type == TPCL_DEVICE_CPU)
        tpi_log(&g->log, TPCL_LOG_WARN, "%d ranks share the %d cores of '%s'", p->sharers,
                info->compute_units, info->name);
    else
        tpi_log(&g->log, TPCL_LOG_WARN, "%d ranks share device %d '%s'", p->sharers, info->index,
                info->name);
}

/* Ranks of one process share the driver's threads: binding these for one would bind them for all,
 * and drivers serve every first sub-device by the same threads. */
static tpcl_status open_seat(tpcl_group *g, const tpcl_group_options *o, const void *in_process)
{
    tpcl_status status = TPCL_OK;
    const bool whole = o->no_binding || in_process;
    seat mine;
    tpcl_device_info info;
    placement p;
    seat *seats = calloc((size_t)g->size, sizeof *seats);
    size_t *bytes = calloc((size_t)g->size, sizeof *bytes);

    memset(&mine, 0, sizeof mine);
    memset(&info, 0, sizeof info);
    memset(&p, 0, sizeof p);
    status = seats && bytes ? choose(g, o, &mine, &info)
                            : tpi_fail(TPCL_ERR_NOMEM, "group of %d ranks", g->size);
    TPI_TRY(tpcl_comm_agree(g->comm, status, "choosing devices"));
    for (int r = 0; r < g->size; r++) bytes[r] = sizeof mine;
    TPI_TRY(tpcl_comm_gather(g->comm, TPCL_OK, &mine, bytes, seats, -1));
    status = place(seats, g->size, g->rank, &info, &p);
    g->sharers = p.sharers;
    if (whole) {
        p.units = 0;
        p.bind = false;
    }
    /* Before the driver does any work: its threads stay where they first touch memory. */
    if (status == TPCL_OK && p.bind) status = tpi_affinity_bind(&p.cpus);
    if (status == TPCL_OK) {
        const tpcl_device_options d = {.select = o->device,
                                       .local_rank = mine.local_rank,
                                       .units = p.units,
                                       .cache_dir = o->cache_dir,
                                       .gemm = o->gemm,
                                       .profile = o->profile,
                                       .log = o->log};
        status = tpcl_device_open(&d, &g->dev);
    }
    TPI_TRY(tpcl_comm_agree(g->comm, status, "opening devices"));
    warn_crowded(g, &p, &info);
done:
    free(seats);
    free(bytes);
    return status;
}

static tpcl_status copy_weights(tpcl_group *g, const double *weights)
{
    tpcl_status status = TPCL_OK;
    double total = 0.0;
    if (!weights) return TPCL_OK;
    g->weights = malloc((size_t)g->size * sizeof *g->weights);
    TPI_REQUIRE(g->weights, TPCL_ERR_NOMEM, "weights of %d ranks", g->size);
    for (int r = 0; r < g->size; r++) {
        TPI_REQUIRE(isfinite(weights[r]) && weights[r] >= 0.0, TPCL_ERR_ARG,
                    "weight %g of rank %d: need a finite number >= 0", weights[r], r);
        g->weights[r] = weights[r];
        total += weights[r];
    }
    TPI_REQUIRE(total > 0.0, TPCL_ERR_ARG, "the weights of all %d ranks are 0", g->size);
done:
    return status;
}

static tpcl_status fill(tpcl_group *g, const tpcl_group_options *o)
{
    tpcl_status status = TPCL_OK;
    TPI_REQUIRE(g, TPCL_ERR_NOMEM, "group object");
    TPI_TRY(copy_weights(g, o->weights));
    g->log = o->log;
    g->staging = malloc(tpcl_comm_chunk(g->comm));
    TPI_REQUIRE(g->staging, TPCL_ERR_NOMEM, "staging buffer");
done:
    return status;
}

tpcl_status tpi_group_create(tpcl_comm *comm, const tpcl_group_options *options,
                             tpi_group_opener open, const void *context, tpcl_group **out)
{
    tpcl_status status = TPCL_OK;
    static const tpcl_group_options defaults;
    const tpcl_group_options *o = options ? options : &defaults;
    tpcl_group *g = calloc(1, sizeof *g);
    if (g) {
        g->comm = comm;
        g->rank = tpcl_comm_rank(comm);
        g->size = tpcl_comm_size(comm);
    }
    TPI_TRY(tpcl_comm_agree(comm, fill(g, o), "group"));
    TPI_TRY(open(g, o, context));
    g->queued.possible = tpi_can_queue(g);
    *out = g;
    g = NULL;
    comm = NULL;
done:
    if (!g) tpcl_comm_destroy(&comm);
    tpcl_group_destroy(&g);
    return status;
}

tpcl_status tpi_group_create_mpi(MPI_Comm mpi, const tpcl_group_options *o, tpi_group_opener open,
                                 const void *context, tpcl_group **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_comm *comm = NULL;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "tpcl_group_create: out is NULL");
    *out = NULL;
    const tpcl_comm_options c = {.timeout_s = o ? o->timeout_s : 0,
                                 .chunk_bytes = o ? o->chunk_bytes : 0};
    TPI_TRY(tpcl_comm_create(mpi, &c, &comm));
    TPI_TRY(tpi_group_create(comm, o, open, context, out));
done:
    return status;
}

tpcl_status tpcl_group_create(MPI_Comm comm, const tpcl_group_options *options, tpcl_group **out)
{
    return tpi_group_create_mpi(comm, options, open_seat, NULL, out);
}

tpcl_status tpcl_group_create_in_team(tpcl_team *team, int rank, const tpcl_group_options *o,
                                      tpcl_group **out)
{
    tpcl_status status = TPCL_OK;
    static const bool in_process = true;
    tpcl_comm *comm = NULL;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "tpcl_group_create_in_team: out is NULL");
    *out = NULL;
    const tpcl_comm_options c = {.timeout_s = o ? o->timeout_s : 0,
                                 .chunk_bytes = o ? o->chunk_bytes : 0};
    TPI_TRY(tpcl_comm_create_in_team(team, rank, &c, &comm));
    TPI_TRY(tpi_group_create(comm, o, open_seat, &in_process, out));
done:
    return status;
}

void tpcl_group_destroy(tpcl_group **group)
{
    if (!group || !*group) return;
    tpcl_group *g = *group;
    *group = NULL;
    /* The caller's queue goes on after this, and must not read what is freed here. */
    if (g->staged) clFinish(g->dev->queue);
    tpcl_comm_destroy(&g->comm); /* waits for sums in the queue: before the device goes */
    tpcl_device_close(&g->dev);
    free(g->weights);
    free(g->staging);
    free(g);
}

int tpcl_group_rank(const tpcl_group *group)
{
    return group ? group->rank : 0;
}

int tpcl_group_size(const tpcl_group *group)
{
    return group ? group->size : 0;
}

tpcl_device *tpcl_group_device(tpcl_group *group)
{
    return group ? group->dev : NULL;
}

tpcl_comm *tpcl_group_comm(tpcl_group *group)
{
    return group ? group->comm : NULL;
}
