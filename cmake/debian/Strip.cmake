# Runs inside CPack, after a component was installed; strips as Debian's own tools do, and compresses
# man pages. Archives keep their symbols and lose debug sections only, which CPACK_STRIP_FILES would
# leave.
cmake_minimum_required(VERSION 3.25)
find_program(strip_program strip REQUIRED)
file(GLOB_RECURSE archives "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.a")
file(GLOB_RECURSE programs "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*")
list(FILTER programs INCLUDE REGEX "/bin/[^/]+$")
if(archives)
  execute_process(COMMAND ${strip_program} --strip-debug --remove-section=.comment
    --remove-section=.note --enable-deterministic-archives ${archives} COMMAND_ERROR_IS_FATAL ANY)
endif()
if(programs)
  execute_process(COMMAND ${strip_program} --strip-all --remove-section=.comment --remove-section=.note
    ${programs} COMMAND_ERROR_IS_FATAL ANY)
endif()
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.[1-9]")
list(FILTER pages INCLUDE REGEX "/man/man[1-9]/[^/]+$")
find_program(gzip_program gzip)
if(pages AND gzip_program)
  execute_process(COMMAND ${gzip_program} -9n ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
