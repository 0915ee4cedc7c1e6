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

# Opweld::runtime, a component of the package, runs compiled models (include/opweld/runtime.h): one
# static library of the folders that it takes to run, without the compiler, LLVM or protobuf.
set(runtime_objects)
foreach(folder support graph ops plan runtime aot)
  list(APPEND runtime_objects $<TARGET_OBJECTS:opweld_${folder}>)
endforeach()
add_library(opweld_runtime_library STATIC ${runtime_objects})
add_library(Opweld::runtime ALIAS opweld_runtime_library)
set_target_properties(opweld_runtime_library PROPERTIES
  OUTPUT_NAME opweld_runtime EXPORT_NAME runtime LINKER_LANGUAGE CXX)
target_link_libraries(opweld_runtime_library PRIVATE fmt::fmt Threads::Threads xxhash)
target_include_directories(opweld_runtime_library INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Opweld)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/OpweldConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
file(WRITE ${PROJECT_BINARY_DIR}/OpweldConfig.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/OpweldTargets.cmake)\n"
  "if(\"runtime\" IN_LIST Opweld_FIND_COMPONENTS)\n"
  "  include(CMakeFindDependencyMacro)\n"
  "  find_dependency(Threads)\n"
  "  find_dependency(fmt)\n"
  "  include(\${CMAKE_CURRENT_LIST_DIR}/OpweldRuntimeTargets.cmake)\n"
  "endif()\n")

install(TARGETS opweld EXPORT OpweldTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS opweld_runtime_library EXPORT OpweldRuntimeTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/opweld DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT OpweldTargets NAMESPACE Opweld:: DESTINATION ${package_folder})
install(EXPORT OpweldRuntimeTargets NAMESPACE Opweld:: DESTINATION ${package_folder})
install(FILES ${PROJECT_BINARY_DIR}/OpweldConfig.cmake
  ${PROJECT_BINARY_DIR}/OpweldConfigVersion.cmake DESTINATION ${package_folder})
