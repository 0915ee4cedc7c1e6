// The operators of a plan by the names that the user's model has for them.
//
// An operator is known by its node's name in the model, and where the model gives it none, by the
// name that logs give it ("exp_12") or by that of a tensor that it makes. Names of operators that
// became parts of others, or of none, are known, too, where there is a history of the rewrites.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "rewrite/history.h"
#include "support/expected.h"

namespace opweld {

class ModelNames {
 public:
  struct Found {
    std::string name;          // as the model has it
    std::string op;            // the operator's name there
    History::Outcome outcome;  // what became of it
    // What does its work in the planned graph; empty for what is not there any more.
    std::vector<const Node*> nodes;
  };

  // Both must stay. `graph` is the planned one; `history` may be null.
  ModelNames(const Graph& graph, const History* history);

  // The operator of exactly that name, or the only one whose name begins so. It is a usage error
  // that names candidates where there are several, or none but similar ones.
  [[nodiscard]] Expected<Found> find(std::string_view text) const;
  [[nodiscard]] std::optional<Found> find_exactly(std::string_view name) const;

  // The names in the user's model of all operators that the node does the work of, in the model's
  // order; for what has no name there, the one that logs give it. A node that only moves data for
  // another of the same name has that name alone.
  [[nodiscard]] std::vector<std::string> sources_of(const Node& node) const;

  // Whether it does the work of an operator, and not another node of the same name.
  [[nodiscard]] bool does_the_work(const Node& node) const;

  // What the operators of the model are called there, before and after the rewrites ("MatMul").
  [[nodiscard]] const std::set<std::string>& operators() const { return operators_; }

 private:
  [[nodiscard]] Found found(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> beginning_with(std::string_view text) const;

  const History* history_;
  std::map<std::string, std::vector<const Node*>, std::less<>> nodes_;
  std::map<std::string, std::string, std::less<>> ops_;      // by name of the operator
  std::map<std::string, std::string, std::less<>> tensors_;  // who makes them
  std::map<std::string, std::vector<std::string>, std::less<>> parts_;
  std::set<std::string> operators_;
};

// At most three of the names, those most like the text first; none where none is like it. A name is
// like it that contains it, or that differs in a few letters.
std::vector<std::string> similar_names(std::string_view text,
                                       const std::vector<std::string>& names);

// "; did you mean 'A' or 'B'?", or nothing.
std::string suggestion(const std::vector<std::string>& similar);

// Whether they are equal but for upper and lower case.
bool same_word(std::string_view a, std::string_view b);

}  // namespace opweld
