#include "rewrite/raise/causal_mask.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rewrite/match.h"
#include "rewrite/ramp.h"

namespace opweld {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The lowest finite number.
double lowest(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return std::numeric_limits<double>::lowest();
    case DType::F16:
      return -65504;
    case DType::BF16:
      return -0x1.FEp127;
    default:
      return std::numeric_limits<float>::lowest();
  }
}

// What is said of the keys t > s + offset of query s, and the opposite of all others.
struct Later {
  bool is_true = false;
  Dim offset = 0;
  bool is_finite = false;  // of a float mask: it is said with a finite number
};

using MaybeLater = std::optional<Later>;

// Whether a ramp over [.., queries, keys] is above 0.
MaybeLater where_positive(const Ramp& ramp) {
  if (ramp.steps.size() < 2) return std::nullopt;
  for (std::size_t axis = 2; axis < ramp.steps.size(); ++axis) {
    if (ramp.steps[axis] != 0) return std::nullopt;
  }
  // t - s + c > 0 where t > s - c; s - t + c > 0 where not t > s + c - 1.
  if (ramp.steps[0] == 1 && ramp.steps[1] == -1)
    return Later{.is_true = true, .offset = -ramp.offset};
  if (ramp.steps[0] == -1 && ramp.steps[1] == 1)
    return Later{.is_true = false, .offset = ramp.offset - 1};
  return std::nullopt;
}

MaybeLater from_comparison(const Node& node) {
  const bool less = node.op() == "lt" || node.op() == "le";
  std::optional<Ramp> difference = combined_ramp(node, -1);
  if (!difference) return std::nullopt;
  if (less) {
    for (std::int64_t& step : difference->steps) step = -step;
    difference->offset = -difference->offset;
  }
  // Whole numbers are 0 or more where one more is above 0.
  if (node.op() == "le" || node.op() == "ge") difference->offset += 1;
  return where_positive(*difference);
}

// Of a constant [1.., S, T]: which elements are those of later keys, if `marks` tells them.
template <typename Marks>
MaybeLater from_constant(const Tensor& tensor, const Marks& marks) {
  const Sizes& sizes = tensor.sizes();
  if (sizes.size() < 2 || tensor.num_elements() == 0) return std::nullopt;
  const std::int64_t columns = sizes.back();
  const std::int64_t rows = sizes[sizes.size() - 2];
  if (rows * columns != tensor.num_elements()) return std::nullopt;
  // The first row tells where its later keys begin, and whether they are marked.
  const bool first = marks(tensor, 0);
  std::int64_t run = 1;
  while (run < columns && marks(tensor, run) == first) ++run;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const bool later = i % columns > i / columns + run - 1;
    if (marks(tensor, i) != (later ? !first : first)) return std::nullopt;
  }
  return Later{.is_true = !first, .offset = run - 1};
}

// A window of a larger mask, along the last two axes.
MaybeLater shifted(MaybeLater later, const Node& slice) {
  const Shape& starts = slice.attributes().shape("starts");
  const Ints& steps = slice.attributes().ints("steps");
  const bool by_one = std::all_of(steps.begin(), steps.end(), [](auto step) { return step == 1; });
  if (!later || starts.size() < 2 || !by_one) return std::nullopt;
  later->offset += starts[starts.size() - 2] - starts.back();
  return later;
}

// Of a selection between zero and another number, as where the result is not zero.
MaybeLater from_bool(const Value* value);
MaybeLater where_not_zero(const Node& selection) {
  const auto yes = uniform_value(selection.operand(1));
  const auto no = uniform_value(selection.operand(2));
  if (!yes || !no || (*yes != 0) == (*no != 0)) return std::nullopt;
  MaybeLater later = from_bool(selection.operand(0));
  if (later && *yes == 0) later->is_true = !later->is_true;
  return later;
}

MaybeLater negated(MaybeLater later) {
  if (later) later->is_true = !later->is_true;
  return later;
}

// `is_true` stands for not zero.
MaybeLater from_bool(const Value* value) {
  const Node* const node = value->producer();
  if (node == nullptr) return std::nullopt;
  const std::string& op = node->op();
  if (op == "constant") {
    return from_constant(node->attributes().tensor("value"), [](const Tensor& tensor, auto at) {
      return is_float(tensor.dtype()) ? tensor.get_double(at) != 0 : tensor.get_int(at) != 0;
    });
  }
  if (op == "gt" || op == "ge" || op == "lt" || op == "le") return from_comparison(*node);
  if (op == "select") return where_not_zero(*node);
  if (op == "slice") return shifted(from_bool(node->operand(0)), *node);
  if (op == "not") return negated(from_bool(node->operand(0)));
  if (op == "eq" && uniform_value(node->operand(1)) == 0.0) {
    const bool same_shape = node->operand(0)->shape() == value->shape();
    return same_shape ? negated(from_bool(node->operand(0))) : std::nullopt;
  }
  // What is not zero is true, and true is 1.
  if (op == "cast" && (value->dtype() == DType::Bool || node->operand(0)->dtype() == DType::Bool)) {
    return from_bool(node->operand(0));
  }
  const bool is_view = (op == "reshape" || op == "expand") && keeps_last_axes(*node, 2);
  return is_view ? from_bool(node->operand(0)) : std::nullopt;
}

// Of a constant mask that is added.
MaybeLater from_added_constant(const Tensor& tensor) {
  bool is_finite = false;
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double element = tensor.get_double(i);
    if (element != 0 && !hides_keys(element, tensor.dtype())) return std::nullopt;
    is_finite = is_finite || (element != 0 && std::isfinite(element));
  }
  MaybeLater later =
      from_constant(tensor, [](const Tensor& mask, auto at) { return mask.get_double(at) != 0; });
  if (later) later->is_finite = is_finite;
  return later;
}

// Of a selection between 0 and a number that hides.
MaybeLater from_selection(const Node& selection) {
  const auto yes = uniform_value(selection.operand(1));
  const auto no = uniform_value(selection.operand(2));
  MaybeLater later = yes && no ? from_bool(selection.operand(0)) : std::nullopt;
  if (!later) return std::nullopt;
  const double fill = *yes == 0 ? *no : *yes;
  if ((*yes != 0 && *no != 0) || !hides_keys(fill, selection.result()->dtype())) {
    return std::nullopt;
  }
  if (*yes == 0) later->is_true = !later->is_true;
  later->is_finite = std::isfinite(fill);
  return later;
}

// `is_true` stands for hidden.
MaybeLater from_float(const Value* value) {
  const Node* const node = value->producer();
  if (node == nullptr) return std::nullopt;
  const std::string& op = node->op();
  if (op == "constant") return from_added_constant(node->attributes().tensor("value"));
  if (op == "select") return from_selection(*node);
  if (op == "slice") return shifted(from_float(node->operand(0)), *node);
  if (op == "cast" && is_float(node->operand(0)->dtype())) {
    // What hides in the operand's dtype must still do so in this one.
    MaybeLater later = from_float(node->operand(0));
    const double fill = later && later->is_finite ? lowest(node->operand(0)->dtype()) : -kInfinity;
    if (!later || !hides_keys(fill, value->dtype())) return std::nullopt;
    later->is_finite = later->is_finite && fill == lowest(value->dtype());
    return later;
  }
  const bool is_view = (op == "reshape" || op == "expand") && keeps_last_axes(*node, 2);
  return is_view ? from_float(node->operand(0)) : std::nullopt;
}

}  // namespace

bool hides_keys(double fill, DType dtype) {
  return fill <= lowest(dtype);
}

std::optional<CausalMask> match_causal_mask(const Value* mask, bool true_hides, const Dim& queries,
                                            const Dim& keys) {
  if (mask->rank() < 2 || size_from_last(mask, 0) != keys || size_from_last(mask, 1) != queries) {
    return std::nullopt;
  }
  const bool is_bool = mask->dtype() == DType::Bool;
  const MaybeLater later = is_bool ? from_bool(mask) : from_float(mask);
  if (!later || later->is_true != (is_bool ? true_hides : true)) return std::nullopt;
  if (later->offset == Dim(0)) return CausalMask{"top_left", later->is_finite};
  // The first query, at position offset, sees a key if that is not before the first.
  const bool aligned = later->offset == keys - queries && later->offset.lower_bound() >= 0;
  return aligned ? std::optional(CausalMask{"bottom_right", later->is_finite}) : std::nullopt;
}

std::optional<Diagonal> match_diagonal(const Value* mask) {
  if (mask->rank() < 2 || mask->dtype() != DType::Bool) return std::nullopt;
  const MaybeLater later = from_bool(mask);
  return later ? std::optional(Diagonal{later->is_true, later->offset}) : std::nullopt;
}

}  // namespace opweld
