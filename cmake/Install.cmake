# find_package(tpcl) with tpcl::tpcl and tpcl::model, and pkg-config files; the prefix may be moved.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tpcl)
set_target_properties(tpcl_model PROPERTIES EXPORT_NAME model)
install(TARGETS tpcl tpcl_model EXPORT tpclTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tpcl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(EXPORT tpclTargets NAMESPACE tpcl:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tpclConfig.cmake.in tpclConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(tpclConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tpclConfig.cmake ${PROJECT_BINARY_DIR}/tpclConfigVersion.cmake
  DESTINATION ${package_dir})

# .pc files find their prefix from where they lie; Debian's library folder has two levels.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_include ${pc_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
file(RELATIVE_PATH pc_to_lib ${pc_dir} ${CMAKE_INSTALL_FULL_LIBDIR})
foreach(name IN ITEMS tpcl tpcl-model)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
