/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { READ_STEP = 1 << 30 }; /* Linux reads at most 2 GiB - 4 KiB a call */

tpcl_status tpi_file_open(const char *path, tpi_file *out)
{
    tpcl_status status = TPCL_OK;
    struct stat st;
    tpi_file file = {.fd = -1};

    *out = file;
    /* O_NONBLOCK: a named pipe must be refused below, not waited for. */
    file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    TPI_REQUIRE(file.fd >= 0, TPCL_ERR_OPEN, "%s: cannot open: %s", path, strerror(errno));
    TPI_REQUIRE(fstat(file.fd, &st) == 0, TPCL_ERR_OPEN, "%s: %s", path, strerror(errno));
    TPI_REQUIRE(S_ISREG(st.st_mode), TPCL_ERR_OPEN, "%s: not a regular file", path);
    file.size = (uint64_t)st.st_size;
    file.path = strdup(path);
    TPI_REQUIRE(file.path, TPCL_ERR_NOMEM, "%s: out of memory for its name", path);
    *out = file;
    file.fd = -1;
done:
    if (file.fd >= 0) close(file.fd);
    return status;
}

void tpi_file_close(tpi_file *file)
{
    if (file->path) {
        close(file->fd);
        free(file->path);
    }
    *file = (tpi_file){.fd = -1};
}

tpcl_status tpi_file_read(const tpi_file *file, uint64_t offset, uint64_t bytes, void *dst)
{
    tpcl_status status = TPCL_OK;
    char *p = dst;
    while (bytes > 0) {
        const size_t step = bytes < READ_STEP ? (size_t)bytes : READ_STEP;
        const ssize_t got = pread(file->fd, p, step, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        TPI_REQUIRE(got >= 0, TPCL_ERR_IO, "%s: reading at byte %" PRIu64 ": %s", file->path,
                    offset, strerror(errno));
        TPI_REQUIRE(got > 0, TPCL_ERR_IO,
                    "%s: file shrank: ends at byte %" PRIu64 ", had %" PRIu64 " bytes when opened",
                    file->path, offset, file->size);
        p += got;
        offset += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
done:
    return status;
}

char *tpi_path_join(const char *folder, const char *name)
{
    const size_t a = strlen(folder), b = strlen(name);
    const char *slash = a > 0 && folder[a - 1] == '/' ? "" : "/";
    char *path = malloc(a + b + 2);
    if (path) snprintf(path, a + b + 2, "%s%s%s", folder, slash, name);
    return path;
}

bool tpi_path_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool tpi_path_exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0; /* a dangling link exists: opening it says what is wrong */
}

tpcl_status tpi_file_load(tpi_arena *arena, const char *path, uint64_t limit, const char **bytes,
                          size_t *length)
{
    tpcl_status status = TPCL_OK;
    tpi_file file = {.fd = -1};
    char *text = NULL;

    TPI_TRY(tpi_file_open(path, &file));
    TPI_REQUIRE(file.size <= limit, TPCL_ERR_UNSUPPORTED,
                "%s: %" PRIu64 " bytes, tpcl reads at most %" PRIu64 " of such a file", path,
                file.size, limit);
    text = tpi_arena_text(arena, (size_t)file.size);
    TPI_REQUIRE(text, TPCL_ERR_NOMEM, "%s: out of memory for %" PRIu64 " bytes", path, file.size);
    TPI_TRY(tpi_file_read(&file, 0, file.size, text));
    *bytes = text;
    *length = (size_t)file.size;
done:
    tpi_file_close(&file);
    return status;
}
