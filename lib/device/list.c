/* SPDX-License-Identifier: Apache-2.0 */
#include "device/list.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "device/query.h"

enum { NO_PLATFORM = -1001 }; /* cl_khr_icd: the loader found no driver */

static int by_type_then_place(const void *a, const void *b)
{
    const tpi_device_entry *x = a, *y = b;
    if (x->info.type != y->info.type) return x->info.type < y->info.type ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* "Mesa Intel(R) UHD Graphics 620 (KBL GT2)" and "Intel(R) UHD Graphics 620" ->
 * "inteluhdgraphics620". */
static void normalise(const char *name, char out[256])
{
    size_t n = 0;
    int depth = 0;
    if (strncasecmp(name, "mesa ", 5) == 0) name += 5;
    for (const char *c = name; *c && n < 255; c++) {
        if (*c == '(') depth++;
        if (depth == 0 && isalnum((unsigned char)*c)) out[n++] = (char)tolower((unsigned char)*c);
        if (*c == ')' && depth > 0) depth--;
    }
    out[n] = '\0';
}

static bool same_name(const char *a, const char *b)
{
    char x[256], y[256];
    normalise(a, x);
    normalise(b, y);
    return x[0] != '\0' && strcmp(x, y) == 0;
}

static bool is_gpu(tpcl_device_type type)
{
    return type == TPCL_DEVICE_GPU || type == TPCL_DEVICE_INTEGRATED_GPU;
}

/* One driver never offers one device twice; two entries of one platform are two devices, as with
 * POCL_DEVICES="pthread pthread". A CPU device is always this host's CPU, whatever the driver calls
 * it and however many units it counts. */
static bool same_device(const tpi_device_entry *a, const tpi_device_entry *b)
{
    if (a->platform_place == b->platform_place) return false;
    if (a->info.type == TPCL_DEVICE_CPU || b->info.type == TPCL_DEVICE_CPU)
        return a->info.type == b->info.type;
    if (a->info.type != b->info.type && !(is_gpu(a->info.type) && is_gpu(b->info.type)))
        return false;
    if (a->pci.known && b->pci.known)
        return a->pci.domain == b->pci.domain && a->pci.bus == b->pci.bus &&
               a->pci.device == b->pci.device && a->pci.function == b->pci.function;
    return a->vendor_id == b->vendor_id && same_name(a->info.name, b->info.name);
}

/* Without bus addresses two equal cards under two drivers look alike four times: the second card of
 * one driver must pair with the second of the other, so a pairing is used once per platform. */
static bool paired(const tpi_device_entry *entries, int i, int j)
{
    if (entries[i].info.type == TPCL_DEVICE_CPU) return false;
    for (int k = 0; k < i; k++)
        if (entries[k].platform_place == entries[i].platform_place && entries[k].info.same_as == j)
            return true;
    return false;
}

void tpi_device_arrange(tpi_device_entry *entries, int n)
{
    if (n > 0) qsort(entries, (size_t)n, sizeof *entries, by_type_then_place);
    for (int i = 0; i < n; i++) {
        entries[i].info.index = i;
        entries[i].info.same_as = -1;
        for (int j = 0; j < i && entries[i].info.same_as < 0; j++)
            if (entries[j].info.same_as < 0 && same_device(&entries[i], &entries[j]) &&
                !paired(entries, i, j))
                entries[i].info.same_as = j;
    }
}

/* Drivers that are listed twice (two .icd files for one library) share the platform's handle. */
static bool seen_before(const cl_platform_id *platforms, cl_uint p)
{
    for (cl_uint q = 0; q < p; q++)
        if (platforms[q] == platforms[p]) return true;
    return false;
}

/* Appends a platform's devices. A platform without any, or one that fails, adds nothing: another
 * driver may well have the device. */
static tpcl_status add_platform(cl_platform_id platform, int place, tpi_device_entry **list, int *n)
{
    tpcl_status status = TPCL_OK;
    cl_device_id *ids = NULL;
    cl_uint count = 0; /* PoCL and Mesa leave it untouched on error */
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) != CL_SUCCESS || count == 0)
        return TPCL_OK;
    ids = calloc(count, sizeof(cl_device_id));
    TPI_REQUIRE(ids, TPCL_ERR_NOMEM, "device list: %u devices", count);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids, NULL) != CL_SUCCESS) goto done;
    tpi_device_entry *grown = realloc(*list, ((size_t)*n + count) * sizeof **list);
    TPI_REQUIRE(grown, TPCL_ERR_NOMEM, "device list: %u devices", count);
    *list = grown;
    for (cl_uint d = 0; d < count; d++) {
        tpi_device_entry *e = &grown[*n];
        memset(e, 0, sizeof *e);
        e->platform = platform;
        e->id = ids[d];
        e->platform_place = place;
        e->place = (*n)++;
        tpi_device_query(e);
    }
done:
    free(ids);
    return status;
}

tpcl_status tpi_device_scan(tpi_device_entry **out, int *n)
{
    tpcl_status status = TPCL_OK;
    cl_platform_id *platforms = NULL;
    tpi_device_entry *list = NULL;
    int found = 0;
    cl_uint count = 0;

    *out = NULL;
    *n = 0;
    const cl_int err = clGetPlatformIDs(0, NULL, &count);
    if (err == NO_PLATFORM || (err == CL_SUCCESS && count == 0)) return TPCL_OK;
    TPI_TRY(tpi_cl_check(err, "clGetPlatformIDs"));
    platforms = calloc(count, sizeof(cl_platform_id));
    TPI_REQUIRE(platforms, TPCL_ERR_NOMEM, "platform list: %u platforms", count);
    TPI_TRY(tpi_cl_check(clGetPlatformIDs(count, platforms, NULL), "clGetPlatformIDs"));
    for (cl_uint p = 0; p < count; p++)
        if (!seen_before(platforms, p)) TPI_TRY(add_platform(platforms[p], (int)p, &list, &found));
    tpi_device_arrange(list, found);
    *out = list;
    *n = found;
    list = NULL;
done:
    free(list);
    free(platforms);
    return status;
}

tpcl_status tpcl_device_list(tpcl_device_info **out, int *n)
{
    tpcl_status status = TPCL_OK;
    tpi_device_entry *entries = NULL;
    int found = 0;

    TPI_REQUIRE(out && n, TPCL_ERR_ARG, "tpcl_device_list: a pointer is NULL");
    *out = NULL;
    *n = 0;
    TPI_TRY(tpi_device_scan(&entries, &found));
    if (found == 0) goto done;
    *out = calloc((size_t)found, sizeof **out);
    TPI_REQUIRE(*out, TPCL_ERR_NOMEM, "device list: %d devices", found);
    for (int i = 0; i < found; i++) (*out)[i] = entries[i].info;
    *n = found;
done:
    free(entries);
    return status;
}

void tpcl_device_list_free(tpcl_device_info **list)
{
    if (!list) return;
    free(*list);
    *list = NULL;
}
