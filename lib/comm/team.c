/* Ranks of one process, a thread each: seats in ordinary memory, and a place to find each other. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tpcl/shard.h>
#include <tpcl/team.h>
#include <unistd.h>

#include "comm/comm.h"

/* What a rank brings when a communicator is made. */
struct entry {
    bool here;
    void *part; /* the round's from here on */
    size_t chunk;
    tpcl_status status;
    char message[TPI_MESSAGE_MAX];
};

/* One communicator of all ranks. Its memory goes with the last of them, so that nobody frees what
 * another still reads. Everything but the parts is guarded by the team's lock. */
struct round {
    struct tpcl_team *team;
    int arrived, refs;
    bool complete, broken;
    struct entry entries[];
};

struct tpcl_team {
    int size, refs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct round *round; /* the one that ranks are coming to, or NULL */
    bool *taken;         /* [size] the rank has a communicator, or waits for one */
};

tpcl_status tpcl_team_create(int size, tpcl_team **out)
{
    tpcl_status status = TPCL_OK;
    tpcl_team *team = NULL;
    pthread_condattr_t attributes;
    TPI_REQUIRE(out, TPCL_ERR_ARG, "team: out is NULL");
    *out = NULL;
    TPI_REQUIRE(size >= 1 && size <= TPCL_MAX_RANKS, TPCL_ERR_ARG, "team of %d ranks, need 1 to %d",
                size, TPCL_MAX_RANKS);
    team = calloc(1, sizeof *team);
    TPI_REQUIRE(team, TPCL_ERR_NOMEM, "team object");
    team->size = size;
    team->refs = 1;
    team->taken = calloc((size_t)size, sizeof *team->taken);
    if (!team->taken) {
        free(team);
        TPI_FAIL(TPCL_ERR_NOMEM, "team of %d ranks", size);
    }
    pthread_mutex_init(&team->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&team->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = team;
done:
    return status;
}

/* Unlocks; the last reference frees. */
static void leave_team(struct tpcl_team *team)
{
    const bool last = --team->refs == 0;
    pthread_mutex_unlock(&team->lock);
    if (!last) return;
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->lock);
    free(team->taken);
    free(team);
}

void tpcl_team_destroy(tpcl_team **team)
{
    if (!team || !*team) return;
    pthread_mutex_lock(&(*team)->lock);
    leave_team(*team);
    *team = NULL;
}

int tpcl_team_size(const tpcl_team *team)
{
    return team ? team->size : 0;
}

/* Locked. Ends one rank's part in a round. */
static void leave_round(struct round *round, int rank)
{
    round->team->taken[rank] = false;
    if (--round->refs > 0) return;
    for (int r = 0; r < round->team->size; r++) free(round->entries[r].part);
    free(round);
}

static void list_absent(const struct round *round, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < round->team->size && used < bytes; r++)
        if (!round->entries[r].here)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d", used ? ", " : "", r);
}

static struct timespec after(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (time_t)seconds;
    t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Locked. Waits until all ranks have come. Whoever waits too long ends it for those who wait, too.
 */
static tpcl_status await(struct round *round, double timeout_s)
{
    tpcl_status status = TPCL_OK;
    struct tpcl_team *team = round->team;
    const struct timespec limit = after(timeout_s);
    char absent[128];
    int code = 0;
    while (!round->complete && !round->broken && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&team->changed, &team->lock, &limit);
    if (round->complete) goto done;
    if (!round->broken) {
        round->broken = true;
        team->round = NULL;
        pthread_cond_broadcast(&team->changed);
    }
    list_absent(round, absent, sizeof absent);
    TPI_FAIL(TPCL_ERR_TIMEOUT, "communicator: not all ranks came within %g s, missing: rank(s) %s",
             timeout_s, absent);
done:
    return status;
}

/* Locked. The round that the ranks are coming to. */
static struct round *coming(struct tpcl_team *team)
{
    if (!team->round) {
        team->round = calloc(1, sizeof *team->round + (size_t)team->size * sizeof(struct entry));
        if (team->round) team->round->team = team;
    }
    return team->round;
}

/* Brings the entry, whose part is the round's from then on, and waits for the others. */
static tpcl_status join(struct tpcl_team *team, int rank, struct entry *entry, double timeout_s,
                        struct round **out)
{
    tpcl_status status = TPCL_OK;
    pthread_mutex_lock(&team->lock);
    TPI_REQUIRE(!team->taken[rank], TPCL_ERR_ARG,
                "communicator: rank %d of the team is another thread's, or has one already", rank);
    struct round *round = coming(team);
    TPI_REQUIRE(round, TPCL_ERR_NOMEM, "communicator of %d ranks", team->size);
    team->taken[rank] = true;
    round->entries[rank] = *entry;
    round->entries[rank].here = true;
    entry->part = NULL;
    round->refs++;
    if (++round->arrived == team->size) {
        round->complete = true;
        team->round = NULL;
        pthread_cond_broadcast(&team->changed);
    }
    status = await(round, timeout_s);
    if (status == TPCL_OK) {
        team->refs++;
        *out = round;
    } else {
        leave_round(round, rank);
    }
done:
    pthread_mutex_unlock(&team->lock);
    return status;
}

/* All ranks look at the same entries and come to the same end. */
static tpcl_status agree(const struct round *round, int rank)
{
    tpcl_status status = TPCL_OK;
    const struct entry *all = round->entries, *mine = &all[rank];
    int first = 0;
    while (first < round->team->size && all[first].status == TPCL_OK) first++;
    if (first < round->team->size) {
        if (mine->status != TPCL_OK)
            status = tpi_fail(mine->status, "%s", mine->message);
        else
            status = tpi_fail(TPCL_ERR_PEER, "rank %d: %.490s", first, all[first].message);
        tpi_blame(first, all[first].status);
        goto done;
    }
    for (int r = 1; r < round->team->size; r++) {
        if (all[r].chunk == all[0].chunk) continue;
        status = tpi_fail(TPCL_ERR_MISMATCH, "chunk_bytes is %zu on rank 0 but %zu on rank %d",
                          all[0].chunk, all[r].chunk, r);
        tpi_blame(r, TPCL_ERR_MISMATCH);
        goto done;
    }
done:
    return status;
}

static tpcl_status make_part(struct tpcl_comm *comm, const tpcl_comm_options *options, void **part)
{
    tpcl_status status = TPCL_OK;
    TPI_TRY(tpi_comm_prepare(comm, options));
    const size_t bytes = tpi_part_bytes(comm);
    *part = malloc(bytes);
    TPI_REQUIRE(*part, TPCL_ERR_NOMEM, "communicator: %zu bytes of staging memory", bytes);
    tpi_part_seat(comm, comm->rank, *part);
    tpi_part_clear(comm);
    tpi_comm_set_spins(comm, sysconf(_SC_NPROCESSORS_ONLN));
done:
    return status;
}

static void team_close(struct tpcl_comm *comm)
{
    struct round *round = comm->state;
    struct tpcl_team *team = round->team;
    pthread_mutex_lock(&team->lock);
    leave_round(round, comm->rank);
    leave_team(team);
}

tpcl_status tpcl_comm_create_in_team(tpcl_team *team, int rank, const tpcl_comm_options *options,
                                     tpcl_comm **out)
{
    tpcl_status status = TPCL_OK;
    struct tpcl_comm *comm = NULL;
    struct round *round = NULL;
    struct entry entry = {0};
    TPI_REQUIRE(out, TPCL_ERR_ARG, "communicator: out is NULL");
    *out = NULL;
    TPI_REQUIRE(team, TPCL_ERR_ARG, "communicator: team is NULL");
    TPI_REQUIRE(rank >= 0 && rank < team->size, TPCL_ERR_ARG,
                "communicator: rank %d, the team has 0 to %d", rank, team->size - 1);
    comm = calloc(1, sizeof *comm);
    TPI_REQUIRE(comm, TPCL_ERR_NOMEM, "communicator: out of memory");
    comm->mpi = comm->local = MPI_COMM_NULL;
    comm->win = MPI_WIN_NULL;
    comm->rank = comm->local_rank = rank;
    comm->size = comm->local_size = team->size;
    entry.status = make_part(comm, options, &entry.part);
    entry.chunk = comm->chunk;
    snprintf(entry.message, sizeof entry.message, "%s", tpcl_last_error());
    TPI_TRY(join(team, rank, &entry, comm->limits.timeout_s, &round));
    comm->state = round;
    comm->transport = &tpi_transport_team;
    TPI_TRY(agree(round, rank));
    for (int r = 0; r < team->size; r++) tpi_part_seat(comm, r, round->entries[r].part);
    *out = comm;
    comm = NULL;
done:
    free(entry.part); /* where it did not become a round's */
    if (comm) tpi_comm_release(comm, true);
    return status;
}

const struct tpi_transport tpi_transport_team = {
    .meet = tpi_seats_meet,
    .fetch = tpi_seats_fetch,
    .leave = tpi_seats_leave,
    .close = team_close,
    .close_alone = true,
};
