// What this processor has, asked without LLVM, by LLVM's names for it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/expected.h"

namespace opweld::aot {

// Whether this processor, and the system for its registers, has a feature whose instructions code
// generation may choose; nothing for any other name. Of Intel's "Software Developer's Manual",
// volume 2, CPUID, and AMD's "Architecture Programmer's Manual", volume 3, appendix E. AMX is asked
// of Linux as well, which gives its registers only to processes that have asked.
std::optional<bool> host_has(std::string_view feature);

// Of features that code may use, those that it makes a difference to have: others give instructions
// that no code generator chooses by itself (for keys, transactions, system software). An error for
// a name that is in neither list.
Expected<std::vector<std::string>> needed_features(std::span<const std::string> used);

}  // namespace opweld::aot
