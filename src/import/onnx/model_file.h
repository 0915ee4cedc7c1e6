// An ONNX model as a message, its weights left where they are.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "import/onnx/tensor_reader.h"
#include "support/expected.h"
#include "support/mapped_file.h"

namespace opweld {

struct ModelFile {
  std::string name;  // what messages call it
  std::shared_ptr<const onnx::ModelProto> model;
  std::shared_ptr<TensorReader> tensors;  // reads the tensors of this model
};

Expected<ModelFile> parse_model(const SharedBytes& bytes, const std::string& name,
                                const std::string& directory);

// Maps the file; external data is beside it.
Expected<ModelFile> load_model(const std::string& path);

// Versions of the operator sets that a model or a function is written in, by domain; the standard
// domain is the empty one.
using OpsetVersions = std::map<std::string, std::int64_t>;

// "" for both names of the standard domain.
std::string normal_domain(const std::string& domain);

OpsetVersions opset_versions(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports);

// The model's functions by (domain, name).
using FunctionTable = std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*>;
FunctionTable function_table(const onnx::ModelProto& model);

// "node '/layers.0/Add' (Add)", or by its first result where it has no name.
std::string node_label(const onnx::NodeProto& node);

}  // namespace opweld
