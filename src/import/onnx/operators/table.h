// The ONNX operators that can be imported, family by family.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/node_context.h"

namespace opweld {

using Handler = Expected<Values> (*)(NodeContext&);

// How one ONNX operator is imported. Differences between opsets are the handler's business.
struct OperatorRule {
  std::string_view op;
  Handler handler;
  std::string_view target = "";  // an operator of the graph, for handlers that serve several
  int min_operands = 1;  // the first so many operands are present when the handler is called
  int max_operands = 1;  // kAny: as many as there are
  std::string_view domain = "";  // empty: the standard operators
};

inline constexpr int kAny = 1 << 30;

using OperatorFamily = std::span<const OperatorRule>();

OperatorFamily activation_operators;
OperatorFamily attention_operators;
OperatorFamily constant_operators;
OperatorFamily contraction_operators;
OperatorFamily convolution_operators;
OperatorFamily einsum_operators;
OperatorFamily index_operators;
OperatorFamily moe_operators;
OperatorFamily norm_operators;
OperatorFamily pointwise_operators;
OperatorFamily reduction_operators;
OperatorFamily shape_operators;
OperatorFamily slice_operators;

// Of any operator of a plugin: OperatorRule::target says which.
Expected<Values> import_custom_operator(NodeContext& context);

// Nothing if the operator cannot be imported. `domain` is empty for the standard operators. Those
// of plugins are found as well; what the rule points to lives as long as the process.
std::optional<OperatorRule> find_operator(std::string_view domain, std::string_view op);

// The qualified names of those that are built in, sorted.
std::vector<std::string> operator_names();

// Whether the operator has meant the same from opset 1 up to the oldest one that is supported
// whole.
bool is_same_in_old_opsets(std::string_view op);

// Why an operator that find_operator() does not know is left out; a general reason if there is no
// special one.
std::string_view reason_unsupported(std::string_view domain, std::string_view op);

// "Add", "com.microsoft.FastGelu".
std::string qualified_name(std::string_view domain, std::string_view op);

}  // namespace opweld
