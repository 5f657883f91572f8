/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/json.h"

#include <limits.h>

#include "base/error.h"

/* A value takes up to a hundred bytes once parsed and may be two bytes of text: the number of
 * values is what bounds memory. 65536 tensors of a safetensors header have eight each. */
enum { MAX_VALUES = 512 * 1024 };

static size_t count_values(const char *text, size_t length)
{
    size_t n = 1;
    for (size_t i = 0; i < length; i++) n += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return n;
}

tpcl_status tpi_json_parse(const char *text, size_t length, const char *file, json_t **out)
{
    tpcl_status status = TPCL_OK;
    json_error_t error;

    *out = NULL;
    const size_t values = count_values(text, length);
    TPI_REQUIRE(values <= MAX_VALUES, TPCL_ERR_UNSUPPORTED,
                "%s: about %zu JSON values, tpcl reads at most %d", file, values, MAX_VALUES);
    *out = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!*out) {
        /* Where memory is out jansson does not always say so, but then it gives no other reason. */
        const bool memory = json_error_code(&error) == json_error_out_of_memory || !error.text[0];
        TPI_REQUIRE(!memory, TPCL_ERR_NOMEM, "%s: out of memory for its JSON", file);
        TPI_FAIL(TPCL_ERR_FORMAT, "%s: bad JSON at byte %d: %s", file, error.position, error.text);
        goto done;
    }
    TPI_REQUIRE(json_is_object(*out), TPCL_ERR_FORMAT, "%s: the JSON is not an object", file);
done:
    if (status != TPCL_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

/* NULL for absent and null. */
static const json_t *member(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

tpcl_status tpi_json_int(const json_t *object, const char *file, const char *key, bool required,
                         int *out)
{
    tpcl_status status = TPCL_OK;
    const json_t *value = member(object, key);
    TPI_REQUIRE(value || !required, TPCL_ERR_FORMAT, "%s: '%s' is missing", file, key);
    if (!value) goto done;
    TPI_REQUIRE(json_is_integer(value), TPCL_ERR_FORMAT, "%s: '%s' is not an integer", file, key);
    const json_int_t n = json_integer_value(value);
    TPI_REQUIRE(n >= INT_MIN && n <= INT_MAX, TPCL_ERR_FORMAT, "%s: '%s' is %lld: out of range",
                file, key, (long long)n);
    *out = (int)n;
done:
    return status;
}

tpcl_status tpi_json_number(const json_t *object, const char *file, const char *key, bool required,
                            double *out)
{
    tpcl_status status = TPCL_OK;
    const json_t *value = member(object, key);
    TPI_REQUIRE(value || !required, TPCL_ERR_FORMAT, "%s: '%s' is missing", file, key);
    if (!value) goto done;
    TPI_REQUIRE(json_is_number(value), TPCL_ERR_FORMAT, "%s: '%s' is not a number", file, key);
    *out = json_number_value(value);
done:
    return status;
}

tpcl_status tpi_json_bool(const json_t *object, const char *file, const char *key, bool *out)
{
    tpcl_status status = TPCL_OK;
    const json_t *value = member(object, key);
    if (!value) goto done;
    TPI_REQUIRE(json_is_boolean(value), TPCL_ERR_FORMAT, "%s: '%s' is neither true nor false", file,
                key);
    *out = json_is_true(value);
done:
    return status;
}

tpcl_status tpi_json_string(const json_t *object, const char *file, const char *key,
                            const char **out)
{
    tpcl_status status = TPCL_OK;
    const json_t *value = member(object, key);
    if (!value) goto done;
    TPI_REQUIRE(json_is_string(value), TPCL_ERR_FORMAT, "%s: '%s' is not a string", file, key);
    *out = json_string_value(value);
done:
    return status;
}
