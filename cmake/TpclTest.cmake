# tpcl_add_test(<layer>/<name> [RANKS 1 2 3 4] [LINK libs] [TIMEOUT s])
# One executable tests/<layer>/test_<name>.c, one ctest entry per rank count.
function(tpcl_add_test path)
  cmake_parse_arguments(arg "" "TIMEOUT" "RANKS;LINK" ${ARGN})
  get_filename_component(layer ${path} DIRECTORY)
  get_filename_component(name ${path} NAME)
  set(exe test_${layer}_${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${exe} ${PROJECT_SOURCE_DIR}/tests/${layer}/test_${name}.c)
  target_include_directories(${exe} PRIVATE ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${exe} PRIVATE _GNU_SOURCE CL_TARGET_OPENCL_VERSION=120
    TPCL_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/tests/golden"
    TPCL_MODEL_DIR="${PROJECT_SOURCE_DIR}/models")
  target_link_libraries(${exe} PRIVATE ${arg_LINK} tpcl_model tpcl OpenCL::OpenCL tpcl_warnings
    PkgConfig::cmocka PkgConfig::tpcl_jansson m)
  if(TPCL_SANITIZE MATCHES address)
    target_sources(${exe} PRIVATE ${PROJECT_SOURCE_DIR}/tests/lint/keep_loaded.c)
  endif()
  if(NOT arg_RANKS)
    add_test(NAME ${layer}.${name} COMMAND ${exe})
    set_tests_properties(${layer}.${name} PROPERTIES LABELS "${layer}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77
      ENVIRONMENT "UCX_HANDLE_ERRORS=none")
    return()
  endif()
  foreach(n IN LISTS arg_RANKS)
    add_test(NAME ${layer}.${name}.np${n}
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${n} $<TARGET_FILE:${exe}>)
    set_tests_properties(${layer}.${name}.np${n} PROPERTIES LABELS "${layer};mpi" TIMEOUT ${arg_TIMEOUT}
      PROCESSORS ${n} SKIP_RETURN_CODE 77 ENVIRONMENT "UCX_HANDLE_ERRORS=none")
  endforeach()
endfunction()
