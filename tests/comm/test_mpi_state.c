/* What tpcl_comm_create asks of MPI. Each state needs a process of its own: this program starts
 * itself once for each, without a launcher, which MPI takes for a job of one rank. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "tpcl_test.h"

#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tpcl/comm.h>
#include <unistd.h>

static const char *self;

/* Creates a communicator on the calling thread; 0 where the outcome is what `text` says: part of
 * the refusal's message, or NULL for success. */
static int outcome(MPI_Comm mpi, const char *text)
{
    tpcl_comm *comm = NULL;
    const tpcl_status status = tpcl_comm_create(mpi, NULL, &comm);
    int wrong = 0;
    if (text)
        wrong = status != TPCL_ERR_ARG || comm || !strstr(tpcl_last_error(), text);
    else
        wrong = status != TPCL_OK || !comm;
    if (wrong) fprintf(stderr, "status %s: %s\n", tpcl_status_text(status), tpcl_last_error());
    tpcl_comm_destroy(&comm);
    return wrong;
}

struct task {
    const char *text;
    int wrong;
};

static void *on_thread(void *argument)
{
    struct task *t = argument;
    t->wrong = outcome(MPI_COMM_SELF, t->text);
    return NULL;
}

static int from_another_thread(const char *text)
{
    struct task t = {text, 1};
    pthread_t thread;
    if (pthread_create(&thread, NULL, on_thread, &t) != 0) return 1;
    pthread_join(thread, NULL);
    return t.wrong;
}

static int start(int level)
{
    int provided = -1;
    MPI_Init_thread(NULL, NULL, level, &provided);
    if (provided != level) fprintf(stderr, "MPI gives level %d for %d\n", provided, level);
    return provided != level;
}

static int before_init(void)
{
    return outcome(MPI_COMM_WORLD, "MPI is not initialised");
}

static int single(void)
{
    MPI_Init(NULL, NULL);
    int wrong = outcome(MPI_COMM_WORLD, "MPI_THREAD_FUNNELED, since OpenCL drivers start threads");
    MPI_Finalize();
    return wrong;
}

static int funneled(void)
{
    int wrong = start(MPI_THREAD_FUNNELED);
    wrong += outcome(MPI_COMM_WORLD, NULL);
    wrong += from_another_thread("needs MPI_THREAD_MULTIPLE");
    wrong += outcome(MPI_COMM_NULL, "MPI_COMM_NULL");
    MPI_Finalize();
    return wrong + outcome(MPI_COMM_WORLD, "MPI is finalised");
}

static int serialized(void)
{
    int wrong = start(MPI_THREAD_SERIALIZED);
    wrong += from_another_thread(NULL);
    MPI_Finalize();
    return wrong;
}

static int multiple(void)
{
    int wrong = start(MPI_THREAD_MULTIPLE);
    wrong += outcome(MPI_COMM_WORLD, NULL);
    wrong += from_another_thread(NULL);
    MPI_Finalize();
    return wrong;
}

static const struct {
    const char *name;
    int (*run)(void);
} states[] = {{"before_init", before_init},
              {"single", single},
              {"funneled", funneled},
              {"serialized", serialized},
              {"multiple", multiple}};

static void in_a_process_of_its_own(void **state)
{
    const char *name = *state;
    int code = -1;
    const pid_t child = fork();
    if (child == 0) {
        execl(self, self, name, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFEXITED(code));
    assert_int_equal(WEXITSTATUS(code), 0);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[COUNT(states)];
    self = argv[0];
    for (size_t i = 0; i < COUNT(states); i++) {
        if (argc > 1 && strcmp(argv[1], states[i].name) == 0) return states[i].run();
        tests[i] = (struct CMUnitTest){.name = states[i].name,
                                       .test_func = in_a_process_of_its_own,
                                       .initial_state = (void *)(uintptr_t)states[i].name};
    }
    return argc > 1 ? 64 : cmocka_run_group_tests_name("comm/mpi_state", tests, NULL, NULL);
}
