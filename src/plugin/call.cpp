#include "plugin/call.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>

namespace opweld {

namespace {

// What a plugin is shown in one call; it holds all that the structs point to.
class Call {
 public:
  Call(const Declaration& declaration, std::span<const PluginOperand* const> operands,
       const Attributes& attributes) {
    inputs_.resize(std::max(operands.size(), declaration.operands.size()));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == nullptr) continue;
      const PluginOperand& operand = *operands[i];
      inputs_[i] = {plugin_dtype(operand.dtype), static_cast<std::int32_t>(operand.sizes.size()),
                    operand.sizes.data(), num_elements(operand.sizes), operand.data};
    }
    attributes_.reserve(declaration.attributes.size());
    for (const Declaration::AttributeRule& rule : declaration.attributes) {
      attributes_.push_back(shown(rule, *attributes.find(rule.name)));
    }
    shown_.call.size = sizeof(OpweldCall);
    shown_.call.inputs = inputs_.data();
    shown_.call.input_count = inputs_.size();
    shown_.call.attributes = attributes_.data();
    shown_.call.attribute_count = attributes_.size();
    shown_.call.fail = [](const OpweldCall* call, const char* message) {
      if (call == nullptr || message == nullptr) return;
      // A standard-layout struct and its first member have one address.
      *reinterpret_cast<const Shown*>(call)->message = message;
    };
    shown_.message = &message_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void set_outputs(std::span<const OpweldOutput> outputs) {
    shown_.call.outputs = outputs.data();
    shown_.call.output_count = outputs.size();
  }

  // `function` calls the plugin and gives what it returns.
  template <typename Function>
  Status operator()(const char* what, const Function& function) {
    int code = 0;
    try {
      code = function(&shown_.call);
    } catch (const std::exception& error) {
      return fail("{} threw an exception: {}", what, error.what());
    } catch (...) {
      return fail("{} threw an exception", what);
    }
    if (code == 0) return {};
    if (!message_.empty()) return fail("{}", message_);
    return fail("{} failed with code {} and no message (call->fail() gives one)", what, code);
  }

 private:
  struct Shown {
    OpweldCall call{};
    std::string* message = nullptr;
  };
  static_assert(std::is_standard_layout_v<Shown>);

  static OpweldAttribute shown(const Declaration::AttributeRule& rule, const Attribute& value) {
    OpweldAttribute result{};
    result.name = rule.name.c_str();
    result.kind = plugin_kind(rule.kind);
    result.required = rule.fallback ? 0 : 1;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) result.integer = *integer;
    if (const auto* real = std::get_if<double>(&value)) result.real = *real;
    if (const auto* text = std::get_if<std::string>(&value)) result.text = text->c_str();
    if (const auto* integers = std::get_if<Ints>(&value)) {
      result.integers = integers->data();
      result.count = integers->size();
    }
    if (const auto* reals = std::get_if<Doubles>(&value)) {
      result.reals = reals->data();
      result.count = reals->size();
    }
    return result;
  }

  std::vector<OpweldInput> inputs_;
  std::vector<OpweldAttribute> attributes_;
  std::string message_;
  Shown shown_;
};

// Memory for a result between two stretches that nobody may write to, so that a plugin which takes
// a result for larger than it is does no harm and is found out.
class GuardedBuffer {
 public:
  static Expected<GuardedBuffer> create(std::int64_t bytes) {
    GuardedBuffer buffer;
    buffer.bytes_ = static_cast<std::size_t>(bytes);
    // Twice the result, for small ones much more.
    buffer.behind_ = std::clamp(buffer.bytes_, kBefore, kMostBehind);
    OPWELD_TRY(buffer.storage_,
               Tensor::allocate(DType::U8, {static_cast<std::int64_t>(kBefore + buffer.bytes_ +
                                                                      buffer.behind_)}));
    std::memset(buffer.begin(), kPattern, kBefore);
    std::memset(buffer.data() + buffer.bytes_, kPattern, buffer.behind_);
    return buffer;
  }

  std::byte* data() { return begin() + kBefore; }

  // Whether something was written before or behind the result.
  bool is_overrun() {
    const auto spoilt = [](const std::byte* from, std::size_t count) {
      return std::any_of(from, from + count,
                         [](std::byte each) { return each != std::byte{kPattern}; });
    };
    return spoilt(begin(), kBefore) || spoilt(data() + bytes_, behind_);
  }

 private:
  static constexpr std::size_t kBefore = 4096;
  static constexpr std::size_t kMostBehind = 1 << 20;
  static constexpr unsigned char kPattern = 0xA5;

  std::byte* begin() { return storage_.mutable_data(); }

  Tensor storage_;
  std::size_t bytes_ = 0;
  std::size_t behind_ = 0;
};

Status compare_shapes(const Declaration& declaration, std::span<const Sizes> asked,
                      std::span<const Tensor> results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (asked[i] == results[i].sizes()) continue;
    return fail(
        "the shape rule lies: result '{}' is {} by what is declared, and {} by shapes(); make the "
        "two agree",
        declaration.results[i].name, to_string(results[i].sizes()), to_string(asked[i]));
  }
  return {};
}

}  // namespace

Expected<std::vector<Sizes>> ask_shapes(const Declaration& declaration,
                                        std::span<const PluginOperand* const> operands,
                                        const Attributes& attributes) {
  Call call(declaration, operands, attributes);
  std::vector<OpweldShape> shapes(declaration.results.size(), OpweldShape{});
  OPWELD_CHECK(call("shapes()", [&](const OpweldCall* shown) {
    return declaration.shapes(shown, shapes.data());
  }));
  std::vector<Sizes> result;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const OpweldShape& shape = shapes[i];
    if (shape.rank < 0 || shape.rank > OPWELD_MAX_RANK) {
      return fail("shapes() gives result '{}' the rank {}, which is not in [0, {}]",
                  declaration.results[i].name, shape.rank, OPWELD_MAX_RANK);
    }
    Sizes sizes(shape.sizes, shape.sizes + shape.rank);
    if (!checked_num_elements(sizes)) {
      return fail("shapes() gives result '{}' the sizes {}, which no tensor has",
                  declaration.results[i].name, to_string(sizes));
    }
    result.push_back(std::move(sizes));
  }
  return result;
}

Status call_compute(const Declaration& declaration, std::span<const Tensor* const> operands,
                    const Attributes& attributes, std::span<Tensor> results, std::mutex& turn) {
  std::vector<PluginOperand> shown;
  shown.reserve(operands.size());
  std::vector<const PluginOperand*> pointers;
  for (const Tensor* operand : operands) {
    if (operand == nullptr) {
      pointers.push_back(nullptr);
      continue;
    }
    shown.push_back({operand->dtype(), operand->sizes(), operand->data()});
    pointers.push_back(&shown.back());
  }
  std::unique_lock lock(turn, std::defer_lock);
  if (!declaration.reentrant) lock.lock();
  if (declaration.shapes != nullptr) {
    std::vector<PluginOperand> types = shown;
    std::vector<const PluginOperand*> of_types;
    for (PluginOperand& each : types) each.data = nullptr;
    for (std::size_t i = 0, next = 0; i < pointers.size(); ++i) {
      of_types.push_back(pointers[i] != nullptr ? &types[next++] : nullptr);
    }
    OPWELD_TRY(const std::vector<Sizes> asked, ask_shapes(declaration, of_types, attributes));
    OPWELD_CHECK(compare_shapes(declaration, asked, results));
  }

  std::vector<GuardedBuffer> buffers;
  std::vector<OpweldOutput> outputs;
  for (const Tensor& result : results) {
    OPWELD_TRY(GuardedBuffer buffer, GuardedBuffer::create(result.num_bytes()));
    buffers.push_back(std::move(buffer));
    outputs.push_back({plugin_dtype(result.dtype()), static_cast<std::int32_t>(result.rank()),
                       result.sizes().data(), result.num_elements(), buffers.back().data()});
  }
  Call call(declaration, pointers, attributes);
  call.set_outputs(outputs);
  OPWELD_CHECK(call("compute()", declaration.compute));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (buffers[i].is_overrun()) {
      return fail(
          "compute() wrote beside result '{}', which has {} elements, {} bytes: the shape rule and "
          "the code disagree",
          declaration.results[i].name, results[i].num_elements(), results[i].num_bytes());
    }
    if (results[i].num_bytes() == 0) continue;
    std::memcpy(results[i].mutable_data(), buffers[i].data(),
                static_cast<std::size_t>(results[i].num_bytes()));
  }
  return {};
}

}  // namespace opweld
