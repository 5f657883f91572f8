/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/log.h"
#include "device/environment.h"

enum { FORMAT = 1, NAME_MAX_BYTES = 72, STALE_SECONDS = 600 };
static const uint64_t max_payload = 1u << 30;

typedef struct header {
    char magic[8];
    uint32_t format, header_bytes;
    tpi_cache_key key;
    uint64_t bytes;
    XXH128_canonical_t hash;
} header;

static const char magic[8] = {'T', 'P', 'C', 'L', 'B', 'I', 'N', '\n'};

static void warn(tpcl_device *dev, const char *what, const char *why)
{
    if (!dev->cache_warned)
        tpi_log(&dev->log, TPCL_LOG_WARN, "program cache %s: %s%s%s", dev->cache_dir, what,
                why[0] ? ": " : "", why);
    dev->cache_warned = true;
}

static void give_up(tpcl_device *dev, const char *what, const char *why)
{
    warn(dev, what, why);
    dev->cache_dir[0] = '\0';
}

/* The folder, or -1. Looked at anew each time: it may have changed hands since. */
static int open_folder(tpcl_device *dev)
{
    struct stat info;
    if (!dev->cache_dir[0]) return -1;
    const int dir = open(dev->cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &info) != 0) {
        give_up(dev, "cannot be opened; kernels are compiled at every start", strerror(errno));
    } else if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        give_up(dev, "not used, because others may write to it (code is loaded from there)",
                "make it yours alone with chmod 700");
    } else {
        return dir;
    }
    if (dir >= 0) close(dir);
    return -1;
}

/* mkdir -p; whether it worked shows when the folder is opened. */
static void make_folders(const char *path)
{
    char part[sizeof((tpcl_device *)0)->cache_dir];
    snprintf(part, sizeof part, "%s", path);
    for (char *c = part + 1; *c; c++) {
        if (*c != '/') continue;
        *c = '\0';
        mkdir(part, 0700);
        *c = '/';
    }
    mkdir(part, 0700);
}

void tpi_cache_open(tpcl_device *dev, const char *option)
{
    dev->cache_dir[0] = '\0';
    if (tpi_cache_is_off()) return;
    if (!option) {
        if (!tpi_cache_default_dir(dev->cache_dir, sizeof dev->cache_dir))
            warn(dev, "no folder for it; kernels are compiled at every start",
                 "set HOME or TPCL_CACHE_DIR");
    } else if (strlen(option) < sizeof dev->cache_dir) {
        memcpy(dev->cache_dir, option, strlen(option) + 1);
    } else {
        warn(dev, "the path is too long; kernels are compiled at every start", "");
    }
    if (!dev->cache_dir[0]) return;
    make_folders(dev->cache_dir);
    const int dir = open_folder(dev);
    if (dir >= 0) close(dir);
}

tpi_cache_key tpi_cache_hash(const char *const *texts, int n)
{
    XXH3_state_t state;
    XXH128_canonical_t hash;
    tpi_cache_key key;
    XXH3_128bits_reset(&state);
    for (int i = 0; i < n; i++) {
        const char *text = texts[i] ? texts[i] : "";
        XXH3_128bits_update(&state, text, strlen(text) + 1);
    }
    XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(&state));
    memcpy(key.bytes, hash.digest, sizeof key.bytes);
    return key;
}

static void file_name(const tpi_cache_key *key, const char *suffix, char out[NAME_MAX_BYTES])
{
    for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", key->bytes[i]);
    snprintf(out + 32, NAME_MAX_BYTES - 32, "%s", suffix);
}

static bool read_all(int file, void *out, size_t bytes)
{
    char *to = out;
    while (bytes > 0) {
        const ssize_t got = read(file, to, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        to += got;
        bytes -= (size_t)got;
    }
    return true;
}

static bool write_all(int file, const void *from, size_t bytes)
{
    const char *at = from;
    while (bytes > 0) {
        const ssize_t put = write(file, at, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put;
        bytes -= (size_t)put;
    }
    return true;
}

static XXH128_canonical_t hash_bytes(const void *data, size_t bytes)
{
    XXH128_canonical_t hash;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(data, bytes));
    return hash;
}

static bool read_entry(int file, const tpi_cache_key *key, void **payload, size_t *bytes)
{
    struct stat info;
    header head;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return false;
    if (!read_all(file, &head, sizeof head)) return false;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.format != FORMAT ||
        head.header_bytes != sizeof head || memcmp(&head.key, key, sizeof *key) != 0)
        return false;
    if (head.bytes == 0 || head.bytes > max_payload ||
        (uint64_t)info.st_size != sizeof head + head.bytes)
        return false;
    void *data = malloc((size_t)head.bytes);
    if (!data) return false;
    const XXH128_canonical_t hash = read_all(file, data, (size_t)head.bytes)
                                        ? hash_bytes(data, (size_t)head.bytes)
                                        : (XXH128_canonical_t){{0}};
    if (memcmp(&hash, &head.hash, sizeof hash) != 0) {
        free(data);
        return false;
    }
    *payload = data;
    *bytes = (size_t)head.bytes;
    return true;
}

bool tpi_cache_load(tpcl_device *dev, const tpi_cache_key *key, void **payload, size_t *bytes)
{
    char name[NAME_MAX_BYTES];
    bool good = false;
    const int dir = open_folder(dev);
    if (dir < 0) return false;
    file_name(key, ".bin", name);
    /* NONBLOCK: something that is no file, say a pipe, must not hold us up */
    const int file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0) {
        good = read_entry(file, key, payload, bytes);
        close(file);
        if (!good) {
            warn(dev, "a damaged entry was removed and is built anew", name);
            unlinkat(dir, name, 0);
        }
    }
    close(dir);
    return good;
}

void tpi_cache_remove(tpcl_device *dev, const tpi_cache_key *key)
{
    char name[NAME_MAX_BYTES];
    const int dir = open_folder(dev);
    if (dir < 0) return;
    file_name(key, ".bin", name);
    unlinkat(dir, name, 0);
    close(dir);
}

/* A process that died while it held the claim left its file behind. */
static bool is_stale(int dir, const char *name)
{
    struct stat info;
    return fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
           time(NULL) - info.st_mtime > STALE_SECONDS;
}

static void note_name(const tpi_cache_key *key, char out[NAME_MAX_BYTES])
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".%ld.compiling", (long)getpid());
    file_name(key, suffix, out);
}

void tpi_cache_compiling(tpcl_device *dev, const tpi_cache_key *key)
{
    char name[NAME_MAX_BYTES];
    const int dir = open_folder(dev);
    if (dir < 0) return;
    note_name(key, name);
    const int file = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
    close(dir);
}

/* Does a living process still compile this program? Notes of dead ones are swept away. */
static bool somebody_compiles(int dir, const tpi_cache_key *key)
{
    char prefix[NAME_MAX_BYTES];
    bool found = false;
    const int again = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (!list) {
        if (again >= 0) close(again);
        return false;
    }
    file_name(key, ".", prefix);
    for (const struct dirent *e = readdir(list); e; e = readdir(list)) {
        const size_t skip = strlen(prefix);
        char *end = NULL;
        if (strncmp(e->d_name, prefix, skip) != 0) continue;
        const long pid = strtol(e->d_name + skip, &end, 10);
        if (pid <= 0 || strcmp(end, ".compiling") != 0) continue;
        if ((kill((pid_t)pid, 0) != 0 && errno == ESRCH) || is_stale(dir, e->d_name))
            unlinkat(dir, e->d_name, 0);
        else
            found = true;
    }
    closedir(list);
    return found;
}

int tpi_cache_claim(tpcl_device *dev, const tpi_cache_key *key)
{
    static const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    char entry[NAME_MAX_BYTES], temporary[NAME_MAX_BYTES];
    const int dir = open_folder(dev);
    if (dir < 0) return -1;
    file_name(key, ".bin", entry);
    note_name(key, temporary);
    unlinkat(dir, temporary, 0);
    file_name(key, ".tmp", temporary);
    int file = -1;
    if (!somebody_compiles(dir, key) && faccessat(dir, entry, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        if (is_stale(dir, temporary)) unlinkat(dir, temporary, 0);
        file = openat(dir, temporary, flags, 0600);
        if (file < 0 && errno != EEXIST)
            give_up(dev, "cannot be written; kernels are compiled at every start", strerror(errno));
    }
    close(dir);
    return file;
}

void tpi_cache_store(tpcl_device *dev, const tpi_cache_key *key, int claim, const void *payload,
                     size_t bytes)
{
    char entry[NAME_MAX_BYTES], temporary[NAME_MAX_BYTES];
    header head = {.format = FORMAT, .header_bytes = sizeof head, .key = *key, .bytes = bytes};
    bool good = false;
    memcpy(head.magic, magic, sizeof magic);
    if (payload) {
        head.hash = hash_bytes(payload, bytes);
        good = write_all(claim, &head, sizeof head) && write_all(claim, payload, bytes) &&
               fsync(claim) == 0;
        if (!good) warn(dev, "an entry cannot be written", strerror(errno));
    }
    close(claim);
    const int dir = open_folder(dev);
    if (dir < 0) return;
    file_name(key, ".bin", entry);
    file_name(key, ".tmp", temporary);
    if (!good || renameat(dir, temporary, dir, entry) != 0) unlinkat(dir, temporary, 0);
    close(dir);
}
