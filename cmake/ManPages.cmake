# tpcl_man_pages(<generator> <page>...): builds and installs the pages, in section 1. <generator> DATE
# prints that of the program, <generator> DATE <verb> that of one of its commands, <program>-<verb>.
string(TIMESTAMP man_date "%Y-%m-%d" UTC) # honours SOURCE_DATE_EPOCH
function(tpcl_man_pages generator)
  set(files "")
  foreach(page IN LISTS ARGN)
    string(REGEX REPLACE "^${ARGV1}-?" "" verb ${page})
    set(file ${PROJECT_BINARY_DIR}/man/${page}.1)
    add_custom_command(OUTPUT ${file} DEPENDS ${generator} VERBATIM
      COMMAND ${generator} ${man_date} ${verb} > ${file})
    list(APPEND files ${file})
  endforeach()
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
  add_custom_target(${generator}_pages ALL DEPENDS ${files})
  if(TPCL_INSTALL)
    install(FILES ${files} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  endif()
endfunction()

# The library's page is written by hand; the date and the version are put in.
configure_file(${PROJECT_SOURCE_DIR}/docs/tpcl.7.in ${PROJECT_BINARY_DIR}/man/tpcl.7 @ONLY)
if(TPCL_INSTALL)
  install(FILES ${PROJECT_BINARY_DIR}/man/tpcl.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7
    COMPONENT devel)
endif()
