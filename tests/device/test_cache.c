/* SPDX-License-Identifier: Apache-2.0 */
/* The program cache's files, without a device: what is stored comes back, anything else does not.
 */
#include "tpcl_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "device/cache.h"
#include "device/child.h"
#include "device/environment.h"

typedef struct fixture {
    tpcl_device dev; /* the cache uses its log and cache_dir only */
    char folder[64], dir[96], line[600];
    int warnings;
} fixture;

static const char payload[] = "a program binary of some forty bytes or so";
static const char *const texts_a[] = {"source a", "options"}, *const texts_b[] = {"source b",
                                                                                  "options"};

static void take_warning(void *context, tpcl_log_level level, const char *line)
{
    fixture *f = context;
    f->warnings += level == TPCL_LOG_WARN;
    snprintf(f->line, sizeof f->line, "%s", line);
}

static int make_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f) return 1;
    strcpy(f->folder, "/tmp/tpcl-test-XXXXXX");
    if (!mkdtemp(f->folder)) return 1;
    snprintf(f->dir, sizeof f->dir, "%s/x/cache", f->folder);
    f->dev.log = (tpcl_log){take_warning, f};
    tpi_cache_open(&f->dev, f->dir);
    *state = f;
    return 0;
}

static int remove_fixture(void **state)
{
    fixture *f = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", f->folder);
    const int rc = system(command);
    free(f);
    return rc;
}

static int count_files(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    if (!dir) return -1;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void entry_path(const fixture *f, const tpi_cache_key *key, const char *suffix,
                       char out[160])
{
    int at = snprintf(out, 160, "%s/", f->dir);
    for (int i = 0; i < 16; i++) at += snprintf(out + at, 3, "%02x", key->bytes[i]);
    snprintf(out + at, 8, "%s", suffix);
}

static void store(fixture *f, const tpi_cache_key *key)
{
    const int claim = tpi_cache_claim(&f->dev, key);
    assert_true(claim >= 0);
    tpi_cache_store(&f->dev, key, claim, payload, sizeof payload);
}

static void assert_loads(fixture *f, const tpi_cache_key *key)
{
    void *data = NULL;
    size_t bytes = 0;
    assert_true(tpi_cache_load(&f->dev, key, &data, &bytes));
    assert_int_equal(bytes, sizeof payload);
    assert_memory_equal(data, payload, bytes);
    free(data);
}

static void assert_does_not_load(fixture *f, const tpi_cache_key *key)
{
    void *data = NULL;
    size_t bytes = 0;
    assert_false(tpi_cache_load(&f->dev, key, &data, &bytes));
    assert_null(data);
}

static void stores_and_loads(void **state)
{
    fixture *f = *state;
    struct stat info;
    char path[160];
    const tpi_cache_key a = tpi_cache_hash(texts_a, 2), b = tpi_cache_hash(texts_b, 2);
    assert_int_equal(stat(f->dir, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_does_not_load(f, &a);
    store(f, &a);
    assert_loads(f, &a);
    assert_does_not_load(f, &b);
    assert_int_equal(count_files(f->dir), 1);
    entry_path(f, &a, ".bin", path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    tpi_cache_remove(&f->dev, &a);
    assert_does_not_load(f, &a);
    assert_int_equal(count_files(f->dir), 0);
    assert_int_equal(f->warnings, 0);
}

/* The borders between the texts count, and so does each of them. */
static void keys_differ(void **state)
{
    (void)state;
    static const char *const rows[][3] = {{"ab", "c", ""}, {"a", "bc", ""}, {"abc", "", ""},
                                          {"", "abc", ""}, {"ab", "d", ""}, {"ab", "c", "x"}};
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t j = 0; j < COUNT(rows); j++) {
            const tpi_cache_key a = tpi_cache_hash(rows[i], 3), b = tpi_cache_hash(rows[j], 3);
            assert_int_equal(memcmp(&a, &b, sizeof a) == 0, i == j);
        }
    static const char *const null[3] = {"ab", "c", NULL};
    const tpi_cache_key a = tpi_cache_hash(rows[0], 3), b = tpi_cache_hash(null, 3);
    assert_memory_equal(&a, &b, sizeof a);
}

static void one_writer_at_a_time(void **state)
{
    fixture *f = *state;
    const tpi_cache_key key = tpi_cache_hash(texts_a, 2);
    char path[160];
    const int claim = tpi_cache_claim(&f->dev, &key);
    assert_true(claim >= 0);
    assert_int_equal(tpi_cache_claim(&f->dev, &key), -1);
    tpi_cache_store(&f->dev, &key, claim, NULL, 0); /* gives up */
    assert_int_equal(count_files(f->dir), 0);
    store(f, &key);
    assert_int_equal(tpi_cache_claim(&f->dev, &key), -1); /* it is there */
    tpi_cache_remove(&f->dev, &key);

    /* The claim of a process that died is taken over, but not before it must be dead. */
    close(tpi_cache_claim(&f->dev, &key));
    assert_int_equal(tpi_cache_claim(&f->dev, &key), -1);
    const struct timespec old[2] = {{time(NULL) - 3600, 0}, {time(NULL) - 3600, 0}};
    entry_path(f, &key, ".tmp", path);
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    store(f, &key);
    assert_loads(f, &key);
    assert_int_equal(f->warnings, 0);
}

static long file_bytes(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (long)info.st_size;
}

/* Cut at every length and flipped in every byte: never loaded, removed, one warning, built anew. */
static void damage_is_noticed(void **state)
{
    fixture *f = *state;
    const tpi_cache_key key = tpi_cache_hash(texts_a, 2);
    char path[160];
    entry_path(f, &key, ".bin", path);
    store(f, &key);
    const long bytes = file_bytes(path);
    assert_true(bytes > (long)sizeof payload);
    for (long at = 0; at < 2 * bytes; at++) {
        unsigned char byte = 0;
        if (at < bytes) {
            assert_int_equal(truncate(path, at), 0);
        } else {
            const int file = open(path, O_RDWR);
            assert_int_equal(pread(file, &byte, 1, at - bytes), 1);
            byte ^= 0x10;
            assert_int_equal(pwrite(file, &byte, 1, at - bytes), 1);
            close(file);
        }
        f->warnings = 0;
        f->dev.cache_warned = false;
        assert_does_not_load(f, &key);
        assert_int_equal(f->warnings, 1);
        assert_non_null(strstr(f->line, "damaged"));
        assert_int_equal(count_files(f->dir), 0);
        assert_does_not_load(f, &key);
        assert_int_equal(f->warnings, 1);
        store(f, &key);
    }
    assert_loads(f, &key);
    const int file = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(file, "x", 1), 1);
    close(file);
    assert_does_not_load(f, &key);
}

static void foreign_entries(void **state)
{
    fixture *f = *state;
    const tpi_cache_key a = tpi_cache_hash(texts_a, 2), b = tpi_cache_hash(texts_b, 2);
    char path_a[160], path_b[160];
    entry_path(f, &a, ".bin", path_a);
    entry_path(f, &b, ".bin", path_b);
    store(f, &a);
    assert_int_equal(rename(path_a, path_b), 0); /* sound, but of another key */
    assert_does_not_load(f, &b);
    store(f, &a);
    assert_int_equal(symlink(path_a, path_b), 0);
    assert_does_not_load(f, &b);
    unlink(path_b);
    assert_int_equal(mkfifo(path_b, 0600), 0); /* would block for ever */
    assert_does_not_load(f, &b);
    assert_loads(f, &a);
}

static void unsafe_folders(void **state)
{
    fixture *f = *state;
    const tpi_cache_key key = tpi_cache_hash(texts_a, 2);
    static const mode_t modes[] = {0720, 0702, 0777, 01777};
    store(f, &key);
    for (size_t i = 0; i < COUNT(modes); i++) {
        assert_int_equal(chmod(f->dir, modes[i]), 0);
        f->dev.cache_warned = false;
        f->warnings = 0;
        tpi_cache_open(&f->dev, f->dir);
        assert_string_equal(f->dev.cache_dir, "");
        assert_int_equal(f->warnings, 1);
        assert_non_null(strstr(f->line, f->dir));
        assert_does_not_load(f, &key);
        assert_int_equal(tpi_cache_claim(&f->dev, &key), -1);
        assert_int_equal(f->warnings, 1);
    }
    assert_int_equal(chmod(f->dir, 0755), 0); /* others may look */
    tpi_cache_open(&f->dev, f->dir);
    assert_loads(f, &key);
    assert_int_equal(chmod(f->dir, 0777), 0); /* opened up while in use */
    assert_does_not_load(f, &key);
    assert_string_equal(f->dev.cache_dir, "");
    if (geteuid() == 0) {
        assert_int_equal(chmod(f->dir, 0700), 0);
        assert_int_equal(chown(f->dir, 65534, 65534), 0);
        tpi_cache_open(&f->dev, f->dir);
        assert_string_equal(f->dev.cache_dir, "");
    }
}

static void impossible_folders(void **state)
{
    fixture *f = *state;
    char under_file[160], too_long[700];
    snprintf(under_file, sizeof under_file, "%s/file", f->folder);
    fclose(fopen(under_file, "w"));
    strcat(under_file, "/cache");
    memset(too_long, 'a', sizeof too_long - 1);
    too_long[0] = '/';
    too_long[sizeof too_long - 1] = '\0';
    const char *const folders[] = {under_file, "/proc/tpcl/cache", "/dev/null", too_long};
    for (size_t i = 0; i < COUNT(folders); i++) {
        f->dev.cache_dir[0] = '\0';
        f->dev.cache_warned = false;
        f->warnings = 0;
        tpi_cache_open(&f->dev, folders[i]);
        assert_string_equal(f->dev.cache_dir, "");
        assert_int_equal(f->warnings, 1);
    }
    f->warnings = 0;
    tpi_cache_open(&f->dev, ""); /* off, and no word about it */
    assert_string_equal(f->dev.cache_dir, "");
    assert_int_equal(f->warnings, 0);
}

/* In a child, since root may write anywhere and limits stay. */
static int in_child(fixture *f, int (*body)(fixture *f))
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) _exit(body(f));
    return end_child(pid);
}

static int try_read_only(fixture *f)
{
    const tpi_cache_key a = tpi_cache_hash(texts_a, 2), b = tpi_cache_hash(texts_b, 2);
    void *data = NULL;
    size_t bytes = 0;
    if (geteuid() == 0) {
        CHECK(chown(f->folder, 65534, 65534) == 0, "folder");
        CHECK(chown(f->dir, 65534, 65534) == 0, "dir");
        CHECK(chmod(f->folder, 0755) == 0, "folder");
        char parent[96];
        snprintf(parent, sizeof parent, "%s/x", f->folder);
        CHECK(chown(parent, 65534, 65534) == 0, "parent");
        char path[160];
        entry_path(f, &a, ".bin", path);
        CHECK(chown(path, 65534, 65534) == 0, "entry");
        CHECK(setuid(65534) == 0, "setuid");
    }
    CHECK(chmod(f->dir, 0500) == 0, "chmod");
    CHECK(tpi_cache_load(&f->dev, &a, &data, &bytes), "an entry can still be read");
    CHECK(f->warnings == 0, "%s", f->line);
    CHECK(tpi_cache_claim(&f->dev, &b) == -1, "claimed");
    CHECK(f->warnings == 1 && strstr(f->line, "cannot be written"), "%s", f->line);
    CHECK(f->dev.cache_dir[0] == '\0', "still on");
    CHECK(tpi_cache_claim(&f->dev, &b) == -1 && f->warnings == 1, "warned again");
    free(data);
    return 0;
}

static int try_full_disk(fixture *f)
{
    const tpi_cache_key a = tpi_cache_hash(texts_a, 2);
    const struct rlimit limit = {60, 60}; /* the header and four bytes */
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
    const int claim = tpi_cache_claim(&f->dev, &a);
    CHECK(claim >= 0, "%s", f->line);
    tpi_cache_store(&f->dev, &a, claim, payload, sizeof payload);
    CHECK(f->warnings == 1 && strstr(f->line, "cannot be written"), "%s", f->line);
    CHECK(count_files(f->dir) == 0, "%d files left", count_files(f->dir));
    return 0;
}

static void read_only(void **state)
{
    const tpi_cache_key a = tpi_cache_hash(texts_a, 2);
    store(*state, &a);
    assert_int_equal(in_child(*state, try_read_only), 0);
}

static void full_disk(void **state)
{
    assert_int_equal(in_child(*state, try_full_disk), 0);
}

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void default_folders(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *xdg, *home;
        bool known;
        const char *want;
    } rows[] = {
        {NULL, NULL, "/home/a", true, "/home/a/.cache/tpcl"},
        {NULL, "/xdg", "/home/a", true, "/xdg/tpcl"},
        {"/own", "/xdg", "/home/a", true, "/own"},
        {"", "", "/home/a", true, "/home/a/.cache/tpcl"},           /* empty is unset */
        {NULL, "relative", "/home/a", true, "/home/a/.cache/tpcl"}, /* as XDG has it */
        {NULL, NULL, NULL, false, ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char out[512];
        set("TPCL_CACHE_DIR", rows[i].dir);
        set("XDG_CACHE_HOME", rows[i].xdg);
        set("HOME", rows[i].home);
        assert_int_equal(tpi_cache_default_dir(out, sizeof out), rows[i].known);
        assert_string_equal(out, rows[i].want);
    }
    char out[512], small[8];
    set("TPCL_CACHE_DIR", "/too/long/for/it");
    assert_false(tpi_cache_default_dir(small, sizeof small));
    assert_string_equal(small, "");
    set("POCL_CACHE_DIR", NULL);
    tpi_pocl_cache_dir(out, sizeof out);
    assert_string_equal(out, "/tmp/pocl/kcache");
    set("HOME", "/home/a");
    tpi_pocl_cache_dir(out, sizeof out);
    assert_string_equal(out, "/home/a/.cache/pocl/kcache");
    set("POCL_CACHE_DIR", "/pocl");
    tpi_pocl_cache_dir(out, sizeof out);
    assert_string_equal(out, "/pocl");
}

static void switched_off(void **state)
{
    fixture *f = *state;
    static const char *const off[] = {"0", "1", ""};
    for (size_t i = 0; i < COUNT(off); i++) {
        set("TPCL_CACHE", off[i]);
        tpi_cache_open(&f->dev, f->dir);
        assert_string_equal(f->dev.cache_dir, i == 0 ? "" : f->dir);
    }
    set("TPCL_CACHE", NULL);
    assert_int_equal(f->warnings, 0);
}

static void no_home(void **state)
{
    fixture *f = *state;
    set("TPCL_CACHE", NULL);
    set("TPCL_CACHE_DIR", NULL);
    set("XDG_CACHE_HOME", NULL);
    set("HOME", NULL);
    f->dev.cache_dir[0] = '\0';
    tpi_cache_open(&f->dev, NULL);
    assert_string_equal(f->dev.cache_dir, "");
    assert_int_equal(f->warnings, 1);
    assert_non_null(strstr(f->line, "TPCL_CACHE_DIR"));
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_fixture, remove_fixture)

int main(void)
{
    unsetenv("TPCL_CACHE");
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(stores_and_loads),  WITH_FOLDER(one_writer_at_a_time),
        WITH_FOLDER(damage_is_noticed), WITH_FOLDER(foreign_entries),
        WITH_FOLDER(unsafe_folders),    WITH_FOLDER(impossible_folders),
        WITH_FOLDER(read_only),         WITH_FOLDER(full_disk),
        cmocka_unit_test(keys_differ),  cmocka_unit_test(default_folders),
        WITH_FOLDER(switched_off),      WITH_FOLDER(no_home),
    };
    return cmocka_run_group_tests_name("device/cache", tests, NULL, NULL);
}
