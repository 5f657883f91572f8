# Target docs: the site of the public headers and of the documents, in <build>/docs/html. Doxygen is
# needed only where it is built; nothing is fetched, and it reads without a network.
find_program(TPCL_DOXYGEN doxygen)
find_package(Python3 COMPONENTS Interpreter)
mark_as_advanced(TPCL_DOXYGEN)
if(NOT TPCL_DOXYGEN OR NOT Python3_Interpreter_FOUND)
  add_custom_target(docs
    COMMAND ${CMAKE_COMMAND} -E echo "The site needs doxygen and python3 (on Debian: apt-get install doxygen python3), then configure again."
    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
  return()
endif()

set(DOCS_OUT ${PROJECT_BINARY_DIR}/docs)
set(doxygen_dir ${PROJECT_SOURCE_DIR}/docs/doxygen)
set(pages README.md docs/GUIDE.md examples/README.md docs/NAMES.md docs/FILES.md docs/VERSIONING.md
  docs/BENCHMARKS.md docs/PORTING-KERNELS.md cl/README.md docs/ARCHITECTURE.md docs/DECISIONS.md CONTRIBUTING.md
  SECURITY.md CHANGELOG.md)
list(TRANSFORM pages PREPEND "${PROJECT_SOURCE_DIR}/")
file(GLOB examples CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/examples
  ${PROJECT_SOURCE_DIR}/examples/*.c ${PROJECT_SOURCE_DIR}/examples/*.cpp)
set(text "")
foreach(name IN LISTS examples)
  string(APPEND text "/** @example ${name}\n * What it prints: @ref doc_examples_readme. */\n")
endforeach()
file(CONFIGURE OUTPUT ${DOCS_OUT}/examples.dox CONTENT "${text}" @ONLY)
set(DOCS_INPUT ${doxygen_dir}/subjects.dox ${DOCS_OUT}/examples.dox ${PROJECT_SOURCE_DIR}/include/tpcl ${pages})
list(TRANSFORM DOCS_INPUT REPLACE "(.+)" "\"\\1\"")
list(JOIN DOCS_INPUT " " DOCS_INPUT)
configure_file(${doxygen_dir}/Doxyfile.in ${DOCS_OUT}/Doxyfile @ONLY)
add_custom_target(docs COMMAND ${TPCL_DOXYGEN} ${DOCS_OUT}/Doxyfile
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM COMMENT "Site in ${DOCS_OUT}/html")
