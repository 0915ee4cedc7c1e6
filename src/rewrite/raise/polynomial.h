// What a value is as a polynomial in two others: formulas compared by meaning, however factored.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace opweld {

// The coefficient of x^i t^j under {i, j}; those that are 0 are absent.
using Polynomial = std::map<std::pair<int, int>, double>;

struct PolynomialIn {
  const Value* x;
  const Value* t;  // may be null: a polynomial in x alone

  // Absent if the value is no such polynomial of a degree up to 4, made by at most 16 nodes of add,
  // sub, mul, neg, a quotient by a constant and a power with a small whole exponent, all of one
  // dtype and shape. The nodes are added to `nodes`, each as often as it is met.
  std::optional<Polynomial> operator()(const Value* value, std::vector<Node*>& nodes) const;
};

// Whether both have the same terms, with coefficients that numbers of that dtype may stand for.
bool is_about(const Polynomial& polynomial, const Polynomial& expected, DType dtype);

}  // namespace opweld
