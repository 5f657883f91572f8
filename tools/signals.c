/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

static volatile int interrupted;
static volatile int finished;
static struct timespec interrupted_at;
static const char *volatile phase = "starting";
static const char *volatile temporary;

/* Only calls that are safe in a signal handler. */
static void say(const char *text)
{
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

static void say_line(const char *what, int number)
{
    char line[400] = "";
    const char *const parts[] = {report_prefix(), what, phase};
    size_t used = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        for (const char *c = parts[i]; *c && used < sizeof line - 24; c++) line[used++] = *c;
    if (number > 0) {
        const char *tail = " (signal ";
        while (*tail) line[used++] = *tail++;
        if (number >= 10) line[used++] = (char)('0' + number / 10);
        line[used++] = (char)('0' + number % 10);
        line[used++] = ')';
    }
    line[used++] = '\n';
    line[used] = '\0';
    say(line);
}

static void remove_temporary(void)
{
    if (temporary) unlink(temporary);
    temporary = NULL;
}

/* Ctrl-C may reach a rank twice, from the terminal and from the launcher: an echo does not count.
 */
static void on_interrupt(int number)
{
    (void)number;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double after = (double)(now.tv_sec - interrupted_at.tv_sec) +
                         1e-9 * (double)(now.tv_nsec - interrupted_at.tv_nsec);
    if (!interrupted) {
        interrupted = 1;
        interrupted_at = now;
    } else if (after > 0.3) {
        remove_temporary();
        _exit(EXIT_INTERRUPTED);
    }
}

static void on_crash(int number)
{
    remove_temporary();
    say_line("crashed while ", number);
    signal(number, SIG_DFL);
    raise(number);
}

static void on_exit_too_early(void)
{
    if (finished) return;
    remove_temporary();
    say_line("left before the end, while ", 0);
}

void signals_install(void)
{
    static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    action = (struct sigaction){.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        sigaction(crashes[i], &action, NULL);
}

void signals_watch_exit(void)
{
    atexit(on_exit_too_early);
}

const volatile int *signals_interrupt_flag(void)
{
    return &interrupted;
}

void signals_phase(const char *now)
{
    phase = now;
}

void signals_temporary(const char *path)
{
    temporary = path;
}

void signals_finished(void)
{
    finished = 1;
}
