// Running one operator on given tensors, and what must come out.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ops/builder.h"
#include "ops/reference.h"

namespace opweld {

inline constexpr DType kAllDTypes[] = {DType::F64, DType::F32, DType::F16, DType::BF16,
                                       DType::I64, DType::I32, DType::I16, DType::I8,
                                       DType::U8,  DType::Bool};

inline Tensor zeros(DType dtype, Sizes sizes) {
  return Tensor::allocate(dtype, std::move(sizes)).value();
}

// Row-major values, converted to the dtype.
inline Tensor make_tensor(DType dtype, Sizes sizes, const std::vector<double>& values) {
  Tensor tensor = zeros(dtype, std::move(sizes));
  EXPECT_EQ(tensor.num_elements(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    if (is_float(dtype)) {
      tensor.set_double(place, values[i]);
    } else {
      tensor.set_int(place, static_cast<std::int64_t>(values[i]));
    }
  }
  return tensor;
}

inline Tensor ints(Sizes sizes, const std::vector<double>& values, DType dtype = DType::I64) {
  return make_tensor(dtype, std::move(sizes), values);
}

inline Tensor floats(Sizes sizes, const std::vector<double>& values) {
  return make_tensor(DType::F32, std::move(sizes), values);
}

// Integers in [-10, 10] as f32: sums of their products are exact.
inline Tensor small_integers(std::mt19937& generator, Sizes sizes) {
  Tensor tensor = zeros(DType::F32, std::move(sizes));
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.set_double(i, static_cast<double>(generator() % 21) - 10);
  }
  return tensor;
}

// Arbitrary bits, so NaN payloads and denormals among floats; bools are 0 or 1.
inline Tensor random_bits(DType dtype, Sizes sizes, unsigned seed) {
  Tensor tensor = zeros(dtype, std::move(sizes));
  std::mt19937 generator(seed);
  for (std::int64_t i = 0; i < tensor.num_bytes(); ++i) {
    const auto bits = static_cast<unsigned char>(generator());
    tensor.mutable_data()[i] = std::byte(dtype == DType::Bool ? bits & 1 : bits);
  }
  return tensor;
}

enum class Meaning { Definition, Body };

// The operator alone in a graph whose inputs have the operands' types; a tensor without data (a
// default-constructed one) stands for an absent operand. A composite may be replaced by its body.
inline Expected<std::vector<Tensor>> run_op(const std::string& op,
                                            const std::vector<Tensor>& operands,
                                            Attributes attributes,
                                            Meaning meaning = Meaning::Definition) {
  Graph graph;
  std::vector<Value*> values;
  std::vector<Tensor> inputs;
  for (const Tensor& operand : operands) {
    const bool absent = operand.rank() == 0 && operand.data() == nullptr;
    if (absent) {
      values.push_back(nullptr);
      continue;
    }
    const Shape shape(operand.sizes().begin(), operand.sizes().end());
    values.push_back(
        graph.add_input("x" + std::to_string(inputs.size()), {operand.dtype(), shape}));
    inputs.push_back(operand);
  }
  OPWELD_TRY(Node * node, build_node(graph, op, values, std::move(attributes)));
  std::vector<Value*> results;
  for (int i = 0; i < node->num_results(); ++i) results.push_back(node->result(i));
  if (meaning == Meaning::Body) {
    OPWELD_TRY(results, op_def(*node).body(graph, *node));
    EXPECT_EQ(results[0]->type(), node->result()->type());
    graph.erase(node);
    OPWELD_CHECK(verify(graph));
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    graph.add_output("y" + std::to_string(i), results[i]);
  }
  return evaluate(graph, inputs);
}

inline void expect_tensor(const Tensor& actual, DType dtype, const Sizes& sizes,
                          const std::vector<double>& values) {
  EXPECT_EQ(actual.dtype(), dtype);
  ASSERT_EQ(actual.sizes(), sizes);
  std::vector<double> elements;
  for (std::int64_t i = 0; i < actual.num_elements(); ++i) {
    elements.push_back(is_float(dtype) ? actual.get_double(i)
                                       : static_cast<double>(actual.get_int(i)));
  }
  EXPECT_THAT(elements, testing::Pointwise(testing::NanSensitiveDoubleEq(), values));
}

inline void expect_result(const Expected<std::vector<Tensor>>& actual, DType dtype,
                          const Sizes& sizes, const std::vector<double>& values) {
  ASSERT_TRUE(actual.has_value()) << actual.error().message;
  expect_tensor((*actual)[0], dtype, sizes, values);
}

inline void expect_error(const Expected<std::vector<Tensor>>& actual, const std::string& part) {
  ASSERT_FALSE(actual.has_value());
  EXPECT_THAT(actual.error().message, testing::HasSubstr(part));
}

// A move of elements, checked bit by bit for every dtype. Element i of the result is element
// sources[i] % 100 of the operand numbered sources[i] / 100; a negative source is a zero. `indices`
// are further operands, the same for every dtype.
struct Move {
  std::string op;
  std::vector<Sizes> data;
  std::vector<Tensor> indices;
  Attributes attributes;
  Sizes sizes;
  std::vector<int> sources;
};

inline void expect_move(const Move& move) {
  for (const DType dtype : kAllDTypes) {
    SCOPED_TRACE(std::string(to_string(dtype)));
    std::vector<Tensor> operands;
    unsigned seed = 1;
    for (const Sizes& sizes : move.data) operands.push_back(random_bits(dtype, sizes, seed++));
    const std::vector<Tensor> data = operands;
    operands.insert(operands.end(), move.indices.begin(), move.indices.end());
    const auto results = run_op(move.op, operands, move.attributes);
    ASSERT_TRUE(results.has_value()) << results.error().message;
    const Tensor& result = (*results)[0];
    ASSERT_EQ(result.dtype(), dtype);
    ASSERT_EQ(result.sizes(), move.sizes);
    ASSERT_EQ(result.num_elements(), static_cast<std::int64_t>(move.sources.size()));
    const auto width = static_cast<std::size_t>(byte_size(dtype));
    const std::byte zero[8] = {};
    for (std::size_t i = 0; i < move.sources.size(); ++i) {
      const int source = move.sources[i];
      const std::byte* expected = source < 0 ? zero
                                             : data[static_cast<std::size_t>(source / 100)].data() +
                                                   static_cast<std::size_t>(source % 100) * width;
      EXPECT_EQ(std::memcmp(result.data() + i * width, expected, width), 0) << "element " << i;
    }
  }
}

}  // namespace opweld
