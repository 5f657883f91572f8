/* SPDX-License-Identifier: Apache-2.0 */
/* Runs this program again as a child in an environment of its own: drivers read theirs only once.
 */
#ifndef TPCL_TEST_CHILD_H
#define TPCL_TEST_CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* For code in the child, where cmocka does not run. */
#define CHECK(cond, ...)                                       \
    do {                                                       \
        if (!(cond)) {                                         \
            fprintf(stderr, "line %d: %s; ", __LINE__, #cond); \
            fprintf(stderr, __VA_ARGS__);                      \
            fprintf(stderr, "\n");                             \
            return 1;                                          \
        }                                                      \
    } while (0)

/* `environment` is name, value, name, value, ..., NULL; a NULL value cannot be given: use "". */
static inline pid_t start_child(const char *mode, const char *const *environment)
{
    const pid_t pid = fork();
    if (pid != 0) return pid;
    for (; *environment; environment += 2) setenv(environment[0], environment[1], 1);
    execl("/proc/self/exe", "child", mode, (char *)NULL);
    _exit(127);
}

/* Exit code, or 128 and the signal. */
static inline int end_child(pid_t pid)
{
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline int run_child(const char *mode, const char *const *environment)
{
    return end_child(start_child(mode, environment));
}

#endif
