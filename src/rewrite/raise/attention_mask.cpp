#include "rewrite/raise/attention_mask.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ops/builder.h"
#include "rewrite/match.h"
#include "rewrite/raise/causal_mask.h"
#include "rewrite/ramp.h"

namespace opweld {

namespace {

constexpr int kMask = 3;
constexpr int kLengths = 4;
constexpr int kSlopes = 5;

bool has(const Node& node, int operand) {
  return node.num_operands() > operand && node.operand(operand) != nullptr;
}

// Of query s, keys t with first <= t - s <= last are visible, as far as the rest lets them be.
struct Band {
  std::optional<Dim> first, last;
  std::vector<Value*> rest;  // bools, true where a key is visible
};

// A mask that is added, as a bool and what is added where that is true.
struct Selection {
  Value* visible = nullptr;
  bool is_negated = false;
  Value* added = nullptr;  // null: nothing
  bool is_finite = false;  // what hides is the lowest number
};

// Whether a reshape does nothing but add axes of one element before the others, or take such away.
bool moves_leading_ones(const Node& reshape) {
  const Shape& from = reshape.operand(0)->shape();
  const Shape& to = reshape.result()->shape();
  const Shape& longer = from.size() > to.size() ? from : to;
  const Shape& shorter = from.size() > to.size() ? to : from;
  const auto added = static_cast<std::ptrdiff_t>(longer.size() - shorter.size());
  return std::all_of(longer.begin(), longer.begin() + added,
                     [](const Dim& size) { return size == Dim(1); }) &&
         std::equal(shorter.begin(), shorter.end(), longer.begin() + added);
}

// What it repeats along axes of one element, or has more axes of: attention does that by itself.
Value* without_expansion(Value* value) {
  for (Node* node = value->producer(); node != nullptr && stays_on_its_stream(value);
       node = value->producer()) {
    const bool spreads = node->op() == "expand" && node->operand(0)->rank() > 0;
    if (!spreads && (node->op() != "reshape" || !moves_leading_ones(*node))) break;
    value = node->operand(0);
  }
  return value;
}

std::optional<Selection> match_selection(Value* mask) {
  const Node* const node = made_by(without_expansion(mask), "select");
  if (node == nullptr || node->operand(0)->dtype() != DType::Bool) return std::nullopt;
  for (const int kept : {1, 2}) {
    const auto fill = uniform_value(node->operand(3 - kept));
    if (!fill || !hides_keys(*fill, mask->dtype())) continue;
    const bool adds_nothing = uniform_value(node->operand(kept)) == 0.0;
    return Selection{.visible = node->operand(0),
                     .is_negated = kept == 2,
                     .added = adds_nothing ? nullptr : node->operand(kept),
                     .is_finite = std::isfinite(*fill)};
  }
  return std::nullopt;
}

class BandReader {
 public:
  BandReader(const Dim& queries, const Dim& keys) : queries_(queries), keys_(keys) {}

  void read(Value* visible, bool is_negated, Band& band) const {
    Value* const inner = without_expansion(visible);
    if (const Node* const both = made_by(inner, "and"); both != nullptr && !is_negated) {
      read(both->operand(0), false, band);
      read(both->operand(1), false, band);
      return;
    }
    if (const Node* const negation = made_by(inner, "not")) {
      const Band before = band;
      read(negation->operand(0), !is_negated, band);
      if (band.rest.size() == before.rest.size()) return;
      band = before;  // the negation is what is left
    }
    if (uniform_value(inner) == (is_negated ? 0.0 : 1.0)) return;
    const bool is_over_all = inner->rank() >= 2 && size_from_last(inner, 0) == keys_ &&
                             size_from_last(inner, 1) == queries_;
    const auto diagonal = is_over_all ? match_diagonal(inner) : std::nullopt;
    if (!diagonal) {
      band.rest.push_back(inner);
      return;
    }
    // Keys t > s + offset are visible, or the others are.
    const bool later_are_visible = diagonal->is_true != is_negated;
    std::optional<Dim>& end = later_are_visible ? band.first : band.last;
    const Dim bound = later_are_visible ? diagonal->offset + Dim(1) : diagonal->offset;
    if (end && *end != bound) {
      band.rest.push_back(inner);
      return;
    }
    end = bound;
  }

 private:
  const Dim& queries_;
  const Dim& keys_;
};

// How the attributes of an attention say a band.
class BandAttributes {
 public:
  BandAttributes(const Node& attention, const Attributes& attributes)
      : causal_(attributes.text("causal", "none")),
        left_(attributes.integer("window_left", -1)),
        right_(attributes.integer("window_right", -1)),
        diagonal_(attention.operand(1)->shape()[2] - attention.operand(0)->shape()[2]),
        may_move_(causal_ == "none" && left_ < 0 && right_ < 0 && !has(attention, kSlopes)) {}

  bool take(const Band& band) {
    // Where queries are as many as keys, both are the same.
    if (causal_ != "bottom_right" && take_from(0, "top_left", band)) return true;
    const bool at_bottom = causal_ == "bottom_right" || (may_move_ && band.last == diagonal_);
    return at_bottom && take_from(diagonal_, "bottom_right", band);
  }

  void set(Attributes& attributes) const {
    attributes.set("causal", causal_);
    if (left_ >= 0) attributes.set("window_left", left_);
    if (right_ >= 0) attributes.set("window_right", right_);
  }

  // Whether every query sees a key, if nothing else hides any.
  [[nodiscard]] bool shows_a_key() const {
    // That at its own position, where there is one.
    const bool at_top = causal_ != "bottom_right";
    const Dim ahead = at_top ? diagonal_ : Dim(0);
    const bool stands_at_a_key = at_top ? ahead.lower_bound() >= 0 : diagonal_.lower_bound() >= 0;
    return stands_at_a_key || (at_top && left_ < 0);  // or else the first
  }

 private:
  // Of queries that stand `position` ahead of their number.
  bool take_from(const Dim& position, const char* causal, const Band& band) {
    std::int64_t left = left_;
    std::int64_t right = right_;
    std::string becomes = causal_;
    if (band.first) {
      const auto width = (position - *band.first).constant();
      if (!width || *width < 0 || (left >= 0 && left != *width)) return false;
      left = *width;
    }
    if (band.last && *band.last == position) {
      becomes = causal;
    } else if (band.last) {
      const auto width = (*band.last - position).constant();
      if (!width || *width < 0 || (right >= 0 && right != *width)) return false;
      right = *width;
    }
    causal_ = becomes;
    left_ = left;
    right_ = right;
    return true;
  }

  std::string causal_;
  std::int64_t left_, right_;
  Dim diagonal_;
  bool may_move_;  // nothing else counts from where queries stand
};

}  // namespace

Expected<bool> take_mask(Graph& graph, Node& attention, Attributes& attributes, Value*& mask) {
  if (has(attention, kLengths)) return false;
  Value* const whole = attention.operand(kMask);
  const bool is_bool = whole->dtype() == DType::Bool;
  const Dim& queries = attention.operand(0)->shape()[2];
  const Dim& keys = attention.operand(1)->shape()[2];
  if (!stays_on_its_stream(whole)) return false;
  Band band;
  auto selection = is_bool ? Selection{.visible = whole} : match_selection(whole);
  if (selection) {
    BandReader(queries, keys).read(selection->visible, selection->is_negated, band);
  } else if (const auto causal = match_causal_mask(whole, false, queries, keys)) {
    selection = Selection{.is_finite = causal->is_finite};
    band.last = causal->alignment == "top_left" ? Dim(0) : keys - queries;
  } else {
    return false;
  }
  const bool is_whole = band.rest.empty();
  // What is left is a bool: it can stand beside nothing that is added, and is no other mask than a
  // bool was.
  const bool says_nothing = is_bool && !band.first && !band.last;
  if (!is_whole && (says_nothing || selection->added != nullptr || selection->is_negated)) {
    return false;
  }
  BandAttributes described(attention, attributes);
  if (!described.take(band)) return false;
  // Beside a number, nothing may hide what the lowest one does not.
  if (selection->is_finite &&
      (!is_whole || selection->added != nullptr || !described.shows_a_key())) {
    return false;
  }
  Builder builder(graph, &attention, raised_source(attention, "Mask"));
  Value* rest = selection->added;
  for (Value* const each : band.rest) {
    rest = rest == nullptr ? each : builder.binary("and", rest, each);
  }
  if (!builder.status()) return tl::unexpected(builder.status().error());
  described.set(attributes);
  mask = rest;
  return true;
}

}  // namespace opweld
