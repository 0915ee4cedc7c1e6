// Files that others may read at any time.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "support/expected.h"

namespace opweld {

// Puts a file with these parts, one after the other, in the place of what is there. It is written
// beside it and then moved: a reader sees the one before or all of this one.
Status write_whole(const std::string& path, std::span<const std::string_view> parts);
Status write_whole(const std::string& path, std::initializer_list<std::string_view> parts);

}  // namespace opweld
