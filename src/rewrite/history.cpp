#include "rewrite/history.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>

namespace opweld {

namespace {

constexpr std::string_view kJoint = " + ";

bool is_constant(const Node& node) {
  return node.op() == "constant";
}

void add_once(std::vector<std::string>& list, const std::string& name) {
  if (std::ranges::find(list, name) == list.end()) list.push_back(name);
}

}  // namespace

std::vector<std::string> joined_names(const Node& node) {
  const std::string name = node.display_name();
  if (node.source().operators < 2) return {name};
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t end = name.find(kJoint); end != std::string::npos;
       end = name.find(kJoint, start)) {
    parts.push_back(name.substr(start, end - start));
    start = end + kJoint.size();
  }
  parts.push_back(name.substr(start));
  return parts;
}

// The graph after a pass, as far as the fate of what is gone depends on it.
struct History::After {
  std::unordered_map<int, const Node*> nodes;  // by id, constants too
  std::unordered_set<std::string> names;       // of those that compute
  const Graph& graph;
  bool takes_equals = false;  // whether the pass is one that looks for equal nodes
  // What is known so far, by index into `before_`, and the node that is read in its stead.
  std::vector<std::optional<Outcome>> fates;
  std::vector<const Node*> stand_ins;
};

History::History(const Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (is_constant(*node)) continue;
    const std::string& op = node->source().op;
    Operator entry{node->display_name(), op.empty() ? node->op() : op, {}};
    for (int i = 0; i < node->num_results(); ++i) {
      const std::string& tensor = node->result(i)->name();
      if (!tensor.empty()) entry.tensors.push_back(tensor);
    }
    operators_.push_back(std::move(entry));
  }
  take_snapshot(graph);
}

void History::take_snapshot(const Graph& graph) {
  before_.clear();
  index_of_.clear();
  for (const auto& node : graph.nodes()) {
    if (is_constant(*node)) continue;
    Entry entry{node->id(), node->display_name(), node->op(), {}, {}};
    for (int i = 0; i < node->num_results(); ++i) {
      for (const Use& use : node->result(i)->uses()) {
        entry.readers.emplace_back(use.node->id(), use.index);
      }
    }
    index_of_[entry.id] = before_.size();
    before_.push_back(std::move(entry));
  }
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const Node* const producer = graph.outputs()[i].value->producer();
    if (producer == nullptr || is_constant(*producer)) continue;
    before_[index_of_.at(producer->id())].outputs.push_back(i);
  }
}

History::Outcome History::fate_of(const Entry& entry, After& after) const {
  Outcome found{Fate::Unread, "", {}};
  const Node*& stand_in = after.stand_ins[index_of_.at(entry.id)];
  const auto part_of = [&](const std::string& name) {
    if (found.fate == Fate::Unread || found.fate == Fate::Computed) found.fate = Fate::Part;
    if (found.fate == Fate::Part) add_once(found.into, name);
  };
  // Something else is read where the entry was.
  const auto replaced_by = [&](const Value* value) {
    const Node* const producer = value != nullptr ? value->producer() : nullptr;
    if (producer == nullptr) {
      if (found.fate == Fate::Unread && value != nullptr) found.fate = Fate::Bypassed;
      return;
    }
    if (is_constant(*producer)) {
      if (found.fate == Fate::Unread) found.fate = Fate::Computed;
      return;
    }
    if (stand_in == nullptr) stand_in = producer;
    if (!index_of_.contains(producer->id())) return part_of(producer->display_name());
    if (found.fate != Fate::Unread) return;
    found.fate = after.takes_equals ? Fate::Equal : Fate::Bypassed;
    found.into = {producer->display_name()};
  };
  for (const auto& [id, operand] : entry.readers) {
    if (const auto alive = after.nodes.find(id); alive != after.nodes.end()) {
      const Node& reader = *alive->second;
      if (operand < reader.num_operands()) replaced_by(reader.operand(operand));
      continue;
    }
    const auto index = index_of_.find(id);
    if (index == index_of_.end()) continue;
    const Entry& reader = before_[index->second];
    if (after.names.contains(reader.name)) {
      part_of(reader.name);
      continue;
    }
    // The reader is gone, too: readers come behind what they read, so its fate is known.
    const auto& fate = after.fates[index->second];
    if (!fate) continue;
    const Node* const twin = after.stand_ins[index->second];
    if (fate->fate == Fate::Equal && twin != nullptr && twin->op() == reader.op &&
        operand < twin->num_operands()) {
      replaced_by(twin->operand(operand));
    } else if (fate->fate == Fate::Part) {
      for (const std::string& name : fate->into) part_of(name);
    } else if (found.fate == Fate::Unread) {
      found.fate = fate->fate;
      found.into = fate->into;
    }
  }
  for (const std::size_t output : entry.outputs) {
    if (output < after.graph.outputs().size()) replaced_by(after.graph.outputs()[output].value);
  }
  return found;
}

void History::record(std::string_view pass, const Graph& graph) {
  After after{{}, {}, graph, pass.starts_with("cse"), {}, {}};
  for (const auto& node : graph.nodes()) {
    after.nodes[node->id()] = node.get();
    if (is_constant(*node)) continue;
    after.names.insert(node->display_name());
    for (std::string& part : joined_names(*node)) after.names.insert(std::move(part));
  }
  after.fates.resize(before_.size());
  after.stand_ins.resize(before_.size());
  for (std::size_t i = before_.size(); i-- > 0;) {
    const Entry& entry = before_[i];
    const auto alive = after.nodes.find(entry.id);
    const bool gone = alive == after.nodes.end();
    if (!gone) {
      const Node& node = *alive->second;
      bool is_read = false;
      for (int k = 0; k < node.num_results(); ++k) {
        is_read |= !node.result(k)->uses().empty() || node.result(k)->is_graph_output();
      }
      if (is_read || (entry.readers.empty() && entry.outputs.empty())) continue;
    } else if (after.names.contains(entry.name)) {
      continue;
    }
    Outcome fate = fate_of(entry, after);
    fate.pass = pass;
    if (gone) {
      const auto earlier = unread_.find(entry.name);
      if (fate.fate == Fate::Unread && earlier != unread_.end()) fate = earlier->second;
      changes_.try_emplace(entry.name, fate);
      after.fates[i] = std::move(fate);
    } else {
      unread_.insert_or_assign(entry.name, std::move(fate));
    }
  }
  take_snapshot(graph);
}

History::Outcome History::outcome(const std::string& name) const {
  const auto change = changes_.find(name);
  if (change == changes_.end()) return {};
  Outcome result{change->second.fate, change->second.pass, {}};
  std::set<std::string> seen = {name};
  std::vector<std::string> pending = change->second.into;
  while (!pending.empty()) {
    const std::string next = pending.front();
    pending.erase(pending.begin());
    if (!seen.insert(next).second) continue;
    const auto later = changes_.find(next);
    if (later == changes_.end()) {
      add_once(result.into, next);
      continue;
    }
    // What it had become was no use in the end.
    if (later->second.into.empty() && pending.empty() && result.into.empty()) {
      result.fate = later->second.fate;
      result.pass = later->second.pass;
    }
    pending.insert(pending.end(), later->second.into.begin(), later->second.into.end());
  }
  return result;
}

}  // namespace opweld
