# Debian packages: `cpack -G DEB` in the build folder, or `cmake --workflow --preset deb`.
#   libtpcl-dev  component devel: headers, archives, CMake package, .pc files, documents, examples
#   tpcl         component tools: the commands and their man pages
# What Debian asks of a package besides (copyright, changelog) is installed only into packages.
set(package_release 1)
string(TIMESTAMP package_date "%a, %d %b %Y %H:%M:%S +0000" UTC) # honours SOURCE_DATE_EPOCH
set(TPCL_PACKAGE_MAINTAINER "The tpcl authors <tpcl@example.org>" CACHE STRING
  "Maintainer of the Debian packages: whoever builds them for others puts a real address here")
configure_file(cmake/debian/changelog.in debian/changelog @ONLY)
find_program(TPCL_GZIP gzip)
mark_as_advanced(TPCL_GZIP)
if(TPCL_GZIP)
  foreach(pair IN ITEMS "${PROJECT_BINARY_DIR}/debian/changelog;changelog.Debian.gz"
                        "${PROJECT_SOURCE_DIR}/CHANGELOG.md;changelog.gz")
    list(GET pair 0 from)
    list(GET pair 1 to)
    execute_process(COMMAND ${TPCL_GZIP} -9nc ${from}
      OUTPUT_FILE ${PROJECT_BINARY_DIR}/debian/${to} COMMAND_ERROR_IS_FATAL ANY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
  endforeach()
endif()
foreach(pair IN ITEMS devel=libtpcl-dev tools=tpcl)
  string(REPLACE = ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES cmake/debian/copyright DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  if(TPCL_GZIP)
    install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz ${PROJECT_BINARY_DIR}/debian/changelog.gz
      DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
  endif()
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tpcl)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGE_VENDOR "The tpcl authors")
set(CPACK_PACKAGE_CONTACT "${TPCL_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/Strip.cmake)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL devel)
if(TPCL_BUILD_TOOLS)
  list(APPEND CPACK_COMPONENTS_ALL tools)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${package_release})
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(package_mpi mpich)
set(package_mpi_dev libmpich-dev)
if(mpi_name STREQUAL "Open MPI")
  set(package_mpi openmpi-bin)
  set(package_mpi_dev libopenmpi-dev)
endif()

set(CPACK_DEBIAN_DEVEL_PACKAGE_NAME libtpcl-dev)
set(CPACK_DEBIAN_DEVEL_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVEL_PACKAGE_DEPENDS "libclblast-dev, libjansson-dev, ${package_mpi_dev}, \
libpcre2-dev, libutf8proc-dev, ocl-icd-opencl-dev | opencl-dev, pkgconf | pkg-config")
set(CPACK_DEBIAN_DEVEL_PACKAGE_RECOMMENDS ${package_mpi})
set(CPACK_DEBIAN_DEVEL_PACKAGE_SUGGESTS "cmake, pocl-opencl-icd | opencl-icd, tpcl")
set(CPACK_DEBIAN_DEVEL_DESCRIPTION "tensor-parallel transformer layers on OpenCL and MPI (development)
Layers of a decoder model split over devices of any vendor, one MPI rank each:
linear layers split by rows and by columns, vocabulary-parallel embedding and
LM head, attention with a paged key/value cache.
.
This package has the static libraries, headers, the CMake package, pkg-config
files, documents and examples.")

set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME tpcl)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS ${package_mpi})
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "pocl-opencl-icd | opencl-icd")
set(CPACK_DEBIAN_TOOLS_DESCRIPTION "run one language model on several OpenCL devices
tpcl runs Llama, Qwen2 and Qwen3 models from GGUF and safetensors files over
any number of MPI ranks, each with an OpenCL device of its own. tpcl-bench
measures single operations beside a named peer.")
include(CPack)
