#include "graph/verifier.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace opweld {
namespace {

// "add '/layers.0/Add' (node 7)"
std::string label(const Node& node) {
  return node.source().name.empty()
             ? fmt::format("{} (node {})", node.op(), node.id())
             : fmt::format("{} '{}' (node {})", node.op(), node.source().name, node.id());
}

class StructureVerifier {
 public:
  explicit StructureVerifier(const Graph& graph) : graph_(graph) {}

  Status verify() {
    OPWELD_CHECK(check_inputs());
    for (const auto& node : graph_.nodes()) OPWELD_CHECK(check_node(*node));
    OPWELD_CHECK(check_outputs());
    return check_uses();
  }

 private:
  Status check_inputs() {
    std::unordered_set<std::string_view> names;
    for (const Value* input : graph_.inputs()) {
      if (!names.insert(input->name()).second) {
        return fail("two inputs are named '{}'", input->name());
      }
      if (input->producer() != nullptr) {
        return fail("input '{}' claims a producer", input->name());
      }
      OPWELD_CHECK(check_value(*input, fmt::format("input '{}'", input->name())));
    }
    return {};
  }

  Status check_node(const Node& node) {
    if (!ids_.insert(node.id()).second) return fail("{}: its id is not unique", label(node));
    for (int index = 0; index < node.num_operands(); ++index) {
      const Value* operand = node.operand(index);
      if (operand == nullptr) continue;
      if (!defined_.contains(operand)) {
        return fail("{}: operand {} is not defined before it", label(node), index);
      }
      ++reads_[operand];
    }
    for (int index = 0; index < node.num_results(); ++index) {
      const Value* result = node.result(index);
      const std::string name = fmt::format("{}, result {}", label(node), index);
      if (result->producer() != &node || result->result_index() != index) {
        return fail("{}: does not know its producer", name);
      }
      OPWELD_CHECK(check_value(*result, name));
    }
    return {};
  }

  // What holds for every value; marks it as defined.
  Status check_value(const Value& value, const std::string& name) {
    defined_.insert(&value);
    values_.push_back(&value);
    for (const Dim& size : value.shape()) {
      if (size.is_overflow()) return fail("{}: a size overflows 64 bits", name);
      if (size.upper_bound() < 0) return fail("{}: a size is negative: {}", name, size);
      OPWELD_CHECK(check_symbols(size, name));
    }
    if (!value.contents()) return {};
    if (is_float(value.dtype())) {
      return fail("{}: only integer and bool tensors have contents, this is {}", name,
                  to_string(value.type()));
    }
    const Dim expected = value.type().num_elements();
    if (expected != Dim(value.contents()->size())) {
      return fail("{}: has {} elements, but {} contents", name, expected, value.contents()->size());
    }
    for (const Dim& element : *value.contents()) OPWELD_CHECK(check_symbols(element, name));
    return {};
  }

  // One name means one symbol, with one range.
  Status check_symbols(const Dim& dim, const std::string& name) {
    if (dim.is_constant()) return {};
    std::vector<std::shared_ptr<const SymbolInfo>> symbols;
    dim.collect_symbols(symbols);
    for (const auto& symbol : symbols) {
      if (auto status = symbols_.add(*symbol); !status) {
        return tl::unexpected(status.error().with_context(name));
      }
    }
    return {};
  }

  Status check_outputs() {
    std::unordered_set<const Value*> given_out;
    for (const Graph::Output& output : graph_.outputs()) {
      if (!defined_.contains(output.value)) {
        return fail("output '{}' is not a value of this graph", output.name);
      }
      if (const Value* input = output.in_place_of) {
        const auto inputs = graph_.inputs();
        if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) {
          return fail("output '{}' lies in place of what is no input", output.name);
        }
      }
      given_out.insert(output.value);
    }
    for (const Value* value : values_) {
      if (value->is_graph_output() != given_out.contains(value)) {
        return fail("value '{}' is mistaken about being an output", value->name());
      }
    }
    return {};
  }

  // The lists of uses say what the operands say: every entry is true, and there are as many.
  Status check_uses() {
    for (const Value* value : values_) {
      for (const Use& use : value->uses()) {
        if (use.index >= use.node->num_operands() || use.node->operand(use.index) != value) {
          return fail("{}: operand {} is not what its value says", label(*use.node), use.index);
        }
      }
      if (value->uses().size() != reads_[value]) {
        return fail("value '{}' lists {} uses, but is read {} times", value->name(),
                    value->uses().size(), reads_[value]);
      }
    }
    return {};
  }

  const Graph& graph_;
  std::unordered_set<int> ids_;
  std::unordered_set<const Value*> defined_;
  std::vector<const Value*> values_;  // the same in order of definition
  std::unordered_map<const Value*, std::size_t> reads_;
  SymbolTable symbols_;
};

}  // namespace

Status verify_structure(const Graph& graph) {
  return StructureVerifier(graph).verify();
}

}  // namespace opweld
