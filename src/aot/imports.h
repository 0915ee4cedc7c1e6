// The functions that generated code may call.
#pragma once

#include <string_view>

namespace opweld::aot {

// The address of a function of the C library that code generation may ask for, by its name there;
// null for any other name, so that a file cannot name its way to functions of the process.
const void* find_import(std::string_view name);

}  // namespace opweld::aot
