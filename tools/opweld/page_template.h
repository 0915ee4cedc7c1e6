// The template of `opweld report`, made from web/ and put into this command when it was built.
#pragma once

#include <string_view>

namespace opweld::cli {

// Empty where it had not been made when the command was compiled.
std::string_view page_template();

}  // namespace opweld::cli
