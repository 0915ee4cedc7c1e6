// The template of the page of a report, made from web/ and compiled in.
#pragma once

#include <string_view>

namespace opweld {

// Empty where it had not been made when Opweld was built; './dev build' makes it first.
std::string_view page_template();

}  // namespace opweld
