#include "opweld/result.h"

#include <cstdio>
#include <cstdlib>

namespace opweld::detail {

void value_of_failed_result(const Error& error) {
  std::fprintf(stderr, "opweld: the value of a failed result was asked for: %s\n",
               error.message.c_str());
  std::abort();
}

const Error& no_error() {
  static const Error none{ErrorKind::Usage, ""};
  return none;
}

}  // namespace opweld::detail
