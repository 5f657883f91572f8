/* SPDX-License-Identifier: Apache-2.0 */
#include "device/query.h"

#include <stdlib.h>
#include <string.h>

/* Names from extension headers that Debian's OpenCL 1.2 view of cl.h does not show. */
enum {
    PCI_BUS_INFO_KHR = 0x410F,
    PCI_BUS_NV = 0x4008,
    PCI_SLOT_NV = 0x4009,
    PCI_DOMAIN_NV = 0x400A
};
enum { TOPOLOGY_AMD = 0x4037, TOPOLOGY_PCIE_AMD = 1 };

static void copy_trimmed(const char *text, char *out, size_t size)
{
    size_t n = 0;
    while (*text == ' ') text++;
    for (; *text && n + 1 < size; text++)
        out[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
    while (n > 0 && out[n - 1] == ' ') n--;
    out[n] = '\0';
}

/* Drivers answer with an error, not with a cut text, when the buffer is short: ask for the size. */
static char *device_text(cl_device_id id, cl_device_info what)
{
    size_t bytes = 0;
    if (clGetDeviceInfo(id, what, 0, NULL, &bytes) != CL_SUCCESS) return NULL;
    char *text = calloc(bytes + 1, 1);
    if (text && bytes && clGetDeviceInfo(id, what, bytes, text, NULL) != CL_SUCCESS) text[0] = '\0';
    return text;
}

void tpi_query_text(cl_device_id id, cl_device_info what, char *out, size_t size)
{
    char *text = device_text(id, what);
    copy_trimmed(text ? text : "", out, size);
    free(text);
}

static void platform_name(cl_platform_id platform, char *out, size_t size)
{
    size_t bytes = 0;
    out[0] = '\0';
    if (clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, NULL, &bytes) != CL_SUCCESS) return;
    char *text = calloc(bytes + 1, 1);
    if (text && bytes) clGetPlatformInfo(platform, CL_PLATFORM_NAME, bytes, text, NULL);
    copy_trimmed(text ? text : "", out, size);
    free(text);
}

cl_uint tpi_query_uint(cl_device_id id, cl_device_info what)
{
    cl_uint value = 0;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static cl_ulong query_ulong(cl_device_id id, cl_device_info what)
{
    cl_ulong value = 0;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static bool query_bool(cl_device_id id, cl_device_info what)
{
    cl_bool value = CL_FALSE;
    return clGetDeviceInfo(id, what, sizeof value, &value, NULL) == CL_SUCCESS && value;
}

bool tpi_query_partition(cl_device_id id, cl_device_partition_property how)
{
    cl_device_partition_property kinds[16] = {0};
    size_t bytes = 0;
    if (clGetDeviceInfo(id, CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds, &bytes) !=
        CL_SUCCESS)
        return false;
    for (size_t i = 0; i < bytes / sizeof kinds[0]; i++)
        if (kinds[i] == how) return true;
    return false;
}

static bool can_partition(cl_device_id id)
{
    return tpi_query_uint(id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES) > 1 &&
           (tpi_query_partition(id, CL_DEVICE_PARTITION_BY_COUNTS) ||
            tpi_query_partition(id, CL_DEVICE_PARTITION_EQUALLY));
}

/* Devices of several kinds at once (Oclgrind) run on the host's cores: the CPU bit decides first.
 */
static tpcl_device_type device_type(cl_device_id id, bool host_unified)
{
    cl_device_type bits = 0;
    clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof bits, &bits, NULL);
    if (bits & CL_DEVICE_TYPE_CPU) return TPCL_DEVICE_CPU;
    if (bits & CL_DEVICE_TYPE_GPU)
        return host_unified ? TPCL_DEVICE_INTEGRATED_GPU : TPCL_DEVICE_GPU;
    return TPCL_DEVICE_ACCELERATOR;
}

static bool has_word(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + n, word))
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

/* Each vendor's own way of telling the bus address; asked for only where it is offered. */
static void query_pci(cl_device_id id, const char *extensions, tpi_pci_address *pci)
{
    if (has_word(extensions, "cl_khr_pci_bus_info")) {
        cl_uint v[4] = {0}; /* domain, bus, device, function */
        if (clGetDeviceInfo(id, PCI_BUS_INFO_KHR, sizeof v, v, NULL) == CL_SUCCESS)
            *pci = (tpi_pci_address){true, v[0], v[1], v[2], v[3]};
    } else if (has_word(extensions, "cl_nv_device_attribute_query")) {
        const cl_uint slot = tpi_query_uint(id, PCI_SLOT_NV);
        *pci = (tpi_pci_address){true, tpi_query_uint(id, PCI_DOMAIN_NV),
                                 tpi_query_uint(id, PCI_BUS_NV), slot >> 3, slot & 7};
    } else if (has_word(extensions, "cl_amd_device_attribute_query")) {
        unsigned char v[24] = {0}; /* uint type, 17 unused bytes, bus, device, function */
        cl_uint type = 0;
        if (clGetDeviceInfo(id, TOPOLOGY_AMD, sizeof v, v, NULL) == CL_SUCCESS)
            memcpy(&type, v, sizeof type);
        if (type == TOPOLOGY_PCIE_AMD) *pci = (tpi_pci_address){true, 0, v[21], v[22], v[23]};
    }
}

void tpi_device_query(tpi_device_entry *entry)
{
    tpcl_device_info *info = &entry->info;
    const cl_device_id id = entry->id;
    char *extensions = device_text(id, CL_DEVICE_EXTENSIONS);
    const char *words = extensions ? extensions : "";

    tpi_query_text(id, CL_DEVICE_NAME, info->name, sizeof info->name);
    tpi_query_text(id, CL_DEVICE_VENDOR, info->vendor, sizeof info->vendor);
    tpi_query_text(id, CL_DRIVER_VERSION, info->driver, sizeof info->driver);
    tpi_query_text(id, CL_DEVICE_OPENCL_C_VERSION, info->c_version, sizeof info->c_version);
    platform_name(entry->platform, info->platform, sizeof info->platform);
    info->host_unified = query_bool(id, CL_DEVICE_HOST_UNIFIED_MEMORY);
    info->type = device_type(id, info->host_unified);
    info->compute_units = (int)tpi_query_uint(id, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->global_bytes = query_ulong(id, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->max_alloc_bytes = query_ulong(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->local_bytes = query_ulong(id, CL_DEVICE_LOCAL_MEM_SIZE);
    clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof info->max_workgroup,
                    &info->max_workgroup, NULL);
    info->partitionable = can_partition(id);
    info->fp16 = has_word(words, "cl_khr_fp16");
    info->usable = query_bool(id, CL_DEVICE_AVAILABLE) &&
                   query_bool(id, CL_DEVICE_COMPILER_AVAILABLE) && info->compute_units > 0 &&
                   info->max_alloc_bytes > 0 && info->max_workgroup > 0;
    entry->vendor_id = tpi_query_uint(id, CL_DEVICE_VENDOR_ID);
    query_pci(id, words, &entry->pci);
    free(extensions);
}

size_t tpi_query_place(cl_device_id id, const cl_device_id *list, size_t n)
{
    while (id) {
        cl_device_id parent = NULL;
        for (size_t i = 0; i < n; i++)
            if (list[i] == id) return i;
        if (clGetDeviceInfo(id, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL) !=
            CL_SUCCESS)
            break;
        id = parent;
    }
    return n;
}
