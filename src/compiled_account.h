// What there is to tell of a model that was compiled, to be told now or kept in its file.
#pragma once

#include <string>

#include "compile.h"
#include "report/account_record.h"

namespace opweld {

// `model` is the name of its file, and may be empty; `sizes` are those to tell figures at where
// nobody asks for others.
AccountRecord account_record(const Compiled& compiled, std::string model, Bindings sizes);

}  // namespace opweld
