// What went wrong, as a value.
#pragma once

#include <string>

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

}  // namespace opweld
