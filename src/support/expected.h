// Errors as values.
//
// Whatever a user can hand over (a file, a shape, a flag) may be wrong, so everything that looks at
// it returns Expected<T>. Our own mistakes are asserted instead. No exception crosses this code.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "opweld/error.h"

namespace opweld {

template <typename T>
using Expected = tl::expected<T, Error>;
using Status = Expected<void>;

// fail("cannot open '{}': {}", path, why) -> the error branch of any Expected<T>.
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(
      Error{ErrorKind::Failure, fmt::format(format, std::forward<Args>(args)...)});
}

template <typename... Args>
[[nodiscard]] tl::unexpected<Error> usage_error(fmt::format_string<Args...> format,
                                                Args&&... args) {
  return tl::unexpected<Error>(
      Error{ErrorKind::Usage, fmt::format(format, std::forward<Args>(args)...)});
}

// OPWELD_TRY(auto value, expression); leaves the enclosing function with the error, if there is
// one.
#define OPWELD_CONCAT_(a, b) a##b
#define OPWELD_CONCAT(a, b) OPWELD_CONCAT_(a, b)
#define OPWELD_TRY_IMPL_(result, declaration, ...)                       \
  auto result = (__VA_ARGS__);                                           \
  if (!result) return ::tl::unexpected<::opweld::Error>(result.error()); \
  declaration = std::move(*result)
#define OPWELD_TRY(declaration, ...) \
  OPWELD_TRY_IMPL_(OPWELD_CONCAT(opweld_try_, __COUNTER__), declaration, __VA_ARGS__)
// OPWELD_CHECK(status_expression); the same for a Status. The name is fresh each time: the
// expression may hold a lambda that checks something itself.
#define OPWELD_CHECK_IMPL_(status, ...)                         \
  do {                                                          \
    if (const auto& status = (__VA_ARGS__); !status)            \
      return ::tl::unexpected<::opweld::Error>(status.error()); \
  } while (false)
#define OPWELD_CHECK(...) \
  OPWELD_CHECK_IMPL_(OPWELD_CONCAT(opweld_status_, __COUNTER__), __VA_ARGS__)

}  // namespace opweld
