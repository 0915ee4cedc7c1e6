#include "report/why.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "fusion/kernel_kind.h"
#include "fusion/reasons.h"
#include "report/account.h"

namespace opweld {

const Kernel* kernel_holding(const FusionPlan& plan, const Node* node) {
  for (const Kernel& kernel : plan.kernels) {
    if (std::ranges::find(kernel.nodes, node) != kernel.nodes.end()) return &kernel;
  }
  return nullptr;
}

std::string rule_text(const Verdict& verdict) {
  const Reason& why = reason(verdict.code);
  std::string_view sentence = why.sentence;
  sentence.remove_suffix(1);  // the period
  return fmt::format("{}: {}{}", why.name, sentence,
                     verdict.detail.empty() ? "" : fmt::format(" ({})", verdict.detail));
}

DataFlow::DataFlow(const FusionPlan& plan) {
  for (const Verdict& verdict : plan.verdicts) edges_[verdict.producer].push_back(&verdict);
}

std::vector<const Verdict*> DataFlow::way(const NodeSet& from, const NodeSet& to) const {
  const auto edges_from = [this](const Node* node) -> std::span<const Verdict* const> {
    const auto found = edges_.find(node);
    return found == edges_.end() ? std::span<const Verdict* const>() : found->second;
  };
  // Breadth first; of the edges to one reader, one that was kept says more.
  std::map<const Node*, const Verdict*> came_by;
  std::deque<const Node*> pending(from.begin(), from.end());
  for (const Node* node : from) came_by[node] = nullptr;
  while (!pending.empty()) {
    const Node* const node = pending.front();
    pending.pop_front();
    for (const Verdict* edge : edges_from(node)) {
      const auto [place, is_new] = came_by.try_emplace(edge->consumer, edge);
      const bool same_step = !is_new && place->second != nullptr && place->second->producer == node;
      if (same_step && place->second->code == ReasonCode::Fused) place->second = edge;
      if (is_new) pending.push_back(edge->consumer);
    }
    // All edges out of this node were looked at before the way is told.
    for (const Verdict* edge : edges_from(node)) {
      if (std::ranges::find(to, edge->consumer) == to.end()) continue;
      std::vector<const Verdict*> steps;
      for (const Verdict* step = came_by.at(edge->consumer); step != nullptr;
           step = came_by.at(step->producer)) {
        steps.insert(steps.begin(), step);
      }
      if (!steps.empty()) return steps;
    }
  }
  return {};
}

namespace {

constexpr std::size_t kMostNamed = 4;

using Found = ModelNames::Found;

// "'A' (Add)"
std::string introduced(const Found& found) {
  return found.op.empty() ? fmt::format("'{}'", found.name)
                          : fmt::format("'{}' ({})", found.name, found.op);
}

std::string quoted(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (const std::string& name : names) {
    if (shown.size() == kMostNamed) break;
    shown.push_back("'" + name + "'");
  }
  const std::size_t rest = names.size() - shown.size();
  if (rest > 0) return fmt::format("{} and {} more", fmt::join(shown, ", "), rest);
  if (shown.size() < 2) return shown.empty() ? "" : shown.front();
  const std::string last = shown.back();
  shown.pop_back();
  return fmt::format("{} and {}", fmt::join(shown, ", "), last);
}

std::string described(const Kernel& kernel) {
  return fmt::format("{}{} ({})", kernel.name,
                     kernel.scope.empty() ? "" : fmt::format(" [{}]", kernel.scope), kernel.label);
}

// Names of the operators of a kernel but these.
std::vector<std::string> others_in(const Kernel& kernel, const NodeSet& nodes) {
  std::vector<std::string> names;
  for (const Node* node : named_operators(kernel)) {
    if (std::ranges::find(nodes, node) != nodes.end()) continue;
    const std::string name = node->display_name();
    const bool is_own =
        std::ranges::any_of(nodes, [&](const Node* own) { return own->display_name() == name; });
    if (!is_own && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

// What is not in the planned graph any more; absent for what is.
std::optional<Answer> answer_for_gone(const Found& found) {
  const std::string who = introduced(found);
  const std::string& pass = found.outcome.pass;
  switch (found.outcome.fate) {
    case History::Fate::Kept:
    case History::Fate::Part:
    case History::Fate::Equal:
      if (!found.nodes.empty()) return std::nullopt;
      return Answer{who + " is in no kernel: the rewrites left nothing of it.",
                    fmt::format("The pass '{}' took it away.", pass),
                    fmt::format("To see what it did, look at --dump-after={}.", pass), ""};
    case History::Fate::Bypassed:
      return Answer{
          fmt::format(
              "{} is in no kernel, since it does not change what its readers need, which "
              "read {} instead.",
              who,
              found.outcome.into.empty() ? "an input of the model" : quoted(found.outcome.into)),
          fmt::format("The pass '{}' leaves out operators that change nothing.", pass),
          "Nothing needs to change.", ""};
    case History::Fate::Computed:
      return Answer{who + " is in no kernel, since it depends on no input of the model.",
                    fmt::format("The pass '{}' computed it while the model was compiled, and its "
                                "result is stored as a weight is.",
                                pass),
                    "Nothing needs to change.", ""};
    case History::Fate::Unread:
      return Answer{who + " is in no kernel, since nothing that the model gives out depends on it.",
                    fmt::format("The pass '{}' leaves out what nobody reads.", pass),
                    "If its result is wanted, make it an output of the model.", ""};
  }
  return std::nullopt;
}

// "'Pow_3' (Pow) became a part of 'Mul_9' (RMSNormalization), which", or the name alone.
std::string subject(const Found& found) {
  if (found.outcome.fate != History::Fate::Part && found.outcome.fate != History::Fate::Equal) {
    return introduced(found);
  }
  std::vector<std::string> wholes;
  for (const Node* node : found.nodes) {
    std::string whole = fmt::format("'{}' ({})", node->display_name(), operator_name(*node));
    if (std::ranges::find(wholes, whole) == wholes.end()) wholes.push_back(std::move(whole));
  }
  const std::string_view how =
      found.outcome.fate == History::Fate::Part ? "became a part of" : "is computed once, as";
  if (wholes.size() > kMostNamed) {
    const std::size_t rest = wholes.size() - kMostNamed;
    wholes.resize(kMostNamed);
    wholes.push_back(fmt::format("{} more", rest));
  }
  return fmt::format("{} {} {}, which", introduced(found), how, fmt::join(wholes, " and "));
}

// Where the operator runs, as the rest of a sentence.
std::string whereabouts(const FusionPlan& plan, const Found& found) {
  std::vector<const Kernel*> kernels;
  for (const Node* node : found.nodes) {
    const Kernel* const kernel = kernel_holding(plan, node);
    if (kernel != nullptr && std::ranges::find(kernels, kernel) == kernels.end()) {
      kernels.push_back(kernel);
    }
  }
  if (kernels.empty()) {
    return "is in no kernel: it gives the same memory another shape, which moves nothing";
  }
  if (kernels.size() > 1) {
    std::vector<std::string> texts;
    for (const Kernel* kernel : kernels) {
      if (texts.size() < kMostNamed) texts.push_back(described(*kernel));
    }
    if (kernels.size() > texts.size()) {
      texts.push_back(fmt::format("{} more", kernels.size() - texts.size()));
    }
    return fmt::format("is run by {} kernels, {}", kernels.size(), fmt::join(texts, " and "));
  }
  const std::vector<std::string> others = others_in(*kernels.front(), found.nodes);
  if (others.empty()) return "runs in a kernel of its own, " + described(*kernels.front());
  return fmt::format("runs in {} together with {}", described(*kernels.front()), quoted(others));
}

// Where sizes decide which of several plans is run, the answer is that of one of them.
Answer of_plan(Answer answer, const PlannedModel& model) {
  const std::string version = version_text(model.plan, model.bindings);
  if (version.empty()) return answer;
  char& first = answer.happened.front();
  first = static_cast<char>(std::tolower(static_cast<unsigned char>(first)));
  answer.happened = fmt::format("In {}: {}", version, answer.happened);
  return answer;
}

// ---- one operator ----

struct KeptEdges {
  std::vector<const Verdict*> edges;  // of the operator, each neighbour once
  std::size_t fused = 0;
};

KeptEdges edges_of(const FusionPlan& plan, const NodeSet& nodes) {
  KeptEdges result;
  std::set<std::pair<const Node*, ReasonCode>> seen;
  for (const Verdict& verdict : plan.verdicts) {
    const bool produces = std::ranges::find(nodes, verdict.producer) != nodes.end();
    const bool consumes = std::ranges::find(nodes, verdict.consumer) != nodes.end();
    if (produces == consumes) continue;
    if (verdict.code == ReasonCode::Fused) {
      ++result.fused;
      continue;
    }
    const Node* const other = produces ? verdict.consumer : verdict.producer;
    if (seen.emplace(other, verdict.code).second) result.edges.push_back(&verdict);
  }
  return result;
}

std::string rules_for(const KeptEdges& kept, const NodeSet& nodes) {
  if (kept.edges.empty()) {
    return kept.fused > 0 ? "No rule keeps it from any of its neighbours."
                          : "It has no neighbours: no operator computes what it reads, and none "
                            "reads what it computes.";
  }
  std::vector<std::string> texts;
  for (const Verdict* verdict : kept.edges) {
    if (texts.size() == kMostNamed) break;
    const bool produces = std::ranges::find(nodes, verdict->producer) != nodes.end();
    texts.push_back(fmt::format("its {} '{}' is kept apart by {}", produces ? "reader" : "producer",
                                (produces ? verdict->consumer : verdict->producer)->display_name(),
                                rule_text(*verdict)));
  }
  std::string text = fmt::format("{}", fmt::join(texts, "; "));
  if (kept.edges.size() > texts.size()) {
    text += fmt::format("; and so on for {} more, which --all-edges shows",
                        kept.edges.size() - texts.size());
  }
  text.front() = 'I';
  return text + ".";
}

std::string remedies_for(const KeptEdges& kept) {
  std::vector<ReasonCode> codes;
  for (const Verdict* verdict : kept.edges) {
    if (std::ranges::find(codes, verdict->code) == codes.end()) codes.push_back(verdict->code);
  }
  if (codes.empty()) return "Nothing needs to change.";
  if (codes.size() == 1) return std::string(reason(codes.front()).remedy);
  std::vector<std::string> texts;
  for (const ReasonCode code : codes) {
    std::string_view remedy = reason(code).remedy;
    remedy.remove_suffix(1);
    texts.push_back(fmt::format("for {}: {}", reason(code).name, remedy));
  }
  std::string text = fmt::format("{}.", fmt::join(texts, "; "));
  text.front() = 'F';
  return text;
}

// ---- two operators ----

std::string kept_change(const Verdict& verdict) {
  return std::string(reason(verdict.code).remedy);
}

class Pair {
 public:
  Pair(const PlannedModel& model, Found a, Found b)
      : model_(model), a_(std::move(a)), b_(std::move(b)) {}

  Expected<Answer> answer() {
    for (const Found* found : {&a_, &b_}) {
      if (const auto gone = answer_for_gone(*found)) return *gone;
    }
    if (is_one()) {
      return Answer{fmt::format("'{}' and '{}' are one operator here, {} '{}'.", a_.name, b_.name,
                                operator_name(*a_.nodes.front()), a_.nodes.front()->display_name()),
                    "They were found to be parts of it, or are merged in it, before neighbours "
                    "were looked at.",
                    "Nothing needs to change.", ""};
    }
    const DataFlow flow(model_.plan);
    std::vector<const Verdict*> way = flow.way(a_.nodes, b_.nodes);
    if (way.empty()) {
      std::swap(a_, b_);
      way = flow.way(a_.nodes, b_.nodes);
    }
    if (way.empty()) {
      OPWELD_TRY(Answer apart, no_way());
      return of_plan(std::move(apart), model_);
    }
    OPWELD_TRY(Answer found, way.size() == 1 ? neighbours(*way.front()) : distant(way));
    return of_plan(std::move(found), model_);
  }

 private:
  [[nodiscard]] bool is_one() const {
    return std::ranges::any_of(a_.nodes, [&](const Node* node) {
      return std::ranges::find(b_.nodes, node) != b_.nodes.end();
    });
  }

  [[nodiscard]] const Kernel* common_kernel() const {
    for (const Node* node : a_.nodes) {
      const Kernel* const kernel = kernel_holding(model_.plan, node);
      if (kernel == nullptr) continue;
      for (const Node* other : b_.nodes) {
        if (kernel_holding(model_.plan, other) == kernel) return kernel;
      }
    }
    return nullptr;
  }

  Expected<Answer> no_way() const {
    if (const Kernel* const kernel = common_kernel()) {
      return Answer{fmt::format("{} and {} share {}, though neither reads the other's result.",
                                introduced(a_), introduced(b_), described(*kernel)),
                    "No rule kept them apart: both read one tensor, or were fused with what lies "
                    "between them and others.",
                    "Nothing needs to change.", ""};
    }
    return Answer{fmt::format("{} and {} are in different kernels, and no data flows from one to "
                              "the other.",
                              introduced(a_), introduced(b_)),
                  "Operators share a kernel where one reads what the other computes, or where both "
                  "read one tensor and walk one index space side by side.",
                  "If data should flow between them, look for where the model was cut in two: a "
                  "tensor that was detached, copied or given in as an input of its own.",
                  ""};
  }

  Expected<Answer> neighbours(const Verdict& verdict) const {
    OPWELD_TRY(const std::int64_t bytes, verdict.bytes_saved.evaluate(model_.bindings));
    const std::string moved = human_bytes(static_cast<double>(bytes));
    const std::string value = to_string(verdict.value->type());
    if (verdict.code == ReasonCode::Fused && verdict.kernel < 0) {
      return Answer{fmt::format("Nothing is moved between {} and {}: one of them gives the same "
                                "memory another shape.",
                                introduced(a_), introduced(b_)),
                    "A reshape is in no kernel, so there is nothing that a rule could keep apart.",
                    "Nothing needs to change.", ""};
    }
    if (verdict.code == ReasonCode::Fused) {
      return Answer{
          fmt::format("{} and {} share {}.", introduced(a_), introduced(b_),
                      described(model_.plan.kernels[static_cast<std::size_t>(verdict.kernel)])),
          fmt::format("No rule keeps them apart, so the {} between them stays on chip, which saves "
                      "{} of traffic.",
                      value, moved),
          "Nothing needs to change.", ""};
    }
    return Answer{fmt::format("{} and {} are in different kernels, {} and {}, so the {} between "
                              "them goes to memory and back, {}.",
                              introduced(a_), introduced(b_), name_of(verdict.producer),
                              name_of(verdict.consumer), value, moved),
                  rule_text(verdict) + ".", kept_change(verdict),
                  std::string(reason(verdict.code).name)};
  }

  [[nodiscard]] std::string name_of(const Node* node) const {
    const Kernel* const kernel = kernel_holding(model_.plan, node);
    return kernel == nullptr ? "none for a reshape" : kernel->name;
  }

  Expected<Answer> distant(const std::vector<const Verdict*>& way) const {
    std::vector<std::string> between;
    for (std::size_t i = 0; i + 1 < way.size(); ++i) {
      const std::string name = way[i]->consumer->display_name();
      if (std::ranges::find(between, name) == between.end()) between.push_back(name);
    }
    const std::string standing =
        fmt::format("Between {} and {} stand{} {}", introduced(a_), introduced(b_),
                    between.size() == 1 ? "s" : "", quoted(between));
    const auto kept = std::ranges::find_if(
        way, [](const Verdict* each) { return each->code != ReasonCode::Fused; });
    if (kept == way.end()) {
      const Kernel* const kernel = common_kernel();
      return Answer{fmt::format("{}, and {}.", standing,
                                kernel != nullptr ? "all of them share " + described(*kernel)
                                                  : "nothing is moved between them"),
                    "No rule keeps any of them from the next.", "Nothing needs to change.", ""};
    }
    return Answer{fmt::format("{}, and the kernels part between '{}' and '{}'.", standing,
                              (*kept)->producer->display_name(), (*kept)->consumer->display_name()),
                  rule_text(**kept) + ".", kept_change(**kept),
                  std::string(reason((*kept)->code).name)};
  }

  const PlannedModel& model_;
  Found a_;
  Found b_;
};

}  // namespace

Expected<Answer> why_there(const PlannedModel& model, std::string_view name) {
  OPWELD_TRY(const Found found, model.names.find(name));
  if (const auto gone = answer_for_gone(found)) return *gone;
  const KeptEdges kept = edges_of(model.plan, found.nodes);
  Answer answer;
  answer.happened = fmt::format("{} {}.", subject(found), whereabouts(model.plan, found));
  answer.rule = rules_for(kept, found.nodes);
  answer.change = remedies_for(kept);
  if (!kept.edges.empty()) answer.code = reason(kept.edges.front()->code).name;
  return of_plan(std::move(answer), model);
}

Expected<Answer> why_together(const PlannedModel& model, std::string_view a, std::string_view b) {
  OPWELD_TRY(Found first, model.names.find(a));
  OPWELD_TRY(Found second, model.names.find(b));
  return Pair(model, std::move(first), std::move(second)).answer();
}

}  // namespace opweld
