# Runs inside CPack, after a component was installed: debug sections are left out of the archives.
# Install rules strip programs, but never archives, because that would take their symbols, too.
cmake_minimum_required(VERSION 3.25)
find_program(strip_program strip)
file(GLOB_RECURSE archives "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*.a")
if(strip_program AND archives)
  execute_process(COMMAND ${strip_program} --strip-debug --enable-deterministic-archives ${archives}
    COMMAND_ERROR_IS_FATAL ANY)
endif()
