#include "fusion/kernel_estimate.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fusion/structure.h"

namespace opweld {

namespace {

using Answer = Expected<KernelEstimate>;

// A kernel by the very nodes and outputs, from which all else of it follows: its kind, its nodes, a
// null, and its outputs.
using Parts = std::vector<std::uintptr_t>;

Parts parts_of(const Kernel& kernel) {
  Parts parts;
  parts.reserve(kernel.nodes.size() + kernel.outputs.size() + 2);
  parts.push_back(static_cast<std::uintptr_t>(kernel.kind));
  for (const Node* node : kernel.nodes) parts.push_back(reinterpret_cast<std::uintptr_t>(node));
  parts.push_back(0);
  for (const Value* output : kernel.outputs) {
    parts.push_back(reinterpret_cast<std::uintptr_t>(output));
  }
  return parts;
}

struct PartsHash {
  std::size_t operator()(const Parts& parts) const {
    // Fowler, Noll and Vo, FNV-1a, by whole numbers; the lowest bits of addresses are all alike.
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::uintptr_t each : parts) hash = (hash ^ (each >> 4) ^ each) * 0x100000001b3;
    return hash;
  }
};

struct Memory {
  GroupOracle oracle;
  Structures structures;
  std::unordered_map<Structures::Key, std::shared_ptr<const Answer>, StructureHash> answers;
  // The same by the very nodes: plans for several sizes are made of the same kernels for the most
  // part, and a search comes back to each of its kernels.
  std::unordered_map<Parts, std::shared_ptr<const Answer>, PartsHash> asked;
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
    std::shared_ptr<const Answer>& known = memory->asked[parts_of(kernel)];
    if (known == nullptr) known = answer(*memory, kernel);
    return *known;
  };
}

}  // namespace opweld
