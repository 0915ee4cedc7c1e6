// Numbers as the textual forms write them.
#pragma once

#include <string>

#include "graph/dtype.h"

namespace opweld {

// The shortest decimal that reads back as the same value of the float dtype, always recognisable as
// a real: "1.0", "0.1", "1e-05", "inf", "-inf", "nan".
std::string real_text(double value, DType dtype = DType::F64);

}  // namespace opweld
