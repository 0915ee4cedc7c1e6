# Options and compile flags shared by every target.
option(OPWELD_BUILD_TESTS "Build the C++ tests" ON)
option(OPWELD_BUILD_BENCH "Build the micro-benchmarks" ON)
option(OPWELD_BUILD_PYTHON "Build the Python package" ON)
option(OPWELD_SANITIZE "Build with the address and undefined-behaviour sanitizers" OFF)
option(OPWELD_FUZZ "Build the fuzzers, which needs clang" OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions stay on in every build type: they guard against our own mistakes and cost little,
# since hot code is generated, not compiled here.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

find_program(OPWELD_CCACHE ccache)
if(OPWELD_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${OPWELD_CCACHE})
endif()

add_library(opweld_flags INTERFACE)
target_compile_options(opweld_flags INTERFACE
  -Wall -Wextra -Wpedantic $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local> -Werror)
target_include_directories(opweld_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
if(OPWELD_SANITIZE)
  # Instrumented code misleads GCC's flow analysis: it calls variants uninitialised that are not. The
  # plain build has this warning on.
  target_compile_options(opweld_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(opweld_flags INTERFACE -fsanitize=address,undefined)
endif()
if(OPWELD_FUZZ)
  target_compile_options(opweld_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# opweld_folder(<name> [DEPENDS ...] [WITHOUT ...]) makes the static library opweld_<name> of all
# sources below the current folder, but for those that belong to another library, so that adding a
# file needs no change here.
function(opweld_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;WITHOUT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  foreach(source ${ARG_WITHOUT})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  endforeach()
  string(REPLACE "/" "_" target ${name})
  add_library(opweld_${target} STATIC ${sources})
  target_link_libraries(opweld_${target} PUBLIC opweld_flags ${ARG_DEPENDS})
endfunction()
