#include "rewrite/ramp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rewrite/match.h"

namespace opweld {

namespace {

using MaybeRamp = std::optional<Ramp>;

enum class Numbers : std::uint8_t { Integers, Reals };

// Values that are looked at for one answer; what is made of more is not known.
constexpr int kMostValues = 200;

// Symbols that are taken apart into 0 and more, one in the other.
constexpr int kMostSplits = 2;

bool is_empty(const Shape& shape) {
  return std::ranges::any_of(shape, [](const Dim& size) { return size == Dim(0); });
}

// Whether it holds of a and b at all sizes at which the shape has elements: known of them as they
// are, or of both cases where a symbol is 0 and where it is more.
template <typename Relation>
bool holds_inside(const Relation& relation, const Dim& a, const Dim& b, const Shape& shape,
                  int splits) {
  if (relation(a, b) || is_empty(shape)) return true;
  if (splits == 0) return false;
  std::vector<std::shared_ptr<const SymbolInfo>> symbols;
  a.collect_symbols(symbols);
  b.collect_symbols(symbols);
  return std::ranges::any_of(symbols, [&](const auto& symbol) {
    if (symbol->range.min != 0 || symbol->range.divisor != 1) return false;
    return std::ranges::all_of(
        std::vector<Dim>{Dim(0), Dim::symbol(symbol) + Dim(1)}, [&](const Dim& size) {
          const std::map<std::string, Dim, std::less<>> known = {{symbol->name, size}};
          Shape inside;
          for (const Dim& each : shape) inside.push_back(each.substitute(known));
          return holds_inside(relation, a.substitute(known), b.substitute(known), inside,
                              splits - 1);
        });
  });
}

bool less_or_equal_inside(const Dim& a, const Dim& b, const Shape& shape) {
  return holds_inside(provably_le, a, b, shape, kMostSplits);
}

Ramp level(const Value* value, Dim offset) {
  return {std::vector<std::int64_t>(value->shape().size(), 0), std::move(offset)};
}

// Counts what it looks at, so that what is read twice all the way up comes to an end.
class RampReader {
 public:
  explicit RampReader(Numbers numbers) : numbers_(numbers) {}

  MaybeRamp ramp_of(const Value* value) {
    if (--left_ < 0) return std::nullopt;
    const auto& contents = value->contents();
    if (contents && contents->size() == 1) return level(value, contents->front());
    if (is_integer(value->dtype())) {
      // Narrower ones wrap around, and what is without a sign does so below 0.
      if (value->dtype() != DType::I64 && value->dtype() != DType::I32) return std::nullopt;
    } else {
      if (numbers_ == Numbers::Integers || !is_float(value->dtype())) return std::nullopt;
      const auto number = scalar_constant(value);
      constexpr double kExact = 0x1p53;  // a larger one may be any of several whole numbers
      if (number && std::trunc(*number) == *number && std::abs(*number) < kExact) {
        return level(value, static_cast<std::int64_t>(*number));
      }
    }
    const Node* const node = value->producer();
    return node == nullptr ? std::nullopt : made_by_operator(*node);
  }

  // first + sign * second, broadcast.
  MaybeRamp combined(const Node& node, std::int64_t sign) {
    Ramp result = level(node.result(), 0);
    for (int side = 0; side < 2; ++side) {
      const MaybeRamp ramp = ramp_of(node.operand(side));
      if (!ramp) return std::nullopt;
      const std::int64_t factor = side == 0 ? 1 : sign;
      for (std::size_t axis = 0; axis < ramp->steps.size(); ++axis) {
        if (size_from_last(node.operand(side), axis) == Dim(1)) continue;
        result.steps[axis] += factor * ramp->steps[axis];
      }
      result.offset += ramp->offset * factor;
    }
    return result;
  }

  std::optional<bool> truth_of(const Value* value) {
    if (--left_ < 0 || value->dtype() != DType::Bool) return std::nullopt;
    const auto uniform = uniform_value(value);
    if (uniform) return *uniform != 0;
    const Node* const node = value->producer();
    if (node == nullptr) return std::nullopt;
    const std::string& op = node->op();
    if (op == "not") {
      const auto truth = truth_of(node->operand(0));
      return truth ? std::optional(!*truth) : std::nullopt;
    }
    if (op == "and" || op == "or") return truth_of_both(*node, /*decides=*/op == "or");
    if (op == "eq" || op == "lt" || op == "le" || op == "gt" || op == "ge") {
      return truth_of_comparison(*node);
    }
    const bool moves = op == "reshape" || op == "expand" || op == "transpose" || op == "slice";
    return moves ? truth_of(node->operand(0)) : std::nullopt;
  }

 private:
  MaybeRamp made_by_operator(const Node& node) {
    const std::string& op = node.op();
    if (op == "iota" || op == "range") return counted(node);
    if (op == "cast") return cast(node);
    if (op == "reshape") return reshaped(node);
    if (op == "expand") {
      MaybeRamp ramp = ramp_of(node.operand(0));
      return ramp ? MaybeRamp(expanded_ramp(std::move(*ramp), node)) : std::nullopt;
    }
    if (op == "add") return combined(node, 1);
    if (op == "sub") return combined(node, -1);
    if (op == "neg") return negated(ramp_of(node.operand(0)));
    if (op == "slice") return sliced(node);
    if (op == "tile") return tiled(node);
    if (op == "concat") return joined(node);
    if (op == "cumsum") return summed(node);
    if (op == "gather_nd") return looked_up(node);
    return std::nullopt;
  }

  static MaybeRamp negated(MaybeRamp ramp) {
    if (!ramp) return std::nullopt;
    for (std::int64_t& step : ramp->steps) step = -step;
    ramp->offset = -ramp->offset;
    return ramp;
  }

  MaybeRamp counted(const Node& node) {
    const Value* const result = node.result();
    if (node.op() == "iota") {
      Ramp ramp = level(result, 0);
      const auto axis = static_cast<std::size_t>(node.attributes().integer("axis"));
      ramp.steps[ramp.steps.size() - 1 - axis] = 1;
      return ramp;
    }
    const MaybeRamp start = real_ramp(node.operand(0));
    const auto step = scalar_constant(node.operand(1));
    if (!start || (step != 1.0 && step != -1.0)) return std::nullopt;
    return Ramp{{step == 1.0 ? 1 : -1}, start->offset};
  }

  MaybeRamp cast(const Node& node) {
    const Value* const from = node.operand(0);
    if (from->dtype() == DType::Bool) {
      const auto truth = truth_of(from);
      return truth ? MaybeRamp(level(node.result(), *truth ? 1 : 0)) : std::nullopt;
    }
    // Not of floats to integers, which truncates.
    const bool widens = is_integer(from->dtype()) || is_float(node.result()->dtype());
    MaybeRamp ramp = widens ? ramp_of(from) : std::nullopt;
    const auto number = ramp ? ramp->offset.constant() : std::nullopt;
    const bool wraps =
        number && node.result()->dtype() == DType::I32 && !std::in_range<std::int32_t>(*number);
    return wraps ? std::nullopt : ramp;
  }

  // The operand's ramp under another shape that differs in axes of one element.
  MaybeRamp reshaped(const Node& node) {
    const Value* const from = node.operand(0);
    const Value* const to = node.result();
    const MaybeRamp ramp = ramp_of(from);
    if (!ramp) return std::nullopt;
    Ramp result = level(to, ramp->offset);
    if (is_level(*ramp)) return result;
    std::size_t at = 0;
    for (std::size_t axis = 0; axis < from->shape().size(); ++axis) {
      if (size_from_last(from, axis) == Dim(1)) continue;
      while (at < to->shape().size() && size_from_last(to, at) == Dim(1)) ++at;
      if (at == to->shape().size() || size_from_last(to, at) != size_from_last(from, axis)) {
        return std::nullopt;
      }
      result.steps[at++] = ramp->steps[axis];
    }
    return result;
  }

  static bool is_level(const Ramp& ramp) {
    return std::ranges::all_of(ramp.steps, [](std::int64_t step) { return step == 0; });
  }

  MaybeRamp sliced(const Node& node) {
    MaybeRamp ramp = ramp_of(node.operand(0));
    if (!ramp) return std::nullopt;
    const Shape& starts = node.attributes().shape("starts");
    const Ints& steps = node.attributes().ints("steps");
    for (std::size_t axis = 0; axis < starts.size(); ++axis) {
      std::int64_t& step = ramp->steps[starts.size() - 1 - axis];
      ramp->offset += starts[axis] * step;
      step *= steps[axis];
    }
    return ramp;
  }

  // Where it repeats nothing but axes of one element.
  MaybeRamp tiled(const Node& node) {
    const Value* const from = node.operand(0);
    const Shape& repeats = node.attributes().shape("repeats");
    MaybeRamp ramp = ramp_of(from);
    for (std::size_t axis = 0; ramp && axis < repeats.size(); ++axis) {
      if (repeats[axis] == Dim(1)) continue;
      std::int64_t& step = ramp->steps[repeats.size() - 1 - axis];
      if (from->shape()[axis] == Dim(1)) step = 0;
      if (step != 0) return std::nullopt;
    }
    return ramp;
  }

  // Where every part goes on from what the one before ends with.
  MaybeRamp joined(const Node& node) {
    const std::int64_t rank = node.result()->rank();
    const std::int64_t given = node.attributes().integer("axis");
    const auto axis = static_cast<std::size_t>(rank - 1 - (given < 0 ? given + rank : given));
    MaybeRamp whole;
    Dim size = 0;  // of what is joined so far
    for (const Value* part : node.operands()) {
      MaybeRamp ramp = ramp_of(part);
      if (!ramp) return std::nullopt;
      if (whole) {
        // A single element may be the first of any steps.
        if (size == Dim(1)) whole->steps[axis] = ramp->steps[axis];
        if (size_from_last(part, axis) == Dim(1)) ramp->steps[axis] = whole->steps[axis];
        const Dim next = whole->offset + size * whole->steps[axis];
        if (ramp->steps != whole->steps ||
            !equal_inside(ramp->offset, next, node.result()->shape())) {
          return std::nullopt;
        }
      } else {
        whole = std::move(ramp);
      }
      size += size_from_last(part, axis);
    }
    return whole;
  }

  // Zeros add up to zeros.
  MaybeRamp summed(const Node& node) {
    const MaybeRamp ramp = ramp_of(node.operand(0));
    const bool is_zero = ramp && is_level(*ramp) && ramp->offset == Dim(0);
    return is_zero ? ramp : std::nullopt;
  }

  // Of a ramp at places that are ramps: one for each of its axes, all of them inside.
  MaybeRamp looked_up(const Node& node) {
    const Value* const from = node.operand(0);
    const Value* const result = node.result();
    const Node* const places = made_by(node.operand(1), "concat");
    if (places == nullptr || node.attributes().integer("batch_dims", 0) != 0) return std::nullopt;
    const std::int64_t rank = places->result()->rank();
    const std::int64_t axis = places->attributes().integer("axis");
    const bool one_for_each =
        places->num_operands() == from->rank() && (axis == rank - 1 || axis == -1);
    const MaybeRamp ramp = one_for_each ? ramp_of(from) : std::nullopt;
    if (!ramp) return std::nullopt;
    Ramp found = level(result, ramp->offset);
    for (int i = 0; i < places->num_operands(); ++i) {
      const Value* const place = places->operand(i);
      const auto of = static_cast<std::size_t>(from->rank() - 1 - i);  // the axis, from the last
      const MaybeRamp at = size_from_last(place, 0) == Dim(1) ? ramp_of(place) : std::nullopt;
      if (!at || !stays_inside(*at, *result, size_from_last(from, of))) return std::nullopt;
      found.offset += at->offset * ramp->steps[of];
      for (std::size_t a = 0; a < found.steps.size(); ++a) {
        found.steps[a] += at->steps[a + 1] * ramp->steps[of];
      }
    }
    return found;
  }

  // Whether the places, of which the last axis has one element and the others are those of the
  // result, are positions on an axis of that size.
  static bool stays_inside(const Ramp& places, const Value& result, const Dim& size) {
    Dim last = places.offset;
    for (std::size_t axis = 0; axis + 1 < places.steps.size(); ++axis) {
      const std::int64_t step = places.steps[axis + 1];
      if (step < 0) return false;
      if (step > 0) last += (size_from_last(&result, axis) - Dim(1)) * step;
    }
    const Shape& shape = result.shape();
    return less_or_equal_inside(0, places.offset, shape) &&
           less_or_equal_inside(last + Dim(1), size, shape);
  }

  // One that is `decides` makes the result that.
  std::optional<bool> truth_of_both(const Node& node, bool decides) {
    const auto first = truth_of(node.operand(0));
    if (first == decides) return decides;
    const auto second = truth_of(node.operand(1));
    if (second == decides) return decides;
    return first && second ? std::optional(!decides) : std::nullopt;
  }

  std::optional<bool> truth_of_comparison(const Node& node) {
    if (!is_integer(node.operand(0)->dtype())) return std::nullopt;
    const MaybeRamp difference = combined(node, -1);
    if (!difference) return std::nullopt;
    const auto [least, most] = range_of(*difference, *node.result());
    const Shape& shape = node.result()->shape();
    const auto is_at_most = [&](const Dim& a, const Dim& b) {
      return less_or_equal_inside(a, b, shape);
    };
    if (node.op() == "eq") {
      if (is_level(*difference) && equal_inside(least, 0, shape)) return true;
      const bool differs = is_at_most(1, least) || is_at_most(most, -1);
      return differs ? std::optional(false) : std::nullopt;
    }
    // True where it is above 0, or also where it is 0.
    const bool less = node.op() == "lt" || node.op() == "le";
    const bool or_equal = node.op() == "le" || node.op() == "ge";
    const Dim low = less ? -most : least;
    const Dim high = less ? -least : most;
    if (is_at_most(or_equal ? 0 : 1, low)) return true;
    return is_at_most(high, or_equal ? -1 : 0) ? std::optional(false) : std::nullopt;
  }

  // From its first to its last elements along every axis.
  static std::pair<Dim, Dim> range_of(const Ramp& ramp, const Value& value) {
    std::pair<Dim, Dim> range = {ramp.offset, ramp.offset};
    for (std::size_t axis = 0; axis < ramp.steps.size(); ++axis) {
      const std::int64_t step = ramp.steps[axis];
      if (step == 0) continue;
      Dim& end = step < 0 ? range.first : range.second;
      end += (size_from_last(&value, axis) - Dim(1)) * step;
    }
    return range;
  }

  Numbers numbers_;
  int left_ = kMostValues;
};

}  // namespace

bool equal_inside(const Dim& a, const Dim& b, const Shape& shape) {
  const auto equal = [](const Dim& left, const Dim& right) { return left == right; };
  return holds_inside(equal, a, b, shape, kMostSplits);
}

std::optional<Ramp> integer_ramp(const Value* value) {
  return RampReader(Numbers::Integers).ramp_of(value);
}

std::optional<Ramp> combined_ramp(const Node& node, std::int64_t sign) {
  return RampReader(Numbers::Integers).combined(node, sign);
}

std::optional<Ramp> real_ramp(const Value* value) {
  return RampReader(Numbers::Reals).ramp_of(value);
}

std::optional<bool> known_truth(const Value* value) {
  return RampReader(Numbers::Integers).truth_of(value);
}

Ramp expanded_ramp(Ramp ramp, const Node& expansion) {
  for (std::size_t axis = 0; axis < ramp.steps.size(); ++axis) {
    if (size_from_last(expansion.operand(0), axis) == Dim(1)) ramp.steps[axis] = 0;
  }
  ramp.steps.resize(expansion.result()->shape().size(), 0);
  return ramp;
}

const Dim& size_from_last(const Value* value, std::size_t axis) {
  return value->shape()[value->shape().size() - 1 - axis];
}

bool keeps_last_axes(const Node& view, std::size_t count) {
  const Value* const from = view.operand(0);
  const Value* const to = view.result();
  if (from->shape().size() < count || to->shape().size() < count) return false;
  if (view.op() == "reshape") {
    for (std::size_t axis = count; axis < from->shape().size(); ++axis) {
      if (size_from_last(from, axis) != Dim(1)) return false;
    }
  }
  for (std::size_t axis = 0; axis < count; ++axis) {
    if (size_from_last(from, axis) != size_from_last(to, axis)) return false;
  }
  return true;
}

}  // namespace opweld
