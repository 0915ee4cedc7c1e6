// The operator families: each is a file of this folder that gives its definitions to the registry.
#pragma once

#include <span>

#include "ops/op.h"

namespace opweld {

// The definitions of one family; they live as long as the program.
using OpFamily = std::span<const OpDef>();

OpFamily arithmetic_ops;  // arithmetic.cpp
OpFamily source_ops;      // source.cpp

}  // namespace opweld
