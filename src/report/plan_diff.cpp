#include "report/plan_diff.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "report/account.h"

namespace opweld {

namespace {

using Kernels = std::vector<const PlanRecord::Kernel*>;

void add_figures(PlanDiff& diff, const std::map<std::string, std::int64_t>& before,
                 const std::map<std::string, std::int64_t>& after, std::string_view prefix) {
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [name, value] : before) all[name] = {std::to_string(value), "none"};
  for (const auto& [name, value] : after) {
    auto& entry = all.try_emplace(name, "none", "").first->second;
    entry.second = std::to_string(value);
  }
  for (const auto& [name, values] : all) {
    if (values.first == values.second) continue;
    diff.figures.push_back({std::string(prefix) + name, values.first, values.second});
  }
}

bool same_kernels(Kernels before, Kernels after) {
  if (before.size() != after.size()) return false;
  for (const PlanRecord::Kernel* kernel : before) {
    const auto twin = std::ranges::find_if(
        after, [&](const PlanRecord::Kernel* other) { return kernel->equals(*other); });
    if (twin == after.end()) return false;
    after.erase(twin);
  }
  return true;
}

// Kernels of both plans that share operators, directly or through others.
std::vector<PlanDiff::Regrouping> groups_of(const PlanRecord& before, const PlanRecord& after) {
  struct Member {
    const PlanRecord::Kernel* kernel;
    bool is_after;
  };
  std::vector<Member> members;
  for (const auto& kernel : before.kernels) members.push_back({&kernel, false});
  for (const auto& kernel : after.kernels) members.push_back({&kernel, true});
  // Union-find; the root of a group is its first member, so that groups keep the order of the plan.
  std::vector<std::size_t> parent(members.size());
  for (std::size_t i = 0; i < parent.size(); ++i) parent[i] = i;
  const auto root = [&](std::size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  std::map<std::string_view, std::size_t> owner;
  for (std::size_t i = 0; i < members.size(); ++i) {
    for (const std::string& source : members[i].kernel->sources) {
      const auto [place, is_new] = owner.try_emplace(source, i);
      if (is_new) continue;
      const std::size_t a = root(place->second);
      const std::size_t b = root(i);
      parent[std::max(a, b)] = std::min(a, b);
    }
  }
  std::map<std::size_t, PlanDiff::Regrouping> groups;
  for (std::size_t i = 0; i < members.size(); ++i) {
    PlanDiff::Regrouping& group = groups[root(i)];
    (members[i].is_after ? group.after : group.before).push_back(members[i].kernel);
  }
  std::vector<PlanDiff::Regrouping> result;
  for (auto& [first, group] : groups) result.push_back(std::move(group));
  return result;
}

}  // namespace

bool PlanDiff::empty() const {
  return figures.empty() && kernels.empty() && verdicts.empty() && gone.empty() && added.empty();
}

std::string PlanDiff::summary() const {
  std::vector<std::string> parts;
  const auto add = [&](std::size_t count, std::string_view one, std::string_view many) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, count == 1 ? one : many));
  };
  add(figures.size(), "figure", "figures");
  add(kernels.size(), "group of kernels", "groups of kernels");
  add(verdicts.size(), "verdict", "verdicts");
  add(gone.size() + added.size(), "edge", "edges");
  return fmt::format("the plans differ in {}", fmt::join(parts, ", "));
}

PlanDiff compare_plans(const PlanRecord& before, const PlanRecord& after) {
  PlanDiff diff;
  if (before.level != after.level) {
    diff.figures.push_back({"fusion", before.level, after.level});
  }
  if (before.version != after.version) {
    const auto text = [](const std::string& version) {
      return version.empty() ? "the only one" : version;
    };
    diff.figures.push_back({"plan", text(before.version), text(after.version)});
  }
  add_figures(diff, before.sizes, after.sizes, "size ");
  add_figures(diff, before.totals, after.totals, "");
  for (PlanDiff::Regrouping& group : groups_of(before, after)) {
    if (!same_kernels(group.before, group.after)) diff.kernels.push_back(std::move(group));
  }
  for (const auto& [edge, verdict] : before.edges) {
    const auto other = after.edges.find(edge);
    if (other == after.edges.end()) {
      diff.gone.push_back(edge);
    } else if (verdict.code != other->second.code) {
      diff.verdicts.push_back({edge, verdict, other->second});
    }
  }
  for (const auto& [edge, verdict] : after.edges) {
    if (!before.edges.contains(edge)) diff.added.push_back(edge);
  }
  return diff;
}

// ---- as text ----

namespace {

// Changes that are alike but for numbers, in order of first appearance.
class Alike {
 public:
  void add(const std::string& text) {
    std::string key;
    for (const char c : text) {
      const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
      if (!digit) key += c;
      if (digit && (key.empty() || key.back() != '#')) key += '#';
    }
    const auto [place, is_new] = index_of_.try_emplace(key, entries_.size());
    if (is_new) {
      entries_.push_back({text, 1});
    } else {
      ++entries_[place->second].second;
    }
  }

  [[nodiscard]] std::string text() const {
    std::string result;
    for (const auto& [entry, count] : entries_) {
      result += entry;
      if (count > 1) result += fmt::format("    and {} more like it\n", count - 1);
    }
    return result;
  }

 private:
  std::map<std::string, std::size_t> index_of_;
  std::vector<std::pair<std::string, int>> entries_;
};

std::string kernel_line(char sign, const PlanRecord::Kernel& kernel) {
  constexpr std::size_t kMostNames = 8;
  const std::size_t shown = std::min(kMostNames, kernel.sources.size());
  const std::size_t rest = kernel.sources.size() - shown;
  return fmt::format("  {} {} {}{}, {} read, {} written: '{}'{}\n", sign, kernel.kind,
                     kernel.operators,
                     kernel.layer.empty() ? "" : fmt::format(" [{}]", kernel.layer),
                     human_bytes(static_cast<double>(kernel.read_bytes)),
                     human_bytes(static_cast<double>(kernel.written_bytes)),
                     fmt::join(kernel.sources.begin(),
                               kernel.sources.begin() + static_cast<std::ptrdiff_t>(shown), "', '"),
                     rest == 0 ? "" : fmt::format(" and {} more", rest));
}

std::string verdict_text(const PlanRecord::Verdict& verdict) {
  if (verdict.code.empty()) return "fused";
  if (verdict.detail.empty()) return fmt::format("kept by {}", verdict.code);
  return fmt::format("kept by {} ({})", verdict.code, verdict.detail);
}

std::string figure_text(const PlanDiff::Figure& figure) {
  const auto shown = [&](const std::string& value) {
    if (!figure.name.ends_with("_bytes") || value == "none") return value;
    return human_bytes(std::stod(value));
  };
  std::string name = figure.name;
  std::ranges::replace(name, '_', ' ');
  return fmt::format("{}: {} -> {}\n", name, shown(figure.before), shown(figure.after));
}

}  // namespace

std::string to_text(const PlanDiff& diff) {
  std::string text;
  for (const PlanDiff::Figure& figure : diff.figures) text += figure_text(figure);
  Alike kernels;
  for (const PlanDiff::Regrouping& group : diff.kernels) {
    std::string entry;
    for (const PlanRecord::Kernel* kernel : group.before) entry += kernel_line('-', *kernel);
    for (const PlanRecord::Kernel* kernel : group.after) entry += kernel_line('+', *kernel);
    kernels.add(entry);
  }
  if (!diff.kernels.empty()) text += "\nkernels\n" + kernels.text();
  Alike verdicts;
  for (const PlanDiff::VerdictChange& change : diff.verdicts) {
    verdicts.add(fmt::format("  {} | {}: {} -> {}\n", change.edge.from, change.edge.to,
                             verdict_text(change.before), verdict_text(change.after)));
  }
  if (!diff.verdicts.empty()) text += "\nverdicts\n" + verdicts.text();
  Alike edges;
  for (const auto& edge : diff.gone) edges.add(fmt::format("  - {} | {}\n", edge.from, edge.to));
  for (const auto& edge : diff.added) edges.add(fmt::format("  + {} | {}\n", edge.from, edge.to));
  if (!diff.gone.empty() || !diff.added.empty()) text += "\nedges of the graph\n" + edges.text();
  return text;
}

// ---- as JSON ----

namespace {

using Json = nlohmann::ordered_json;

Json kernels_json(const Kernels& kernels) {
  Json list = Json::array();
  for (const PlanRecord::Kernel* kernel : kernels) {
    list.push_back({{"name", kernel->name},
                    {"kind", kernel->kind},
                    {"operators", kernel->operators},
                    {"layer", kernel->layer},
                    {"sources", kernel->sources},
                    {"read_bytes", kernel->read_bytes},
                    {"written_bytes", kernel->written_bytes}});
  }
  return list;
}

Json verdict_json(const PlanRecord::Verdict& verdict) {
  return {{"verdict", verdict.code.empty() ? "fused" : "kept"},
          {"code", verdict.code},
          {"detail", verdict.detail}};
}

Json edges_json(const std::vector<PlanRecord::EdgeName>& edges) {
  Json list = Json::array();
  for (const auto& edge : edges) list.push_back({{"from", edge.from}, {"to", edge.to}});
  return list;
}

}  // namespace

std::string to_json(const PlanDiff& diff) {
  Json json = {{"equal", diff.empty()}, {"figures", Json::array()}};
  for (const PlanDiff::Figure& figure : diff.figures) {
    json["figures"].push_back(
        {{"name", figure.name}, {"before", figure.before}, {"after", figure.after}});
  }
  json["kernels"] = Json::array();
  for (const PlanDiff::Regrouping& group : diff.kernels) {
    json["kernels"].push_back(
        {{"before", kernels_json(group.before)}, {"after", kernels_json(group.after)}});
  }
  json["verdicts"] = Json::array();
  for (const PlanDiff::VerdictChange& change : diff.verdicts) {
    json["verdicts"].push_back({{"from", change.edge.from},
                                {"to", change.edge.to},
                                {"before", verdict_json(change.before)},
                                {"after", verdict_json(change.after)}});
  }
  json["edges_gone"] = edges_json(diff.gone);
  json["edges_added"] = edges_json(diff.added);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace opweld
