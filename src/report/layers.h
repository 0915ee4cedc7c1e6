// Layers of a plan, equal ones told once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/account.h"

namespace opweld {

// Layers that follow one another and have equal kernels: the same kinds, operators, and types of
// what they read and write, in the same order.
struct EqualLayers {
  std::string first;  // scope; empty for what belongs to no layer
  std::string last;
  std::int64_t count = 1;
  Traffic traffic;  // of one of them
};

// In order of first appearance.
Expected<std::vector<EqualLayers>> equal_layers(const FusionPlan& plan, const Bindings& bindings);

// "layers.0 .. layers.31 (32 equal)", "layers.0", "(no layer)"
std::string to_string(const EqualLayers& layers);

}  // namespace opweld
