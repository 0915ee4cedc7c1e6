#include "rewrite/raise/gelu.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/builder.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"
#include "rewrite/raise/polynomial.h"

namespace opweld {

namespace {

// From Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016).
const double kSqrt2OverPi = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

// x (1 + t) / 2, where t is the erf or the tanh.
const Polynomial kAround = {{{1, 0}, 0.5}, {{1, 1}, 0.5}};

Polynomial inside_of(std::string_view function) {
  if (function == "erf") return {{{1, 0}, 1 / std::numbers::sqrt2}};
  return {{{1, 0}, kSqrt2OverPi}, {{3, 0}, kSqrt2OverPi * kCubic}};
}

// The longest way from the erf or tanh to the last step, and from x to the argument.
constexpr int kLongestWay = 5;

// Values from which the argument may be made, the nearest first: x is one of them.
void collect_candidates(const Value* value, int depth, std::vector<Value*>& candidates) {
  const Node* const node = value->producer();
  if (node == nullptr || depth == 0) return;
  for (Value* operand : node->operands()) {
    if (operand == nullptr || operand->type() != value->type()) continue;
    if (std::find(candidates.begin(), candidates.end(), operand) != candidates.end()) continue;
    candidates.push_back(operand);
    collect_candidates(operand, depth - 1, candidates);
  }
}

// x, if the argument of the function is that of gelu; the nodes in between are added to `nodes`.
Value* match_argument(const Node& function, std::vector<Node*>& nodes) {
  Value* const argument = function.operand(0);
  std::vector<Value*> candidates;
  collect_candidates(argument, kLongestWay, candidates);
  const Polynomial expected = inside_of(function.op());
  for (Value* x : candidates) {
    std::vector<Node*> between;
    const auto inside = PolynomialIn{x, nullptr}(argument, between);
    if (!inside || !is_about(*inside, expected, argument->dtype())) continue;
    nodes.insert(nodes.end(), between.begin(), between.end());
    return x;
  }
  return nullptr;
}

// The last step x (1 + t) / 2, if what follows t leads there; its nodes are added to `nodes`.
Node* match_around(const Value* x, const Value* t, std::vector<Node*>& nodes) {
  const PolynomialIn in{x, t};
  // 0.5 x + 0.5 x t reads t once, and so does every other way to write it.
  Node* root = has_one_reader(t) ? only_reader(t) : nullptr;
  for (int step = 0; step < kLongestWay && root != nullptr; ++step) {
    std::vector<Node*> between;
    const auto around = in(root->result(), between);
    if (!around) return nullptr;
    if (is_about(*around, kAround, t->dtype())) {
      nodes.insert(nodes.end(), between.begin(), between.end());
      return root;
    }
    root = has_one_reader(root->result()) ? only_reader(root->result()) : nullptr;
  }
  return nullptr;
}

Status raise_at(Graph& graph, Node& function) {
  std::vector<Node*> nodes = {&function};
  Value* const x = match_argument(function, nodes);
  Node* const root = x == nullptr ? nullptr : match_around(x, function.result(), nodes);
  if (root == nullptr || !is_closed(nodes, root)) return {};
  Builder builder(graph, root, raised_source(*root, "Gelu"));
  const bool is_tanh_form = function.op() == "tanh";
  Value* const raised = builder.op("gelu", {x}, {{"approximate", is_tanh_form ? "tanh" : "none"}});
  if (!builder.status()) return builder.status();
  replace_by_raised(graph, root->result(), raised);
  return {};
}

}  // namespace

Status raise_gelu(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() == "erf" || node->op() == "tanh") OPWELD_CHECK(raise_at(graph, *node));
  }
  return eliminate_dead_code(graph);
}

}  // namespace opweld
