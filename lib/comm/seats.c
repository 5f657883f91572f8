/* Seats in memory that all ranks of a host see: where they lie in a rank's part, and meeting there
 * by C11 atomics on the lines, without MPI. A step costs two cache-line transfers per rank besides
 * the data. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/comm.h"

#include <limits.h>
#include <string.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

/* Each rank's part: two lines, three times words, the door, two data areas. The lines of different
 * ranks are far apart; data starts on pages of its own, so that the owner's node holds it (first
 * touch). */
enum { PAGE = 4096 };
_Static_assert(2 * sizeof(struct tpi_line) + 3 * sizeof(struct tpi_words) +
                       sizeof(struct tpi_door) <=
                   PAGE,
               "head of a part");

static size_t area_bytes(const struct tpcl_comm *comm)
{
    return (comm->chunk + PAGE - 1) / PAGE * PAGE;
}

size_t tpi_part_bytes(const struct tpcl_comm *comm)
{
    return 2 * (PAGE + area_bytes(comm));
}

void tpi_part_seat(struct tpcl_comm *comm, int rank, void *part)
{
    /* Mappings differ between processes by whole pages, so all round up to the same byte. */
    char *base = (char *)(((uintptr_t)part + PAGE - 1) / PAGE * PAGE);
    struct tpi_words *words = (struct tpi_words *)(void *)(base + 2 * sizeof(struct tpi_line));
    for (size_t k = 0; k < 2; k++)
        comm->seats[k][rank] = (struct tpi_seat){
            .line = (struct tpi_line *)(void *)base + k,
            .words = words + k,
            .last = words + 2,
            .door = (struct tpi_door *)(void *)(base + PAGE - sizeof(struct tpi_door)),
            .data = (unsigned char *)base + PAGE + k * area_bytes(comm),
        };
}

void tpi_part_clear(struct tpcl_comm *comm)
{
    for (size_t k = 0; k < 2; k++) {
        const struct tpi_seat *mine = &comm->seats[k][comm->rank];
        memset(mine->data, 0, area_bytes(comm)); /* first touch; and no fault in the hot path */
        mine->line->call = (struct tpi_call){0};
        atomic_store(&mine->door->sleepers, 0);
        atomic_store_explicit(&mine->line->seq, 0, memory_order_release);
    }
}

static bool somebody_gave_up(const struct tpcl_comm *comm, const struct tpi_seat *seats)
{
    for (int r = 0; r < comm->size; r++)
        if (atomic_load_explicit(&seats[r].line->seq, memory_order_relaxed) & TPI_GAVE_UP)
            return true;
    return false;
}

/* Who polls where ranks or other programs share its core takes time from whom it waits for: at once
 * where ranks outnumber cores, else after spinning, a rank sleeps on the line of the one that is
 * missing, and the kernel wakes it. Measured with SmolLM2 on 2 cores and a compiler beside it,
 * tokens/s with yields and with sleep: 17 and 24 on 3 ranks, 10 and 26 on 4. */
#ifdef __linux__
static uint32_t *futex_word(struct tpi_line *line)
{
    const uint16_t one = 1;
    const bool little_endian = *(const unsigned char *)&one == 1;
    return (uint32_t *)(void *)&line->seq + (little_endian ? 0 : 1);
}

static void wake_sleepers(const struct tpi_seat *seat)
{
    if (atomic_load(&seat->door->sleepers) > 0)
        syscall(SYS_futex, futex_word(seat->line), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_until_arrival(const struct tpi_seat *seat, uint64_t seq)
{
    static const struct timespec limit = {.tv_nsec =
                                              5000000}; /* deadline and interrupt are looked at */
    atomic_fetch_add(&seat->door->sleepers, 1);
    const uint64_t seen = atomic_load(&seat->line->seq);
    if (seen < seq)
        syscall(SYS_futex, futex_word(seat->line), FUTEX_WAIT, (uint32_t)seen, &limit, NULL, 0);
    atomic_fetch_sub(&seat->door->sleepers, 1);
}
#else
static void wake_sleepers(const struct tpi_seat *seat)
{
    (void)seat;
}

static void sleep_until_arrival(const struct tpi_seat *seat, uint64_t seq)
{
    (void)seat, (void)seq;
}
#endif

tpcl_status tpi_seats_meet(struct tpcl_comm *comm)
{
    const struct tpi_seat *seats = comm->seats[comm->seq & 1];
    struct tpi_wait wait = {0};
    /* Sequentially consistent, as the count of sleepers is: one of both sides sees the other. */
    atomic_store(&seats[comm->rank].line->seq, comm->seq);
    wake_sleepers(&seats[comm->rank]);
    for (int r = 0; r < comm->size; r++) {
        while (atomic_load_explicit(&seats[r].line->seq, memory_order_acquire) < comm->seq) {
            if (wait.turns >= comm->limits.spins) sleep_until_arrival(&seats[r], comm->seq);
            const tpcl_status status = tpi_wait_turn(&comm->limits, &wait);
            if (status != TPCL_OK) return status;
            if (wait.turns % TPI_WAIT_CHECK == 0 && somebody_gave_up(comm, seats))
                return TPCL_ERR_PEER;
        }
    }
    return TPCL_OK;
}

tpcl_status tpi_seats_fetch(struct tpcl_comm *comm)
{
    (void)comm; /* what others brought is read where it lies */
    return TPCL_OK;
}

/* Both lines: others may wait for this step, or find this one complete and wait for the next. */
void tpi_seats_leave(struct tpcl_comm *comm, const struct tpi_words *words)
{
    struct tpi_words *mine = comm->seats[0][comm->rank].last;
    memmove(mine, words, sizeof *mine);
    for (int k = 0; k < 2; k++) {
        const struct tpi_seat *seat = &comm->seats[k][comm->rank];
        atomic_fetch_or(&seat->line->seq, TPI_GAVE_UP);
        wake_sleepers(seat);
    }
}
