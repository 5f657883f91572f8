/* tpcl: one language model over several OpenCL devices. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "commands.h"
#include "job.h"
#include "launch.h"
#include "report.h"

/* run and score: start a launcher, or take part in the job. Whatever is wrong with the command line
 * is agreed on by all ranks, since they may not have been given the same one. */
static int parallel_command(const struct settings *s, double started_s, int code, char **argv)
{
    if (!launch_inside() && code) {
        report_print();
        return code;
    }
    if (!launch_inside() && s->tp > 1) return launch_mpiexec((int)s->tp, argv);
    return s->verb == VERB_SCORE ? score_command(s, started_s, code)
                                 : run_command(s, started_s, code);
}

static int lone_command(const struct settings *s, int code)
{
    static int (*const commands[VERBS])(const struct settings *) = {
        [VERB_TOKENIZE] = tokenize_command,
        [VERB_DETOKENIZE] = detokenize_command,
        [VERB_DEVICES] = devices_command,
        [VERB_INSPECT] = inspect_command,
    };
    /* under a launcher rank 0 speaks for all, and only it has standard input */
    if (launch_rank() > 0) return code;
    if (!code && s->help)
        help_print(s->verb);
    else if (!code && s->version)
        version_print();
    else if (!code)
        code = commands[s->verb](s);
    errno = 0;
    if (!code && (fflush(stdout) != 0 || ferror(stdout)))
        code = report_fail(EX_IOERR, "standard output: %s", strerror(errno ? errno : EIO));
    report_print();
    return code;
}

int main(int argc, char **argv)
{
    struct settings settings;
    const double started_s = seconds_now();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of its write */
    const int code = options_parse(&settings, argc, argv);
    if (verb_uses_mpi(settings.verb) && !settings.help && !settings.version)
        return parallel_command(&settings, started_s, code, argv);
    return lone_command(&settings, code);
}
