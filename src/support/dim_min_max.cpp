// min and max and their rules.
#include <algorithm>
#include <numeric>
#include <utility>

#include "support/dim_polynomial.h"

namespace opweld {
namespace dim_detail {
namespace {

// More arguments than this are nested instead of listed, as each is compared with each.
constexpr size_t kMaxArguments = 12;

// The first term k*min(...) with k > 0, if there is one.
const Term* find_min(const Terms& terms) {
  const auto found = std::find_if(terms.begin(), terms.end(), [](const Term& term) {
    const AtomPtr atom = as_atom(term);
    return term.coefficient > 0 && atom != nullptr && atom->kind == AtomKind::Min;
  });
  return found == terms.end() ? nullptr : &*found;
}

// min(k*min(x, y) + r, z) = min(k*x + r, k*y + r, z), over and over.
std::vector<Dim> flatten(std::vector<Dim> waiting) {
  std::vector<Dim> arguments;
  while (!waiting.empty()) {
    const Dim argument = waiting.back();
    waiting.pop_back();
    const Terms terms = argument.is_overflow() ? Terms{} : terms_of(argument);
    const Term* inner = find_min(terms);
    if (inner == nullptr || arguments.size() + waiting.size() >= kMaxArguments) {
      arguments.push_back(argument);
      continue;
    }
    const Dim rest = argument - make_dim(*inner);
    for (const Dim& inner_argument : as_atom(*inner)->arguments) {
      waiting.push_back(inner_argument * inner->coefficient + rest);
    }
  }
  return arguments;
}

// Drops every argument that is never smaller than some other one.
void drop_dominated(std::vector<Dim>& arguments) {
  for (size_t i = 0; i < arguments.size();) {
    bool dominated = false;
    for (size_t j = 0; j < arguments.size() && !dominated; ++j) {
      dominated = i != j && provably_le(arguments[j], arguments[i]);
    }
    if (dominated) {
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
Dim normalized_min(std::vector<Dim> arguments) {
  const Dim summand = common_summand(arguments);
  int64_t divisor = 0;
  for (Dim& argument : arguments) {
    argument -= summand;
    if (argument.is_overflow()) return Dim::overflow();
    divisor = std::gcd(divisor, argument.known_divisor());
  }
  for (Dim& argument : arguments) argument = floor_div(argument, divisor);
  std::sort(arguments.begin(), arguments.end(), structural_less);
  return summand + make_dim(make_atom(AtomKind::Min, std::move(arguments))) * divisor;
}

}  // namespace
}  // namespace dim_detail

Dim min(const Dim& a, const Dim& b) {
  using namespace dim_detail;
  std::vector<Dim> arguments = flatten({a, b});
  const auto overflowed = [](const Dim& argument) { return argument.is_overflow(); };
  if (std::any_of(arguments.begin(), arguments.end(), overflowed)) return Dim::overflow();
  // Sorted, so that the result does not depend on the order the arguments came in.
  std::sort(arguments.begin(), arguments.end(), structural_less);
  drop_dominated(arguments);
  if (arguments.size() == 1) return arguments.front();
  return normalized_min(std::move(arguments));
}

Dim max(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return std::max(*a.constant(), *b.constant());
  return -min(-a, -b);
}

}  // namespace opweld
