// What opweld doctor has found.
#pragma once

#include <string>
#include <vector>

#include "support/expected.h"

namespace opweld::cli {

struct Finding {
  std::string name;   // "huge pages"
  std::string value;  // what there is
  // What costs speed, or may not be meant; and what is broken. Each says what to do.
  std::string note = {};
  std::string problem = {};
};

// Prints them. Fails where one of them is a problem, with the names of those that are.
Status tell_findings(const std::vector<Finding>& findings, bool json);

}  // namespace opweld::cli
