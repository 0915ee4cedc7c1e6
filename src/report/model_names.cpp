#include "report/model_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>

#include "fusion/kernel_kind.h"
#include "fusion/plan.h"

namespace opweld {

namespace {

constexpr std::size_t kMostSuggestions = 3;

std::string lowercase(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Letters to insert, delete or change, as far as that is at most `limit`; else more.
std::size_t edits(std::string_view from, std::string_view to, std::size_t limit) {
  const std::size_t apart =
      from.size() > to.size() ? from.size() - to.size() : to.size() - from.size();
  if (apart > limit) return limit + 1;
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return lowercase(a) == lowercase(b);
}

std::vector<std::string> similar_names(std::string_view text,
                                       const std::vector<std::string>& names) {
  const std::string wanted = lowercase(text);
  const std::size_t limit = std::max<std::size_t>(2, wanted.size() / 4);
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& name : names) {
    const std::string other = lowercase(name);
    const bool contains = wanted.size() > 2 && other.find(wanted) != std::string::npos;
    const std::size_t distance = contains ? 1 : edits(wanted, other, limit);
    if (distance <= limit) ranked.emplace_back(distance, name);
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> similar;
  for (const auto& [distance, name] : ranked) {
    if (similar.size() == kMostSuggestions) break;
    similar.push_back(name);
  }
  return similar;
}

std::string suggestion(const std::vector<std::string>& similar) {
  if (similar.empty()) return {};
  return fmt::format("; did you mean '{}'?", fmt::join(similar, "' or '"));
}

ModelNames::ModelNames(const Graph& graph, const History* history) : history_(history) {
  for (const auto& node : graph.nodes()) {
    if (node->op() == "constant") continue;
    operators_.emplace(operator_name(*node));
    operators_.insert(node->op());
    const std::vector<std::string> joined = joined_names(*node);
    for (const std::string& name : joined) {
      nodes_[name].push_back(node.get());
      ops_.try_emplace(name, joined.size() > 1 ? node->op() : std::string(operator_name(*node)));
    }
    if (joined.size() > 1) nodes_[node->display_name()].push_back(node.get());
    for (int i = 0; i < node->num_results(); ++i) {
      const std::string& tensor = node->result(i)->name();
      if (!tensor.empty()) tensors_.try_emplace(tensor, node->display_name());
    }
  }
  // What takes a merged result apart bears the name of an operator that was merged, and what moves
  // data for an operator that of the operator.
  const auto keep_those_that = [](std::vector<const Node*>& nodes, const auto& work) {
    if (std::ranges::any_of(nodes, work)) std::erase_if(nodes, std::not_fn(work));
  };
  for (auto& [name, nodes] : nodes_) {
    keep_those_that(nodes, [](const Node* node) { return node->source().operators > 0; });
    keep_those_that(nodes, [](const Node* node) { return !is_strided_view(*node); });
  }
  if (history == nullptr) return;
  for (const History::Operator& each : history->operators()) {
    operators_.insert(each.op);
    ops_.insert_or_assign(each.name, each.op);
    for (const std::string& tensor : each.tensors) tensors_.insert_or_assign(tensor, each.name);
    const History::Outcome outcome = history->outcome(each.name);
    std::vector<std::string>& own = parts_[each.name];
    if (outcome.fate == History::Fate::Kept) {
      if (std::ranges::find(own, each.name) == own.end()) own.push_back(each.name);
    } else if (outcome.fate == History::Fate::Part || outcome.fate == History::Fate::Equal) {
      for (const std::string& whole : outcome.into) parts_[whole].push_back(each.name);
    }
  }
}

ModelNames::Found ModelNames::found(const std::string& name) const {
  Found result{name, "", {}, {}};
  if (const auto op = ops_.find(name); op != ops_.end()) result.op = op->second;
  if (const auto nodes = nodes_.find(name); nodes != nodes_.end()) {
    result.nodes = nodes->second;
    return result;
  }
  if (history_ == nullptr) return result;
  result.outcome = history_->outcome(name);
  for (const std::string& into : result.outcome.into) {
    const bool works_for_it =
        result.outcome.fate == History::Fate::Part || result.outcome.fate == History::Fate::Equal;
    const auto nodes = nodes_.find(into);
    if (!works_for_it || nodes == nodes_.end()) continue;
    result.nodes.insert(result.nodes.end(), nodes->second.begin(), nodes->second.end());
  }
  return result;
}

std::optional<ModelNames::Found> ModelNames::find_exactly(std::string_view name) const {
  if (nodes_.contains(name) || ops_.contains(name)) return found(std::string(name));
  const auto tensor = tensors_.find(name);
  if (tensor == tensors_.end()) return std::nullopt;
  return found(tensor->second);
}

std::vector<std::string> ModelNames::beginning_with(std::string_view text) const {
  std::vector<std::string> names;
  const auto collect = [&](const auto& map) {
    for (auto each = map.lower_bound(text); each != map.end() && each->first.starts_with(text);
         ++each) {
      names.push_back(each->first);
    }
  };
  collect(ops_);
  // A tensor is often called as its node is, with a suffix.
  if (names.empty()) collect(tensors_);
  return names;
}

Expected<ModelNames::Found> ModelNames::find(std::string_view text) const {
  if (const auto exactly = find_exactly(text)) return *exactly;
  const std::vector<std::string> names =
      text.empty() ? std::vector<std::string>() : beginning_with(text);
  if (names.size() == 1) return *find_exactly(names.front());
  if (names.size() > 1) {
    const std::vector<std::string> shown(
        names.begin(),
        names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostSuggestions)));
    const std::size_t rest = names.size() - shown.size();
    return usage_error("{} operators have names that begin with '{}': '{}'{}", names.size(), text,
                       fmt::join(shown, "', '"),
                       rest == 0 ? "" : fmt::format(" and {} more", rest));
  }
  std::vector<std::string> all;
  for (const auto& [name, op] : ops_) all.push_back(name);
  std::vector<std::string> similar = similar_names(text, all);
  if (similar.empty()) {
    all.clear();
    for (const auto& [tensor, name] : tensors_) all.push_back(tensor);
    similar = similar_names(text, all);
  }
  return usage_error("the model has no operator called '{}'{}", text, suggestion(similar));
}

bool ModelNames::does_the_work(const Node& node) const {
  return std::ranges::any_of(joined_names(node), [&](const std::string& name) {
    const auto nodes = nodes_.find(name);
    return nodes != nodes_.end() && std::ranges::find(nodes->second, &node) != nodes->second.end();
  });
}

std::vector<std::string> ModelNames::sources_of(const Node& node) const {
  if (!does_the_work(node)) return joined_names(node);
  std::vector<std::string> sources;
  for (const std::string& name : joined_names(node)) {
    const auto parts = parts_.find(name);
    if (parts == parts_.end() || parts->second.empty()) {
      sources.push_back(name);
    } else {
      sources.insert(sources.end(), parts->second.begin(), parts->second.end());
    }
  }
  return sources;
}

}  // namespace opweld
