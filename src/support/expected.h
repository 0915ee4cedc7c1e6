// Errors as values.
//
// Whatever a user can hand over (a file, a shape, a flag) may be wrong, so everything that looks at
// it returns Expected<T>. Our own mistakes are asserted instead. No exception crosses this code.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace opweld {

// What kind of failure this is; the command line turns it into its exit code.
enum class ErrorKind {
  Usage,    // the request is wrong: unknown name, wrong shape or dtype of an input (exit code 2)
  Failure,  // the request is fine and cannot be served: bad file, unsupported operator (exit code
            // 1)
};

// One message a user can act on: what is wrong, where (file, node), and the way out.
struct Error {
  ErrorKind kind = ErrorKind::Failure;
  std::string message;

  // The same error, seen from further out: "context: message".
  [[nodiscard]] Error with_context(const std::string& context) const {
    return {kind, context + ": " + message};
  }
};

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
