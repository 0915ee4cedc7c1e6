// What a model computes from the experts that a router chose, in whatever spelling.
//
// `indices` [tokens.., k] says which experts each token chose, all different: the second result of
// a top_k. A weight [tokens.., k] says how much each counts. What a token gives an expert e, its
// share, is then
//
//   share[tokens.., e] = sum over j of (indices[tokens.., j] == e ? weight[tokens.., j] : 0)
//
// and is zero for all experts that it did not choose. Models come to that by way of masks (one_hot,
// comparisons with a number or with all of them), of products or selections between mask and weight
// and a sum over the choices, or of a product that is both, or by scattering the weights into
// zeros; with transposes, reshapes, slices and gathers of one expert in between.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace opweld {

// What an axis of a value stands for: the number of an axis of the tokens, or one of these.
inline constexpr int kSlotAxis = -1;    // the j-th choice of a token
inline constexpr int kExpertAxis = -2;  // the experts
inline constexpr int kNoAxis = -3;      // one element, or the same along it

// A step between the weight that a model computed and the one that it used.
struct WeightStep {
  std::string op;            // cast, mul, div
  Value* other = nullptr;    // [tokens.., 1] or a number; null for a cast
  DType dtype = DType::F32;  // of the result

  bool operator==(const WeightStep&) const = default;
};

struct Chosen {
  enum class Kind : std::uint8_t {
    Indices,   // indices[token, j]
    Weight,    // weight[token, j]
    Mask,      // indices[token, j] == e; without a slot axis, whether that is so for any j
    Weighted,  // indices[token, j] == e ? weight[token, j] : 0
    Share,     // the sum of these over j
  };
  Kind kind = Kind::Weight;
  std::vector<int> axes;               // what each axis of the value stands for
  std::optional<std::int64_t> expert;  // the one that it is about, where it has no axis of experts
  Value* weight = nullptr;             // of the last three
  std::vector<WeightStep> steps;       // what was done to it afterwards

  [[nodiscard]] bool has(int axis) const;
};

class ExpertChoice {
 public:
  // `choice` makes the indices; see `make`.
  ExpertChoice(const Node& choice, Value* indices);
  // Of a top_k of the largest along the last axis, the number of experts being known; else nothing.
  static std::optional<ExpertChoice> make(Node& top_k);

  [[nodiscard]] Value* indices() const { return indices_; }
  [[nodiscard]] std::int64_t experts() const { return experts_; }
  [[nodiscard]] std::int64_t choices() const { return choices_; }
  // tokens..
  [[nodiscard]] const Shape& tokens() const { return tokens_; }
  [[nodiscard]] const Node& node() const { return choice_; }

  // What the value is in these terms; nothing if it is anything else.
  const std::optional<Chosen>& describe(Value* value);
  // Whether the axes are those of the tokens in order, then axes of one element, then `after`
  // others; `before` axes precede them.
  [[nodiscard]] bool is_by_token(const std::vector<int>& axes, std::size_t before = 0) const;

 private:
  using Found = std::optional<Chosen>;

  Found find(Value* value);
  Found find_made(const Node& node);
  Found as_weight(Value* value) const;
  Found from_one_hot(const Node& node);
  Found from_comparison(const Node& node);
  Found from_threshold(const Node& node);
  Found from_matmul(const Node& node);
  Found from_product(const Node& node);
  Found from_selection(const Node& node);
  Found from_scatter(const Node& node);
  Found from_sum(const Node& node);
  Found from_cast(const Node& node);
  Found from_view(const Node& node);
  Found from_slice(const Node& node);
  Found from_gather(const Node& node);
  [[nodiscard]] Found weighted(const Chosen& mask, const Chosen& weight) const;

  Found scaled(const Chosen& share, const Node& node, Value* other) const;

  const Node& choice_;
  Value* indices_;
  Shape tokens_;
  std::int64_t choices_ = 0;
  std::int64_t experts_ = 0;
  std::map<const Value*, Found> known_;
};

}  // namespace opweld
