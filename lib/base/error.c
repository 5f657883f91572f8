/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[TPI_MESSAGE_MAX];
static _Thread_local int last_rank = -1;
static _Thread_local tpcl_status last_code;

const char *tpcl_status_text(tpcl_status status)
{
    static const char *const texts[] = {
#define X(code, text) [code] = text,
        TPCL_STATUS_LIST(X)
#undef X
    };
    size_t i = (size_t)status;
    return i < sizeof texts / sizeof texts[0] ? texts[i] : "unknown status";
}

const char *tpcl_last_error(void)
{
    return last_error;
}

void tpcl_last_failure(int *rank, tpcl_status *code)
{
    if (rank) *rank = last_rank;
    if (code) *code = last_code;
}

void tpi_blame(int rank, tpcl_status code)
{
    last_rank = rank;
    last_code = code;
}

tpcl_status tpi_fail(tpcl_status status, const char *fmt, ...)
{
    char text[TPI_MESSAGE_MAX]; /* the arguments may point into last_error */
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    /* File names and tensor names are hostile: the message stays one line of plain characters. */
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    memcpy(last_error, text, sizeof last_error);
    tpi_blame(-1, status);
    return status;
}
