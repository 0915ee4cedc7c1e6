// Groups that are alike.
//
// Models repeat their layers, so most of what a planner asks it has asked before, of other nodes.
// What a schedule makes of a group, and how a part of the graph is best cut into kernels, depends
// on the operators, their attributes, the types and what reads what: on its structure. Names count
// for nothing, and of constants only their type does, unless they are single numbers: those become
// part of a program (GroupLowering), while the others are data to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusion/plan.h"

namespace opweld {

class Structures {
 public:
  // Equal for kernels of equal structure, and for no others; their boundaries have been found.
  using Key = std::vector<std::int32_t>;
  Key key_of(const Kernel& kernel);

 private:
  std::int32_t signature_of(const Node& node);

  std::unordered_map<const Node*, std::int32_t> signature_of_;
  std::unordered_map<std::string, std::int32_t> signatures_;  // by their text
};

struct StructureHash {
  std::size_t operator()(const Structures::Key& key) const;
};

}  // namespace opweld
