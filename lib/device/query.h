/* What a driver says of a device. Nothing here fails: an answer that is missing stays zero, and a
 * device that lacks an essential one is not usable. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_DEVICE_QUERY_H
#define TPI_DEVICE_QUERY_H

#include "device/list.h"

/* Fills info (but index and same_as), vendor_id and pci of an entry from its handles. */
void tpi_device_query(tpi_device_entry *entry);

/* Text answers, trimmed, control characters replaced, cut to `size` - 1 bytes. */
void tpi_query_text(cl_device_id id, cl_device_info what, char *out, size_t size);
cl_uint tpi_query_uint(cl_device_id id, cl_device_info what);
/* True when the device can be partitioned `how` (CL_DEVICE_PARTITION_...). */
bool tpi_query_partition(cl_device_id id, cl_device_partition_property how);

/* Where in the list the device is, or else the device that it is a part of: PoCL reports whole
 * devices of contexts that were made from parts. n: it is not there. */
size_t tpi_query_place(cl_device_id id, const cl_device_id *list, size_t n);

#endif
