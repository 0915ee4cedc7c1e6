#include "runtime/oversize.h"

#include <fmt/ranges.h>

#include <vector>

#include "graph/tensor.h"
#include "ops/schema.h"

namespace opweld {

namespace {

bool is_addressable(const Value& value, const Bindings& sizes) {
  const auto known = evaluate(value.shape(), sizes);
  return known && checked_num_bytes(value.dtype(), *known);
}

std::string way_out(const Bindings& sizes) {
  if (sizes.empty()) {
    return "All sizes of the model are fixed: it takes a machine with more memory, or the model "
           "exported with smaller ones";
  }
  std::vector<std::string> given;
  for (const auto& [name, size] : sizes) given.push_back(fmt::format("{} = {}", name, size));
  return fmt::format("Smaller sizes need less ({})", fmt::join(given, ", "));
}

}  // namespace

std::string tensor_text(const Value& value, const Bindings& sizes) {
  const auto known = evaluate(value.shape(), sizes);
  const std::string type = fmt::format("{}{}", to_string(value.dtype()),
                                       known ? to_string(*known) : to_string(value.shape()));
  const Node* const producer = value.producer();
  if (producer == nullptr) return fmt::format("{}, input '{}'", type, value.name());
  return fmt::format("{}, made by {}", type, node_label(producer->op(), producer->source()));
}

tl::unexpected<Error> too_large(const Value& value, const Bindings& sizes) {
  if (const auto known = evaluate(value.shape(), sizes); !known) {
    return usage_error("{}: {}. {}", tensor_text(value, sizes), known.error().message,
                       way_out(sizes));
  }
  return usage_error("too large to address: {}. {}", tensor_text(value, sizes), way_out(sizes));
}

tl::unexpected<Error> too_large(const Kernel& kernel, const Error& error, const Bindings& sizes) {
  for (const auto* values : {&kernel.inputs, &kernel.outputs}) {
    for (const Value* value : *values) {
      if (!is_addressable(*value, sizes)) return too_large(*value, sizes);
    }
  }
  return tl::unexpected(error.with_context(fmt::format("{} ({})", kernel.name, kernel.label)));
}

tl::unexpected<Error> out_of_memory(std::string_view what, std::int64_t bytes,
                                    const std::string& most, const Bindings& sizes) {
  return fail("out of memory: {} need {} bytes{}. {}", what, bytes,
              most.empty() ? "" : "; the largest is " + most, way_out(sizes));
}

}  // namespace opweld
