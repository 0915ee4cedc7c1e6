// Biases that a model has as numbers, as it does when all sizes are known.
#include <algorithm>
#include <cmath>

#include "graph/convert.h"
#include "rewrite/match.h"
#include "rewrite/raise/alibi_bias.h"

namespace opweld {

namespace {

// A constant bias [1.., H or 1, S or 1, T].
class Numbers {
 public:
  explicit Numbers(const Tensor& tensor)
      : tensor_(tensor),
        keys_(tensor.sizes().back()),
        queries_(tensor.sizes()[tensor.sizes().size() - 2]),
        heads_(tensor.sizes()[tensor.sizes().size() - 3]) {}

  [[nodiscard]] std::int64_t keys() const { return keys_; }
  [[nodiscard]] std::int64_t queries() const { return queries_; }
  [[nodiscard]] std::int64_t heads() const { return heads_; }
  [[nodiscard]] bool empty() const { return tensor_.num_elements() == 0; }
  [[nodiscard]] bool has_batches() const {
    return tensor_.num_elements() != heads_ * queries_ * keys_;
  }
  [[nodiscard]] double at(std::int64_t head, std::int64_t query, std::int64_t key) const {
    return tensor_.get_double((head * queries_ + query) * keys_ + key);
  }
  // How many keys a row sees, if they are the first ones.
  [[nodiscard]] std::optional<std::int64_t> visible_keys(std::int64_t head,
                                                         std::int64_t query) const {
    std::int64_t visible = 0;
    while (visible < keys_ && !hides(at(head, query, visible))) ++visible;
    for (std::int64_t key = visible; key < keys_; ++key) {
      if (!hides(at(head, query, key))) return std::nullopt;
    }
    return visible;
  }
  [[nodiscard]] bool hides_finitely() const {
    for (std::int64_t i = 0; i < tensor_.num_elements(); ++i) {
      if (hides(tensor_.get_double(i)) && std::isfinite(tensor_.get_double(i))) return true;
    }
    return false;
  }
  // The product of a slope and a distance, rounded as the model rounds it.
  [[nodiscard]] double rounded(double value) const {
    return round_to_float(value, tensor_.dtype());
  }

 private:
  [[nodiscard]] bool hides(double element) const { return hides_keys(element, tensor_.dtype()); }

  const Tensor& tensor_;
  std::int64_t keys_, queries_, heads_;
};

// The slope of one head, from a row that passes through 0; `first` keys are visible in the first
// row, one more in each after it.
std::optional<double> slope_of(const Numbers& bias, std::int64_t head, std::int64_t first) {
  for (std::int64_t query = bias.queries() - 1; query >= 0; --query) {
    const std::int64_t visible = std::min(first + query, bias.keys());
    for (std::int64_t key = 0; key + 1 < visible; ++key) {
      if (bias.at(head, query, key) == 0) return bias.at(head, query, key + 1);
      if (bias.at(head, query, key + 1) == 0) return -bias.at(head, query, key);
    }
  }
  return std::nullopt;
}

// Whether the visible elements of a row are multiples of the slope, one more from key to key.
bool is_even(const Numbers& bias, std::int64_t head, std::int64_t query, std::int64_t visible,
             double slope) {
  if (visible == 0) return false;
  const double start = slope == 0 ? 0 : std::round(bias.at(head, query, 0) / slope);
  for (std::int64_t key = 0; key < visible; ++key) {
    const double expected = slope * (start + static_cast<double>(key));
    if (bias.at(head, query, key) != bias.rounded(expected)) return false;
  }
  return true;
}

}  // namespace

std::optional<AlibiBias> match_constant_alibi(const Value* bias, const Dim& queries,
                                              const Dim& keys) {
  const Node* const node = made_by(bias, "constant");
  if (node == nullptr || bias->rank() < 3 || !is_float(bias->dtype())) return std::nullopt;
  const Numbers numbers(node->attributes().tensor("value"));
  if (numbers.empty() || numbers.has_batches() || keys != Dim(numbers.keys())) return std::nullopt;
  const auto first = numbers.visible_keys(0, 0);
  if (!first) return std::nullopt;
  auto slopes = Tensor::allocate(bias->dtype(), {numbers.heads()});
  if (!slopes) return std::nullopt;
  bool any = false;
  for (std::int64_t head = 0; head < numbers.heads(); ++head) {
    const auto slope = slope_of(numbers, head, *first);
    if (!slope) return std::nullopt;
    for (std::int64_t query = 0; query < numbers.queries(); ++query) {
      const std::int64_t visible = std::min(*first + query, numbers.keys());
      if (numbers.visible_keys(head, query) != visible) return std::nullopt;
      if (!is_even(numbers, head, query, visible, *slope)) return std::nullopt;
    }
    slopes->set_double(head, *slope);
    any = any || *slope != 0;
  }
  if (!any) return std::nullopt;
  AlibiBias found;
  found.numbers = std::move(*slopes);
  if (*first == numbers.keys()) return found;
  // Query s sees keys up to s + offset.
  const std::int64_t offset = *first - 1;
  const bool at_bottom = Dim(offset) == keys - queries;
  if (queries != Dim(numbers.queries()) || (offset != 0 && !at_bottom)) return std::nullopt;
  found.hidden = CausalMask{offset == 0 ? "top_left" : "bottom_right", numbers.hides_finitely()};
  return found;
}

}  // namespace opweld
