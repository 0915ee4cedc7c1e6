# The package that users find: find_package(Opweld), then link Opweld::opweld.
#
# One shared library with everything in it. It gives out the public interface and hides the rest, so
# that a user needs neither the packages that we build with nor our internal headers.
include(CMakePackageConfigHelpers)

add_library(opweld SHARED $<TARGET_OBJECTS:opweld_api>)
add_library(Opweld::opweld ALIAS opweld)
target_link_libraries(opweld PRIVATE opweld_compile)
target_link_options(opweld PRIVATE LINKER:--exclude-libs,ALL LINKER:--no-undefined)
target_include_directories(opweld INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(opweld INTERFACE cxx_std_20)
set_target_properties(opweld PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Opweld)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/OpweldConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
file(WRITE ${PROJECT_BINARY_DIR}/OpweldConfig.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/OpweldTargets.cmake)\n")

install(TARGETS opweld EXPORT OpweldTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS opweld_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/opweld DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT OpweldTargets NAMESPACE Opweld:: DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/OpweldConfig.cmake
  ${PROJECT_BINARY_DIR}/OpweldConfigVersion.cmake DESTINATION ${package_folder})
