# find_package(outlive) gives the targets outlive::outlive (shared) and outlive::static.
get_filename_component(_outlive_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET outlive::outlive)
  add_library(outlive::outlive SHARED IMPORTED)
  set_target_properties(outlive::outlive PROPERTIES
    IMPORTED_LOCATION "${_outlive_prefix}/lib/liboutlive.so"
    IMPORTED_SONAME "liboutlive.so.0"
    INTERFACE_INCLUDE_DIRECTORIES "${_outlive_prefix}/include")

  add_library(outlive::static STATIC IMPORTED)
  set_target_properties(outlive::static PROPERTIES
    IMPORTED_LOCATION "${_outlive_prefix}/lib/liboutlive.a"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m;rt;util"
    INTERFACE_INCLUDE_DIRECTORIES "${_outlive_prefix}/include")
endif()

unset(_outlive_prefix)
