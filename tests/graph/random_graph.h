// Random graphs of made-up operators, and a comparison of graphs: for tests of what must hold for
// every graph.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <unordered_map>

#include "graph/graph.h"

namespace opweld::testing_support {

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  Graph make() {
    Graph graph(text());
    for (int i = below(4); i >= 0; --i) keep(graph.add_input(fmt::format("in{}", i), type()));
    for (int i = below(12); i > 0; --i) add_node(graph);
    for (int i = below(4); i > 0; --i) graph.add_output(text(), value());
    for (int i = below(3); i > 0; --i) graph.assume_equal(dim(), dim(), text());
    return graph;
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }
  bool one_in(int n) { return below(n) == 0; }
  Value* value() {
    return values_[static_cast<std::size_t>(below(static_cast<int>(values_.size())))];
  }

  void keep(Value* value) { values_.push_back(value); }

  void add_node(Graph& graph) {
    std::vector<Value*> operands;
    for (int i = below(4); i > 0; --i) operands.push_back(one_in(5) ? nullptr : value());
    Attributes attributes;
    for (int i = below(4); i > 0; --i) attributes.set(one_in(8) ? text() : word(), attribute());
    std::vector<TensorType> types;
    for (int i = below(3); i >= 0; --i) types.push_back(type());
    Source source;
    if (one_in(2)) source = {text(), one_in(2) ? text() : "", one_in(2) ? text() : ""};
    Node* node = graph.add_node(one_in(8) ? text() + "!" : word(), std::move(operands),
                                std::move(attributes), std::move(types), std::move(source));
    for (int i = 0; i < node->num_results(); ++i) {
      // Distinct names: equal ones are renamed by design.
      if (one_in(2)) node->result(i)->set_name(fmt::format("{}#{}.{}", text(), node->id(), i));
      keep(node->result(i));
    }
  }

  std::string word() {
    static constexpr const char* kWords[] = {"add", "f32x",   "inf", "nan",
                                             "_",   "return", "a.b", "op"};
    return kWords[below(8)];
  }

  std::string text() {
    std::string result;
    for (int i = below(8); i > 0; --i) result += static_cast<char>(below(one_in(3) ? 256 : 128));
    return one_in(2) ? word() : result;
  }

  Dim symbol() {
    switch (below(4)) {
      case 0:
        return Dim::symbol("b");
      case 1:
        return Dim::symbol("s", {1, 512, 8});
      case 2:
        return Dim::symbol("t_2", {3, 3, 1});
      default:
        return Dim::symbol("odd/name \"\\\n", {0, 9, 1});
    }
  }

  Dim dim() {
    switch (below(7)) {
      case 0:
        return below(9);
      case 1:
        return symbol() * (1 + below(5)) + below(4);
      case 2:
        return floor_div(symbol() + below(9), 1 + below(9));
      case 3:
        return max(symbol(), below(9)) * symbol();
      case 4:
        return mod(symbol() * 3, 2 + below(7)) + min(symbol(), symbol());
      default:
        return symbol();
    }
  }

  Shape shape() {
    Shape result;
    for (int i = below(4); i > 0; --i) result.push_back(dim());
    return result;
  }

  DType dtype() { return static_cast<DType>(below(kDTypeCount)); }

  TensorType type() {
    return {dtype(), shape(), one_in(6) ? static_cast<Format>(below(3)) : Format::Plain};
  }

  double real() {
    static const double kReals[] = {0.0,
                                    -0.0,
                                    1.0,
                                    0.1,
                                    -1e-5,
                                    1e300,
                                    INFINITY,
                                    -INFINITY,
                                    std::nan(""),
                                    -std::nan("7"),
                                    std::numeric_limits<double>::denorm_min(),
                                    123456789.123456789};
    return kReals[below(12)];
  }

  Tensor tensor() {
    Sizes sizes;
    for (int i = below(4); i > 0; --i) sizes.push_back(one_in(4) ? below(30) : below(5));
    Tensor result = *Tensor::allocate(dtype(), std::move(sizes));
    const bool splat = one_in(3);
    const auto bits = static_cast<std::uint8_t>(below(256));
    for (std::int64_t i = 0; i < result.num_bytes(); ++i) {  // any bits are a tensor
      result.mutable_data()[i] =
          static_cast<std::byte>(splat ? bits : static_cast<std::uint8_t>(below(256)));
    }
    for (std::int64_t i = 0; one_in(2) && i < result.num_elements(); ++i) {
      result.set_double(i, real());
    }
    return result;
  }

  Attribute attribute() {
    switch (below(8)) {
      case 0:
        return static_cast<std::int64_t>(random_()) - (1LL << 31);
      case 1:
        return real();
      case 2:
        return text();
      case 3:
        return dtype();
      case 4:
        return one_in(3) ? Ints{} : Ints{below(9), -below(9)};
      case 5:
        return one_in(3) ? Doubles{} : Doubles{real(), real()};
      case 6:
        return shape();
      default:
        return tensor();
    }
  }

  std::mt19937 random_;
  std::vector<Value*> values_;
};

inline Graph random_graph(unsigned seed) {
  return RandomGraph(seed).make();
}

// The first thing in which two graphs differ, ids and contents apart; empty if there is none.
inline std::string difference(const Graph& a, const Graph& b) {
  std::unordered_map<const Value*, const Value*> twins{{nullptr, nullptr}};
  const auto same_value = [&](const Value* x, const Value* y) {
    twins[x] = y;
    return x->name() == y->name() && x->type() == y->type();
  };
  if (a.name() != b.name()) return "names";
  if (a.inputs().size() != b.inputs().size()) return "number of inputs";
  for (std::size_t i = 0; i < a.inputs().size(); ++i) {
    if (!same_value(a.inputs()[i], b.inputs()[i])) return fmt::format("input {}", i);
  }
  if (a.num_nodes() != b.num_nodes()) return "number of nodes";
  auto other = b.nodes().begin();
  for (const auto& node : a.nodes()) {
    const Node& twin = **other++;
    const std::string label = node->display_name();
    if (node->op() != twin.op()) return label + ": operator";
    if (node->num_operands() != twin.num_operands()) return label + ": number of operands";
    for (int i = 0; i < node->num_operands(); ++i) {
      if (twins.at(node->operand(i)) != twin.operand(i)) return label + ": operands";
    }
    if (!(node->attributes() == twin.attributes())) return label + ": attributes";
    if (node->source() != twin.source()) return label + ": source";
    if (node->num_results() != twin.num_results()) return label + ": number of results";
    for (int i = 0; i < node->num_results(); ++i) {
      if (!same_value(node->result(i), twin.result(i))) return label + ": results";
    }
  }
  const auto same_output = [&](const Graph::Output& x, const Graph::Output& y) {
    return x.name == y.name && twins.at(x.value) == y.value;
  };
  if (!std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin(), b.outputs().end(),
                  same_output)) {
    return "outputs";
  }
  const auto same_assumption = [](const SizeAssumption& x, const SizeAssumption& y) {
    return x.left == y.left && x.right == y.right && x.reason == y.reason;
  };
  if (!std::equal(a.assumptions().begin(), a.assumptions().end(), b.assumptions().begin(),
                  b.assumptions().end(), same_assumption)) {
    return "assumptions";
  }
  return "";
}

}  // namespace opweld::testing_support
