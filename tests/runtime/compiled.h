// Models written as text, compiled, inputs for them, and their answers side by side.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
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

// Bit for bit.
inline void expect_identical(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].sizes(), b[i].sizes());
    const auto bytes = static_cast<std::size_t>(a[i].num_bytes());
    if (bytes == 0) continue;
    EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), bytes), 0) << "output " << i;
  }
}

}  // namespace opweld::testing
