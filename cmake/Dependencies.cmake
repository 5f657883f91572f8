# What tpcl links. Names of the Debian packages are in scripts/packages.sh.
# Global: a project that adds tpcl as a subdirectory links these targets from its own folders.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(OpenCL 1.2 REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
find_package(CLBlast REQUIRED) # no version argument: Debian 12's package has no version file
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(tpcl_xxhash REQUIRED libxxhash>=0.8) # header only: XXH_INLINE_ALL

# Under the names that tpclConfig.cmake gives them: no clash with a project that looks for them, too.
if(TPCL_BUILD_MODEL)
  pkg_check_modules(tpcl_jansson REQUIRED IMPORTED_TARGET GLOBAL jansson>=2.13)
  pkg_check_modules(tpcl_pcre2 REQUIRED IMPORTED_TARGET GLOBAL libpcre2-8>=10.40)
  pkg_check_modules(tpcl_utf8proc REQUIRED IMPORTED_TARGET GLOBAL libutf8proc)
endif()
