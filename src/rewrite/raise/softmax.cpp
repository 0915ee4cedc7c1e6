#include "rewrite/raise/softmax.h"

#include <array>
#include <optional>

#include "ops/builder.h"
#include "rewrite/dce.h"
#include "rewrite/match.h"

namespace opweld {

namespace {

// The one axis of a reduction that keeps it, counted from the front.
std::optional<std::int64_t> single_axis(const Node* reduction) {
  if (reduction == nullptr) return std::nullopt;
  const Attributes& attributes = reduction->attributes();
  if (!attributes.has("axes") || attributes.integer("keepdims", 1) != 1) return std::nullopt;
  const Ints& axes = attributes.ints("axes");
  if (axes.size() != 1) return std::nullopt;
  return axes[0] < 0 ? axes[0] + reduction->operand(0)->rank() : axes[0];
}

struct Line {
  Value* x = nullptr;
  std::int64_t axis = 0;
};

// x - max(x), by these nodes.
struct Shifted {
  Line line;
  Node* difference = nullptr;
  Node* maximum = nullptr;
};

std::optional<Shifted> match_shifted(Value* value) {
  Node* const difference = made_by(value, "sub");
  Node* const maximum =
      difference == nullptr ? nullptr : made_by(difference->operand(1), "reduce_max");
  const auto axis = single_axis(maximum);
  if (!axis || maximum->operand(0) != difference->operand(0)) return std::nullopt;
  return Shifted{{difference->operand(0), *axis}, difference, maximum};
}

// exp(x - max(x)) / sum(exp(x - max(x)))
std::optional<Line> match_softmax(Node& root) {
  for (int side = 0; side < 2; ++side) {
    Node* const exponential = made_by(root.operand(side), "exp");
    Node* reciprocal = nullptr;
    Value* divisor = root.operand(1 - side);
    if (root.op() == "mul") {
      reciprocal = made_by(divisor, "reciprocal");
      divisor = reciprocal == nullptr ? nullptr : reciprocal->operand(0);
    }
    Node* const sum = made_by(divisor, "reduce_sum");
    if (exponential != nullptr && sum != nullptr && sum->operand(0) == exponential->result()) {
      const auto shifted = match_shifted(exponential->operand(0));
      if (!shifted || single_axis(sum) != shifted->line.axis) return std::nullopt;
      std::vector<Node*> nodes = {&root, exponential, sum, shifted->difference, shifted->maximum};
      if (reciprocal != nullptr) nodes.push_back(reciprocal);
      return is_closed(nodes, &root) ? std::optional(shifted->line) : std::nullopt;
    }
    if (root.op() == "div") break;
  }
  return std::nullopt;
}

// x - max(x) - log(sum(exp(x - max(x))))
std::optional<Line> match_log_softmax(Node& root) {
  Node* const logarithm = made_by(root.operand(1), "log");
  Node* const sum = logarithm == nullptr ? nullptr : made_by(logarithm->operand(0), "reduce_sum");
  Node* const exponential = sum == nullptr ? nullptr : made_by(sum->operand(0), "exp");
  if (exponential == nullptr || exponential->operand(0) != root.operand(0)) return std::nullopt;
  const auto shifted = match_shifted(root.operand(0));
  if (!shifted || single_axis(sum) != shifted->line.axis) return std::nullopt;
  const std::array<Node*, 6> nodes = {&root,       logarithm,           sum,
                                      exponential, shifted->difference, shifted->maximum};
  return is_closed(nodes, &root) ? std::optional(shifted->line) : std::nullopt;
}

// log(softmax(x))
std::optional<Line> match_log_of_softmax(const Node& root) {
  const Node* const softmax = made_by(root.operand(0), "softmax");
  if (softmax == nullptr || !has_one_reader(softmax->result())) return std::nullopt;
  return Line{softmax->operand(0), softmax->attributes().integer("axis", -1)};
}

Status replace(Graph& graph, Node& root, const Line& line, std::string_view op,
               std::string_view source_op) {
  Builder builder(graph, &root, raised_source(root, source_op));
  Value* const raised = builder.op(op, {line.x}, {{"axis", line.axis}});
  if (!builder.status()) return builder.status();
  replace_by_raised(graph, root.result(), raised);
  return {};
}

}  // namespace

Status raise_softmax(Graph& graph) {
  for (Node* node : graph.nodes_in_order()) {
    const std::string& op = node->op();
    if (op == "div" || op == "mul") {
      const auto line = match_softmax(*node);
      if (line) OPWELD_CHECK(replace(graph, *node, *line, "softmax", "Softmax"));
    } else if (op == "sub" || op == "log") {
      const auto line = op == "sub" ? match_log_softmax(*node) : match_log_of_softmax(*node);
      if (line) OPWELD_CHECK(replace(graph, *node, *line, "log_softmax", "LogSoftmax"));
    }
  }
  return eliminate_dead_code(graph);
}

}  // namespace opweld
