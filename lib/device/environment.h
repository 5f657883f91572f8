/* The one file of the library that reads the environment: where caches lie by default. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_DEVICE_ENVIRONMENT_H
#define TPI_DEVICE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

/* TPCL_CACHE=0: no program cache, wherever it would be. */
bool tpi_cache_is_off(void);

/* Folder for program binaries: TPCL_CACHE_DIR, $XDG_CACHE_HOME/tpcl or $HOME/.cache/tpcl. False:
 * nothing tells where (HOME is unset), or the path is too long. */
bool tpi_cache_default_dir(char *out, size_t size);

/* Where PoCL keeps its own files, by its own rules. */
void tpi_pocl_cache_dir(char *out, size_t size);

#endif
