// Boundary bytes, as expressions for an account and as numbers for costs: the planner counts those
// of kernels by the thousand, and sums of products of symbols take long to make.
#include <algorithm>
#include <optional>

#include "fusion/boundary.h"
#include "fusion/kernel_kind.h"

namespace opweld {

namespace {

// What the kernel reads of the value, where `bytes_of` counts whole tensors.
template <typename BytesOf>
auto bytes_read_of(const Kernel& kernel, const Value& value, const BytesOf& bytes_of) {
  using std::min;
  const auto whole = bytes_of(value);
  auto slices = whole - whole;
  for (const Use& use : value.uses()) {
    if (std::ranges::find(kernel.nodes, use.node) == kernel.nodes.end()) continue;
    if (use.index == 0 && scatters_in_place(*use.node)) continue;
    const bool looks_up = use.index == 0 && use.node->op() == "gather";
    if (use.node->op() != "slice" && !looks_up) return whole;
    slices = slices + bytes_of(*use.node->result());
  }
  return min(slices, whole);  // slices may overlap
}

// The tensor that holds what is written of an output.
const Value& written_for(const Value& output) {
  const Node& node = *output.producer();
  return scatters_in_place(node) ? *node.operand(1) : output;
}

Dim num_bytes(const Value& value) {
  return value.type().num_bytes();
}

// Counts tensors of known sizes, and remembers the first that it could not count.
class KnownBytes {
 public:
  explicit KnownBytes(const Bindings& sizes) : sizes_(sizes) {}

  double of(const Value& value) {
    const auto bytes = counted(value.type());
    if (bytes) return static_cast<double>(*bytes);
    if (!wrong_) wrong_ = bytes.error();
    return 0;
  }

  [[nodiscard]] const std::optional<Error>& wrong() const { return wrong_; }

 private:
  [[nodiscard]] Expected<std::int64_t> counted(const TensorType& type) const {
    std::int64_t bytes = byte_size(type.dtype);
    bool is_empty = false;
    bool is_too_large = false;
    for (const Dim& dim : type.shape) {
      OPWELD_TRY(const std::int64_t size, dim.evaluate(sizes_));
      is_empty = is_empty || size == 0;
      is_too_large = is_too_large || __builtin_mul_overflow(bytes, size, &bytes);
    }
    if (is_empty) return 0;
    if (is_too_large) return fail("a tensor of {} is too large to be counted", to_string(type));
    return bytes;
  }

  const Bindings& sizes_;
  std::optional<Error> wrong_;
};

}  // namespace

Dim FusionPlan::bytes_read(const Kernel& kernel) {
  Dim total = 0;
  for (const auto* values : {&kernel.inputs, &kernel.constants}) {
    for (const Value* value : *values) total += bytes_read_of(kernel, *value, num_bytes);
  }
  return total;
}

Dim FusionPlan::bytes_written(const Kernel& kernel) {
  Dim total = 0;
  for (const Value* output : kernel.outputs) total += num_bytes(written_for(*output));
  return total;
}

Expected<BoundaryBytes> boundary_bytes(const Kernel& kernel, const Bindings& sizes) {
  KnownBytes known(sizes);
  const auto bytes_of = [&known](const Value& value) { return known.of(value); };
  BoundaryBytes bytes;
  for (const Value* input : kernel.inputs) bytes.read += bytes_read_of(kernel, *input, bytes_of);
  for (const Value* constant : kernel.constants) {
    bytes.read += bytes_read_of(kernel, *constant, bytes_of);
    bytes.constants += bytes_of(*constant);
  }
  for (const Value* output : kernel.outputs) bytes.written += bytes_of(written_for(*output));
  if (known.wrong()) return tl::unexpected(*known.wrong());
  return bytes;
}

}  // namespace opweld
