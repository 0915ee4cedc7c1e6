// Builds, compiles and runs small graphs through the public interface.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "opweld/opweld.h"

namespace opweld::testing {

// The message of a usage error or failure; empty if there is none.
template <typename T>
std::string message_of(const Result<T>& result) {
  return result ? std::string() : result.error().message;
}

struct Input {
  Sizes sizes;
  std::vector<float> values;
};

// The elements of what `body` makes of f32 inputs, computed at every level of fusion, which must
// agree; of the default level.
inline std::vector<double> compute(
    const std::vector<Input>& inputs,
    const std::function<GraphTensor(GraphBuilder&, const std::vector<GraphTensor>&)>& body) {
  GraphBuilder builder;
  std::vector<GraphTensor> operands;
  std::vector<TensorView> views;
  for (const Input& input : inputs) {
    operands.push_back(builder.input("x" + std::to_string(operands.size()), DType::F32,
                                     {input.sizes.begin(), input.sizes.end()}));
    views.emplace_back(input.values, input.sizes);
  }
  builder.output("y", body(builder, operands));
  const Result<Model> model = builder.finish();
  EXPECT_TRUE(model) << message_of(model);
  if (!model) return {};
  std::vector<double> values;
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    const Result<Program> program = model->compile({.fusion = level, .threads = 1});
    EXPECT_TRUE(program) << message_of(program);
    if (!program) return {};
    const auto outputs = program->run(views);
    EXPECT_TRUE(outputs) << message_of(outputs);
    if (!outputs) return {};
    const std::vector<double> result = outputs->front().to_doubles();
    if (level != FusionLevel::None) {
      EXPECT_THAT(result, ::testing::Pointwise(::testing::NanSensitiveDoubleNear(1e-5), values));
    }
    values = result;
  }
  return values;
}

}  // namespace opweld::testing
