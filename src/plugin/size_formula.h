// The shape rule of a custom operator: a formula of sizes, symbolic ones as well as known ones.
#pragma once

#include <span>
#include <string>

#include "graph/graph.h"
#include "ops/op.h"
#include "plugin/formula.h"
#include "support/expected.h"
#include "support/shape.h"

namespace opweld {

// What the names of a formula stand for.
struct SizeScope {
  std::span<const std::string> names;  // of the operands
  const OpContext& context;            // its attributes are all there, with defaults
};

// Errors tell the line and the column.
Expected<Shape> build_shape(const FormulaText& formula, const SizeScope& scope);
Expected<Dim> build_size(const FormulaText& formula, const SizeScope& scope);

}  // namespace opweld
