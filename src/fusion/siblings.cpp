#include "fusion/siblings.h"

#include <algorithm>
#include <span>
#include <vector>

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

// A kernel, and what it reads of what its siblings read of.
struct Reader {
  Group* group;
  const Value* value;
};

// The kernels that read one of the values, in the order of their first nodes.
std::vector<Reader> readers_of(std::span<const Value* const> values, Groups& groups) {
  std::vector<Reader> readers;
  for (const Value* value : values) {
    for (const Use& use : value->uses()) {
      Group* const group = groups.group_of(use.node);
      const bool is_known = std::ranges::count(readers, group, &Reader::group) > 0;
      if (may_have_siblings(*group) && !is_known) readers.push_back({group, value});
    }
  }
  std::ranges::sort(readers, {}, [&groups](const Reader& reader) {
    return groups.position(reader.group->nodes.front());
  });
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

int merge_readers(std::span<const Value* const> values, const PlanOptions& options,
                  Merging& merging) {
  int merged = 0;
  const std::vector<Reader> readers = readers_of(values, merging.groups());
  for (std::size_t i = 0; i < readers.size(); ++i) {
    for (std::size_t j = i + 1; j < readers.size(); ++j) {
      Group& first = *readers[i].group;
      Group& second = *readers[j].group;
      if (!merging.may_be_siblings(first, second)) continue;
      if (!is_worthwhile(first, second, merging.groups(), options)) continue;
      if (!merging.merge_siblings(first, second, readers[i].value)) continue;
      ++merged;
      break;  // the second one has both now
    }
  }
  return merged;
}

// What the kernel makes for others.
std::vector<const Value*> outputs_of(const Group& maker, Groups& groups) {
  std::vector<const Value*> outputs;
  for (const Node* node : maker.nodes) {
    for (int i = 0; i < node->num_results(); ++i) {
      const auto& uses = node->result(i)->uses();
      const bool leaves = std::ranges::any_of(
          uses, [&](const Use& use) { return groups.group_of(use.node) != &maker; });
      if (leaves) outputs.push_back(node->result(i));
    }
  }
  return outputs;
}

}  // namespace

int merge_siblings(const Graph& graph, const PlanOptions& options, Merging& merging) {
  if (options.rules == RuleSet::Linear) return 0;
  int merged = 0;
  const auto merge_readers_of = [&](const Value* value) {
    merged += merge_readers({&value, 1}, options, merging);
  };
  for (const Value* input : graph.inputs()) merge_readers_of(input);
  for (const Node* node : graph.nodes_in_order()) {
    if (node->op() == "constant") continue;
    for (int i = 0; i < node->num_results(); ++i) {
      merge_readers_of(node->result(i));
    }
  }
  // Then those that read what one kernel makes, be it not the same: nobody waits for it longer.
  for (const Group* maker : merging.groups().in_order()) {
    if (maker->nodes.empty()) continue;  // it went into another
    const std::vector<const Value*> outputs = outputs_of(*maker, merging.groups());
    if (outputs.size() > 1) merged += merge_readers(outputs, options, merging);
  }
  return merged;
}

}  // namespace opweld
