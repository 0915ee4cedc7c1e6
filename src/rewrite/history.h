// What became of the operators of the user's model, rewrite by rewrite.
//
// Passes take nodes away and put others in their place, and know nothing of each other's. The
// history is shown the graph after each of them. It notes which names are gone, which pass took
// them, and what is read in their stead, so that a question about an operator of the user's model
// can be answered in terms of the graph that was planned.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace opweld {

class History {
 public:
  enum class Fate : std::uint8_t {
    Kept,      // it is in the graph, by its own name
    Part,      // of the operators `into`, which do its work with that of others
    Equal,     // to `into`, which is computed once for both
    Bypassed,  // it changed nothing: its readers read `into`, or an input of the model
    Computed,  // before any run, since it depends on no input
    Unread,    // nothing needs its result
  };
  struct Outcome {
    Fate fate = Fate::Kept;
    std::string pass;               // that took it away; empty where it was kept
    std::vector<std::string> into;  // names of nodes; empty for what was computed or is not read
  };
  struct Operator {
    std::string name;                  // as people know it (Node::display_name)
    std::string op;                    // what the user's model calls the operator
    std::vector<std::string> tensors;  // names of its results; may be empty
  };

  using Outcomes = std::map<std::string, Outcome, std::less<>>;  // by name

  // `graph` as it was imported or built.
  explicit History(const Graph& graph);
  // What another one tells: its operators(), and outcome() of those that were not kept. Nothing can
  // be recorded in it.
  History(std::vector<Operator> operators, Outcomes outcomes)
      : operators_(std::move(operators)), changes_(std::move(outcomes)) {}
  // The same graph after a pass.
  void record(std::string_view pass, const Graph& graph);

  // The operators of the model, constants apart, in its order.
  [[nodiscard]] const std::vector<Operator>& operators() const { return operators_; }
  // In terms of the graph that was recorded last. A name that was never gone is kept, be it known
  // or not.
  [[nodiscard]] Outcome outcome(const std::string& name) const;

 private:
  struct Entry {
    int id = 0;
    std::string name;
    std::string op;
    std::vector<std::pair<int, int>> readers;  // id, index of the operand
    std::vector<std::size_t> outputs;          // of the model
  };
  struct After;

  void take_snapshot(const Graph& graph);
  [[nodiscard]] Outcome fate_of(const Entry& entry, After& after) const;

  std::vector<Operator> operators_;
  std::vector<Entry> before_;  // in topological order
  std::unordered_map<int, std::size_t> index_of_;
  Outcomes changes_;
  // Of what is not read any more and will be taken away by a later pass: why nothing reads it.
  Outcomes unread_;
};

// "query + key + value" -> the names that it is made of; a name of one operator is its only part.
std::vector<std::string> joined_names(const Node& node);

}  // namespace opweld
