// Indices that NonZero found, through what exporters do before they pick by them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace opweld {

// A value with one number for each place found, the same along all other axes:
//   offset + sum over the axes of the mask of factors[axis] * (index of the place on that axis)
struct PickedIndex {
  std::vector<Dim> factors;
  Dim offset = 0;
  int axis = 0;  // along which the places lie

  // Whether it is the index on one axis of the mask itself.
  [[nodiscard]] bool is_coordinate(int axis) const;
  // Whether it is (index on `outer`) * inner_size + (index on the other axis) of two.
  [[nodiscard]] bool is_pair(int outer, const Dim& inner_size) const;
};

// The values that are made of one NonZero and have an index, or several beside each other.
class PickedIndices {
 public:
  PickedIndices(const Node& nonzero, Dim count);

  // Looks at a node whose operands have been looked at.
  void take(const Node& node);

  [[nodiscard]] bool knows(const Value* value) const {
    return indices_.contains(value) || lists_.contains(value);
  }
  // Null where the value is no single index.
  [[nodiscard]] const PickedIndex* index(const Value* value) const;
  // The axis of the mask, if that is what the value tells: an index, or a list of one.
  [[nodiscard]] std::optional<int> coordinate(const Value* value) const;
  // The axes of the mask that the rows of [places, n] hold; empty if they hold anything else.
  [[nodiscard]] std::vector<int> coordinates(const Value* value) const;

 private:
  // Indices beside each other: [entries, places] or [places, entries].
  struct List {
    std::vector<PickedIndex> entries;
    int axis = 1;  // along which the places lie
  };

  void take_of_list(const Node& node, const List& list);
  void take_of_index(const Node& node, const PickedIndex& index);
  void take_arithmetic(const Node& node);
  void take_concat(const Node& node);
  void keep(const Value* value, const PickedIndex& index);

  Dim count_;
  std::map<const Value*, PickedIndex> indices_;
  std::map<const Value*, List> lists_;
};

}  // namespace opweld
