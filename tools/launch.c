/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "parse.h"
#include "report.h"

enum { TTY_STDERR = 1, TTY_STDOUT = 2 };

/* The variable that each launcher gives its ranks: MPICH's hydra, PMIx, Open MPI, Slurm's srun. */
static const char *launcher_rank(void)
{
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i])) return getenv(names[i]);
    return getenv("SLURM_STEP_NUM_TASKS") ? getenv("SLURM_PROCID") : NULL;
}

bool launch_inside(void)
{
    return launcher_rank() || getenv("PMI_SIZE") || getenv("OMPI_COMM_WORLD_SIZE");
}

int launch_rank(void)
{
    int64_t rank = -1;
    const char *text = launcher_rank();
    if (text && !parse_int(text, 0, 1 << 30, &rank)) rank = -1;
    return (int)rank;
}

static int told_terminals(void)
{
    int64_t told = -1;
    const char *text = getenv("TPCL_TTY");
    if (text && !parse_int(text, 0, TTY_STDERR | TTY_STDOUT, &told)) told = -1;
    return (int)told;
}

bool launch_stderr_is_terminal(void)
{
    const int told = told_terminals();
    return isatty(STDERR_FILENO) || (told >= 0 && (told & TTY_STDERR));
}

bool launch_stdout_may_be_terminal(void)
{
    const int told = told_terminals();
    if (isatty(STDOUT_FILENO)) return true;
    return told >= 0 ? (told & TTY_STDOUT) != 0 : launch_inside();
}

static volatile pid_t child;
static volatile int interrupted;

/* The terminal sends Ctrl-C to the whole foreground group, mpiexec included; a signal from kill()
 * reaches only this process and is passed on. */
static void pass_on(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    interrupted = 1;
    if (child > 0 && (info->si_code == SI_USER || info->si_code == SI_TKILL))
        kill(child, signal_number);
}

static void tell_terminals(void)
{
    char number[16];
    snprintf(number, sizeof number, "%d",
             (isatty(STDERR_FILENO) ? TTY_STDERR : 0) | (isatty(STDOUT_FILENO) ? TTY_STDOUT : 0));
    setenv("TPCL_TTY", number, 1);
    struct winsize window = {0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
        snprintf(number, sizeof number, "%d", window.ws_col);
        setenv("COLUMNS", number, 1);
    }
}

/* In the child. Returns only when mpiexec cannot be started. */
static void become_mpiexec(const char *mpiexec, int ranks, const char *self, char **argv)
{
    size_t n = 0;
    while (argv[n]) n++;
    char count[16];
    snprintf(count, sizeof count, "%d", ranks);
    const char **words = calloc(n + 5, sizeof *words);
    if (!words) return;
    words[0] = mpiexec;
    words[1] = "-n";
    words[2] = count;
    words[3] = self;
    for (size_t i = 1; i < n; i++) words[3 + i] = argv[i];
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execvp(mpiexec, (char *const *)words);
}

static int start(const char *mpiexec, int ranks, char **argv)
{
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return report_fail(EX_OSERR, "cannot find this program: %s", strerror(errno));
    self[length] = '\0';
    int channel[2];
    if (pipe2(channel, O_CLOEXEC) != 0)
        return report_fail(EX_OSERR, "cannot start %s: %s", mpiexec, strerror(errno));
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        become_mpiexec(mpiexec, ranks, self, argv);
        const int why = errno;
        if (write(channel[1], &why, sizeof why) < 0) _exit(EX_OSERR);
        _exit(EX_NOINPUT);
    }
    close(channel[1]);
    int why = pid < 0 ? errno : 0;
    /* nothing arrives when exec succeeded: the pipe then just closes */
    if (pid > 0 && read(channel[0], &why, sizeof why) != (ssize_t)sizeof why) why = 0;
    close(channel[0]);
    if (why) {
        if (pid > 0) waitpid(pid, NULL, 0);
        return report_fail(EX_NOINPUT,
                           "cannot start %s: %s; install MPICH (package mpich) or name another "
                           "launcher in TPCL_MPIEXEC",
                           mpiexec, strerror(why));
    }
    child = pid;
    return 0;
}

/* Hydra passes exit codes through, and returns the signal's number for a killed rank. */
static int translate(int wait_status)
{
    const int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 0;
    const bool fatal = code == SIGILL || code == SIGABRT || code == SIGBUS || code == SIGFPE ||
                       code == SIGKILL || code == SIGSEGV;
    if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGPIPE)
        return report_fail(EX_IOERR, "standard output: %s", strerror(EPIPE));
    if (WIFSIGNALED(wait_status))
        return report_fail(EX_TEMPFAIL, "the launcher was killed (signal %d)",
                           WTERMSIG(wait_status));
    if (fatal)
        return report_fail(EX_TEMPFAIL,
                           "a rank was killed (signal %d) before the end; -v shows which process "
                           "is which rank",
                           code);
    if ((code > 0 && code < EX__BASE) || code == 255)
        return report_fail(EX_TEMPFAIL, "the launcher ended the job (its exit code is %d)", code);
    return code;
}

int launch_mpiexec(int ranks, char **argv)
{
    const char *named = getenv("TPCL_MPIEXEC");
    const char *mpiexec = named && *named ? named : "mpiexec";
    const struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    tell_terminals();
    /* handlers, unlike ignored signals, do not pass through exec */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int code = start(mpiexec, ranks, argv);
    int wait_status = 0;
    if (!code && waitpid(child, &wait_status, 0) < 0)
        code = report_fail(EX_OSERR, "waitpid: %s", strerror(errno));
    if (!code) code = translate(wait_status);
    /* Hydra sometimes forgets the ranks' code when it has forwarded a signal */
    if (!code && interrupted) code = EXIT_INTERRUPTED;
    report_print();
    return code;
}
