/** @file team.h  Ranks as threads of one process: several devices without an MPI launch. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_TEAM_H
#define TPCL_TEAM_H

#include <tpcl/comm.h>
#include <tpcl/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Where the ranks of one process meet: each rank is a thread of the caller's, which makes its
 * communicator or group with the team and is from then on the only one to use it. The library
 * starts no threads, and calls nothing of MPI on this way: MPI need not be initialised. Opaque; any
 * thread.
 */
typedef struct tpcl_team tpcl_team;

/**
 * Makes a team of @p size ranks.
 *
 * @param size  in   1 to TPCL_MAX_RANKS
 * @param out   out  NULL on failure; release with tpcl_team_destroy()
 * Collective: no, one thread makes it for all.  Blocks: no.  Allocates: yes.
 * Errors: TPCL_ERR_ARG, TPCL_ERR_NOMEM.
 */
TPCL_NODISCARD tpcl_status tpcl_team_create(int size, tpcl_team **out);
/**
 * Drops the caller's reference and sets *team to NULL. Communicators and groups made with it live
 * on. NULL and *NULL are no-ops.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
void tpcl_team_destroy(tpcl_team **team);
/**
 * The number of ranks; 0 for NULL.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_team_size(const tpcl_team *team);

/**
 * Makes this thread's end of a communicator of the team. A rank has one at a time; after all ranks
 * have destroyed theirs, or it has failed, they may make another.
 *
 * @param rank     in   0 to size - 1, another one in each thread
 * @param options  in   NULL = defaults; chunk_bytes must be the same on all ranks, force_mpi is not
 *                      looked at
 * @param out      out  NULL on failure, on all ranks
 * Collective: yes, over the team.  Blocks: yes, at most the deadline.  Allocates: yes.
 * Errors: TPCL_ERR_ARG (NULL, no such rank, one that another thread is: on this rank alone), those
 * of tpcl_comm_create.
 */
TPCL_NODISCARD tpcl_status tpcl_comm_create_in_team(tpcl_team *team, int rank,
                                                    const tpcl_comm_options *options,
                                                    tpcl_comm **out);

/**
 * Makes this thread's seat in a group of the team, as tpcl_group_create() does among processes. The
 * ranks of one process share its driver's threads: nothing is bound to cores, and a CPU device is
 * not divided, so ranks are for devices that are not the same.
 *
 * @param rank     in   0 to size - 1, another one in each thread; also the place in a comma list of
 *                      options->device
 * @param options  in   NULL = defaults
 * @param out      out  NULL on failure, on all ranks
 * Collective: yes, over the team.  Blocks: yes.  Allocates: yes.
 * Errors: those of tpcl_comm_create_in_team() and tpcl_group_create().
 */
TPCL_NODISCARD tpcl_status tpcl_group_create_in_team(tpcl_team *team, int rank,
                                                     const tpcl_group_options *options,
                                                     tpcl_group **out);

#ifdef __cplusplus
}
#endif
#endif
