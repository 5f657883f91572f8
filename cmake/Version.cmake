# Sets TPCL_HEADER_VERSION from include/tpcl/version.h, where the version is written once.
set(version "")
foreach(part IN ITEMS MAJOR MINOR PATCH)
  file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../include/tpcl/version.h" line
    REGEX "^#define TPCL_VERSION_${part} [0-9]+$")
  string(REGEX MATCH "[0-9]+$" number "${line}")
  list(APPEND version "${number}")
endforeach()
list(JOIN version . TPCL_HEADER_VERSION)
if(NOT TPCL_HEADER_VERSION MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
  message(FATAL_ERROR "include/tpcl/version.h: found version '${TPCL_HEADER_VERSION}', expected three numbers")
endif()
