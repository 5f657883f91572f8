# What tpcl links. Names of the Debian packages are in scripts/packages.sh.
find_package(OpenCL 1.2 REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
find_package(CLBlast REQUIRED) # no version argument: Debian 12's package has no version file
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson>=2.13)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.40)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash>=0.8) # header only: XXH_INLINE_ALL
