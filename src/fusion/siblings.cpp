#include "fusion/siblings.h"

#include <algorithm>

#include "fusion/group_cost.h"

namespace opweld {

namespace {

// Of a value that more kernels read, the first ones are looked at.
constexpr std::size_t kMaxReaders = 8;

bool may_have_siblings(const Group& group) {
  const bool kind = group.kind == KernelKind::Map || group.kind == KernelKind::Row ||
                    group.kind == KernelKind::Reduce;
  return kind && !group.only_views;
}

// The kernels that read the value, in the order of their first nodes.
std::vector<Group*> readers_of(const Value& value, Groups& groups) {
  std::vector<Group*> readers;
  for (const Use& use : value.uses()) {
    Group* const group = groups.group_of(use.node);
    if (!may_have_siblings(*group) || std::ranges::count(readers, group) > 0) continue;
    readers.push_back(group);
  }
  std::ranges::sort(
      readers, {}, [&groups](const Group* group) { return groups.position(group->nodes.front()); });
  if (readers.size() > kMaxReaders) readers.resize(kMaxReaders);
  return readers;
}

// By the kernel model; so a plan with siblings is never worse than one without.
bool takes_no_longer(const Group& first, const Group& second, const Groups& groups,
                     const PlanOptions& options) {
  Group together = second;
  together.nodes = groups.union_of(first, second);
  return group_cost(together, options).seconds <=
         group_cost(first, options).seconds + group_cost(second, options).seconds;
}

// At the sizes that unknown ones are taken for, or at the smallest: the model asks of each kernel
// whether what it passes on has room in the caches, and two that follow each other, each of which
// has room, need as much of it as one in their place.
bool is_worthwhile(const Group& first, const Group& second, const Groups& groups,
                   const PlanOptions& options) {
  if (takes_no_longer(first, second, groups, options)) return true;
  PlanOptions smallest = options;
  smallest.nominal_size = 1;
  return takes_no_longer(first, second, groups, smallest);
}

int merge_readers(const Value& value, const PlanOptions& options, Merging& merging) {
  int merged = 0;
  std::vector<Group*> readers = readers_of(value, merging.groups());
  for (std::size_t i = 0; i < readers.size(); ++i) {
    for (std::size_t j = i + 1; j < readers.size(); ++j) {
      if (!merging.may_be_siblings(*readers[i], *readers[j])) continue;
      if (!is_worthwhile(*readers[i], *readers[j], merging.groups(), options)) continue;
      if (!merging.merge_siblings(*readers[i], *readers[j], &value)) continue;
      ++merged;
      break;  // the second one has both now
    }
  }
  return merged;
}

}  // namespace

int merge_siblings(const Graph& graph, const PlanOptions& options, Merging& merging) {
  if (options.rules == RuleSet::Linear) return 0;
  int merged = 0;
  for (const Value* input : graph.inputs()) merged += merge_readers(*input, options, merging);
  for (const Node* node : graph.nodes_in_order()) {
    if (node->op() == "constant") continue;
    for (int i = 0; i < node->num_results(); ++i) {
      merged += merge_readers(*node->result(i), options, merging);
    }
  }
  return merged;
}

}  // namespace opweld
