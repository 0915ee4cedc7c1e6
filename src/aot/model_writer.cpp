#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "aot/container.h"
#include "aot/cpu_features.h"
#include "aot/link.h"
#include "aot/model_file.h"
#include "fusion/plan_record.h"
#include "graph/text.h"
#include "ops/op.h"
#include "support/memory_block.h"
#include "support/whole_file.h"

namespace opweld::aot {

namespace {

std::string_view text_of(const Tensor& tensor) {
  if (tensor.num_bytes() == 0) return {};
  return {reinterpret_cast<const char*>(tensor.data()),
          static_cast<std::size_t>(tensor.num_bytes())};
}

class Writer {
 public:
  Writer(const Executable& executable, Origin origin) : executable_(executable) {
    record_.origin = std::move(origin);
  }

  Status write(const std::string& path, const std::string& account, const std::string& verdicts) {
    OPWELD_CHECK(check_operators());
    OPWELD_TRY(record_.origin.features, needed_features(record_.origin.features));
    const std::string graph = graph_text();
    const std::string plans = plans_text();
    for (const PlanVersion& version : executable_.versions()) OPWELD_CHECK(add(version));
    OPWELD_TRY(const Image image, link_codes());
    const std::string record = to_json(record_);

    std::string kept;
    const std::array<Parts, kSections> sections = {
        Parts{record},   Parts{graph},       Parts{plans}, Parts{account},
        Parts{verdicts}, Parts{image.bytes}, weights_};
    return write_whole(path, join_sections(sections, kept));
  }

 private:
  // What a plugin defines is not there when the file is read.
  Status check_operators() const {
    for (const auto& node : executable_.graph().nodes()) {
      const OpOrigin* const origin = op_def(*node).origin;
      if (origin == nullptr) continue;
      return usage_error(
          "{} '{}': the operator is of plugin '{}', and the file of a compiled model takes no "
          "plugin "
          "along. An operator that declares a body is replaced by it, and can be in a file",
          node->op(), node->display_name(), origin->plugin);
    }
    return {};
  }

  // With the types of all constants, and the bytes of those that the graph still has. Nodes that go
  // by their numbers keep the names that those make, whatever numbers they get when they are read.
  std::string graph_text() {
    Graph graph = executable_.graph().clone();
    for (const auto& node : graph.nodes()) {
      if (node->op() != "constant") {
        Source source = node->source();
        source.name = node->display_name();
        node->set_source(std::move(source));
        continue;
      }
      const Attribute* const value = node->attributes().find("value");
      std::size_t place = record_.tensors.size();
      if (value != nullptr) {
        place = place_of(std::get<Tensor>(*value));
      } else {
        Record::StoredTensor stored{node->result()->dtype(), {}, std::nullopt};
        for (const Dim& size : node->result()->shape()) stored.sizes.push_back(*size.constant());
        record_.tensors.push_back(std::move(stored));
      }
      node->attributes() = {{"tensor", static_cast<std::int64_t>(place)}};
    }
    PrintOptions options;
    options.full_constants = true;
    return to_text(graph, options);
  }

  std::string plans_text() const {
    std::vector<FusionPlan> plans;
    for (const PlanVersion& version : executable_.versions()) {
      plans.push_back(version.plan);
      plans.back().verdicts.clear();
    }
    return plan_record(executable_.graph(), plans);
  }

  // Tensors of the same memory are one.
  std::size_t place_of(const Tensor& tensor) {
    const auto [known, is_new] = places_.try_emplace(
        std::tuple(tensor.data(), tensor.dtype(), tensor.sizes()), record_.tensors.size());
    if (!is_new) return known->second;
    record_.tensors.push_back({tensor.dtype(), tensor.sizes(), offset_of(tensor)});
    return known->second;
  }

  std::uint64_t offset_of(const Tensor& tensor) {
    const std::string_view bytes = text_of(tensor);
    const auto [known, is_new] =
        offsets_.try_emplace(std::pair(tensor.data(), bytes.size()), weight_bytes_);
    if (!is_new) return known->second;
    static constexpr std::array<char, kBlockAlignment> kZeros = {};
    const std::size_t rest = bytes.size() % kBlockAlignment;
    weights_.push_back(bytes);
    weights_.emplace_back(kZeros.data(), rest == 0 ? 0 : kBlockAlignment - rest);
    weight_bytes_ += bytes.size() + weights_.back().size();
    return known->second;
  }

  Status add(const PlanVersion& version) {
    std::vector<Record::Use>& uses = record_.versions.emplace_back();
    for (std::size_t i = 0; i < version.kernels.size(); ++i) {
      const ExecutableKernel& kernel = version.kernels[i];
      Record::Use& use = uses.emplace_back();
      use.why_call = kernel.why_call;
      if (kernel.code == nullptr) continue;
      if (kernel.code->object == nullptr) {
        return fail("{}: its object was not kept", version.plan.kernels[i].name);
      }
      use.code = record_.codes.size();
      Record::Code& code = record_.codes.emplace_back();
      code.kernel = *kernel.code;
      for (const auto& constant : kernel.constants) {
        use.constants.push_back(place_of(constant.value));
      }
    }
    return {};
  }

  // Functions that kernels share are in the image once.
  Expected<Image> link_codes() {
    std::vector<ObjectView> objects;
    std::map<std::string_view, std::size_t> known;
    std::vector<std::size_t> object_of;  // by code
    for (const Record::Code& code : record_.codes) {
      const CompiledKernel::Object& object = *code.kernel.object;
      const auto [place, is_new] = known.try_emplace(object.symbol, objects.size());
      if (is_new) objects.push_back({object.symbol, object.bytes});
      object_of.push_back(place->second);
    }
    OPWELD_TRY(Image image, link_image(objects));
    for (std::size_t i = 0; i < object_of.size(); ++i) {
      record_.codes[i].entry = image.entries[object_of[i]];
    }
    record_.imports = image.imports;
    return image;
  }

  const Executable& executable_;
  Record record_;
  std::map<std::tuple<const std::byte*, DType, Sizes>, std::size_t> places_;
  std::map<std::pair<const std::byte*, std::size_t>, std::uint64_t> offsets_;
  Parts weights_;
  std::uint64_t weight_bytes_ = 0;
};

}  // namespace

Status write_model(const std::string& path, const Executable& executable, Origin origin,
                   const std::string& account, const std::string& verdicts) {
  return Writer(executable, std::move(origin)).write(path, account, verdicts);
}

}  // namespace opweld::aot
