// Named constants of a node: axes, epsilon, target shape, payload of a constant.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/dtype.h"
#include "graph/tensor.h"
#include "support/shape.h"

namespace opweld {

using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

// One attribute. Flags are int64 0 or 1. Anything that may depend on a symbolic size is a Shape (of
// one element for a single Dim), never a number. The textual form tells the kinds apart: 3, 0.5,
// "text", f32 (a DType), [1, 2] (Ints), [1.0, 2.0] (Doubles), <b, 2*s, 384> (Shape),
// f32[2] {1.0, 2.0} (Tensor).
using Attribute =
    std::variant<std::int64_t, double, std::string, DType, Ints, Doubles, Shape, Tensor>;

// Same kind and same content: tensors and reals bit by bit.
bool identical(const Attribute& a, const Attribute& b);

// A small sorted map; order of insertion does not matter to equality or printing.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> entries) {
    for (const auto& [name, value] : entries) set(name, value);
  }

  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  [[nodiscard]] const Attribute* find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  // Typed access. The node's schema has been checked by then, so a wrong kind or a missing required
  // attribute is our own mistake and asserts; the two-argument forms give a default when absent.
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name, double otherwise) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) const;
  [[nodiscard]] DType dtype(std::string_view name) const;
  [[nodiscard]] const Ints& ints(std::string_view name) const;
  [[nodiscard]] const Doubles& reals(std::string_view name) const;
  [[nodiscard]] const Shape& shape(std::string_view name) const;
  [[nodiscard]] const Tensor& tensor(std::string_view name) const;

  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

  // The same names with identical attributes.
  friend bool operator==(const Attributes& a, const Attributes& b);

 private:
  std::vector<std::pair<std::string, Attribute>> entries_;
};

}  // namespace opweld
