#include "both/inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "ops/reference.h"
#include "report/require.h"
#include "report/usual_sizes.h"
#include "runtime/example_inputs.h"

namespace opweld::cli {

Expected<std::map<std::string, std::int64_t>> parse_dims(const std::vector<std::string>& dims) {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& dim : dims) {
    const std::size_t equals = dim.rfind('=');
    std::int64_t size = -1;  // stays so where there is no number, or one that is too large
    const char* const end = dim.data() + dim.size();
    if (equals == std::string::npos || equals == 0 ||
        std::from_chars(dim.data() + equals + 1, end, size).ptr != end || size < 0) {
      return usage_error("--dim '{}': write NAME=SIZE, such as sequence=128", dim);
    }
    const auto [known, is_new] = sizes.emplace(dim.substr(0, equals), size);
    if (!is_new && known->second != size) {
      return usage_error("--dim: '{}' cannot be both {} and {}", known->first, known->second, size);
    }
  }
  return sizes;
}

namespace {

std::vector<std::shared_ptr<const SymbolInfo>> input_symbols(const Graph& graph) {
  std::vector<std::shared_ptr<const SymbolInfo>> symbols;
  for (const Value* input : graph.inputs()) {
    for (const Dim& dim : input->shape()) dim.collect_symbols(symbols);
  }
  return symbols;
}

}  // namespace

Expected<Bindings> choose_sizes(const Graph& graph, const std::vector<std::string>& dims,
                                const Bindings& usual) {
  OPWELD_TRY(auto asked, parse_dims(dims));
  Bindings bindings;
  std::vector<std::string> names;
  for (const auto& symbol : input_symbols(graph)) {
    names.push_back(symbol->name);
    const auto found = asked.find(symbol->name);
    const std::int64_t otherwise = usual.find(symbol->name).value_or(usual_size(*symbol));
    const std::int64_t size = found == asked.end() ? otherwise : found->second;
    if (const Status fits = symbol->check(size); !fits) return tl::unexpected(fits.error());
    bindings.set(symbol->name, size);
    asked.erase(symbol->name);
  }
  if (!asked.empty()) {
    return usage_error("--dim: the model has no free dimension '{}'; it has {}",
                       asked.begin()->first,
                       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return bindings;
}

namespace {

Expected<NamedTensors> read_inputs(const std::vector<std::string>& arguments) {
  NamedTensors given;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    if (argument.ends_with(".npz") && equals == std::string::npos) {
      OPWELD_TRY(NamedTensors all, read_npz(argument));
      given.insert(given.end(), all.begin(), all.end());
      continue;
    }
    if (equals == std::string::npos) {
      return usage_error("--input '{}': write NAME=FILE, or the name of an .npz", argument);
    }
    OPWELD_TRY(Tensor tensor, read_tensor(argument.substr(equals + 1)));
    given.emplace_back(argument.substr(0, equals), std::move(tensor));
  }
  return given;
}

}  // namespace

Expected<std::vector<Tensor>> find_inputs(const Graph& graph, const ModelOptions& model,
                                          const InputOptions& options) {
  OPWELD_TRY(const NamedTensors given, read_inputs(options.inputs));
  std::map<std::string, const Tensor*> by_name;
  for (const auto& [name, tensor] : given) by_name[name] = &tensor;
  std::vector<std::string> names;
  for (const Value* input : graph.inputs()) names.push_back(input->name());
  for (const auto& [name, tensor] : by_name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return usage_error("the model has no input '{}'; its inputs are {}", name,
                         fmt::join(names, ", "));
    }
  }
  // Sizes of inputs that are given bind the symbols of those that are not.
  std::vector<std::string> dims = model.dims;
  OPWELD_TRY(auto known, parse_dims(model.dims));
  for (const Value* input : graph.inputs()) {
    const auto found = by_name.find(input->name());
    if (found == by_name.end() || found->second->rank() != input->rank()) continue;
    for (int axis = 0; axis < input->rank(); ++axis) {
      const auto symbol = input->shape()[static_cast<std::size_t>(axis)].as_symbol();
      if (symbol == nullptr || !known.try_emplace(symbol->name).second) continue;
      dims.push_back(fmt::format("{}={}", symbol->name,
                                 found->second->sizes()[static_cast<std::size_t>(axis)]));
    }
  }
  OPWELD_TRY(const Bindings bindings, choose_sizes(graph, dims));
  std::vector<Tensor> inputs;
  unsigned seed = options.seed;
  for (const Value* input : graph.inputs()) {
    const auto found = by_name.find(input->name());
    if (found != by_name.end()) {
      inputs.push_back(*found->second);
    } else {
      OPWELD_TRY(Tensor tensor, example_input(input, bindings, seed));
      inputs.push_back(std::move(tensor));
    }
    ++seed;
  }
  return inputs;
}

RunOptions run_options(const ModelOptions& options) {
  RunOptions running;
  running.single_launch = options.single_launch;
  return running;
}

NamedTensors named_outputs(const Graph& graph, std::vector<Tensor> outputs) {
  NamedTensors named;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    named.emplace_back(graph.outputs()[i].name, std::move(outputs[i]));
  }
  return named;
}

Status check_requirements(const PlannedModel& planned, const ModelOptions& options) {
  std::vector<FusionPattern> patterns;
  for (const std::string& text : options.require) {
    OPWELD_TRY(FusionPattern pattern, parse_pattern(text));
    patterns.push_back(std::move(pattern));
  }
  for (const FusionPattern& pattern : patterns) OPWELD_CHECK(require_fusion(planned, pattern));
  return {};
}

}  // namespace opweld::cli
