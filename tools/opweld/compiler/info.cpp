// opweld info: what a model is.
#include <nlohmann/json.hpp>

#include "compiler/plugins.h"
#include "compiler/subcommands.h"
#include "import/onnx/import.h"
#include "load.h"

namespace opweld::cli {

namespace {

void print_tensors(const char* title, const std::vector<ModelInfo::Tensor>& tensors) {
  fmt::print("{}:\n", title);
  for (const auto& tensor : tensors) fmt::print("  {}: {}\n", tensor.name, tensor.type);
}

void print_json(const ModelInfo& info) {
  nlohmann::ordered_json json = {
      {"ir_version", info.ir_version}, {"opset", info.opset}, {"producer", info.producer}};
  for (const auto& [key, tensors] :
       {std::pair("inputs", &info.inputs), {"outputs", &info.outputs}}) {
    json[key] = nlohmann::ordered_json::array();
    for (const auto& tensor : *tensors) {
      json[key].push_back({{"name", tensor.name}, {"type", tensor.type}});
    }
  }
  json["operators"] = info.operators;
  json["unsupported"] = nlohmann::ordered_json::array();
  for (const auto& each : info.unsupported) {
    json["unsupported"].push_back({{"op", each.op}, {"count", each.count}, {"why", each.why}});
  }
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

Status inspect_model(const InfoArguments& arguments) {
  OPWELD_CHECK(load_plugins(arguments.plugins));
  OPWELD_CHECK(check_is_source(arguments.model));
  if (arguments.model.ends_with(".graph")) {
    return usage_error(
        "{}: it is a graph in its textual form, and info tells of ONNX files; 'opweld explain' "
        "takes both",
        arguments.model);
  }
  OPWELD_TRY(const ModelInfo info, inspect_onnx(arguments.model));
  if (arguments.json) {
    print_json(info);
    return {};
  }
  fmt::print("opset {}, IR version {}, made by {}\n", info.opset, info.ir_version,
             info.producer.empty() ? "an unnamed exporter" : info.producer);
  print_tensors("inputs", info.inputs);
  print_tensors("outputs", info.outputs);
  fmt::print("operators:\n");
  for (const auto& [op, count] : info.operators) fmt::print("  {:>6}  {}\n", count, op);
  if (info.unsupported.empty()) {
    fmt::print("all operators are supported\n");
  } else {
    fmt::print("unsupported:\n");
    for (const auto& each : info.unsupported) {
      fmt::print("  {:>6}  {}: {}\n", each.count, each.op, each.why);
    }
  }
  return {};
}

}  // namespace opweld::cli
