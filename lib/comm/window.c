/* Ranks of one host, a process each: seats in an MPI-3 shared-memory window, and no MPI call
 * between open and close. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

static tpcl_status find_seats(struct tpcl_comm *comm)
{
    tpcl_status status = TPCL_OK;
    for (int r = 0; r < comm->size; r++) {
        MPI_Aint bytes = 0;
        int unit = 0;
        void *base = NULL;
        TPI_TRY(TPI_MPI(MPI_Win_shared_query(comm->win, r, &bytes, &unit, &base)));
        tpi_part_seat(comm, r, base);
    }
done:
    return status;
}

static tpcl_status window_open(struct tpcl_comm *comm)
{
    tpcl_status status = TPCL_OK;
    const MPI_Aint bytes = (MPI_Aint)tpi_part_bytes(comm);
    void *base = NULL;
    TPI_TRY(
        TPI_MPI(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm->local, &base, &comm->win)));
    TPI_TRY(TPI_MPI(MPI_Win_set_errhandler(comm->win, MPI_ERRORS_RETURN)));
    TPI_TRY(TPI_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, comm->win)));
    TPI_TRY(find_seats(comm));
    tpi_part_clear(comm);
done:
    return status;
}

static void window_close(struct tpcl_comm *comm)
{
    if (comm->win == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(comm->win);
    MPI_Win_free(&comm->win);
}

const struct tpi_transport tpi_transport_window = {
    .open = window_open,
    .meet = tpi_seats_meet,
    .fetch = tpi_seats_fetch,
    .leave = tpi_seats_leave,
    .close = window_close,
    .any_thread = true,
};
