// Small ONNX models made by hand, and what becomes of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "import/onnx/import.h"
#include "ops/builder.h"
#include "ops/reference.h"

namespace opweld {

template <typename T>
constexpr int element_type() {
  if constexpr (std::is_same_v<T, float>) return onnx::TensorProto::FLOAT;
  if constexpr (std::is_same_v<T, double>) return onnx::TensorProto::DOUBLE;
  if constexpr (std::is_same_v<T, std::int64_t>) return onnx::TensorProto::INT64;
  if constexpr (std::is_same_v<T, std::int32_t>) return onnx::TensorProto::INT32;
  if constexpr (std::is_same_v<T, std::int8_t>) return onnx::TensorProto::INT8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return onnx::TensorProto::BOOL;
  return 0;
}

// A dense tensor with its elements as raw bytes.
template <typename T>
onnx::TensorProto tensor_proto(const std::string& name, const Sizes& sizes,
                               const std::vector<T>& values) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(element_type<T>());
  for (const std::int64_t size : sizes) proto.add_dims(size);
  proto.set_raw_data(values.data(), values.size() * sizeof(T));
  return proto;
}

template <typename T>
Tensor tensor(Sizes sizes, const std::vector<T>& values, DType dtype) {
  Tensor result = Tensor::allocate(dtype, std::move(sizes)).value();
  EXPECT_EQ(result.num_bytes(), static_cast<std::int64_t>(values.size() * sizeof(T)));
  if (!values.empty()) std::memcpy(result.mutable_data(), values.data(), values.size() * sizeof(T));
  return result;
}
inline Tensor floats(Sizes sizes, const std::vector<float>& values) {
  return tensor(std::move(sizes), values, DType::F32);
}
inline Tensor ints(Sizes sizes, const std::vector<std::int64_t>& values) {
  return tensor(std::move(sizes), values, DType::I64);
}
inline Tensor bools(Sizes sizes, const std::vector<std::uint8_t>& values) {
  return tensor(std::move(sizes), values, DType::Bool);
}

// Fills one node.
class NodeWriter {
 public:
  explicit NodeWriter(onnx::NodeProto& node) : node_(node) {}

  NodeWriter& set(const std::string& name, std::int64_t value) {
    auto& a = add(name, onnx::AttributeProto::INT);
    a.set_i(value);
    return *this;
  }
  NodeWriter& set(const std::string& name, int value) { return set(name, std::int64_t{value}); }
  NodeWriter& set(const std::string& name, double value) {
    add(name, onnx::AttributeProto::FLOAT).set_f(static_cast<float>(value));
    return *this;
  }
  NodeWriter& set(const std::string& name, const char* value) {
    add(name, onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }
  NodeWriter& set(const std::string& name, const std::vector<std::int64_t>& values) {
    auto& a = add(name, onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) a.add_ints(value);
    return *this;
  }
  NodeWriter& set(const std::string& name, const onnx::TensorProto& value) {
    *add(name, onnx::AttributeProto::TENSOR).mutable_t() = value;
    return *this;
  }
  NodeWriter& set(const std::string& name, const onnx::GraphProto& value) {
    *add(name, onnx::AttributeProto::GRAPH).mutable_g() = value;
    return *this;
  }
  // Inside a function: the caller's attribute of that name.
  NodeWriter& refer(const std::string& name, const std::string& caller_name, int type) {
    auto& a = add(name, static_cast<onnx::AttributeProto::AttributeType>(type));
    a.set_ref_attr_name(caller_name);
    return *this;
  }
  NodeWriter& name(const std::string& value) {
    node_.set_name(value);
    return *this;
  }
  // As exporters write it since IR version 10; the message classes may be older than that.
  NodeWriter& metadata(const std::string& key, const std::string& value) {
    onnx::StringStringEntryProto entry;
    entry.set_key(key);
    entry.set_value(value);
    const std::string inner = entry.SerializeAsString();
    constexpr char kField = 9 << 3 | 2;  // NodeProto.metadata_props, of so many bytes
    const std::string bytes = std::string({kField, static_cast<char>(inner.size())}) + inner;
    node_.MergeFromString(bytes);
    return *this;
  }
  NodeWriter& domain(const std::string& value) {
    node_.set_domain(value);
    return *this;
  }

 private:
  onnx::AttributeProto& add(const std::string& name, onnx::AttributeProto::AttributeType type) {
    auto* attribute = node_.add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return *attribute;
  }

  onnx::NodeProto& node_;
};

template <typename Owner>  // a GraphProto or a FunctionProto
NodeWriter add_node(Owner& owner, const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs) {
  onnx::NodeProto* node = owner.add_node();
  node->set_op_type(op);
  for (const auto& input : inputs) node->add_input(input);
  for (const auto& output : outputs) node->add_output(output);
  return NodeWriter(*node);
}

class ModelBuilder {
 public:
  explicit ModelBuilder(std::int64_t opset = 17) {
    proto.set_ir_version(8);
    proto.add_opset_import()->set_version(opset);
    proto.mutable_graph()->set_name("g");
  }

  onnx::GraphProto& graph() { return *proto.mutable_graph(); }

  // A size is a number ("3"), a name ("batch") or unknown ("?").
  ModelBuilder& input(const std::string& name, const std::vector<std::string>& sizes,
                      int type = onnx::TensorProto::FLOAT) {
    auto* info = graph().add_input();
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const auto& size : sizes) {
      auto* dimension = tensor->mutable_shape()->add_dim();
      if (size == "?") continue;
      if (size.find_first_not_of("-0123456789") == std::string::npos) {
        dimension->set_dim_value(std::stoll(size));
      } else {
        dimension->set_dim_param(size);
      }
    }
    return *this;
  }
  ModelBuilder& ints_input(const std::string& name, const std::vector<std::string>& sizes) {
    return input(name, sizes, onnx::TensorProto::INT64);
  }
  ModelBuilder& initializer(const onnx::TensorProto& tensor) {
    *graph().add_initializer() = tensor;
    return *this;
  }
  ModelBuilder& ints(const std::string& name, const std::vector<std::int64_t>& values) {
    return initializer(
        tensor_proto<std::int64_t>(name, {static_cast<std::int64_t>(values.size())}, values));
  }
  NodeWriter node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs) {
    return add_node(graph(), op, inputs, outputs);
  }
  ModelBuilder& output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }

  [[nodiscard]] std::string bytes() const { return proto.SerializeAsString(); }
  [[nodiscard]] Expected<Graph> import(const ImportOptions& options = {}) const {
    const std::string text = bytes();
    return import_onnx_bytes(std::as_bytes(std::span(text)), "model.onnx", "", options);
  }

  onnx::ModelProto proto;
};

// The error of an import that must fail; empty if it does not.
inline std::string import_error(const ModelBuilder& model, const ImportOptions& options = {}) {
  const auto graph = model.import(options);
  return graph ? "" : graph.error().message;
}

// Imports, verifies and evaluates; all outputs, or none after a reported failure.
inline std::vector<Tensor> run(const ModelBuilder& model, const std::vector<Tensor>& inputs) {
  auto graph = model.import();
  if (!graph) {
    ADD_FAILURE() << graph.error().message;
    return {};
  }
  const Status verified = verify(*graph);
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
  auto outputs = evaluate(*graph, inputs);
  if (!outputs) {
    ADD_FAILURE() << outputs.error().message;
    return {};
  }
  return std::move(*outputs);
}

inline void expect_tensor(const Tensor& actual, DType dtype, const Sizes& sizes,
                          const std::vector<double>& values, double tolerance = 1e-6) {
  EXPECT_EQ(actual.dtype(), dtype);
  ASSERT_EQ(actual.sizes(), sizes);
  std::vector<double> elements;
  for (std::int64_t i = 0; i < actual.num_elements(); ++i) {
    elements.push_back(is_float(dtype) ? actual.get_double(i)
                                       : static_cast<double>(actual.get_int(i)));
  }
  EXPECT_THAT(elements, ::testing::Pointwise(::testing::NanSensitiveDoubleNear(tolerance), values));
}

// The only output of a model.
inline void expect_output(const ModelBuilder& model, const std::vector<Tensor>& inputs, DType dtype,
                          const Sizes& sizes, const std::vector<double>& values,
                          double tolerance = 1e-6) {
  const auto outputs = run(model, inputs);
  ASSERT_EQ(outputs.size(), 1U);
  expect_tensor(outputs[0], dtype, sizes, values, tolerance);
}

}  // namespace opweld
