/* Program binaries on disk. Never trusted: an entry is checked before a driver sees a byte of it,
 * as drivers crash on damaged binaries. No call fails; without a cache every program is just built.
 *
 * One file per key, <key in hex>.bin: header (magic, format version, key, payload length, payload
 * hash), payload. Written under a temporary name that only one process can create, then renamed. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_DEVICE_CACHE_H
#define TPI_DEVICE_CACHE_H

#include "device/device.h"

typedef struct tpi_cache_key {
    unsigned char bytes[16];
} tpi_cache_key;

/* Sets dev->cache_dir: `option` as tpcl_device_options.cache_dir. Makes the folder (0700); one that
 * others may write is refused with a warning, since code is loaded from it. */
void tpi_cache_open(tpcl_device *dev, const char *option);

/* XXH3-128 over all texts, their ends included. NULL counts as "". */
tpi_cache_key tpi_cache_hash(const char *const *texts, int n);

/* True: *payload (free() it) holds the *bytes stored under `key`. A damaged entry is removed. */
bool tpi_cache_load(tpcl_device *dev, const tpi_cache_key *key, void **payload, size_t *bytes);
void tpi_cache_remove(tpcl_device *dev, const tpi_cache_key *key);

/* Leaves a note that this process compiles the program. It stands until the claim (or until the
 * process has died, or ten minutes): a driver that keeps compiled kernels of its own may put another
 * process's half-written ones into a binary, and such a binary crashes it at every later start. */
void tpi_cache_compiling(tpcl_device *dev, const tpi_cache_key *key);

/* To store: claim first, so that of several processes with the same program only one goes through
 * the work of making the binary. Ends this process's note. -1: there is an entry, another process
 * makes it or still compiles (it will store, then), or no cache. */
int tpi_cache_claim(tpcl_device *dev, const tpi_cache_key *key);
/* Writes the entry and ends the claim; payload NULL gives up. */
void tpi_cache_store(tpcl_device *dev, const tpi_cache_key *key, int claim, const void *payload,
                     size_t bytes);

#endif
