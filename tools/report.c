/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "launch.h"
#include "text.h"

/* One process makes one report. */
static struct {
    char prefix[160], message[1024];
    bool failed, printed;
} report = {.prefix = "tpcl: "};

static const struct {
    tpcl_status status;
    int code;
} exit_codes[] = {
    {TPCL_OK, 0},
    {TPCL_ERR_ARG, EX_USAGE},
    {TPCL_ERR_SHAPE, EX_DATAERR},
    {TPCL_ERR_FORMAT, EX_DATAERR},
    {TPCL_ERR_UNSUPPORTED, EX_DATAERR},
    {TPCL_ERR_OPEN, EX_NOINPUT},
    {TPCL_ERR_IO, EX_IOERR},
    {TPCL_ERR_NOMEM, EX_OSERR},
    {TPCL_ERR_NO_DEVICE, EX_UNAVAILABLE},
    {TPCL_ERR_DEVICE, EX_SOFTWARE},
    {TPCL_ERR_DEVICE_MEM, EX_OSERR},
    {TPCL_ERR_COMM, EX_TEMPFAIL},
    {TPCL_ERR_TIMEOUT, EX_TEMPFAIL},
    {TPCL_ERR_MISMATCH, EX_PROTOCOL},
    {TPCL_ERR_PEER, CODE_PEER},
    {TPCL_ERR_GROUP_FAILED, CODE_PEER},
    {TPCL_ERR_NONFINITE, EX_SOFTWARE},
    {TPCL_ERR_INTERRUPTED, EXIT_INTERRUPTED},
};

int exit_code(tpcl_status status)
{
    for (size_t i = 0; i < sizeof exit_codes / sizeof exit_codes[0]; i++)
        if (exit_codes[i].status == status) return exit_codes[i].code;
    return EX_SOFTWARE;
}

void report_set_seat(int rank, int size, const char *host)
{
    if (size > 1)
        snprintf(report.prefix, sizeof report.prefix, "tpcl[%d/%d@%s]: ", rank, size, host);
}

const char *report_prefix(void)
{
    return report.prefix;
}

int report_fail(int code, const char *fmt, ...)
{
    if (report.failed) return code;
    report.failed = true;
    va_list args;
    va_start(args, fmt);
    vsnprintf(report.message, sizeof report.message, fmt, args);
    va_end(args);
    return code;
}

int report_status(tpcl_status status)
{
    const char *message = tpcl_last_error();
    if (status == TPCL_OK) return 0;
    return report_fail(exit_code(status), "%s", *message ? message : tpcl_status_text(status));
}

/* One write() per line, so that lines of several ranks do not mix. */
static void print_line(const char *kind, const char *message)
{
    char line[4600], clean[4096];
    text_escape(message, strlen(message), clean, sizeof clean);
    const int n = snprintf(line, sizeof line, "%s%s%s\n", report.prefix, kind, clean);
    fflush(stdout);
    fwrite(line, 1, (size_t)n, stderr);
    fflush(stderr);
}

void report_print(void)
{
    if (!report.failed || report.printed) return;
    report.printed = true;
    print_line("", report.message);
}

void report_warning(const char *fmt, ...)
{
    char message[1024];
    if (launch_rank() > 0) return; /* every rank would say the same */
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    print_line("warning: ", message);
}
