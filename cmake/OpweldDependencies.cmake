# Every library comes from the distribution; docs/dependencies.md says why each is used.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(tl-expected REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
# Debian's libzip-config.cmake asks for tools of other packages; the library alone is enough.
find_library(OPWELD_LIBZIP zip REQUIRED)
find_path(OPWELD_LIBZIP_INCLUDE zip.h REQUIRED)
add_library(opweld_libzip INTERFACE)
target_include_directories(opweld_libzip SYSTEM INTERFACE ${OPWELD_LIBZIP_INCLUDE})
target_link_libraries(opweld_libzip INTERFACE ${OPWELD_LIBZIP})
find_package(Protobuf REQUIRED)
find_package(ONNX REQUIRED)
# The message classes of ONNX; Debian 13 exports them in a namespace, Debian 12 without one.
add_library(opweld_onnx INTERFACE)
if(TARGET ONNX::onnx_proto)
  target_link_libraries(opweld_onnx INTERFACE ONNX::onnx_proto)
else()
  target_link_libraries(opweld_onnx INTERFACE onnx_proto)
endif()
if(OPWELD_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(OPWELD_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()

find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
add_library(opweld_llvm INTERFACE)
# LLVM's headers do not pass our warning flags, hence SYSTEM.
target_include_directories(opweld_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_link_libraries(opweld_llvm INTERFACE LLVM)
target_link_directories(opweld_llvm INTERFACE ${LLVM_LIBRARY_DIRS})

# nanobind comes with the Python environment: that of ./dev, or the one that builds a wheel.
if(OPWELD_BUILD_PYTHON AND NOT OPWELD_SANITIZE)
  if(NOT Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  endif()
  # Written by ./dev setup when it has installed something: then nanobind is looked for anew.
  if(EXISTS ${PROJECT_SOURCE_DIR}/.venv/opweld-dev.sha256)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
      ${PROJECT_SOURCE_DIR}/.venv/opweld-dev.sha256)
  endif()
  find_package(Python 3.11 COMPONENTS Interpreter Development.Module)
  if(Python_FOUND)
    execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
      OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_package(nanobind CONFIG)
  endif()
  if(NOT nanobind_FOUND)
    message(STATUS "The Python package is left out: it needs Python 3.11 with its headers, and "
      "nanobind; ./dev setup installs both")
  endif()
endif()
