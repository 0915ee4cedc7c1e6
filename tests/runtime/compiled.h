// Models written as text, compiled, and inputs for them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compile.h"
#include "tile/group_runner.h"

namespace opweld::testing {

inline Executable compiled(const std::string& text, int threads = 2,
                           FusionLevel level = FusionLevel::Auto) {
  CompileOptions options;
  options.threads = threads;
  options.level = level;
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

inline std::vector<Tensor> random_inputs(const std::string& text, const Bindings& sizes) {
  const Graph graph = parse_graph(text).value();
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    inputs.push_back(random_tensor(input->type(), evaluate(input->shape(), sizes).value(),
                                   static_cast<unsigned>(inputs.size()) + 1));
  }
  return inputs;
}

}  // namespace opweld::testing
