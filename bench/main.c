/* tpcl-bench: checks the parts of tpcl against their references, then times them beside peers. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "help.h"
#include "read.h"
#include "report.h"
#include "rows.h"

static void warn(void *context, tpcl_log_level level, const char *line)
{
    const struct bench_env *env = context;
    if (level == TPCL_LOG_WARN && env->rank == 0) bench_say("warning: %s", line);
}

/* 0 or an exit code, the same on all ranks. The failing rank says why. */
static int open_env(struct bench_env *env, const char *device)
{
    const tpcl_group_options options = {.device = device, .log = {warn, env}};
    int failed = -1;
    tpcl_status code = TPCL_OK;
    const tpcl_status status = tpcl_group_create(env->mpi, &options, &env->group);
    if (status == TPCL_OK) {
        env->comm = tpcl_group_comm(env->group);
        env->dev = tpcl_group_device(env->group);
        return 0;
    }
    tpcl_last_failure(&failed, &code);
    if (env->rank == (failed < 0 ? 0 : failed)) bench_say("%s", tpcl_last_error());
    return bench_exit_code(code != TPCL_OK ? code : status);
}

static void close_env(struct bench_env *env)
{
    bench_read_destroy(&env->read);
    tpcl_device_close(&env->clblast);
    tpcl_group_destroy(&env->group);
}

/* FNV-1a of the arguments: ranks that were asked for different rows would wait for each other. */
static long hash_arguments(int argc, char **argv)
{
    uint64_t hash = 14695981039346656037u;
    for (int i = 1; i < argc; i++)
        for (const char *c = argv[i];; c++) {
            hash = (hash ^ (unsigned char)*c) * 1099511628211u;
            if (!*c) break;
        }
    return (long)(hash >> 2);
}

static int same_everywhere(const struct bench_env *env, int argc, char **argv, int code,
                           char *message, size_t size)
{
    const long hash = hash_arguments(argc, argv);
    long mine[2] = {hash, -hash}, most[2] = {0};
    MPI_Allreduce(mine, most, 2, MPI_LONG, MPI_MAX, env->mpi);
    if (most[0] == -most[1]) return code;
    snprintf(message, size, "the ranks have different command lines: give all of them the same");
    return EX_PROTOCOL;
}

/* What needs no device. `code` is that of the command line. */
static int begin(struct bench_settings *s, struct bench_env *env, int argc, char **argv)
{
    char message[600] = "";
    int code = bench_options_parse(s, argc, argv, message, sizeof message);
    if (!code && !s->help && !s->version)
        code = bench_rows_check(&bench_all, s, message, sizeof message);
    code = same_everywhere(env, argc, argv, code, message, sizeof message);
    if (env->rank > 0) return code;
    if (code)
        bench_say("%s", message);
    else if (s->help)
        bench_help_print();
    else if (s->version)
        bench_version_print();
    else if (s->list)
        bench_rows_print(&bench_all, s, stdout);
    return code;
}

/* On rank 0 only, which all ranks hear of. */
static int read_baseline(const struct bench_settings *s, const struct bench_env *env,
                         struct bench_records *baseline)
{
    char message[600] = "";
    int code = 0;
    if (env->rank == 0 && s->baseline)
        code = bench_records_read(s->baseline, baseline, message, sizeof message);
    if (code) bench_say("%s", message);
    MPI_Bcast(&code, 1, MPI_INT, 0, env->mpi);
    return code;
}

static int run_rows(const struct bench_settings *s, struct bench_env *env)
{
    bool lost = false;
    struct bench_records baseline = {0};
    int code = read_baseline(s, env, &baseline);
    if (!code) code = open_env(env, s->device);
    if (!code)
        code = bench_rows_run(&bench_all, s, s->baseline ? &baseline : NULL, env, stdout, &lost);
    bench_records_free(&baseline);
    /* MPI_Finalize would wait for a rank that does not come */
    if (lost || code == EX_TEMPFAIL) MPI_Abort(MPI_COMM_WORLD, code);
    close_env(env);
    return code;
}

int main(int argc, char **argv)
{
    struct bench_settings settings;
    struct bench_env env = {.mpi = MPI_COMM_WORLD};
    int provided = 0;
    if (argc > 1 && strcmp(argv[1], "report") == 0) return bench_report(argc - 1, argv + 1);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of its write */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(env.mpi, &env.rank);
    MPI_Comm_size(env.mpi, &env.size);
    int code = begin(&settings, &env, argc, argv);
    if (!code && !settings.help && !settings.version && !settings.list)
        code = run_rows(&settings, &env);
    errno = 0;
    if (!code && (fflush(stdout) != 0 || ferror(stdout))) {
        bench_say("standard output: %s", strerror(errno ? errno : EIO));
        code = EX_IOERR;
    }
    MPI_Finalize();
    return code;
}
