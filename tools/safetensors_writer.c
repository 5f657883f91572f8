/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "report.h"
#include "signals.h"

struct safetensors_writer {
    char *path, *temporary;
    FILE *file;
    uint64_t expected, written; /* values */
    bool finished;
};

/* 8-byte little-endian length, JSON, spaces up to a multiple of 8. */
static bool write_header(FILE *file, const char *tensor, const int64_t shape[2])
{
    char json[512];
    const int64_t bytes = shape[0] * shape[1] * (int64_t)sizeof(float);
    const int n = snprintf(json, sizeof json - 8,
                           "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%" PRId64 ",%" PRId64
                           "],\"data_offsets\":[0,%" PRId64 "]}}",
                           tensor, shape[0], shape[1], bytes);
    size_t length = (size_t)n;
    while (length % 8) json[length++] = ' ';
    unsigned char size[8];
    for (size_t i = 0; i < sizeof size; i++) size[i] = (unsigned char)((uint64_t)length >> 8 * i);
    return fwrite(size, 1, sizeof size, file) == sizeof size &&
           fwrite(json, 1, length, file) == length;
}

static int open_temporary(safetensors_writer *w)
{
    const size_t room = strlen(w->path) + 24;
    w->temporary = malloc(room);
    if (!w->temporary) return report_fail(EX_OSERR, "out of memory");
    snprintf(w->temporary, room, "%s.tmp-XXXXXX", w->path);
    const int fd = mkstemp(w->temporary);
    if (fd < 0) {
        free(w->temporary);
        w->temporary = NULL;
        return report_fail(EX_CANTCREAT, "--out %s: cannot create a file there: %s", w->path,
                           strerror(errno));
    }
    signals_temporary(w->temporary);
    /* mkstemp() makes private files; a result gets the permissions that any new file has */
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask) != 0) errno = 0;
    w->file = fdopen(fd, "wb");
    if (w->file) return 0;
    close(fd);
    return report_fail(EX_OSERR, "--out %s: %s", w->path, strerror(errno));
}

int safetensors_writer_create(const char *path, const char *tensor, const int64_t shape[2],
                              safetensors_writer **out)
{
    struct stat found;
    *out = NULL;
    if (stat(path, &found) == 0 && !S_ISREG(found.st_mode))
        return report_fail(EX_CANTCREAT, "--out %s: exists and is not a file", path);
    safetensors_writer *w = calloc(1, sizeof *w);
    if (!w) return report_fail(EX_OSERR, "out of memory");
    w->path = strdup(path);
    int code = w->path ? open_temporary(w) : report_fail(EX_OSERR, "out of memory");
    if (!code && !write_header(w->file, tensor, shape))
        code = report_fail(EX_IOERR, "--out %s: %s", path, strerror(errno));
    if (code) {
        safetensors_writer_destroy(&w);
        return code;
    }
    w->expected = (uint64_t)shape[0] * (uint64_t)shape[1];
    *out = w;
    return 0;
}

int safetensors_writer_append(safetensors_writer *w, const float *values, size_t n)
{
    if (fwrite(values, sizeof *values, n, w->file) != n)
        return report_fail(EX_IOERR, "--out %s: %s", w->path, strerror(errno));
    w->written += n;
    return 0;
}

int safetensors_writer_finish(safetensors_writer *w)
{
    if (w->written != w->expected)
        return report_fail(EX_SOFTWARE, "--out %s: %" PRIu64 " values of %" PRIu64, w->path,
                           w->written, w->expected);
    int failed = fflush(w->file) != 0 || fsync(fileno(w->file)) != 0;
    failed = fclose(w->file) != 0 || failed;
    w->file = NULL;
    if (failed) return report_fail(EX_IOERR, "--out %s: %s", w->path, strerror(errno));
    if (rename(w->temporary, w->path) != 0)
        return report_fail(EX_CANTCREAT, "--out %s: %s", w->path, strerror(errno));
    signals_temporary(NULL);
    w->finished = true;
    return 0;
}

void safetensors_writer_destroy(safetensors_writer **writer)
{
    safetensors_writer *w = writer ? *writer : NULL;
    if (!w) return;
    *writer = NULL;
    if (w->file) fclose(w->file);
    if (w->temporary && !w->finished) unlink(w->temporary);
    signals_temporary(NULL);
    free(w->temporary);
    free(w->path);
    free(w);
}
