// Which build of Opweld this is.
#pragma once

#include <string>

namespace opweld {

// The digest that the linker gave to the program or library that this code is part of (the GNU
// build ID of its notes), in hexadecimal: another one for any change of the code. Empty where the
// linker gave none.
std::string build_id();

}  // namespace opweld
