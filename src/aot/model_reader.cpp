#include <algorithm>
#include <cstdint>
#include <utility>

#include "aot/code_image.h"
#include "aot/container.h"
#include "aot/cpu_features.h"
#include "aot/model_file.h"
#include "fusion/plan_record.h"
#include "graph/text.h"
#include "graph/verifier.h"
#include "ops/builder.h"
#include "support/memory_block.h"
#include "support/processors.h"

namespace opweld::aot {

namespace {

Status check_processor(const Origin& origin) {
  std::string missing;
  for (const std::string& feature : origin.features) {
    const auto has = host_has(feature);
    if (has && *has) continue;
    missing += (missing.empty() ? "" : ", ") + feature;
  }
  if (missing.empty()) return {};
  return usage_error(
      "it was compiled for target '{}', and this machine lacks {} of what its code uses; compile "
      "the model with a --target that this machine has",
      origin.target, missing);
}

class Reader {
 public:
  Reader(const SharedBytes& file, const LoadOptions& options) : file_(file), options_(options) {}

  Expected<LoadedModel> read() {
    OPWELD_TRY(sections_, read_sections(file_.bytes, options_.check_digests));
    if (options_.check_weights) OPWELD_CHECK(check_digest(file_.bytes, Section::Weights));
    OPWELD_TRY(record_, parse_record(sections_.text(Section::Record)));
    if (options_.check_processor) OPWELD_CHECK(check_processor(record_.origin));
    OPWELD_CHECK(find_tensors());
    OPWELD_TRY(Graph graph, read_graph());
    OPWELD_TRY(std::vector<PlanVersion> versions, read_versions(graph));
    OPWELD_TRY(Executable executable,
               Executable::create(std::move(graph), std::move(versions), threads()));
    return LoadedModel{std::move(executable), std::move(record_.origin),
                       std::string(sections_.text(Section::Account)),
                       std::string(sections_.text(Section::Verdicts))};
  }

 private:
  [[nodiscard]] int threads() const {
    if (options_.threads > 0) return options_.threads;
    constexpr int kMostThreads = 1024;
    return std::clamp(Processors::allowed().count(), 1, kMostThreads);
  }

  Status find_tensors() {
    const std::span<const std::byte> weights = sections_.bytes(Section::Weights);
    for (const Record::StoredTensor& stored : record_.tensors) {
      if (!stored.offset) {
        tensors_.emplace_back();
        continue;
      }
      // The record's sizes have a product.
      const auto bytes = static_cast<std::uint64_t>(*checked_num_bytes(stored.dtype, stored.sizes));
      if (*stored.offset % kBlockAlignment != 0 || *stored.offset > weights.size() ||
          bytes > weights.size() - *stored.offset) {
        return fail("a tensor does not lie within its weights");
      }
      tensors_.push_back(
          Tensor::borrow(stored.dtype, stored.sizes, weights.data() + *stored.offset, file_.owner));
    }
    return {};
  }

  Expected<Graph> read_graph() {
    const NodeMaker make = [this](Graph& graph, std::string_view op, std::vector<Value*> operands,
                                  Attributes attributes, const Source& source) -> Expected<Node*> {
      if (op != "constant") {
        return build_node(graph, op, std::move(operands), std::move(attributes), source);
      }
      return make_constant(graph, attributes, operands.empty(), source);
    };
    auto graph = parse_graph_text(sections_.text(Section::Graph), make);
    if (!graph) return tl::unexpected(graph.error().with_context("its graph"));
    OPWELD_CHECK(verify_structure(*graph));
    for (const Graph::Output& output : graph->outputs()) {
      const Value* const input = output.in_place_of;
      if (input == nullptr || input->type() == output.value->type()) continue;
      return fail("output '{}' lies in place of an input of another type", output.name);
    }
    return graph;
  }

  // A constant by its place among the tensors.
  Expected<Node*> make_constant(Graph& graph, const Attributes& attributes, bool has_no_operands,
                                const Source& source) const {
    const Attribute* const place = attributes.find("tensor");
    const auto* const index = place == nullptr ? nullptr : std::get_if<std::int64_t>(place);
    const bool is_known = index != nullptr && *index >= 0 && has_no_operands &&
                          static_cast<std::size_t>(*index) < tensors_.size();
    if (!is_known) return fail("a constant that is not among its tensors");
    const Record::StoredTensor& stored = record_.tensors[static_cast<std::size_t>(*index)];
    if (stored.offset) {
      return build_node(graph, "constant", {},
                        {{"value", tensors_[static_cast<std::size_t>(*index)]}}, source);
    }
    TensorType type{stored.dtype, {}};
    for (const std::int64_t size : stored.sizes) type.shape.emplace_back(size);
    return graph.add_node("constant", {}, {}, {std::move(type)}, source);
  }

  Expected<std::vector<PlanVersion>> read_versions(const Graph& graph) {
    auto plans = parse_plan_record(graph, sections_.text(Section::Plans));
    if (!plans || plans->size() != record_.versions.size() || !plans->back().conditions.empty()) {
      return fail("its plans are none of its graph");
    }
    OPWELD_CHECK(load_codes());
    std::vector<PlanVersion> versions;
    for (std::size_t i = 0; i < plans->size(); ++i) {
      PlanVersion& version = versions.emplace_back();
      version.plan = std::move((*plans)[i]);
      OPWELD_CHECK(read_kernels(record_.versions[i], version));
    }
    return versions;
  }

  Status load_codes() {
    const std::span<const std::byte> image = sections_.bytes(Section::Code);
    if (record_.codes.empty()) return {};
    OPWELD_TRY(const auto code, CodeImage::load(image, record_.imports));
    for (Record::Code& each : record_.codes) {
      if (each.entry >= image.size()) return fail("a function does not lie within its code");
      auto kernel = std::make_shared<CompiledKernel>(std::move(each.kernel));
      kernel->function = reinterpret_cast<CompiledKernel::Function>(
          const_cast<std::byte*>(code->address(each.entry)));
      kernel->code_owner = code;
      codes_.push_back(std::move(kernel));
    }
    return {};
  }

  Status read_kernels(const std::vector<Record::Use>& uses, PlanVersion& version) const {
    if (uses.size() != version.plan.kernels.size()) return fail("its plans have other kernels");
    for (std::size_t i = 0; i < uses.size(); ++i) {
      ExecutableKernel& kernel = version.kernels.emplace_back();
      if (!uses[i].code) {
        if (version.plan.kernels[i].nodes.size() != 1) return fail("a call of several operators");
        kernel.why_call = uses[i].why_call;
        continue;
      }
      kernel.code = codes_[*uses[i].code];
      for (const std::size_t place : uses[i].constants) {
        kernel.constants.push_back({tensors_[place], {}});
      }
    }
    return {};
  }

  const SharedBytes& file_;
  const LoadOptions& options_;
  Sections sections_;
  Record record_;
  std::vector<Tensor> tensors_;
  std::vector<std::shared_ptr<const CompiledKernel>> codes_;
};

}  // namespace

Expected<LoadedModel> read_model(const SharedBytes& file, const LoadOptions& options) {
  return Reader(file, options).read();
}

Expected<LoadedModel> load_model_file(const std::string& path, const LoadOptions& options) {
  OPWELD_TRY(const SharedBytes file, map_file(path));
  auto model = read_model(file, options);
  if (!model) return tl::unexpected(model.error().with_context(path));
  return model;
}

}  // namespace opweld::aot
