/* SPDX-License-Identifier: Apache-2.0 */
#include <tpcl/version.h>

int tpcl_version(void)
{
    return TPCL_VERSION;
}

const char *tpcl_version_string(void)
{
    return TPCL_VERSION_STRING;
}
