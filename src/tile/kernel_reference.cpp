#include "tile/kernel_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "graph/convert.h"
#include "ops/op.h"
#include "ops/reference.h"
#include "tile/rounding.h"

namespace opweld {

namespace {

// What becomes of values that are so close to the limit of their type that the kernel's own
// rounding decides whether they pass it.
enum class AtLimit : std::uint8_t { Nearest, Finite, Infinite };

struct Limits {
  double largest;
  double rounds_up_from;  // half a step beyond, from where on values round to infinity
};

Limits limits_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {65504, 65520};
    case DType::BF16:
      return {0x1.fep127, 0x1.ffp127};
    case DType::F32:
      return {std::numeric_limits<float>::max(), 0x1.ffffffp127};
    default:
      return {std::numeric_limits<double>::max(), HUGE_VAL};
  }
}

// Rounds to a type, in f64.
class Rounder {
 public:
  explicit Rounder(AtLimit at_limit) : at_limit_(at_limit) {}

  double operator()(double value, DType dtype) {
    const double rounded = round_to_float(value, dtype);
    const auto [largest, rounds_up_from] = limits_of(dtype);
    // The kernel has the value from f32 arithmetic, so it may be so far beside the exact one.
    const double slack = default_tolerance(DType::F32).relative * largest;
    if (!std::isfinite(value) || dtype == DType::F64) return rounded;
    if (std::abs(std::abs(value) - rounds_up_from) > slack) return rounded;
    near_limit_ = true;
    if (at_limit_ == AtLimit::Nearest) return rounded;
    return std::copysign(
        at_limit_ == AtLimit::Finite ? std::min(largest, std::abs(rounded)) : HUGE_VAL, value);
  }

  void round(Tensor& tensor, DType dtype) {
    if (!is_float(dtype) || dtype == DType::F64) return;
    for (double& value : tensor.mutable_view<double>()) value = (*this)(value, dtype);
  }

  // Whether some value was that close to its limit.
  [[nodiscard]] bool near_limit() const { return near_limit_; }

 private:
  AtLimit at_limit_;
  bool near_limit_ = false;
};

// In f64 if it is of floats.
Expected<Tensor> widened(const Tensor& tensor) {
  if (!is_float(tensor.dtype()) || tensor.dtype() == DType::F64) return tensor;
  OPWELD_TRY(Tensor wide, Tensor::allocate(DType::F64, tensor.sizes()));
  for (std::int64_t i = 0; i < wide.num_elements(); ++i) wide.set_double(i, tensor.get_double(i));
  return wide;
}

// Subnormals of bf16, which are those of f32, are zero to a matrix unit.
Expected<Tensor> without_subnormals(const Tensor& tensor) {
  if (!is_float(tensor.dtype())) return tensor;
  OPWELD_TRY(Tensor flushed, tensor.clone());
  for (double& value : flushed.mutable_view<double>()) {
    if (std::abs(value) < std::numeric_limits<float>::min()) value = 0;
  }
  return flushed;
}

// Whether the node's result is the kernel's to the bit where its operands are: each operation is
// rounded once, and both round it alike. Sums and elementary functions are not.
bool is_exact(const Node& node) {
  static const std::set<std::string, std::less<>> kExact = {
      "constant", "add",    "sub",  "mul", "div", "neg",   "abs",  "min",
      "max",      "sqrt",   "eq",   "ne",  "lt",  "le",    "gt",   "ge",
      "cast",     "select", "relu", "and", "or",  "floor", "ceil", "round"};
  const FusionTrait trait = op_def(node).trait;
  return trait == FusionTrait::View || trait == FusionTrait::Source || kExact.contains(node.op());
}

// A value, and by how much the kernel may have another one and be right: by what its own rounding
// of a value decides that lies between two of its type. No margin: by nothing.
struct Uncertain {
  Tensor value;
  Tensor margin = {};

  [[nodiscard]] bool has_margin() const { return margin.data() != nullptr; }
};

// How far f32 arithmetic may be from f64 where a value is rounded to a half, relative to the larger
// of the value and the root mean square of its row, which is what sums pass through on their way:
// 256 units in the last place.
constexpr double kComputeError = 0x1p-16;

double row_scale(std::span<const double> row) {
  double squares = 0;
  for (const double value : row) squares += std::isfinite(value) ? value * value : 0;
  return row.empty() ? 0 : std::sqrt(squares / static_cast<double>(row.size()));
}

// By how much the half may be another than `stored`, if `computed` is off by that.
double half_margin(double computed, double off, double stored, DType dtype) {
  double margin = 0;
  for (const double other : {computed - off, computed + off}) {
    // What passes the limit of the type is the business of AtLimit.
    const double apart = std::abs(round_to_float(other, dtype) - stored);
    if (std::isfinite(apart)) margin = std::max(margin, apart);
  }
  return margin;
}

// Goes through a kernel's primitive operators as the kernel does, in f64.
class RoundedEvaluation {
 public:
  RoundedEvaluation(const Graph& primitives, const tile::Rounding& rounding, const Bindings& sizes,
                    Rounder& rounder)
      : primitives_(primitives), rounding_(rounding), sizes_(sizes), round_(rounder) {}

  Expected<std::vector<Uncertain>> run(std::span<const Tensor> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Value* const input = primitives_.inputs()[i];
      OPWELD_TRY(computed_[input].value, widened(inputs[i]));
      exact_.insert(input);
    }
    for (const auto& node : primitives_.nodes()) {
      OPWELD_CHECK(evaluate(*node));
      for (const Value* operand : node->operands()) release(operand);
    }
    std::vector<Uncertain> outputs;
    for (const Graph::Output& output : primitives_.outputs()) {
      OPWELD_TRY(Uncertain stored, as_stored(output.value));
      stored.margin = computed_.at(output.value).margin;
      outputs.push_back(std::move(stored));
    }
    return outputs;
  }

 private:
  Status evaluate(const Node& node) {
    std::vector<Uncertain> operands(static_cast<std::size_t>(node.num_operands()));
    for (int i = 0; i < node.num_operands(); ++i) {
      if (node.operand(i) == nullptr) continue;
      OPWELD_TRY(operands[static_cast<std::size_t>(i)], operand(node, node.operand(i)));
    }
    std::vector<Tensor> values;
    for (const Uncertain& each : operands) values.push_back(each.value);
    OPWELD_TRY(std::vector<Tensor> results, results_of(node, values));
    const bool exact = is_exact(node) && std::ranges::all_of(node.operands(), [&](const Value* v) {
                         return v == nullptr || exact_.contains(v);
                       });
    for (int i = 0; i < node.num_results(); ++i) {
      if (exact) exact_.insert(node.result(i));
      Tensor& result = results[static_cast<std::size_t>(i)];
      // A constant is as it is stored, and may lie in the graph.
      if (node.op() != "constant") round_.round(result, compute_dtype(node.result(i)->dtype()));
      computed_[node.result(i)] = {result};
    }
    const bool uncertain = std::ranges::any_of(operands, &Uncertain::has_margin);
    return uncertain ? add_margins(node, operands, values) : Status();
  }

  Expected<std::vector<Tensor>> results_of(const Node& node, std::span<const Tensor> operands) {
    ReferenceOptions options;
    options.in_f64 = true;
    const auto keys = rounding_.bf16_weight_keys.find(&node);
    if (keys != rounding_.bf16_weight_keys.end()) options.bf16_weight_keys = keys->second;
    return evaluate_node(node, operands, sizes_, options);
  }

  // What the margins of its operands, one by one, come to in the results of the node.
  Status add_margins(const Node& node, std::span<const Uncertain> operands,
                     const std::vector<Tensor>& values) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].has_margin()) continue;
      if (node.op() == "matmul") {
        // Deviations of either sign add up.
        std::vector<Tensor> sizes = values;
        sizes[i] = operands[i].margin;
        OPWELD_TRY(sizes[1 - i], combined(values[1 - i], {},
                                          [](double value, double) { return std::abs(value); }));
        OPWELD_TRY(const std::vector<Tensor> spread, results_of(node, sizes));
        OPWELD_CHECK(widen(*node.result(), spread[0], [](double by, double) { return by; }));
        continue;
      }
      for (const double sign : {1.0, -1.0}) {
        std::vector<Tensor> moved = values;
        OPWELD_TRY(moved[i], combined(values[i], operands[i].margin,
                                      [&](double value, double by) { return value + sign * by; }));
        OPWELD_TRY(const std::vector<Tensor> others, results_of(node, moved));
        for (int r = 0; r < node.num_results(); ++r) {
          OPWELD_CHECK(widen(*node.result(r), others[static_cast<std::size_t>(r)],
                             [](double other, double value) { return std::abs(other - value); }));
        }
      }
    }
    return {};
  }

  // Element by element in memory of its own; an absent tensor counts as zeros.
  template <typename Function>
  static Expected<Tensor> combined(const Tensor& a, const Tensor& b, const Function& function) {
    OPWELD_TRY(Tensor result, a.clone());
    for (std::int64_t i = 0; i < result.num_elements(); ++i) {
      result.set_double(i, function(a.get_double(i), b.data() == nullptr ? 0 : b.get_double(i)));
    }
    return result;
  }

  // Adds to the margin of a result what `by` makes of `from` and the result.
  template <typename Function>
  Status widen(const Value& result, const Tensor& from, const Function& by) {
    if (!is_float(result.dtype())) return {};
    Uncertain& held = computed_.at(&result);
    if (!held.has_margin()) {
      OPWELD_TRY(held.margin, Tensor::allocate(DType::F64, held.value.sizes()));
    }
    for (std::int64_t i = 0; i < from.num_elements(); ++i) {
      const double more = by(from.get_double(i), held.value.get_double(i));
      if (std::isfinite(more)) held.margin.set_double(i, held.margin.get_double(i) + more);
    }
    return {};
  }

  Expected<Uncertain> operand(const Node& reader, const Value* value) {
    Uncertain found = computed_.at(value);
    if (rounding_.as_stored.contains({value, &reader})) {
      OPWELD_TRY(found, as_stored(value));
    }
    if (rounding_.on_matrix_unit.contains(&reader)) {
      OPWELD_TRY(found.value, without_subnormals(found.value));
    }
    return found;
  }

  Expected<Uncertain> as_stored(const Value* value) {
    const auto known = stored_.find(value);
    if (known != stored_.end()) return known->second;
    const Uncertain& computed = computed_.at(value);
    if (!is_float(value->dtype()) || value->dtype() == compute_dtype(value->dtype())) {
      return computed;
    }
    OPWELD_TRY(Tensor rounded, computed.value.clone());
    round_.round(rounded, value->dtype());
    Uncertain& stored = stored_[value];
    stored.value = rounded;
    if (!exact_.contains(value)) {
      OPWELD_TRY(stored.margin, margin_of(computed, rounded, value->dtype()));
    }
    return stored;
  }

  static Expected<Tensor> margin_of(const Uncertain& computed, const Tensor& rounded, DType dtype) {
    OPWELD_TRY(Tensor margin, Tensor::allocate(DType::F64, rounded.sizes()));
    const std::int64_t width = rounded.rank() == 0 ? 1 : rounded.sizes().back();
    const std::span<const double> values = computed.value.view<double>();
    bool any = false;
    double scale = 0;
    for (std::int64_t i = 0; i < rounded.num_elements(); ++i) {
      if (i % width == 0) {
        scale =
            row_scale(values.subspan(static_cast<std::size_t>(i), static_cast<std::size_t>(width)));
      }
      const double value = computed.value.get_double(i);
      if (!std::isfinite(value)) continue;
      const double known = computed.has_margin() ? computed.margin.get_double(i) : 0;
      const double off = known + kComputeError * std::max(std::abs(value), scale);
      const double most = half_margin(value, off, rounded.get_double(i), dtype);
      margin.set_double(i, most);
      any = any || most > 0;
    }
    return any ? margin : Tensor();
  }

  // Once for every operand that reads it.
  void release(const Value* value) {
    if (value == nullptr || value->is_graph_output()) return;
    if (++reads_[value] < value->uses().size()) return;
    computed_.erase(value);
    stored_.erase(value);
  }

  const Graph& primitives_;
  const tile::Rounding& rounding_;
  const Bindings& sizes_;
  Rounder& round_;
  std::map<const Value*, Uncertain> computed_;
  std::map<const Value*, Uncertain> stored_;
  std::map<const Value*, std::size_t> reads_;
  std::set<const Value*> exact_;
};

// What is expected, within its margin as close as it comes to what was written.
Expected<Tensor> closest(const Tensor& actual, const Uncertain& expected) {
  if (!expected.has_margin() || actual.sizes() != expected.value.sizes()) return expected.value;
  OPWELD_TRY(Tensor close, expected.value.clone());
  for (std::int64_t i = 0; i < close.num_elements(); ++i) {
    const double apart = actual.get_double(i) - close.get_double(i);
    const double margin = expected.margin.get_double(i);
    if (!std::isfinite(apart)) continue;
    close.set_double(i, close.get_double(i) + std::clamp(apart, -margin, margin));
  }
  return close;
}

std::vector<Comparison> compare_all(std::span<const Tensor> actual,
                                    std::span<const Tensor> expected) {
  std::vector<Comparison> comparisons;
  comparisons.reserve(actual.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    comparisons.push_back(compare(actual[i], expected[i], default_tolerance(actual[i].dtype())));
  }
  return comparisons;
}

bool all_equal(std::span<const Comparison> comparisons) {
  return std::ranges::all_of(comparisons, [](const Comparison& each) { return each.equal; });
}

// How far apart, for choosing between references: infinitely where only one is a number.
double apart(const Tensor& actual, const Tensor& expected, std::int64_t i) {
  const double a = actual.get_double(i);
  const double e = expected.get_double(i);
  if (a == e || (std::isnan(a) && std::isnan(e))) return 0;
  const double difference = std::abs(a - e);
  return std::isnan(difference) ? HUGE_VAL : difference;
}

// Element by element the one of both that is closer to what was written.
void take_closer(const Tensor& actual, const Tensor& other, Tensor& expected) {
  if (actual.sizes() != expected.sizes()) return;
  for (std::int64_t i = 0; i < actual.num_elements(); ++i) {
    if (apart(actual, other, i) >= apart(actual, expected, i)) continue;
    if (is_float(expected.dtype())) {
      expected.set_double(i, other.get_double(i));
    } else {
      expected.set_int(i, other.get_int(i));
    }
  }
}

}  // namespace

Expected<std::vector<Comparison>> judge_kernel(const Kernel& kernel,
                                               const tile::LowerOptions& options,
                                               const Bindings& sizes,
                                               std::span<const Tensor> inputs,
                                               std::span<const Tensor> outputs) {
  Graph group = extract_group(kernel);
  ReferenceOptions in_f64;
  in_f64.in_f64 = true;
  OPWELD_TRY(const std::vector<Tensor> exact, evaluate(group, inputs, sizes, in_f64));
  std::vector<Comparison> comparisons = compare_all(outputs, exact);
  if (all_equal(comparisons)) return comparisons;

  if (kernel.kind != KernelKind::Extern) OPWELD_CHECK(tile::expand_composites(group));
  const tile::Rounding rounding = tile::rounding_of(group, kernel.kind, options, sizes);
  const auto rounded = [&](Rounder& rounder) -> Expected<std::vector<Tensor>> {
    OPWELD_TRY(const std::vector<Uncertain> expected,
               RoundedEvaluation(group, rounding, sizes, rounder).run(inputs));
    std::vector<Tensor> close;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      OPWELD_TRY(Tensor each, closest(outputs[i], expected[i]));
      close.push_back(std::move(each));
    }
    return close;
  };
  Rounder nearest(AtLimit::Nearest);
  OPWELD_TRY(std::vector<Tensor> expected, rounded(nearest));
  comparisons = compare_all(outputs, expected);
  if (all_equal(comparisons) || !nearest.near_limit()) return comparisons;

  for (const AtLimit at_limit : {AtLimit::Finite, AtLimit::Infinite}) {
    Rounder rounder(at_limit);
    OPWELD_TRY(const std::vector<Tensor> other, rounded(rounder));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      OPWELD_TRY(expected[i],
                 expected[i].clone());  // it may be a value that is another output, too
      take_closer(outputs[i], other[i], expected[i]);
    }
  }
  return compare_all(outputs, expected);
}

}  // namespace opweld
