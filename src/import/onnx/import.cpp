#include "import/onnx/import.h"

#include <algorithm>
#include <filesystem>

#include "import/onnx/importer.h"
#include "import/onnx/input_types.h"
#include "import/onnx/operators/table.h"
#include "import/onnx/survey.h"
#include "import/onnx/wire_format.h"

namespace opweld {
namespace {

Expected<Graph> import_file(const ModelFile& file, const ImportOptions& options) {
  auto graph = Importer(file, options).run();
  if (!graph) return tl::unexpected(graph.error().with_context(file.name));
  return graph;
}

std::string producer_of(const onnx::ModelProto& model) {
  if (model.producer_version().empty()) return model.producer_name();
  return fmt::format("{} {}", model.producer_name(), model.producer_version());
}

}  // namespace

Expected<Graph> import_onnx(const std::string& path, const ImportOptions& options) {
  OPWELD_TRY(const ModelFile file, load_model(path));
  return import_file(file, options);
}

Expected<Graph> import_onnx_bytes(std::span<const std::byte> model, const std::string& name,
                                  const std::string& directory, const ImportOptions& options) {
  OPWELD_TRY(const ModelFile file, parse_model(copy_bytes(model), name, directory));
  return import_file(file, options);
}

Expected<ModelInfo> inspect_onnx(const std::string& path) {
  OPWELD_TRY(const ModelFile file, load_model(path));
  const onnx::ModelProto& model = *file.model;
  ModelInfo info;
  info.ir_version = model.ir_version();
  const OpsetVersions opsets = opset_versions(model.opset_import());
  if (const auto standard = opsets.find(""); standard != opsets.end()) {
    info.opset = standard->second;
  }
  info.producer = producer_of(model);
  std::set<std::string> initializers;
  for (const auto& tensor : model.graph().initializer()) initializers.insert(tensor.name());
  for (const auto& input : model.graph().input()) {
    if (initializers.contains(input.name())) continue;
    info.inputs.push_back({input.name(), describe_type(input)});
  }
  for (const auto& output : model.graph().output()) {
    info.outputs.push_back({output.name(), describe_type(output)});
  }
  Survey survey = survey_operators(model.graph(), function_table(model));
  info.operators = std::move(survey.operators);
  for (const auto& [name, entry] : survey.unsupported) {
    info.unsupported.push_back({name, entry.count, entry.why});
  }
  return info;
}

Supported supported_by_import() {
  Supported supported{operator_names(), {}};
  for (int type = 1; onnx::TensorProto::DataType_IsValid(type); ++type) {
    if (!dtype_of_element_type(type)) continue;
    supported.element_types.push_back(element_type_name(type));
  }
  std::sort(supported.element_types.begin(), supported.element_types.end());
  return supported;
}

Expected<Tensor> read_tensor_pb(const std::string& path) {
  OPWELD_TRY(const SharedBytes bytes, map_file(path));
  auto split = split_payloads(bytes.bytes, RootMessage::Tensor);
  if (!split) return tl::unexpected(Error{ErrorKind::Failure, path + ": " + split.error().message});
  onnx::TensorProto proto;
  if (!proto.ParseFromString(split->message)) return fail("{}: is not an ONNX tensor", path);
  TensorReader reader(std::move(split->payloads), bytes.owner,
                      std::filesystem::path(path).parent_path().string());
  auto tensor = reader.read(proto);
  if (!tensor)
    return tl::unexpected(Error{ErrorKind::Failure, path + ": " + tensor.error().message});
  return tensor;
}

}  // namespace opweld
