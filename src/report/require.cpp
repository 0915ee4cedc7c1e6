#include "report/require.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "fusion/reasons.h"
#include "report/account.h"

namespace opweld {

namespace {

constexpr std::string_view kJoint = " + ";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// Takes "6 x " from the front.
std::optional<std::int64_t> take_count(std::string_view& text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc() || count < 1 || !rest.starts_with(" x ")) return std::nullopt;
  text = trimmed(rest.substr(3));
  return count;
}

}  // namespace

Expected<FusionPattern> parse_pattern(std::string_view text) {
  FusionPattern pattern;
  pattern.text = text;
  std::string_view rest = trimmed(text);
  pattern.at_least = take_count(rest).value_or(1);
  if (rest.ends_with(']')) {
    if (const std::size_t open = rest.rfind(" ["); open != std::string_view::npos) {
      pattern.scope = rest.substr(open + 2, rest.size() - open - 3);
      rest = trimmed(rest.substr(0, open));
    }
  }
  // Of a joint at an end nothing but the plus is left.
  const bool is_cut = rest == "+" || rest.starts_with("+ ") || rest.ends_with(" +");
  while (true) {
    const std::size_t joint = rest.find(kJoint);
    const std::string_view item = trimmed(rest.substr(0, joint));
    if (is_cut || item.empty() || item == "+") {
      return usage_error(
          "--require '{}': write operators or names of nodes, joined by ' + ', such as 'MatMul + "
          "Add + Gelu'; in front of them '6 x ' asks for so many kernels, and ' [layers.0]' behind "
          "them for a layer",
          text);
    }
    pattern.items.emplace_back(item);
    if (joint == std::string_view::npos) return pattern;
    rest = rest.substr(joint + kJoint.size());
  }
}

namespace {

// An operator of any node, or a certain node.
struct Item {
  std::string text;
  std::optional<ModelNames::Found> node;

  [[nodiscard]] bool fits(const Node& other) const {
    if (node) return std::ranges::find(node->nodes, &other) != node->nodes.end();
    if (operators_of(other) == 0) return false;
    // What became one is listed with all that it is: "MatMul + MatMul".
    return same_word(text, other.op()) ||
           std::ranges::any_of(words(operator_name(other)),
                               [&](const std::string& word) { return same_word(text, word); });
  }

  static std::vector<std::string> words(std::string_view name) {
    std::vector<std::string> parts;
    for (std::size_t joint = name.find(kJoint); joint != std::string_view::npos;
         joint = name.find(kJoint)) {
      parts.emplace_back(name.substr(0, joint));
      name = name.substr(joint + kJoint.size());
    }
    parts.emplace_back(name);
    return parts;
  }
};

class Requirement {
 public:
  Requirement(const PlannedModel& model, const FusionPattern& pattern)
      : model_(model), pattern_(pattern), flow_(model.plan) {}

  Status check() {
    for (const std::string& text : pattern_.items) {
      OPWELD_TRY(Item item, resolve(text));
      items_.push_back(std::move(item));
    }
    const std::int64_t held = std::ranges::count_if(
        model_.plan.kernels, [&](const Kernel& kernel) { return holds(kernel); });
    if (held >= pattern_.at_least) return {};
    const std::string counted =
        pattern_.at_least == 1 ? ""
                               : fmt::format("{} of {} kernels have it; ", held, pattern_.at_least);
    return fail("--require '{}' is not met: {}{}", pattern_.text, counted, reason_why());
  }

 private:
  Expected<Item> resolve(const std::string& text) const {
    if (auto node = model_.names.find_exactly(text)) return item_of(text, std::move(*node));
    const auto is_it = [&](const std::string& op) { return same_word(op, text); };
    if (std::ranges::any_of(model_.names.operators(), is_it)) return Item{text, std::nullopt};
    auto node = model_.names.find(text);
    if (node) return item_of(text, std::move(*node));
    // The name of an operator that is not in the model is no less a requirement that is not met.
    const std::vector<std::string> ops(model_.names.operators().begin(),
                                       model_.names.operators().end());
    const std::vector<std::string> similar = similar_names(text, ops);
    if (similar.empty()) {
      return fail("--require '{}' is not met: {}", pattern_.text, node.error().message);
    }
    return fail("--require '{}' is not met: the model has no operator called '{}'{}", pattern_.text,
                text, suggestion(similar));
  }

  Expected<Item> item_of(const std::string& text, ModelNames::Found node) const {
    if (!node.nodes.empty()) return Item{text, std::move(node)};
    OPWELD_TRY(const Answer answer, why_there(model_, node.name));
    return fail("--require '{}' is not met: {}", pattern_.text, answer.happened);
  }

  [[nodiscard]] bool is_in_scope(const Kernel& kernel) const {
    return pattern_.scope.empty() || layer_of(kernel) == pattern_.scope;
  }

  // Operators in their order, nodes in any.
  [[nodiscard]] bool holds(const Kernel& kernel) const {
    if (!is_in_scope(kernel)) return false;
    std::vector<std::pair<std::string, std::string>> operators;  // theirs, ours
    for (const Node* node : named_operators(kernel)) {
      for (std::string& word : Item::words(operator_name(*node))) {
        operators.emplace_back(std::move(word), node->op());
      }
    }
    auto next = operators.begin();
    for (const Item& item : items_) {
      if (item.node) {
        const bool inside =
            std::ranges::any_of(kernel.nodes, [&](const Node* node) { return item.fits(*node); });
        if (!inside) return false;
        continue;
      }
      next = std::find_if(next, operators.end(), [&](const auto& op) {
        return same_word(op.first, item.text) || same_word(op.second, item.text);
      });
      if (next == operators.end()) return false;
      ++next;
    }
    return true;
  }

  // ---- where it breaks ----

  // Nodes that fit the item, in the order of the model.
  [[nodiscard]] NodeSet candidates(const Item& item) const {
    NodeSet nodes;
    for (const auto& node : model_.graph.nodes()) {
      if (node->op() != "constant" && item.fits(*node)) nodes.push_back(node.get());
    }
    return nodes;
  }

  // The pattern along the data, from one node on, as far as it goes.
  struct Attempt {
    std::size_t items = 0;            // that the data leads through
    std::size_t fused = 0;            // of them in the first one's kernel
    std::size_t edges = 0;            // on the way
    const Verdict* broken = nullptr;  // the first edge that was kept

    // Nearer to what is wanted.
    [[nodiscard]] bool operator>(const Attempt& other) const {
      if (items != other.items) return items > other.items;
      if (fused != other.fused) return fused > other.fused;
      return edges < other.edges;
    }
  };

  [[nodiscard]] Attempt attempt(const Node* start) const {
    Attempt result{1, 1, 0, nullptr};
    const Node* at = start;
    for (std::size_t i = 1; i < items_.size(); ++i) {
      NodeSet next = candidates(items_[i]);
      std::erase(next, at);
      if (items_[i].fits(*at) && items_[i].node) {
        ++result.items;  // the same node does the work of both
        continue;
      }
      std::vector<const Verdict*> way = flow_.way({at}, next);
      if (way.empty() && items_[i].node) way = flow_.way(next, {at});
      if (way.empty()) return result;
      ++result.items;
      result.edges += way.size();
      for (const Verdict* edge : way) {
        if (edge->code != ReasonCode::Fused && result.broken == nullptr) result.broken = edge;
      }
      if (result.broken == nullptr) ++result.fused;
      at = std::ranges::find(next, way.back()->consumer) != next.end() ? way.back()->consumer
                                                                       : way.front()->producer;
    }
    return result;
  }

  [[nodiscard]] std::string reason_why() const {
    for (const Item& item : items_) {
      if (!candidates(item).empty()) continue;
      return fmt::format("no operator of the model is {} after the rewrites", item.text);
    }
    constexpr std::size_t kMostAttempts = 256;
    Attempt best;
    std::size_t attempts = 0;
    for (const Node* start : candidates(items_.front())) {
      const Kernel* const kernel = kernel_holding(model_.plan, start);
      if (kernel != nullptr && (!is_in_scope(*kernel) || holds(*kernel))) continue;
      if (++attempts > kMostAttempts) break;
      const Attempt each = attempt(start);
      if (each > best) best = each;
    }
    if (best.items == 0) {
      return fmt::format("{} is in no other kernel{}", items_.front().text,
                         pattern_.scope.empty() ? "" : " of " + pattern_.scope);
    }
    if (best.broken != nullptr) {
      return fmt::format("'{}' and '{}' are kept apart by {}",
                         best.broken->producer->display_name(),
                         best.broken->consumer->display_name(), rule_text(*best.broken));
    }
    if (best.items < items_.size()) {
      return fmt::format("no data leads from {} to {}", items_[best.items - 1].text,
                         items_[best.items].text);
    }
    return "no kernel has all of them in this order";
  }

  const PlannedModel& model_;
  const FusionPattern& pattern_;
  DataFlow flow_;
  std::vector<Item> items_;
};

}  // namespace

Status require_fusion(const PlannedModel& model, const FusionPattern& pattern) {
  return Requirement(model, pattern).check();
}

}  // namespace opweld
