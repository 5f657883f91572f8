/* Steps: compare what all ranks brought, and fail together. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <stdio.h>
#include <string.h>

tpcl_status tpi_mpi(int code, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0, name = (int)strcspn(call, "(");
    if (code == MPI_SUCCESS) return TPCL_OK;
    MPI_Error_string(code, text, &length);
    return tpi_fail(TPCL_ERR_COMM, "%.*s failed: %s", name, call, text);
}

/* "all-reduce sum of 5 f32 values", for messages. */
static void describe(const struct tpi_call *call, char *text, size_t bytes)
{
    const unsigned long long n = call->count;
    switch ((enum tpi_op)call->op) {
    case TPI_OP_AGREE:
        snprintf(text, bytes, "agreement '%.*s'", (int)sizeof call->phase, call->phase);
        break;
    case TPI_OP_SUM:
        snprintf(text, bytes, "all-reduce sum of %llu f32 values", n);
        break;
    case TPI_OP_MIN:
    case TPI_OP_MAX:
        snprintf(text, bytes, "all-reduce %s of %llu integers",
                 call->op == TPI_OP_MIN ? "minimum" : "maximum", n);
        break;
    case TPI_OP_BROADCAST:
        snprintf(text, bytes, "broadcast of %llu bytes from rank %d", n, call->root);
        break;
    case TPI_OP_GATHER:
        if (call->root < 0)
            snprintf(text, bytes, "all-gather of %llu bytes", n);
        else
            snprintf(text, bytes, "gather of %llu bytes to rank %d", n, call->root);
        break;
    case TPI_OP_CLOSE:
        snprintf(text, bytes, "end of the group");
        break;
    }
}

/* This rank's message, and whose failure it was; `ends` = for the communicator, too. */
static tpcl_status fail(struct tpcl_comm *comm, int rank, tpcl_status code, const char *message,
                        tpcl_status result, bool ends)
{
    if (ends) {
        comm->failed = true;
        comm->failed_rank = rank;
        comm->failed_code = code;
        snprintf(comm->message, sizeof comm->message, "%s", message);
    }
    tpi_fail(result, "%s", message);
    tpi_blame(rank, code);
    return result;
}

/* Makes another rank's words this rank's failure. */
static tpcl_status adopt(struct tpcl_comm *comm, int from, const struct tpi_words *words, bool ends)
{
    char text[TPI_MESSAGE_MAX];
    if (words->status == TPCL_ERR_PEER)
        snprintf(text, sizeof text, "rank %d: %.490s", from, words->message);
    else
        snprintf(text, sizeof text, "%s", words->message);
    return fail(comm, words->rank, (tpcl_status)words->code, text, (tpcl_status)words->status,
                ends);
}

/* The failing rank keeps its own code and message, whoever else failed as well. */
static tpcl_status keep_own(const struct tpi_seat *mine, const struct tpi_words *first)
{
    const tpcl_status own = (tpcl_status)mine->line->call.status;
    tpi_fail(own, "%s", mine->words->message);
    tpi_blame(first->rank, (tpcl_status)first->code);
    return own;
}

static tpcl_status mismatch(struct tpcl_comm *comm, int rank)
{
    const struct tpi_seat *seats = comm->seats[comm->seq & 1];
    char here[128], there[128], text[TPI_MESSAGE_MAX];
    const char *sizes = "";
    describe(&seats[0].line->call, here, sizeof here);
    describe(&seats[rank].line->call, there, sizeof there);
    if (strcmp(here, there) == 0) sizes = ", with other sizes per rank";
    snprintf(text, sizeof text, "ranks disagree at call #%llu: rank 0 calls %s, rank %d %s%s",
             (unsigned long long)comm->calls, here, rank, there, sizes);
    return fail(comm, rank, TPCL_ERR_MISMATCH, text, TPCL_ERR_MISMATCH, true);
}

/* What the seats of a step show. */
struct view {
    int erring;   /* lowest rank that brought an error, or -1 */
    int gave_up;  /* lowest that gave up, or -1 */
    int differs;  /* lowest that calls something else than rank 0, or -1 */
    bool refusal; /* errors were brought, and all of them are refusals */
};

static struct view look(const struct tpcl_comm *comm, const struct tpi_seat *seats)
{
    struct view v = {-1, -1, -1, true};
    for (int r = comm->size - 1; r >= 0; r--) {
        const struct tpi_call *call = &seats[r].line->call;
        const uint64_t seq = atomic_load_explicit(&seats[r].line->seq, memory_order_acquire);
        if (seq & TPI_GAVE_UP) {
            v.gave_up = r;
        } else if (seq >= comm->seq && call->status != TPCL_OK) {
            v.erring = r;
            v.refusal = v.refusal && tpi_is_refusal((tpcl_status)call->status);
        } else if (seq >= comm->seq && memcmp(call, &seats[0].line->call, sizeof *call) != 0) {
            v.differs = r;
        }
    }
    return v;
}

/* All ranks come to the same verdict, because all look at the same lines in the same order: the
 * lowest rank that brought an error; the lowest that gave up; the lowest that calls something else
 * than rank 0. Only where nothing is wrong but refusals does the communicator go on. */
static tpcl_status judge(struct tpcl_comm *comm)
{
    const struct tpi_seat *seats = comm->seats[comm->seq & 1];
    const struct tpi_seat *mine = &seats[comm->rank];
    const struct view v = look(comm, seats);
    if (v.erring >= 0) {
        const struct tpi_words *words = seats[v.erring].words;
        const tpcl_status status = adopt(comm, v.erring, words, !v.refusal || v.gave_up >= 0);
        return mine->line->call.status == TPCL_OK ? status : keep_own(mine, words);
    }
    if (v.gave_up >= 0) return adopt(comm, v.gave_up, seats[v.gave_up].last, true);
    return v.differs >= 0 ? mismatch(comm, v.differs) : TPCL_OK;
}

/* "ranks 1, 3": who has not brought this step. Returns the lowest. */
static int list_missing(const struct tpcl_comm *comm, char *text, size_t bytes)
{
    enum { NAMED = 8 };
    const struct tpi_seat *seats = comm->seats[comm->seq & 1];
    int lowest = -1, missing = 0;
    size_t used = 0;
    for (int r = 0; r < comm->size; r++) {
        if (atomic_load_explicit(&seats[r].line->seq, memory_order_acquire) >= comm->seq) continue;
        if (lowest < 0) lowest = r;
        if (missing++ < NAMED && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d", used ? ", " : "", r);
    }
    if (missing > NAMED && used < bytes)
        snprintf(text + used, bytes - used, " and %d more", missing - NAMED);
    return lowest;
}

/* This rank waits no longer: it leaves its last words to the others and fails. */
static tpcl_status give_up(struct tpcl_comm *comm, tpcl_status why)
{
    const struct tpi_seat *mine = &comm->seats[comm->seq & 1][comm->rank];
    const unsigned long long number = comm->calls;
    struct tpi_words words = {.status = TPCL_ERR_PEER, .rank = comm->rank, .code = (int)why};
    char what[128], missing[128] = "none";
    describe(&mine->line->call, what, sizeof what);
    if (mine->line->call.status != TPCL_OK) {
        words = *mine->words;
        why = (tpcl_status)mine->line->call.status;
    } else if (why == TPCL_ERR_TIMEOUT) {
        const int lowest = list_missing(comm, missing, sizeof missing);
        words.status = TPCL_ERR_TIMEOUT;
        words.rank = lowest < 0 ? comm->rank : lowest;
        snprintf(words.message, sizeof words.message,
                 "%s (call #%llu): no answer within %g s from rank(s) %s", what, number,
                 comm->limits.timeout_s, missing);
    } else if (why == TPCL_ERR_INTERRUPTED) {
        snprintf(words.message, sizeof words.message, "interrupted in %s (call #%llu)", what,
                 number);
    } else {
        snprintf(words.message, sizeof words.message, "%s", tpcl_last_error());
    }
    comm->transport->leave(comm, &words);
    return fail(comm, words.rank, (tpcl_status)words.code, words.message, why, true);
}

tpcl_status tpi_comm_step(struct tpcl_comm *comm, const struct tpi_call *call)
{
    tpcl_status status;
    comm->seq++;
    comm->seats[comm->seq & 1][comm->rank].line->call = *call;
    status = comm->transport->meet(comm);
    if (status == TPCL_OK || status == TPCL_ERR_PEER) {
        status = judge(comm);
        if (status != TPCL_OK) return status;
        status = comm->transport->fetch(comm);
    }
    return status == TPCL_OK ? TPCL_OK : give_up(comm, status);
}

tpcl_status tpi_comm_begin(struct tpcl_comm *comm, struct tpi_call *call, tpcl_status local)
{
    const tpcl_status queued = comm->settle ? comm->settle(comm->owner, &local) : TPCL_OK;
    return queued == TPCL_OK ? tpi_comm_enter(comm, call, local) : queued;
}

tpcl_status tpi_comm_enter(struct tpcl_comm *comm, struct tpi_call *call, tpcl_status local)
{
    struct tpi_words *words;
    if (comm->failed) {
        tpi_fail(TPCL_ERR_GROUP_FAILED, "the group has failed before: %.480s", comm->message);
        tpi_blame(comm->failed_rank, comm->failed_code);
        return TPCL_ERR_GROUP_FAILED;
    }
    comm->calls++;
    if (local == TPCL_OK) return TPCL_OK;

    words = comm->seats[(comm->seq + 1) & 1][comm->rank].words;
    *words = (struct tpi_words){.status = TPCL_ERR_PEER, .rank = comm->rank, .code = (int)local};
    snprintf(words->message, sizeof words->message, "%s",
             tpcl_last_error()[0] ? tpcl_last_error() : tpcl_status_text(local));
    call->status = (int32_t)local;
    tpi_comm_expect(comm, 0, -1, false);
    return tpi_comm_step(comm, call);
}

void tpi_comm_expect(struct tpcl_comm *comm, size_t bytes, int reader, bool sliced)
{
    for (int r = 0; r < comm->size; r++) comm->bytes[r] = bytes;
    comm->reader = reader;
    comm->sliced = sliced;
}

void tpi_comm_put(struct tpcl_comm *comm, const void *in, size_t bytes)
{
    unsigned char *stage = tpi_comm_stage(comm);
    if (bytes && in != stage) memcpy(stage, in, bytes);
}

bool tpi_comm_owns(const struct tpcl_comm *comm, const void *p)
{
    for (int k = 0; k < 2; k++) {
        const uintptr_t data = (uintptr_t)comm->seats[k][comm->rank].data;
        if ((uintptr_t)p >= data && (uintptr_t)p < data + comm->chunk) return true;
    }
    return false;
}
