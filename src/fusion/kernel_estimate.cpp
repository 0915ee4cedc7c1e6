#include "fusion/kernel_estimate.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fusion/structure.h"

namespace opweld {

namespace {

struct Memory {
  GroupOracle oracle;
  Structures structures;
  std::unordered_map<Structures::Key, Expected<KernelEstimate>, StructureHash> answers;
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

}  // namespace

KernelOracle remembered(GroupOracle oracle) {
  const auto memory = std::make_shared<Memory>();
  memory->oracle = std::move(oracle);
  return [memory](const Kernel& kernel) -> Expected<KernelEstimate> {
    Structures::Key key = memory->structures.key_of(kernel);
    const auto known = memory->answers.find(key);
    if (known != memory->answers.end()) return known->second;
    auto answer = memory->oracle(extract_group(kernel), kernel.kind);
    if (answer) answer->work = remembered(std::move(answer->work));
    memory->answers.emplace(std::move(key), answer);
    return answer;
  };
}

}  // namespace opweld
