#include "fusion/structure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/text.h"

namespace opweld {

namespace {

std::string type_text(const Value& value) {
  std::string text = to_string(value.type());
  if (value.contents()) text += fmt::format(" of <{}>", fmt::join(*value.contents(), ", "));
  return text;
}

std::string constant_text(const Node& node) {
  const bool is_number = node.attributes().tensor("value").num_elements() == 1;
  return "constant " + (is_number ? to_text(node.attributes()) : to_string(node.result()->type()));
}

std::string node_text(const Node& node) {
  if (node.op() == "constant") return constant_text(node);
  std::string text = fmt::format("{} {}", node.op(), to_text(node.attributes()));
  for (const Value* operand : node.operands()) {
    text += operand == nullptr ? " _" : " " + type_text(*operand);
  }
  for (int i = 0; i < node.num_results(); ++i) text += " -> " + type_text(*node.result(i));
  return text;
}

template <typename T>
std::int32_t index_in(const std::vector<T*>& list, const Value* value) {
  return static_cast<std::int32_t>(std::find(list.begin(), list.end(), value) - list.begin());
}

}  // namespace

std::int32_t Structures::signature_of(const Node& node) {
  const auto [known, is_new] = signature_of_.try_emplace(&node, 0);
  if (is_new) {
    const auto next = static_cast<std::int32_t>(signatures_.size());
    known->second = signatures_.try_emplace(node_text(node), next).first->second;
  }
  return known->second;
}

Structures::Key Structures::key_of(const Kernel& kernel) {
  // Where a value comes from: absent, the n-th input, the n-th constant, a result of the n-th node.
  enum class Origin : std::int32_t { Absent, Input, Constant, Node };
  Key key = {static_cast<std::int32_t>(kernel.kind)};
  for (const Value* constant : kernel.constants) key.push_back(signature_of(*constant->producer()));
  for (const Node* node : kernel.nodes) {
    key.push_back(signature_of(*node));
    for (const Value* operand : node->operands()) {
      if (operand == nullptr) {
        key.push_back(static_cast<std::int32_t>(Origin::Absent));
        continue;
      }
      const auto made = std::find(kernel.nodes.begin(), kernel.nodes.end(), operand->producer());
      const Node* producer = operand->producer();
      if (made != kernel.nodes.end()) {
        key.push_back(static_cast<std::int32_t>(Origin::Node));
        key.push_back(static_cast<std::int32_t>(made - kernel.nodes.begin()));
        key.push_back(operand->result_index());
      } else if (producer != nullptr && producer->op() == "constant") {
        key.push_back(static_cast<std::int32_t>(Origin::Constant));
        key.push_back(index_in(kernel.constants, operand));
      } else {
        key.push_back(static_cast<std::int32_t>(Origin::Input));
        key.push_back(index_in(kernel.inputs, operand));
      }
    }
    for (int i = 0; i < node->num_results(); ++i) {
      const auto& outputs = kernel.outputs;
      key.push_back(std::find(outputs.begin(), outputs.end(), node->result(i)) != outputs.end());
    }
  }
  return key;
}

std::size_t StructureHash::operator()(const Structures::Key& key) const {
  // Fowler, Noll and Vo, FNV-1a, by whole numbers instead of bytes.
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::int32_t each : key) {
    hash = (hash ^ static_cast<std::uint32_t>(each)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace opweld
