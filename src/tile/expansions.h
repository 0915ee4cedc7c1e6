// Composite operators replaced by their bodies.
//
// What a body is made of follows from the operator, its attributes and the types of its operands,
// so nodes that agree in those have one body but for the operands. A planner, which has the same
// nodes lowered in one group after the other, keeps an Expansions; inferring the types of a body's
// nodes takes longer than to copy them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld::tile {

class Expansions {
 public:
  // The group without composite operators, and with operators over a few elements written out
  // (expand_composites). Names of nodes stay, their ids do not.
  Expected<Graph> expanded(const Graph& group);

 private:
  // A node's body as a graph whose inputs are the node's operands, those left out that are absent.
  struct Body {
    Attributes attributes;
    std::vector<std::optional<TensorType>> operands;
    Graph graph;
  };

  Expected<const Body*> body_of(const Node& node);

  // By the operator's name. Models have few that differ in more than their operands.
  std::unordered_map<std::string, std::vector<std::unique_ptr<Body>>> bodies_;
};

}  // namespace opweld::tile
