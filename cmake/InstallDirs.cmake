# GNUInstallDirs, with Debian's library folder under every prefix: CPack turns the prefix into /usr,
# where it belongs, and compilers, CMake and pkg-config look there under /usr/local, too.
set(debian_folder "")
if(CMAKE_LIBRARY_ARCHITECTURE AND EXISTS /etc/debian_version AND NOT CMAKE_CROSSCOMPILING)
  set(debian_folder lib/${CMAKE_LIBRARY_ARCHITECTURE})
endif()
if(debian_folder AND PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_INSTALL_LIBDIR)
  set(CMAKE_INSTALL_LIBDIR ${debian_folder} CACHE PATH "Object code libraries (${debian_folder})")
endif()
include(GNUInstallDirs)
