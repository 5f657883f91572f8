# tpcl_mpi_name(<out> <folder>...): "MPICH", "Open MPI" or "": whose mpi.h lies in the folders. Their
# libraries do not fit each other's headers. Part of the installed package.
function(tpcl_mpi_name out)
  set(name "")
  foreach(folder IN LISTS ARGN)
    if(NOT name AND EXISTS "${folder}/mpi.h")
      file(STRINGS "${folder}/mpi.h" line LIMIT_COUNT 1
        REGEX "^#[ \t]*define[ \t]+(MPICH_VERSION|OMPI_MAJOR_VERSION)[ \t]")
      if(line MATCHES "MPICH")
        set(name "MPICH")
      elseif(line)
        set(name "Open MPI")
      endif()
    endif()
  endforeach()
  set(${out} "${name}" PARENT_SCOPE)
endfunction()
