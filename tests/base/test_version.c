/* SPDX-License-Identifier: Apache-2.0 */
/* The version in the header, in the library and in the build system is the same. */
#include "tpcl_test.h"

#include <stdio.h>
#include <tpcl/version.h>

static void library_is_as_its_headers(void **state)
{
    (void)state;
    assert_int_equal(tpcl_version(), TPCL_VERSION);
    assert_string_equal(tpcl_version_string(), TPCL_VERSION_STRING);
    assert_string_equal(TPCL_VERSION_STRING, TPCL_TEST_PROJECT_VERSION);
}

static void versions_compare(void **state)
{
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", TPCL_VERSION / 1000000, TPCL_VERSION / 1000 % 1000,
             TPCL_VERSION % 1000);
    assert_string_equal(text, TPCL_VERSION_STRING);
    assert_true(TPCL_VERSION_NUMBER(0, 9, 999) < TPCL_VERSION_NUMBER(0, 10, 0));
    assert_true(TPCL_VERSION_NUMBER(0, 999, 999) < TPCL_VERSION_NUMBER(1, 0, 0));
#if TPCL_VERSION < TPCL_VERSION_NUMBER(0, 2, 0)
#error "the preprocessor compares versions, too"
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_is_as_its_headers),
        cmocka_unit_test(versions_compare),
    };
    return cmocka_run_group_tests_name("base/version", tests, NULL, NULL);
}
