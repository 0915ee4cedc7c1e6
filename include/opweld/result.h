// The result of whatever can fail: a value, or an Error. Opweld throws no exceptions.
//
//   opweld::Result<opweld::Model> model = opweld::Model::load("model.onnx");
//   if (!model) return report(model.error().message);
//   use(*model);
//
// To take the value of a failed result is a mistake of the program, not of its input: the message
// is printed to standard error and the process ends by std::abort().
#pragma once

#include <utility>
#include <variant>

#include "opweld/error.h"
#include "opweld/export.h"

namespace opweld {

namespace detail {
[[noreturn]] OPWELD_API void value_of_failed_result(const Error& error);
OPWELD_API const Error& no_error();
}  // namespace detail

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Usage with an empty message if there is none.
  [[nodiscard]] const Error& error() const {
    const Error* error = std::get_if<1>(&content_);
    return error != nullptr ? *error : detail::no_error();
  }

  [[nodiscard]] T& value() & { return checked(*this); }
  [[nodiscard]] const T& value() const& { return checked(*this); }
  [[nodiscard]] T&& value() && { return std::move(checked(*this)); }
  [[nodiscard]] T& operator*() & { return value(); }
  [[nodiscard]] const T& operator*() const& { return value(); }
  [[nodiscard]] T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] T* operator->() { return &value(); }
  [[nodiscard]] const T* operator->() const { return &value(); }

 private:
  template <typename Self>
  static auto& checked(Self& self) {
    if (!self.ok()) detail::value_of_failed_result(self.error());
    return *std::get_if<0>(&self.content_);
  }

  std::variant<T, Error> content_;
};

// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const { return failed_ ? error_ : detail::no_error(); }
  void value() const {
    if (failed_) detail::value_of_failed_result(error_);
  }

 private:
  bool failed_ = false;
  Error error_;
};

}  // namespace opweld
