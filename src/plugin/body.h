// The body of a custom operator: statements of the graph language in which attributes, sizes and
// types of operands are filled in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "plugin/declaration.h"
#include "plugin/size_formula.h"
#include "support/expected.h"

namespace opweld {

// "$name" and "${...}" replaced; errors carry the line and the column of the body.
Expected<std::string> fill_in(std::string_view body, const SizeScope& scope);

// What can be told of a body without operands: that all that is to be filled in has a meaning.
Status check_body(std::string_view body, const Declaration& declaration);

// Builds the operators of the body, before `before` or at the end, on behalf of `source`. Operands
// are null where absent; the context is of the same operands.
Expected<std::vector<Value*>> build_body(const Declaration& declaration, const SizeScope& scope,
                                         Graph& graph, Node* before, const Source& source);

}  // namespace opweld
