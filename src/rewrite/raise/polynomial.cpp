#include "rewrite/raise/polynomial.h"

#include <algorithm>
#include <cmath>

#include "rewrite/match.h"

namespace opweld {

namespace {

constexpr int kGreatestDegree = 4;
constexpr std::size_t kMostNodes = 16;

using Result = std::optional<Polynomial>;

Polynomial without_zeros(Polynomial p) {
  std::erase_if(p, [](const auto& term) { return term.second == 0; });
  return p;
}

Polynomial sum(const Polynomial& a, const Polynomial& b, double sign) {
  Polynomial result = a;
  for (const auto& [powers, coefficient] : b) result[powers] += sign * coefficient;
  return without_zeros(std::move(result));
}

Result product(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  for (const auto& [p, c] : a) {
    for (const auto& [q, d] : b) {
      const std::pair powers{p.first + q.first, p.second + q.second};
      if (powers.first + powers.second > kGreatestDegree) return std::nullopt;
      result[powers] += c * d;
    }
  }
  return without_zeros(std::move(result));
}

Result power(const Polynomial& base, double exponent) {
  if (exponent != std::floor(exponent) || exponent < 1 || exponent > kGreatestDegree) return {};
  Result result = base;
  for (int i = 1; i < static_cast<int>(exponent) && result; ++i) result = product(*result, base);
  return result;
}

class Reader {
 public:
  Reader(const PolynomialIn& in, const Value* value, std::vector<Node*>& nodes)
      : in_(in), type_(value->type()), nodes_(nodes) {}

  Result read(const Value* value) {
    if (value == in_.x) return Polynomial{{{1, 0}, 1}};
    if (value == in_.t) return Polynomial{{{0, 1}, 1}};
    if (const auto number = scalar_constant(value)) {
      if (value->dtype() != type_.dtype || !std::isfinite(*number)) return {};
      return without_zeros({{{0, 0}, *number}});
    }
    Node* const node = value->producer();
    if (node == nullptr || value->type() != type_ || nodes_.size() == kMostNodes) return {};
    nodes_.push_back(node);
    return read_node(*node);
  }

 private:
  Result read_node(const Node& node) {
    if (node.op() == "neg") {
      const Result a = read(node.operand(0));
      return a ? Result(sum({}, *a, -1)) : std::nullopt;
    }
    if (node.num_operands() != 2) return {};
    if (node.op() == "pow" || node.op() == "div") {
      const auto number = scalar_constant(node.operand(1));
      if (!number || *number == 0) return {};
      const Result a = read(node.operand(0));
      if (!a) return {};
      return node.op() == "pow" ? power(*a, *number)
                                : product(*a, Polynomial{{{0, 0}, 1 / *number}});
    }
    const bool is_sum = node.op() == "add" || node.op() == "sub";
    if (!is_sum && node.op() != "mul") return {};
    const Result a = read(node.operand(0));
    const Result b = a ? read(node.operand(1)) : std::nullopt;
    if (!b) return {};
    return is_sum ? Result(sum(*a, *b, node.op() == "sub" ? -1 : 1)) : product(*a, *b);
  }

  const PolynomialIn& in_;
  const TensorType& type_;
  std::vector<Node*>& nodes_;
};

}  // namespace

std::optional<Polynomial> PolynomialIn::operator()(const Value* value,
                                                   std::vector<Node*>& nodes) const {
  return Reader(*this, value, nodes).read(value);
}

bool is_about(const Polynomial& polynomial, const Polynomial& expected, DType dtype) {
  return std::ranges::equal(polynomial, expected, [&](const auto& a, const auto& b) {
    return a.first == b.first && is_about(a.second, b.second, dtype);
  });
}

}  // namespace opweld
