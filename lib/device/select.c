/* SPDX-License-Identifier: Apache-2.0 */
#include "device/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { WORD_MAX = 256, TEXT_MAX = 360 };

const char *tpi_device_type_name(tpcl_device_type type)
{
    static const char *const names[] = {"GPU", "integrated GPU", "accelerator", "CPU"};
    return names[type];
}

/* "0: Tesla T4 (GPU, NVIDIA CUDA); 1: ..." */
static void describe(const tpcl_device_info *list, int n, char out[TEXT_MAX])
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++) {
        const int room = (int)(TEXT_MAX - used);
        const int wrote =
            snprintf(out + used, (size_t)room, "%s%d: %.80s (%s, %.40s%s)", i ? "; " : "", i,
                     list[i].name, tpi_device_type_name(list[i].type), list[i].platform,
                     list[i].usable ? "" : ", not usable");
        if (wrote >= room) { /* a cut entry would mislead */
            snprintf(out + used, (size_t)room, "; ...");
            return;
        }
        used += (size_t)wrote;
    }
}

/* Entry `place` of a comma list, modulo its length, without surrounding blanks. */
static void get_entry(const char *select, int place, char out[WORD_MAX])
{
    int entries = 1;
    for (const char *c = select; *c; c++) entries += *c == ',';
    const char *start = select;
    for (int skip = place % entries; skip > 0; skip--) start = strchr(start, ',') + 1;
    size_t bytes = strcspn(start, ",");
    while (bytes > 0 && strchr(" \t", *start)) start++, bytes--;
    while (bytes > 0 && strchr(" \t", start[bytes - 1])) bytes--;
    if (bytes >= WORD_MAX) bytes = WORD_MAX - 1;
    memcpy(out, start, bytes);
    out[bytes] = '\0';
}

static bool has_gpu(const tpcl_device_info *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i].usable &&
            (list[i].type == TPCL_DEVICE_GPU || list[i].type == TPCL_DEVICE_INTEGRATED_GPU))
            return true;
    return false;
}

static bool matches(const tpcl_device_info *list, int n, int i, const char *word)
{
    const tpcl_device_info *d = &list[i];
    if (!word[0]) return d->type != TPCL_DEVICE_CPU || !has_gpu(list, n);
    if (strcasecmp(word, "gpu") == 0)
        return d->type == TPCL_DEVICE_GPU || d->type == TPCL_DEVICE_INTEGRATED_GPU;
    if (strcasecmp(word, "igpu") == 0) return d->type == TPCL_DEVICE_INTEGRATED_GPU;
    if (strcasecmp(word, "accelerator") == 0) return d->type == TPCL_DEVICE_ACCELERATOR;
    if (strcasecmp(word, "cpu") == 0) return d->type == TPCL_DEVICE_CPU;
    if (strcasecmp(word, "pocl") == 0 && strcasestr(d->platform, "portable computing language"))
        return true;
    return strcasestr(d->name, word) || strcasestr(d->vendor, word) ||
           strcasestr(d->platform, word);
}

static int physical(const tpcl_device_info *list, int i)
{
    return list[i].same_as < 0 ? i : list[i].same_as;
}

/* A usable match that is not a match before under another driver. */
static bool candidate(const tpcl_device_info *list, int n, int i, const char *word)
{
    if (!list[i].usable || !matches(list, n, i, word)) return false;
    for (int j = 0; j < i; j++)
        if (physical(list, i) == physical(list, j) && list[j].usable && matches(list, n, j, word))
            return false;
    return true;
}

static tpcl_status choose_index(const tpcl_device_info *list, int n, const char *word, int *index)
{
    tpcl_status status = TPCL_OK;
    char text[TEXT_MAX];
    describe(list, n, text);
    const unsigned long wanted =
        strtoul(word, NULL, 10); /* saturates: too many digits is too big */
    TPI_REQUIRE(wanted < (unsigned long)n, TPCL_ERR_NO_DEVICE,
                "device %.40s does not exist; there is %s", word, text);
    TPI_REQUIRE(list[wanted].usable, TPCL_ERR_NO_DEVICE,
                "device %lu is not available or has no compiler; there is %s", wanted, text);
    *index = (int)wanted;
done:
    return status;
}

static tpcl_status choose_match(const tpcl_device_info *list, int n, const char *word, int ordinal,
                                int *index)
{
    tpcl_status status = TPCL_OK;
    char text[TEXT_MAX];
    int count = 0;
    bool refused = false;
    for (int i = 0; i < n; i++) {
        count += candidate(list, n, i, word);
        refused = refused || (!list[i].usable && matches(list, n, i, word));
    }
    describe(list, n, text);
    TPI_REQUIRE(count > 0 || !refused, TPCL_ERR_NO_DEVICE,
                "device '%.60s' is not available or has no compiler; there is %s", word, text);
    TPI_REQUIRE(count > 0, TPCL_ERR_NO_DEVICE, "no device matches '%.60s'; there is %s", word,
                text);
    int skip = ordinal % count;
    for (int i = 0; i < n; i++)
        if (candidate(list, n, i, word) && skip-- == 0) *index = i;
done:
    return status;
}

tpcl_status tpi_device_choose(const tpcl_device_info *list, int n, const char *select,
                              int local_rank, int *index)
{
    tpcl_status status = TPCL_OK;
    char word[WORD_MAX], other[WORD_MAX];
    int ordinal = 0;
    *index = -1;
    TPI_REQUIRE(local_rank >= 0, TPCL_ERR_ARG, "local rank %d is negative", local_rank);
    TPI_REQUIRE(
        n > 0, TPCL_ERR_NO_DEVICE,
        "no OpenCL device: no installed driver offers one; 'clinfo -l' lists them. On Debian "
        "pocl-opencl-icd runs on any CPU, if it can write to its cache folder (POCL_CACHE_DIR, "
        "or .cache in the home folder)");
    if (!select) select = "";
    get_entry(select, local_rank, word);
    TPI_REQUIRE(word[0] || !strchr(select, ','), TPCL_ERR_ARG,
                "device list '%.80s' has an empty entry", select);
    if (word[0] && strspn(word, "0123456789") == strlen(word))
        return choose_index(list, n, word, index);
    /* Ranks with the same entry take its matches in turn: with "cpu,gpu,gpu" rank 1 has GPU 0. */
    for (int q = 0; q < local_rank; q++) {
        get_entry(select, q, other);
        ordinal += strcasecmp(word, other) == 0;
    }
    status = choose_match(list, n, word, ordinal, index);
done:
    return status;
}
