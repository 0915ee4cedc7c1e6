#include "import/onnx/model_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <filesystem>
#include <limits>

#include "import/onnx/wire_format.h"

namespace opweld {

Expected<ModelFile> parse_model(const SharedBytes& bytes, const std::string& name,
                                const std::string& directory) {
  if (bytes.bytes.empty()) return fail("{}: is empty", name);
  auto split = split_payloads(bytes.bytes, RootMessage::Model);
  if (!split) return tl::unexpected(Error{ErrorKind::Failure, name + ": " + split.error().message});
  if (split->message.size() > std::numeric_limits<int>::max()) {
    return fail("{}: holds more than 2 GB beside its raw tensors; store weights as raw data", name);
  }
  auto model = std::make_shared<onnx::ModelProto>();
  if (!model->ParseFromString(split->message)) {
    return fail("{}: is not an ONNX model or is corrupt", name);
  }
  if (!model->has_graph()) return fail("{}: is not an ONNX model: it has no graph", name);
  auto tensors = std::make_shared<TensorReader>(std::move(split->payloads), bytes.owner, directory);
  return ModelFile{name, std::move(model), std::move(tensors)};
}

Expected<ModelFile> load_model(const std::string& path) {
  OPWELD_TRY(const SharedBytes bytes, map_file(path));
  return parse_model(bytes, path, std::filesystem::path(path).parent_path().string());
}

std::string normal_domain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

OpsetVersions opset_versions(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  OpsetVersions versions;
  for (const auto& import : imports) versions[normal_domain(import.domain())] = import.version();
  return versions;
}

FunctionTable function_table(const onnx::ModelProto& model) {
  FunctionTable table;
  for (const auto& function : model.functions()) {
    table.emplace(std::pair(normal_domain(function.domain()), function.name()), &function);
  }
  return table;
}

std::string node_label(const onnx::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("node '{}' ({})", node.name(), node.op_type());
  for (const std::string& output : node.output()) {
    if (!output.empty())
      return fmt::format("the node that makes '{}' ({})", output, node.op_type());
  }
  return fmt::format("a node without name ({})", node.op_type());
}

}  // namespace opweld
