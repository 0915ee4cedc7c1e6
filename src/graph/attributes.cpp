#include "graph/attributes.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace opweld {
namespace {

// By bits: NaN equals itself, and 0.0 is not -0.0, for an attribute is data and not arithmetic.
bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same(const Doubles& a, const Doubles& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return same(x, y); });
}

bool same(const Tensor& a, const Tensor& b) {
  return identical(a, b);
}

template <typename T>
bool same(const T& a, const T& b) {
  return a == b;
}

template <typename Entries>
auto position(Entries& entries, std::string_view name) {
  return std::lower_bound(
      entries.begin(), entries.end(), name,
      [](const auto& entry, std::string_view key) { return entry.first < key; });
}

// The attribute `name`, which must exist and be a T: schemas are checked before anyone reads.
template <typename T>
const T& required(const Attributes& attributes, std::string_view name) {
  const Attribute* attribute = attributes.find(name);
  assert(attribute != nullptr && "a required attribute is missing");
  assert(std::holds_alternative<T>(*attribute) && "an attribute is of the wrong kind");
  return std::get<T>(*attribute);
}

}  // namespace

bool identical(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& value) {
        return same(value, std::get<std::remove_cvref_t<decltype(value)>>(b));
      },
      a);
}

void Attributes::set(std::string_view name, Attribute value) {
  const auto entry = position(entries_, name);
  if (entry != entries_.end() && entry->first == name) {
    entry->second = std::move(value);
  } else {
    entries_.emplace(entry, std::string(name), std::move(value));
  }
}

void Attributes::erase(std::string_view name) {
  const auto entry = position(entries_, name);
  if (entry != entries_.end() && entry->first == name) entries_.erase(entry);
}

const Attribute* Attributes::find(std::string_view name) const {
  const auto entry = position(entries_, name);
  return entry != entries_.end() && entry->first == name ? &entry->second : nullptr;
}

std::int64_t Attributes::integer(std::string_view name) const {
  return required<std::int64_t>(*this, name);
}

std::int64_t Attributes::integer(std::string_view name, std::int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}

double Attributes::real(std::string_view name) const {
  return required<double>(*this, name);
}

double Attributes::real(std::string_view name, double otherwise) const {
  return has(name) ? real(name) : otherwise;
}

const std::string& Attributes::text(std::string_view name) const {
  return required<std::string>(*this, name);
}

std::string Attributes::text(std::string_view name, std::string_view otherwise) const {
  return has(name) ? text(name) : std::string(otherwise);
}

DType Attributes::dtype(std::string_view name) const {
  return required<DType>(*this, name);
}

const Ints& Attributes::ints(std::string_view name) const {
  return required<Ints>(*this, name);
}

const Doubles& Attributes::reals(std::string_view name) const {
  return required<Doubles>(*this, name);
}

const Shape& Attributes::shape(std::string_view name) const {
  return required<Shape>(*this, name);
}

const Tensor& Attributes::tensor(std::string_view name) const {
  return required<Tensor>(*this, name);
}

bool operator==(const Attributes& a, const Attributes& b) {
  return std::equal(a.entries_.begin(), a.entries_.end(), b.entries_.begin(), b.entries_.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && identical(x.second, y.second);
                    });
}

}  // namespace opweld
