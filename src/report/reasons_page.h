// The table of reason codes as people read it.
#pragma once

#include <string>

namespace opweld {

// docs/reasons.md, in Markdown; `opweld reasons` prints it.
std::string reasons_page();

}  // namespace opweld
