// min and max and their rules.
#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "support/dim_polynomial.h"

namespace opweld {
namespace dim_detail {
namespace {

// More arguments than this are nested instead of listed, as each is compared with each.
constexpr size_t kMaxArguments = 12;

AtomKind opposite(AtomKind kind) {
  return kind == AtomKind::Min ? AtomKind::Max : AtomKind::Min;
}

// min(k*min(x, y) + r, z) = min(k*x + r, k*y + r, z), and likewise with k*max where k < 0.
void add_flattened(AtomKind kind, const Dim& argument, std::vector<Dim>& arguments) {
  if (!argument.is_constant()) {
    for (const Term& term : terms_of(argument)) {
      const AtomPtr atom = as_atom(term);
      const AtomKind wanted = term.coefficient > 0 ? kind : opposite(kind);
      if (atom == nullptr || atom->kind != wanted) continue;
      if (arguments.size() + atom->arguments.size() > kMaxArguments) break;
      const Dim rest = argument - make_dim(term);
      for (const Dim& inner : atom->arguments) {
        arguments.push_back(inner * term.coefficient + rest);
      }
      return;
    }
  }
  arguments.push_back(argument);
}

// Drops every argument that another one makes superfluous.
void drop_dominated(AtomKind kind, std::vector<Dim>& arguments) {
  for (size_t i = 0; i < arguments.size();) {
    bool superfluous = false;
    for (size_t j = 0; j < arguments.size() && !superfluous; ++j) {
      if (i == j) continue;
      superfluous = kind == AtomKind::Min ? provably_le(arguments[j], arguments[i])
                                          : provably_le(arguments[i], arguments[j]);
    }
    if (superfluous) {
      arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

// The terms found in all arguments, together with the smallest of their constants.
Dim common_summand(const std::vector<Dim>& arguments) {
  Terms common = terms_of(arguments.front());
  int64_t smallest = Dim::kPlusInfinity;
  for (const Dim& argument : arguments) {
    const Terms terms = terms_of(argument);
    const bool has_constant = !terms.empty() && terms.back().factors.empty();
    smallest = std::min(smallest, has_constant ? terms.back().coefficient : 0);
    std::erase_if(common, [&](const Term& term) {
      return std::none_of(terms.begin(), terms.end(), [&](const Term& other) {
        return term.coefficient == other.coefficient &&
               compare_monomials(term.factors, other.factors) == 0;
      });
    });
  }
  if (!common.empty() && common.back().factors.empty()) common.pop_back();
  return make_dim(std::move(common)) + smallest;
}

// Takes the common summand and the common divisor out, which makes the form unique.
Dim make_extreme(AtomKind kind, std::vector<Dim> arguments) {
  const Dim summand = common_summand(arguments);
  int64_t divisor = 0;
  for (Dim& argument : arguments) {
    argument -= summand;
    if (argument.is_overflow()) return Dim::overflow();
    divisor = std::gcd(divisor, argument.known_divisor());
  }
  for (Dim& argument : arguments) argument = floor_div(argument, divisor);
  std::sort(arguments.begin(), arguments.end(), structural_less);
  return summand + make_dim(make_atom(kind, std::move(arguments))) * divisor;
}

Dim extreme(AtomKind kind, const Dim& a, const Dim& b) {
  if (a.is_overflow() || b.is_overflow()) return Dim::overflow();
  std::vector<Dim> arguments;
  add_flattened(kind, a, arguments);
  add_flattened(kind, b, arguments);
  drop_dominated(kind, arguments);
  if (arguments.size() == 1) return arguments.front();
  return make_extreme(kind, std::move(arguments));
}

}  // namespace
}  // namespace dim_detail

Dim min(const Dim& a, const Dim& b) {
  return dim_detail::extreme(dim_detail::AtomKind::Min, a, b);
}

Dim max(const Dim& a, const Dim& b) {
  return dim_detail::extreme(dim_detail::AtomKind::Max, a, b);
}

}  // namespace opweld
