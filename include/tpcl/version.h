/** @file version.h  The version of the headers, and of the library that was linked. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPCL_VERSION_H
#define TPCL_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

/* The one place where the version is written: CMakeLists.txt reads these three lines. What a change
 * of each promises is in docs/VERSIONING.md; find_package(tpcl 0.2) takes any 0.2.x. */
/** A change breaks programs; 0 until the interface has settled. */
#define TPCL_VERSION_MAJOR 0
/** A change adds; while the major number is 0 it may also break, as CHANGELOG.md then says. */
#define TPCL_VERSION_MINOR 2
/** A change repairs: programs go on compiling, with the same results. */
#define TPCL_VERSION_PATCH 0

/** A version as one number: `#if TPCL_VERSION >= TPCL_VERSION_NUMBER(0, 2, 0)`. */
#define TPCL_VERSION_NUMBER(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
/** The version of these headers, to compare with TPCL_VERSION_NUMBER(). */
#define TPCL_VERSION TPCL_VERSION_NUMBER(TPCL_VERSION_MAJOR, TPCL_VERSION_MINOR, TPCL_VERSION_PATCH)

/** Three numbers as text, with dots. */
#define TPCL_VERSION_JOIN_(major, minor, patch) #major "." #minor "." #patch
/** Three macros as text, with dots. */
#define TPCL_VERSION_JOIN(major, minor, patch) TPCL_VERSION_JOIN_(major, minor, patch)
/** The version of these headers as text, such as "0.2.0". */
#define TPCL_VERSION_STRING \
    TPCL_VERSION_JOIN(TPCL_VERSION_MAJOR, TPCL_VERSION_MINOR, TPCL_VERSION_PATCH)

/**
 * The version of the library that was linked: TPCL_VERSION and TPCL_VERSION_STRING as they were
 * when it was compiled. Where it differs from the macros, headers and library do not belong
 * together.
 *
 * Collective: no.  Blocks: no.  Allocates: no.  Errors: none.
 */
int tpcl_version(void);
const char *tpcl_version_string(void);

#ifdef __cplusplus
}
#endif
#endif
