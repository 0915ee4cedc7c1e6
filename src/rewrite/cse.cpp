#include "rewrite/cse.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace opweld {

namespace {

std::size_t combine(std::size_t seed, std::size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2));
}

// Ends of a constant's bytes. A large model has thousands of constants of one shape, and no
// operands tell them apart; all of their bytes would be all of the weights.
std::size_t hash_of_ends(const Tensor& value) {
  constexpr std::size_t kHashed = 64;
  const auto bytes = static_cast<std::size_t>(value.num_bytes());
  const auto* const begin = reinterpret_cast<const char*>(value.data());
  const std::size_t size = std::min(kHashed, bytes);
  const std::hash<std::string_view> hash_text;
  return combine(hash_text({begin, size}), hash_text({begin + (bytes - size), size}));
}

// Other attributes are left to the comparison: most nodes with equal operator and operands have
// equal ones.
std::size_t hash(const Node& node) {
  std::size_t result = std::hash<std::string>{}(node.op());
  if (node.op() == "constant") {
    result = combine(result, hash_of_ends(node.attributes().tensor("value")));
  }
  for (const Value* operand : node.operands()) {
    result = combine(result, std::hash<const void*>{}(operand));
  }
  for (const Dim& dim : node.result()->shape()) result = combine(result, dim.hash());
  return result;
}

bool equal(const Node& a, const Node& b) {
  return a.op() == b.op() && a.source().stream == b.source().stream &&
         std::ranges::equal(a.operands(), b.operands()) && a.num_results() == b.num_results() &&
         a.result()->type() == b.result()->type() && a.attributes() == b.attributes();
}

}  // namespace

Status eliminate_common_subexpressions(Graph& graph) {
  std::unordered_multimap<std::size_t, Node*> seen;
  for (Node* node : graph.nodes_in_order()) {
    const std::size_t key = hash(*node);
    const auto [first, last] = seen.equal_range(key);
    const auto same =
        std::find_if(first, last, [&](const auto& entry) { return equal(*entry.second, *node); });
    if (same == last) {
      seen.emplace(key, node);
      continue;
    }
    for (int i = 0; i < node->num_results(); ++i) {
      graph.replace_all_uses(node->result(i), same->second->result(i));
    }
    graph.erase(node);
  }
  return {};
}

}  // namespace opweld
