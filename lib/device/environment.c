/* SPDX-License-Identifier: Apache-2.0 */
#include "device/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An empty variable counts as unset, as the XDG rules have it. */
static const char *get(const char *name)
{
    const char *value = secure_getenv(name);
    return value && value[0] ? value : NULL;
}

static bool join(char *out, size_t size, const char *base, const char *rest)
{
    const int wrote = snprintf(out, size, "%s%s", base, rest);
    if (wrote >= 0 && (size_t)wrote < size) return true;
    out[0] = '\0';
    return false;
}

static bool cache_home(char *out, size_t size, const char *rest)
{
    const char *xdg = get("XDG_CACHE_HOME"), *home = get("HOME");
    char tail[64];
    if (xdg && xdg[0] == '/') return join(out, size, xdg, rest);
    snprintf(tail, sizeof tail, "/.cache%s", rest);
    out[0] = '\0';
    return home && home[0] == '/' && join(out, size, home, tail);
}

bool tpi_cache_is_off(void)
{
    const char *use = get("TPCL_CACHE");
    return use && strcmp(use, "0") == 0;
}

bool tpi_cache_default_dir(char *out, size_t size)
{
    const char *dir = get("TPCL_CACHE_DIR");
    return dir ? join(out, size, dir, "") : cache_home(out, size, "/tpcl");
}

void tpi_pocl_cache_dir(char *out, size_t size)
{
    const char *dir = get("POCL_CACHE_DIR");
    if (dir && join(out, size, dir, "")) return;
    if (!cache_home(out, size, "/pocl/kcache")) join(out, size, "/tmp/pocl/kcache", "");
}
