#include "fusion/region_bound.h"

#include <algorithm>
#include <cmath>

#include "fusion/cost.h"
#include "fusion/kernel_kind.h"

namespace opweld {

namespace {

bool is_constant(const Value& value) {
  return value.producer() != nullptr && value.producer()->op() == "constant";
}

bool reads_a_part(const Use& use) {
  return use.index == 0 && (use.node->op() == "slice" || use.node->op() == "gather");
}

bool reads_nothing(const Use& use) {
  return use.index == 0 && scatters_in_place(*use.node);
}

// A reshape that is in no kernel makes nothing and reads nothing: its result is its operand's
// memory, and what is counted of the one may be moved as the other.
bool is_renamed(const Value& value) {
  const bool renames = value.producer() != nullptr && is_alias(*value.producer());
  return renames ||
         std::ranges::any_of(value.uses(), [](const Use& use) { return is_alias(*use.node); });
}

}  // namespace

// Tasks of every schedule have few rows, or a piece of one, and go through all that is reduced.
bool has_many_tasks(const Node& node, const PlanOptions& options) {
  constexpr double kElementsOfTask = 4096;
  const std::int64_t nominal = options.nominal_size;
  const Shape& shape = node.result()->shape();
  const double elements = nominal_elements(shape, nominal);
  switch (kind_of(node)) {
    case KernelKind::Map:
    case KernelKind::Move:
    case KernelKind::Row:
      return !shape.empty() && elements > nominal_elements({shape.back()}, nominal);
    case KernelKind::Contract:
      return elements > kElementsOfTask;
    default:
      return false;
  }
}

RegionBound::RegionBound(const std::vector<Node*>& nodes, const PlanOptions& options)
    : options_(options) {
  for (const Node* node : nodes) vertices_.emplace(node, add_vertex());
  std::vector<const Value*> from_outside;
  for (const Node* node : nodes) {
    if (!has_many_tasks(*node, options)) ++may_be_one_task_;
    for (int i = 0; i < node->num_results(); ++i) add_internal(*node->result(i));
    for (const Value* operand : node->operands()) {
      if (operand == nullptr || vertices_.contains(operand->producer())) continue;
      if (std::ranges::find(from_outside, operand) == from_outside.end()) {
        from_outside.push_back(operand);
      }
    }
  }
  for (const Value* value : from_outside) add_shared(*value, nodes);
}

double RegionBound::bytes_of(const Value& value) const {
  return nominal_elements(value.shape(), options_.nominal_size) * byte_size(value.dtype());
}

double RegionBound::read_bytes(const Value& value, bool all_readers) const {
  const double whole = bytes_of(value);
  double parts = 0;
  double least = whole;
  bool any_whole = false;
  for (const Use& use : value.uses()) {
    if (!vertices_.contains(use.node)) continue;
    double bytes = whole;
    if (reads_nothing(use)) bytes = 0;
    if (reads_a_part(use)) bytes = std::min(whole, bytes_of(*use.node->result()));
    any_whole = any_whole || (!reads_nothing(use) && !reads_a_part(use));
    parts += bytes;
    least = std::min(least, bytes);
  }
  if (!all_readers) return least;
  return any_whole ? whole : std::min(parts, whole);
}

double RegionBound::move_seconds(double bytes, bool from_memory) const {
  const Target& target = *options_.target;
  const double cached = std::max(target.bandwidth, target.cache_bandwidth * target.cores);
  return bytes / (from_memory ? target.bandwidth : cached);
}

double RegionBound::launch_seconds(int kernels) const {
  return std::max(0, kernels - may_be_one_task_) * options_.target->launch_seconds;
}

void RegionBound::add_internal(const Value& value) {
  const Node& maker = *value.producer();
  std::vector<int> readers;
  bool read_outside = value.is_graph_output();
  for (const Use& use : value.uses()) {
    const auto reader = vertices_.find(use.node);
    read_outside = read_outside || reader == vertices_.end();
    if (reader != vertices_.end()) readers.push_back(reader->second);
  }
  const Value* const written = scatters_in_place(maker) ? maker.operand(1) : &value;
  const double write = move_seconds(bytes_of(*written), false);
  const bool renamed = is_renamed(value);
  if (read_outside && !renamed) edge_seconds_ += write;
  if (readers.empty()) return;
  const int crossing = add_vertex();
  const double read = move_seconds(read_bytes(value, false), false);
  connect(vertices_.at(&maker), crossing, renamed ? 0 : read + (read_outside ? 0 : write));
  for (const int reader : readers) {
    connect(crossing, reader, HUGE_VAL);
    connect(reader, vertices_.at(&maker), HUGE_VAL);  // nothing leads back over a cut
  }
}

void RegionBound::add_shared(const Value& value, std::span<Node* const> nodes) {
  if (is_renamed(value)) return;
  std::vector<int> readers;
  bool whole = true;
  for (const Use& use : value.uses()) {
    const auto reader = vertices_.find(use.node);
    if (reader == vertices_.end()) continue;
    readers.push_back(reader->second);
    whole = whole && !reads_a_part(use) && !reads_nothing(use);
  }
  const bool from_memory = whole && is_constant(value);
  const double read = move_seconds(read_bytes(value, true), from_memory);
  edge_seconds_ += read;
  if (!whole || readers.size() < 2 || nodes.size() < 2) return;
  const int in = add_vertex();
  const int out = add_vertex();
  connect(in, out, read);
  for (const int reader : readers) {
    connect(reader, in, HUGE_VAL);
    connect(out, reader, HUGE_VAL);
  }
}

int RegionBound::add_vertex() {
  leaving_.emplace_back();
  return static_cast<int>(leaving_.size()) - 1;
}

void RegionBound::connect(int from, int to, double room) {
  leaving_[static_cast<std::size_t>(from)].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({to, room});
  leaving_[static_cast<std::size_t>(to)].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({from, 0});
}

double RegionBound::apart(const Node* producer, const Node* consumer, double enough) const {
  const int source = vertices_.at(producer);
  const int sink = vertices_.at(consumer);
  std::vector<Arc> arcs = arcs_;
  double total = edge_seconds_ + launch_seconds(2);
  // Shortest paths first (Edmonds and Karp 1972), so that there are few.
  while (total <= enough) {
    std::vector<int> reached_by(leaving_.size(), -1);
    std::vector<int> reached = {source};
    for (std::size_t i = 0; i < reached.size() && reached_by[static_cast<std::size_t>(sink)] < 0;
         ++i) {
      for (const int leaving : leaving_[static_cast<std::size_t>(reached[i])]) {
        const Arc& arc = arcs[static_cast<std::size_t>(leaving)];
        int& by = reached_by[static_cast<std::size_t>(arc.to)];
        if (arc.room <= 0 || by >= 0 || arc.to == source) continue;
        by = leaving;
        reached.push_back(arc.to);
      }
    }
    if (reached_by[static_cast<std::size_t>(sink)] < 0) break;
    double flow = HUGE_VAL;
    const auto for_each_on_path = [&](const auto& visit) {
      for (int at = sink; at != source;) {
        const auto arc = static_cast<std::size_t>(reached_by[static_cast<std::size_t>(at)]);
        visit(arcs[arc], arcs[arc ^ 1]);
        at = arcs[arc ^ 1].to;
      }
    };
    for_each_on_path([&](const Arc& arc, const Arc&) { flow = std::min(flow, arc.room); });
    if (!std::isfinite(flow)) return HUGE_VAL;
    for_each_on_path([&](Arc& arc, Arc& reverse) {
      arc.room -= flow;
      reverse.room += flow;
    });
    total += flow;
  }
  return total;
}

}  // namespace opweld
