/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "report.h"
#include "signals.h"

/* How long a rank that already failed waits for the others, so that the job ends soon; less when it
 * has just waited for them in vain. */
static double failed_wait_s(int code)
{
    return code == EX_TEMPFAIL ? 1 : 4;
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_s(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    nanosleep(&t, NULL);
}

void job_begin(struct job *job, double timeout_s)
{
    int provided = 0;
    char host[256] = "";
    *job = (struct job){.size = 1, .timeout_s = timeout_s};
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        report_fail(EX_TEMPFAIL, "MPI cannot start (MPI_Init failed)");
        report_print();
        exit(EX_TEMPFAIL);
    }
    signals_install();
    signals_watch_exit();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &job->comm);
    MPI_Comm_rank(job->comm, &job->rank);
    MPI_Comm_size(job->comm, &job->size);
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    report_set_seat(job->rank, job->size, host);
}

/* False when the deadline passes or MPI reports an error. Yields: ranks may exceed the cores. */
static bool wait_for(MPI_Request *request, double limit_s)
{
    const double start = seconds_now();
    for (int spins = 0;; spins++) {
        int done = 0;
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
        if (done) return true;
        if (seconds_now() - start > limit_s) return false;
        if (spins < 2000)
            sched_yield();
        else
            sleep_s(200e-6);
    }
}

/* The only way out when ranks are missing. Rank 0 speaks and ends the job at once; the others come
 * later, one by one, for the case that it is rank 0 that is missing. */
static _Noreturn void abandon(const struct job *job, int code)
{
    if (code == 0 || code == CODE_PEER)
        code = report_fail(EX_TEMPFAIL, "other ranks did not answer in time (while %s)",
                           code ? "ending" : "agreeing");
    sleep_s(job->rank < 10 ? 0.5 * job->rank : 5);
    report_print();
    fflush(NULL);
    sleep_s(0.2); /* the launcher drops what it has not yet read when it kills the ranks */
    signals_finished();
    /* MPICH would follow our one line with one of its own */
    const int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

int job_agree(struct job *job, int code)
{
    int *codes = malloc((size_t)job->size * sizeof *codes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (!codes) abandon(job, report_fail(EX_OSERR, "out of memory"));
    const int err = MPI_Iallgather(&code, 1, MPI_INT, codes, 1, MPI_INT, job->comm, &request);
    if (err != MPI_SUCCESS || !wait_for(&request, code ? failed_wait_s(code) : job->timeout_s))
        abandon(job, code); /* `codes` stays: MPI may still write to it */
    int first = -1, agreed = 0;
    for (int r = job->size - 1; r >= 0; r--)
        if (codes[r] > 0 || (codes[r] != 0 && agreed <= 0)) {
            first = r;
            agreed = codes[r];
        }
    free(codes);
    if (agreed == CODE_PEER) agreed = EX_TEMPFAIL;
    if (first == job->rank) report_print();
    return agreed;
}

void job_broadcast(struct job *job, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const size_t part = bytes - done < INT_MAX ? bytes - done : INT_MAX;
        MPI_Request request = MPI_REQUEST_NULL;
        const int err =
            MPI_Ibcast((char *)data + done, (int)part, MPI_BYTE, 0, job->comm, &request);
        if (err != MPI_SUCCESS || !wait_for(&request, job->timeout_s)) abandon(job, 0);
        done += part;
    }
}

/* "--seed: 1 on rank 0, 2 on rank 1 3; " */
static void describe(const struct job_term *terms, size_t n, size_t term, int size, char *out,
                     size_t room)
{
    size_t used = (size_t)snprintf(out, room, "%s:", terms[term].name);
    for (int r = 0; r < size; r++) {
        const char *value = terms[(size_t)r * n + term].value;
        bool seen = false;
        for (int q = 0; q < r && !seen; q++)
            seen = strcmp(terms[(size_t)q * n + term].value, value) == 0;
        if (seen || used >= room) continue;
        used += (size_t)snprintf(out + used, room - used, "%s %s on rank", r ? "," : "", value);
        for (int q = r; q < size && used < room; q++)
            if (strcmp(terms[(size_t)q * n + term].value, value) == 0)
                used += (size_t)snprintf(out + used, room - used, " %d", q);
    }
    if (used < room) snprintf(out + used, room - used, "; ");
}

int job_same(struct job *job, const struct job_term *terms, size_t n)
{
    const size_t bytes = n * sizeof *terms;
    struct job_term *all = malloc((size_t)job->size * bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (!all) abandon(job, report_fail(EX_OSERR, "out of memory"));
    const int err =
        MPI_Iallgather(terms, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, job->comm, &request);
    if (err != MPI_SUCCESS || !wait_for(&request, job->timeout_s)) abandon(job, 0);
    /* a name is a pointer that means nothing in another process */
    for (size_t i = 0; i < n * (size_t)job->size; i++) all[i].name = terms[i % n].name;
    char message[800] = "";
    for (size_t t = 0; t < n; t++) {
        bool differs = false;
        for (int r = 1; r < job->size && !differs; r++)
            differs = strcmp(all[(size_t)r * n + t].value, all[t].value) != 0;
        const size_t used = strlen(message);
        if (differs) describe(all, n, t, job->size, message + used, sizeof message - used);
    }
    free(all);
    int code = 0;
    if (*message)
        code =
            report_fail(EX_PROTOCOL, "ranks disagree on %sstart every rank with the same", message);
    return job_agree(job, code);
}

int job_end(struct job *job, int code)
{
    MPI_Request request = MPI_REQUEST_NULL;
    fflush(NULL);
    signals_phase("ending");
    const int err = MPI_Ibarrier(job->comm, &request);
    if (err != MPI_SUCCESS || !wait_for(&request, code ? failed_wait_s(code) : job->timeout_s))
        abandon(job, code ? code : CODE_PEER);
    MPI_Comm_free(&job->comm);
    signals_finished();
    MPI_Finalize();
    return code;
}
