/* Strict numbers and id lists: the whole text, no locale, no blanks, in range. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_PARSE_H
#define TOOLS_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool parse_int(const char *text, int64_t min, int64_t max, int64_t *out);
bool parse_u64(const char *text, uint64_t *out);
/* Digits, a point and an exponent; neither hexadecimal nor inf nor nan. */
bool parse_real(const char *text, double min, double max, double *out);

/**
 * Ids as a JSON array or as a list separated by single commas or by blanks and newlines.
 * @param what  in   option or stream, for the message
 * @param ids   out  malloc'ed; NULL when there are none
 * Returns 0 or EX_USAGE with the message recorded.
 */
int parse_ids(const char *what, const char *text, size_t length, int32_t **ids, size_t *n);

#endif
