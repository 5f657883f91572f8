# find_package(tpcl) with tpcl::tpcl and tpcl::model, and pkg-config files; the prefix may be moved.
# Two components: `devel` to build programs with tpcl, `tools` the commands. Headers and archives
# of both libraries are one component; whoever links the layers alone needs nothing of the model's.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tpcl)
set(install_devel_doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/libtpcl-dev)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tpcl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT devel FILES_MATCHING PATTERN "*.h")
install(TARGETS tpcl EXPORT tpclTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel)
install(EXPORT tpclTargets NAMESPACE tpcl:: DESTINATION ${package_dir} COMPONENT devel)
if(TPCL_BUILD_MODEL)
  set_target_properties(tpcl_model PROPERTIES EXPORT_NAME model)
  install(TARGETS tpcl_model EXPORT tpclModelTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT devel)
  install(EXPORT tpclModelTargets NAMESPACE tpcl:: DESTINATION ${package_dir} COMPONENT devel)
endif()
include(tpclMpi)
tpcl_mpi_name(mpi_name ${MPI_C_INCLUDE_DIRS})
configure_package_config_file(cmake/tpclConfig.cmake.in tpclConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(tpclConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tpclConfig.cmake ${PROJECT_BINARY_DIR}/tpclConfigVersion.cmake
  cmake/tpclMpi.cmake DESTINATION ${package_dir} COMPONENT devel)

# Documents lie as they do in the repository, so that their links hold.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE NOTICE
  DESTINATION ${install_devel_doc} COMPONENT devel)
install(DIRECTORY docs cl examples DESTINATION ${install_devel_doc} COMPONENT devel
  FILES_MATCHING REGEX "\\.(md|c|cpp)$|CMakeLists\\.txt$")

# MPI's flags, from its own .pc file where that is of the MPI that was found.
set(pc_mpi_requires "")
set(pc_mpi_cflags "")
set(pc_mpi_libs "")
list(GET MPI_C_INCLUDE_DIRS 0 mpi_folder)
foreach(name IN ITEMS mpich ompi-c mpi-c)
  pkg_check_modules(tpcl_pc_${name} QUIET ${name})
  if(mpi_folder IN_LIST tpcl_pc_${name}_INCLUDE_DIRS)
    set(pc_mpi_requires ${name})
    break()
  endif()
endforeach()
if(NOT pc_mpi_requires)
  list(TRANSFORM MPI_C_INCLUDE_DIRS PREPEND "-I" OUTPUT_VARIABLE pc_mpi_cflags)
  list(JOIN pc_mpi_cflags " " pc_mpi_cflags)
  list(JOIN MPI_C_LIBRARIES " " pc_mpi_libs)
endif()

# .pc files find their prefix from where they lie; Debian's library folder has two levels.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_include ${pc_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
file(RELATIVE_PATH pc_to_lib ${pc_dir} ${CMAKE_INSTALL_FULL_LIBDIR})
set(pc_names tpcl)
if(TPCL_BUILD_MODEL)
  list(APPEND pc_names tpcl-model)
endif()
foreach(name IN LISTS pc_names)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT devel)
endforeach()
