#include "fusion/recompute.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "fusion/boundary.h"
#include "fusion/cost.h"
#include "fusion/group_cost.h"
#include "ops/op.h"
#include "ops/stored_weights.h"

namespace opweld {

namespace {

// Operators that are computed again with a value.
constexpr std::size_t kMostCopies = 8;
// Kernels that read a value, the one that writes it among them.
constexpr std::size_t kMostKernels = 8;
// How much less must be moved: below this the model does not tell them apart.
constexpr double kMargin = 0.02;

template <typename T>
bool contains(const std::vector<T*>& list, const T* item) {
  return std::ranges::find(list, item) != list.end();
}

bool is_cheap(const Node& node) {
  if (node.num_results() != 1 || is_weight_prologue(node)) return false;
  const FusionTrait trait = op_def(node).trait;
  const bool is_map = trait == FusionTrait::Pointwise || trait == FusionTrait::Broadcast ||
                      trait == FusionTrait::View || trait == FusionTrait::Source;
  const KernelKind kind = kind_of(node);
  return is_map && (kind == KernelKind::Map || kind == KernelKind::Move);
}

// Moves elements, or rounds as IEEE 754 says: the same bits from any instruction sequence.
bool is_exact(const Node& node) {
  constexpr std::array<std::string_view, 10> kRounded = {"add", "sub", "mul", "div",    "neg",
                                                         "abs", "max", "min", "select", "cast"};
  return op_def(node).trait != FusionTrait::Pointwise ||
         std::ranges::find(kRounded, node.op()) != kRounded.end();
}

class Recomputing {
 public:
  Recomputing(std::vector<Kernel>& kernels, const Groups& groups, const PlanOptions& options)
      : kernels_(kernels), groups_(groups), options_(options), costs_(kernels.size()) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      for (const Node* node : kernels[i].nodes) holders_[node].insert(i);
    }
  }

  std::vector<Recomputation> run() {
    std::vector<Recomputation> made;
    // Readers first: what they compute again may come of something that is then read by them all.
    for (std::size_t i = kernels_.size(); i-- > 0;) {
      const std::vector<Value*> outputs = kernels_[i].outputs;
      for (auto value = outputs.rbegin(); value != outputs.rend(); ++value) {
        if (auto recomputation = recompute(**value, i)) made.push_back(std::move(*recomputation));
      }
    }
    std::erase_if(kernels_, [](const Kernel& kernel) { return kernel.nodes.empty(); });
    return made;
  }

 private:
  using Kernels = std::map<std::size_t, Kernel>;  // by their places

  std::optional<Recomputation> recompute(const Value& value, std::size_t writer) {
    const auto readers = readers_of(value);
    if (!readers) return std::nullopt;
    const auto copies = copies_for(value, kernels_[writer]);
    if (!copies) return std::nullopt;
    auto changed = with_copies(*copies, *readers, writer);
    if (!changed || !pays(*changed) || !gives_the_same(value, *copies, *readers))
      return std::nullopt;
    Recomputation result;
    result.value = &value;
    result.kernels = static_cast<int>(readers->size());
    for (const auto& [place, kernel] : *changed) {
      result.bytes_saved += bytes_of(kernels_[place]) - bytes_of(kernel);
    }
    // What only saves a launch would depend on sizes, and bring nothing where they are large.
    if (nominal_value(result.bytes_saved, options_.nominal_size) < 0) return std::nullopt;
    result.flops_added = flops_added(*copies, *changed);
    apply(std::move(*changed));
    return result;
  }

  // The kernels that read the value, the one that writes it too if it does; absent where they are
  // not several, or too many, or where it is wanted in memory.
  [[nodiscard]] std::optional<std::set<std::size_t>> readers_of(const Value& value) const {
    if (value.is_graph_output() || !is_cheap(*value.producer())) return std::nullopt;
    std::set<std::size_t> readers;
    for (const Use& use : value.uses()) {
      const auto found = holders_.find(use.node);
      if (found == holders_.end()) return std::nullopt;  // a reshape of the memory
      readers.insert(found->second.begin(), found->second.end());
    }
    if (readers.size() < 2 || readers.size() > kMostKernels) return std::nullopt;
    return readers;
  }

  // What makes the value of what lies in memory, in order; absent where that is no little work.
  [[nodiscard]] std::optional<std::vector<Node*>> copies_for(const Value& value,
                                                             const Kernel& writer) const {
    std::vector<Node*> copies = {value.producer()};
    for (std::size_t next = 0; next < copies.size(); ++next) {
      if (!is_cheap(*copies[next]) || copies.size() > kMostCopies) return std::nullopt;
      for (const Value* operand : copies[next]->operands()) {
        if (operand == nullptr || operand->producer() == nullptr) continue;
        Node* const producer = operand->producer();
        const bool is_inside = contains(writer.nodes, producer) &&
                               std::ranges::find(writer.outputs, operand) == writer.outputs.end();
        if (is_inside && !contains(copies, producer)) copies.push_back(producer);
      }
    }
    std::ranges::sort(copies, {}, [this](const Node* node) { return groups_.position(node); });
    return copies;
  }

  // The kernels that would be others; absent where a rule speaks against one of them.
  [[nodiscard]] std::optional<Kernels> with_copies(const std::vector<Node*>& copies,
                                                   const std::set<std::size_t>& readers,
                                                   std::size_t writer) const {
    Kernels changed;
    for (const std::size_t reader : readers) {
      if (reader == writer) continue;
      auto kernel = with_copies(copies, kernels_[reader]);
      if (!kernel) return std::nullopt;
      changed.emplace(reader, std::move(*kernel));
    }
    Kernel rest = kernels_[writer];
    if (!readers.contains(writer)) {
      remove(copies, rest);
      // Reshapes and the like, which it had beside: not worth a kernel of their own.
      const auto is_view = [](const Node* node) { return is_strided_view(*node); };
      if (!rest.nodes.empty() && std::ranges::all_of(rest.nodes, is_view)) return std::nullopt;
    }
    changed.emplace(writer, std::move(rest));
    for (auto& [place, kernel] : changed) mark_copies(kernel, changed);
    for (auto& [place, kernel] : changed) {
      find_boundary(kernel);
      if (place != writer && !is_allowed(copies, kernels_[place], kernel)) return std::nullopt;
    }
    return changed;
  }

  [[nodiscard]] std::optional<Kernel> with_copies(const std::vector<Node*>& copies,
                                                  Kernel kernel) const {
    if (kernel.kind == KernelKind::Extern) return std::nullopt;
    if (kernel.kind == KernelKind::Move) kernel.kind = KernelKind::Map;
    for (Node* node : copies) {
      if (!contains(kernel.nodes, node)) kernel.nodes.push_back(node);
    }
    std::ranges::sort(kernel.nodes, {},
                      [this](const Node* node) { return groups_.position(node); });
    return kernel;
  }

  // With those of them that nothing else in the kernel reads, and nobody wants written.
  static void remove(const std::vector<Node*>& copies, Kernel& kernel) {
    for (const Node* node : copies | std::views::reverse) {
      const Value* const made = node->result();
      const bool is_read = std::ranges::any_of(
          made->uses(), [&](const Use& use) { return contains(kernel.nodes, use.node); });
      if (!is_read) std::erase(kernel.nodes, node);
    }
  }

  // Those of its nodes that other kernels hold as well, as they would be.
  void mark_copies(Kernel& kernel, const Kernels& changed) const {
    kernel.recomputed.clear();
    for (Node* node : kernel.nodes) {
      if (num_holders(node, changed) > 1) kernel.recomputed.push_back(node);
    }
  }

  [[nodiscard]] std::size_t num_holders(const Node* node, const Kernels& changed) const {
    std::size_t count = 0;
    const std::set<std::size_t>& before = holders_.at(node);
    for (const std::size_t holder : before) count += changed.contains(holder) ? 0 : 1;
    for (const auto& [place, kernel] : changed) count += contains(kernel.nodes, node) ? 1 : 0;
    return count;
  }

  // By the rules that go by the groups, and by limits. Whether a schedule serves the kernel is
  // asked where it pays.
  [[nodiscard]] bool is_allowed(const std::vector<Node*>& copies, const Kernel& before,
                                const Kernel& after) const {
    Group producer;
    producer.nodes = copies;
    Group consumer;
    consumer.kind = before.kind;
    consumer.nodes = before.nodes;
    if (check_stream(producer, consumer) || check_dtype(producer, consumer)) return false;
    const MergeCandidate candidate{groups_, producer, consumer, copies.back()->result(), after};
    return !check_without(candidate, options_) && !check_limit(candidate, options_) &&
           !check_format(candidate, options_);
  }

  bool pays(const Kernels& changed) {
    double moving_before = 0;
    double moving_after = 0;
    for (const auto& [place, kernel] : changed) {
      moving_before += least_moving_seconds(kernels_[place], options_);
      if (!kernel.nodes.empty()) moving_after += least_moving_seconds(kernel, options_);
    }
    // Of what is moved schedules need not be asked.
    if (moving_after > moving_before * (1 - kMargin)) return false;
    GroupCost before;
    GroupCost after;
    for (const auto& [place, kernel] : changed) {
      if (!kernel.nodes.empty() && !may_be_made(kernel, options_)) return false;
      add(before, cost_before(place));
      if (!kernel.nodes.empty()) add(after, group_cost(kernel, options_));
    }
    return after.moving_seconds <= before.moving_seconds * (1 - kMargin) &&
           after.seconds <= before.seconds;
  }

  static void add(GroupCost& sum, const GroupCost& cost) {
    sum.seconds += cost.seconds;
    sum.moving_seconds += cost.moving_seconds;
  }

  const GroupCost& cost_before(std::size_t place) {
    std::optional<GroupCost>& cost = costs_[place];
    if (!cost) cost = group_cost(kernels_[place], options_);
    return *cost;
  }

  [[nodiscard]] bool gives_the_same(const Value& value, const std::vector<Node*>& copies,
                                    const std::set<std::size_t>& readers) const {
    return std::ranges::all_of(copies, [](const Node* node) { return is_exact(*node); }) ||
           !any_feeds_another(value, readers);
  }

  // Whether some of the kernels waits for another of them, on whatever way but by the value itself,
  // which each is to compute.
  [[nodiscard]] bool any_feeds_another(const Value& value,
                                       const std::set<std::size_t>& readers) const {
    std::set<const Node*> behind;  // of kernels that one of the readers feeds, and these
    for (std::size_t i = *readers.begin(); i <= *readers.rbegin(); ++i) {
      const auto is_behind = [&](const Value* input) {
        if (input == &value) return false;
        const Node* producer = input->producer();
        while (producer != nullptr && !holders_.contains(producer) && is_alias(*producer)) {
          producer = producer->operand(0)->producer();
        }
        return behind.contains(producer);
      };
      const Kernel& kernel = kernels_[i];
      const bool waits = std::ranges::any_of(kernel.inputs, is_behind);
      if (waits && readers.contains(i)) return true;
      if (waits || readers.contains(i)) behind.insert(kernel.nodes.begin(), kernel.nodes.end());
    }
    return false;
  }

  static Dim bytes_of(const Kernel& kernel) {
    return FusionPlan::bytes_read(kernel) + FusionPlan::bytes_written(kernel);
  }

  [[nodiscard]] Dim flops_added(const std::vector<Node*>& copies, const Kernels& changed) const {
    Dim flops = 0;
    for (const Node* node : copies) {
      const auto more = static_cast<std::int64_t>(num_holders(node, changed)) -
                        static_cast<std::int64_t>(holders_.at(node).size());
      const auto each = static_cast<std::int64_t>(flops_per_element(*node));
      flops += node->result()->type().num_elements() * Dim(each * more);
    }
    return flops;
  }

  void apply(Kernels changed) {
    std::set<const Node*> touched;
    for (auto& [place, kernel] : changed) {
      for (const Node* node : kernels_[place].nodes) holders_[node].erase(place);
      for (const Node* node : kernel.nodes) holders_[node].insert(place);
      touched.insert(kernels_[place].nodes.begin(), kernels_[place].nodes.end());
      kernels_[place] = std::move(kernel);
      costs_[place].reset();
    }
    // A node that was computed here and in one other place is no copy there any more.
    for (const Node* node : touched) {
      const std::set<std::size_t>& holders = holders_[node];
      if (holders.size() == 1) std::erase(kernels_[*holders.begin()].recomputed, node);
    }
  }

  std::vector<Kernel>& kernels_;
  const Groups& groups_;
  const PlanOptions& options_;
  std::vector<std::optional<GroupCost>> costs_;
  std::map<const Node*, std::set<std::size_t>> holders_;  // where each node is computed
};

}  // namespace

std::vector<Recomputation> recompute_forks(std::vector<Kernel>& kernels, const Groups& groups,
                                           const PlanOptions& options) {
  return Recomputing(kernels, groups, options).run();
}

}  // namespace opweld
