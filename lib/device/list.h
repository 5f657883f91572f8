/* The drivers' handles beside the public list, and which entries are one physical device. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_DEVICE_LIST_H
#define TPI_DEVICE_LIST_H

#include "device/device.h"

typedef struct tpi_pci_address {
    bool known;
    uint32_t domain, bus, device, function;
} tpi_pci_address;

typedef struct tpi_device_entry {
    tpcl_device_info info;
    cl_platform_id platform;
    cl_device_id id;
    int platform_place; /* of its platform in the loader's order */
    int place;          /* before sorting: makes the sort stable */
    uint32_t vendor_id;
    tpi_pci_address pci;
} tpi_device_entry;

/* All devices in the stable global order; n = 0 and *out = NULL when there is none. free() it. */
TPCL_NODISCARD tpcl_status tpi_device_scan(tpi_device_entry **out, int *n);

/* Sorts by type, then place, and fills info.index and info.same_as. No OpenCL call. */
void tpi_device_arrange(tpi_device_entry *entries, int n);

#endif
