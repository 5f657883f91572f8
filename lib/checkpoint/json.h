/* JSON from hostile files, through jansson. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TPI_CHECKPOINT_JSON_H
#define TPI_CHECKPOINT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <tpcl/status.h>

/* An object, without duplicate keys, bounded in its number of values; json_decref() it. */
tpcl_status tpi_json_parse(const char *text, size_t length, const char *file, json_t **out);

/* Members of `object`. Absent and null leave *out alone, or are an error where `required`. */
tpcl_status tpi_json_int(const json_t *object, const char *file, const char *key, bool required,
                         int *out);
tpcl_status tpi_json_number(const json_t *object, const char *file, const char *key, bool required,
                            double *out);
tpcl_status tpi_json_bool(const json_t *object, const char *file, const char *key, bool *out);
tpcl_status tpi_json_string(const json_t *object, const char *file, const char *key,
                            const char **out);

#endif
