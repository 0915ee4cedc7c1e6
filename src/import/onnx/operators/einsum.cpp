// Einsum: sums of products over named axes, as diagonals, reductions, transposes and products of
// matrices.
//
// Operands are combined from the left. An axis of two operands that neither the result nor a later
// operand names is contracted by the product of matrices; axes of the ellipsis count from the right
// and broadcast.
#include <algorithm>
#include <cctype>

#include "import/onnx/operators/table.h"

namespace opweld {
namespace {

// A letter, or -1, -2, ... for the axes of the ellipsis from the right.
using Label = int;
using Labels = std::vector<Label>;

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::size_t place_of(const Labels& labels, Label label) {
  return static_cast<std::size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}

// A value and the names of its axes.
struct Term {
  Value* value = nullptr;
  Labels labels;
};

struct Equation {
  std::vector<Labels> terms;
  Labels result;
};

// ---- the equation ----

void append_ellipsis(Labels& labels, int count) {
  for (int i = count; i >= 1; --i) labels.push_back(-i);
}

// `ellipsis` is how many axes "..." stands for.
Expected<Labels> parse_term(std::string_view text, int ellipsis) {
  Labels labels;
  bool open = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
      labels.push_back(text[i]);
    } else if (text.substr(i, 3) == "..." && !open) {
      append_ellipsis(labels, ellipsis);
      open = true;
      i += 2;
    } else {
      return fail("'{}' is no list of axes", text);
    }
  }
  return labels;
}

// Without a result in the equation: the ellipsis, then the letters that occur once, sorted.
Labels implied_result(const std::vector<Labels>& terms, int ellipsis) {
  Labels all;
  for (const Labels& term : terms) all.insert(all.end(), term.begin(), term.end());
  std::sort(all.begin(), all.end());
  Labels result;
  append_ellipsis(result, ellipsis);
  for (const Label label : all) {
    if (label > 0 && std::count(all.begin(), all.end(), label) == 1) result.push_back(label);
  }
  return result;
}

Status check_result(const Equation& equation) {
  for (std::size_t i = 0; i < equation.result.size(); ++i) {
    const Label label = equation.result[i];
    if (place_of(equation.result, label) != i) return fail("the result names an axis twice");
    const bool known = std::any_of(equation.terms.begin(), equation.terms.end(),
                                   [&](const Labels& term) { return contains(term, label); });
    if (!known) return fail("the result names an axis that no operand has");
  }
  return {};
}

Expected<Equation> parse_equation(std::string text, const Values& operands) {
  std::erase(text, ' ');
  const std::size_t arrow = text.find("->");
  std::vector<std::string> parts{""};
  for (const char c : text.substr(0, arrow)) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() != operands.size()) {
    return fail("the equation '{}' is about {} operands, there are {}", text, parts.size(),
                operands.size());
  }
  Equation equation;
  int longest = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    OPWELD_TRY(const Labels letters, parse_term(parts[i], 0));
    const bool open = parts[i].find("...") != std::string::npos;
    const int rest = operands[i]->rank() - static_cast<int>(letters.size());
    if (open ? rest < 0 : rest != 0) {
      return fail("'{}' does not name the axes of operand {}, which has rank {}", parts[i], i,
                  operands[i]->rank());
    }
    OPWELD_TRY(Labels labels, parse_term(parts[i], rest));
    equation.terms.push_back(std::move(labels));
    if (open) longest = std::max(longest, rest);
  }
  if (arrow == std::string::npos) {
    equation.result = implied_result(equation.terms, longest);
  } else {
    OPWELD_TRY(equation.result, parse_term(text.substr(arrow + 2), longest));
  }
  OPWELD_CHECK(check_result(equation));
  return equation;
}

// ---- one term ----

Value* sum_over(Builder& b, Value* x, Ints axes) {
  if (axes.empty()) return x;
  return b.op("reduce_sum", {x}, {{"axes", std::move(axes)}, {"keepdims", std::int64_t{0}}});
}

// An axis named twice becomes one, its diagonal: elements beside it count as zeros in a sum.
void take_diagonals(Builder& b, Term& term) {
  for (std::size_t i = 0; i < term.labels.size(); ++i) {
    const auto again = std::find(term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                 term.labels.end(), term.labels[i]);
    if (again == term.labels.end() || !b.status()) continue;
    const auto other = static_cast<std::size_t>(again - term.labels.begin());
    const auto places = [&](std::size_t axis) {
      Shape shape(term.labels.size(), 1);
      shape[axis] = term.value->shape()[axis];
      return b.op(
          "iota", {},
          {{"shape", shape}, {"axis", static_cast<std::int64_t>(axis)}, {"dtype", DType::I64}});
    };
    Value* on = b.binary("eq", places(i), places(other));
    Value* kept = b.op("select", {on, term.value, b.scalar(0, term.value->dtype())});
    term.value = sum_over(b, kept, {static_cast<std::int64_t>(other)});
    term.labels.erase(again);
    --i;  // the name may stand a third time
  }
}

// Sums over the axes that nobody `needs`.
void drop_axes(Builder& b, Term& term, const Labels& needed) {
  Ints axes;
  Labels kept;
  for (std::size_t axis = 0; axis < term.labels.size(); ++axis) {
    if (contains(needed, term.labels[axis])) {
      kept.push_back(term.labels[axis]);
    } else {
      axes.push_back(static_cast<std::int64_t>(axis));
    }
  }
  term.value = sum_over(b, term.value, std::move(axes));
  term.labels = std::move(kept);
}

// The axes in that order.
Value* ordered(Builder& b, const Term& term, const Labels& order) {
  if (term.labels == order) return term.value;
  Ints permutation;
  for (const Label label : order) {
    permutation.push_back(static_cast<std::int64_t>(place_of(term.labels, label)));
  }
  return b.transpose(term.value, std::move(permutation));
}

// ---- two terms ----

// How the axes of two terms take part in their product.
struct Roles {
  Labels batch, left, right, contracted;

  Roles(const Term& a, const Term& b, const Labels& needed) {
    for (const Label label : a.labels) {
      if (!contains(b.labels, label)) {
        left.push_back(label);
      } else {
        (contains(needed, label) ? batch : contracted).push_back(label);
      }
    }
    for (const Label label : b.labels) {
      if (!contains(a.labels, label)) right.push_back(label);
    }
  }
};

Labels joined(const Labels& a, const Labels& b, const Labels& c) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

Shape sizes_of(const Term& term, const Labels& labels) {
  Shape sizes;
  for (const Label label : labels)
    sizes.push_back(term.value->shape()[place_of(term.labels, label)]);
  return sizes;
}

Value* as_matrices(Builder& b, const Term& term, const Labels& batch, const Labels& rows,
                   const Labels& columns) {
  Shape shape = sizes_of(term, batch);
  shape.push_back(num_elements(sizes_of(term, rows)));
  shape.push_back(num_elements(sizes_of(term, columns)));
  return b.reshape(ordered(b, term, joined(batch, rows, columns)), std::move(shape));
}

// Nothing is contracted: the products of all pairs, [batch, left, right].
Value* outer_product(Builder& b, const Term& a, const Term& c, const Roles& roles) {
  Shape left = sizes_of(a, roles.batch);
  const Shape left_sizes = sizes_of(a, roles.left);
  const Shape right_sizes = sizes_of(c, roles.right);
  left.insert(left.end(), left_sizes.begin(), left_sizes.end());
  left.insert(left.end(), right_sizes.size(), Dim(1));
  Shape right = sizes_of(c, roles.batch);
  right.insert(right.end(), left_sizes.size(), Dim(1));
  right.insert(right.end(), right_sizes.begin(), right_sizes.end());
  return b.binary("mul", b.reshape(ordered(b, a, joined(roles.batch, roles.left, {})), left),
                  b.reshape(ordered(b, c, joined(roles.batch, roles.right, {})), right));
}

Expected<Term> multiplied(Builder& b, const Term& a, const Term& c, const Labels& needed) {
  const Roles roles(a, c, needed);
  const Labels labels = joined(roles.batch, roles.left, roles.right);
  if (roles.contracted.empty()) return Term{outer_product(b, a, c, roles), labels};
  const Shape left = sizes_of(a, roles.left);
  const Shape right = sizes_of(c, roles.right);
  Value* product = b.binary("matmul", as_matrices(b, a, roles.batch, roles.left, roles.contracted),
                            as_matrices(b, c, roles.batch, roles.contracted, roles.right));
  OPWELD_CHECK(b.status());
  Shape shape(product->shape().begin(), product->shape().end() - 2);  // the batch, broadcast
  shape.insert(shape.end(), left.begin(), left.end());
  shape.insert(shape.end(), right.begin(), right.end());
  return Term{b.reshape(product, std::move(shape)), labels};
}

// The labels that the result or one of the terms from `next` on names.
Labels needed_later(const Equation& equation, std::size_t next) {
  Labels needed = equation.result;
  for (std::size_t i = next; i < equation.terms.size(); ++i) {
    needed.insert(needed.end(), equation.terms[i].begin(), equation.terms[i].end());
  }
  return needed;
}

Expected<Values> einsum(NodeContext& c) {
  Builder& b = c.builder();
  for (int i = 0; i < c.num_operands(); ++i) {
    if (!c.has(i)) return fail("operand {} is missing", i);
  }
  OPWELD_TRY(const Equation equation, parse_equation(c.text("equation", ""), c.operands()));
  Term total;
  for (std::size_t i = 0; i < equation.terms.size(); ++i) {
    Term term{c.operand(static_cast<int>(i)), equation.terms[i]};
    take_diagonals(b, term);
    Labels needed = needed_later(equation, i + 1);
    needed.insert(needed.end(), total.labels.begin(), total.labels.end());
    drop_axes(b, term, needed);
    OPWELD_CHECK(c.status());
    if (i > 0) {
      OPWELD_TRY(term, multiplied(b, total, term, needed_later(equation, i + 1)));
    }
    total = std::move(term);
    drop_axes(b, total, needed_later(equation, i + 1));
    OPWELD_CHECK(c.status());
  }
  return one(ordered(b, total, equation.result));
}

constexpr OperatorRule kRules[] = {{"Einsum", einsum, "", 1, kAny}};

}  // namespace

std::span<const OperatorRule> einsum_operators() {
  return kRules;
}

}  // namespace opweld
