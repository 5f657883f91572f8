/* The ranks of one run, before and beside the library's group: agreeing, sharing, leaving. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_JOB_H
#define TOOLS_JOB_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct job {
    MPI_Comm comm;
    int rank, size;
    double timeout_s;
};

/* A setting that must be the same on every rank. */
struct job_term {
    const char *name; /* as the user spells it */
    char value[24];
};

double seconds_now(void);

/* MPI_Init, signal handlers, the prefix of messages. Does not return when MPI cannot start. */
void job_begin(struct job *job, double timeout_s);

/**
 * Collective. Each rank brings 0, an exit code with its message recorded, or CODE_PEER. Returns 0
 * on all ranks, or on all ranks the code of the lowest failing rank, which has then printed its
 * message. Ends the program when ranks do not come.
 */
int job_agree(struct job *job, int code);

/* Collective. Bytes of rank 0 to all. Ends the program when ranks do not come. */
void job_broadcast(struct job *job, void *data, size_t bytes);

/* Collective. EX_PROTOCOL on all ranks, and one line with the values, when ranks differ. */
int job_same(struct job *job, const struct job_term *terms, size_t n);

/* Collective. MPI_Finalize if everybody comes, MPI_Abort if not. Returns `code`. */
int job_end(struct job *job, int code);

#endif
