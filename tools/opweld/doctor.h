// What opweld doctor looks at.
#pragma once

#include <string>
#include <vector>

namespace opweld::cli {

struct Finding {
  std::string name;   // "huge pages"
  std::string value;  // what there is
  // What costs speed, or may not be meant; and what is broken. Each says what to do.
  std::string note = {};
  std::string problem = {};
};

// The variables that Opweld reads, as they are set, and those that look as if it should.
std::vector<Finding> examine_environment();
// The folder that measurements are kept in.
Finding examine_cache();

}  // namespace opweld::cli
