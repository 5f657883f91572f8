/* Ranks as threads in a test: cmocka's assertions jump out of the main thread only, so the others
 * count what is wrong and say it. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEAM_TEST_H
#define TEAM_TEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <tpcl/team.h>

#include "tpcl_test.h"

enum { TEAM_MAX = 4 };

typedef struct member {
    tpcl_team *team;
    int rank, size;
    const void *options; /* of the test */
    void (*run)(struct member *me);
    int wrong, checks;
} member;

#define CHECK(me, condition)                                                                   \
    do {                                                                                       \
        (me)->checks++;                                                                        \
        if (!(condition)) {                                                                    \
            (me)->wrong++;                                                                     \
            fprintf(stderr, "%s:%d: rank %d of %d: %s (%s)\n", __FILE__, __LINE__, (me)->rank, \
                    (me)->size, #condition, tpcl_last_error());                                \
        }                                                                                      \
    } while (0)

static inline void *team_thread(void *argument)
{
    member *me = argument;
    me->run(me);
    return NULL;
}

/* Runs `run` on every rank of a team of `size`, and fails where any rank found something wrong. */
static inline void run_team(int size, void (*run)(member *me), const void *options)
{
    member members[TEAM_MAX];
    pthread_t threads[TEAM_MAX];
    tpcl_team *team = NULL;
    int wrong = 0, checks = 0;
    assert_ok(tpcl_team_create(size, &team));
    for (int r = 0; r < size; r++) {
        members[r] = (member){team, r, size, options, run, 0, 0};
        assert_int_equal(pthread_create(&threads[r], NULL, team_thread, &members[r]), 0);
    }
    for (int r = 0; r < size; r++) {
        pthread_join(threads[r], NULL);
        wrong += members[r].wrong;
        checks += members[r].checks;
    }
    tpcl_team_destroy(&team);
    assert_int_equal(wrong, 0);
    assert_true(checks > 0);
}

#endif
