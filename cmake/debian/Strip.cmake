# Runs inside CPack, after a component was installed; strips as Debian's own tools do. Archives keep
# their symbols and lose debug sections only, which CPACK_STRIP_FILES would leave.
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
