#include "fusion/kernel_estimate.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fusion/node_key.h"
#include "fusion/structure.h"

namespace opweld {

namespace {

using Answer = Expected<KernelEstimate>;

// All else of a kernel follows from its kind, its nodes and its outputs.
NodeKey key_of(const Kernel& kernel) {
  NodeKey key;
  key.reserve(kernel.nodes.size() + kernel.outputs.size() + 2);
  key.push_back(static_cast<std::uintptr_t>(kernel.kind));
  append_to(key, kernel.nodes);
  key.push_back(0);
  append_to(key, kernel.outputs);
  return key;
}

struct Memory {
  GroupOracle oracle;
  Structures structures;
  std::unordered_map<Structures::Key, std::shared_ptr<const Answer>, StructureHash> answers;
  // The same by the very nodes: plans for several sizes are made of the same kernels for the most
  // part, and a search comes back to each of its kernels.
  std::unordered_map<NodeKey, std::shared_ptr<const Answer>, NodeKeyHash> asked;
};

using WorkAt = std::function<Expected<Work>(const Bindings& sizes)>;

// Counts once for each choice of sizes; there are few.
WorkAt remembered(WorkAt work) {
  const auto known = std::make_shared<std::vector<std::pair<Bindings, Expected<Work>>>>();
  return [work = std::move(work), known](const Bindings& sizes) {
    const auto found =
        std::ranges::find(*known, sizes, &std::pair<Bindings, Expected<Work>>::first);
    if (found != known->end()) return found->second;
    return known->emplace_back(sizes, work(sizes)).second;
  };
}

std::shared_ptr<const Answer> answer(Memory& memory, const Kernel& kernel) {
  std::shared_ptr<const Answer>& known = memory.answers[memory.structures.key_of(kernel)];
  if (known == nullptr) {
    Answer made = memory.oracle(extract_group(kernel), kernel.kind);
    if (made) made->work = remembered(std::move(made->work));
    known = std::make_shared<const Answer>(std::move(made));
  }
  return known;
}

}  // namespace

KernelOracle remembered(GroupOracle oracle) {
  const auto memory = std::make_shared<Memory>();
  memory->oracle = std::move(oracle);
  return [memory](const Kernel& kernel) -> Answer {
    std::shared_ptr<const Answer>& known = memory->asked[key_of(kernel)];
    if (known == nullptr) known = answer(*memory, kernel);
    return *known;
  };
}

}  // namespace opweld
