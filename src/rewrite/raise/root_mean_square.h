// What rms_norm and layer_norm have in common: a tensor divided by its root mean square.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "support/expected.h"

namespace opweld {

// result = x / sqrt(mean(x^2) + epsilon), or that times a scale, the mean over the axes from
// `axis`.
struct RmsDivision {
  Node* root;  // makes the result
  Value* x;
  Value* scale;   // null if there is none
  Node* squares;  // x^2, or the reduction if it squares by itself
  int axis;
  double epsilon;  // 0 if nothing is added
};

// Whether the node makes such a result. Recognised in any spelling of
//   the squares   x * x, pow(x, 2), reduce_sum_square
//   the mean      reduce_mean; a sum divided by, or times one over, the number of elements
//   the root      sqrt, pow(., 0.5)
//   the quotient  x / root; x times the reciprocal of the root, 1 / root, rsqrt, pow(., -0.5)
//   the scale     x * (scale * reciprocal); a scale behind the quotient is absorb_scale()'s affair
// with operands of sums and products in either order. Refused are: axes that are not the last ones;
// an epsilon added behind the root; a number of elements that is not known or not the divisor; a
// step between x and the result that something else reads or that is an output of the model.
std::optional<RmsDivision> match_rms_division(Node& root);

// y, if the value is the mean of y over the axes from `axis`, spelled as above; else null.
Value* mean_operand(Value* value, int axis);

// Whether the value could be the scale or the bias of a norm over the axes from `axis` of x: it
// varies along these axes alone.
bool is_norm_parameter(const Value* value, const Value* x, int axis);

// If the value is read by nothing but a product (or, for `op` "add", a sum) with a norm's
// parameter, that node; `parameter` receives the other operand.
Node* parameter_step(const Value* value, std::string_view op, const Value* x, int axis,
                     Value*& parameter);

// Builds `op` (layer_norm or rms_norm) in place of `root`. If x comes from a half type by a cast
// and the result does nothing but return to that type, both casts are taken in: the operators
// compute in f32 and round once, as the casts do.
struct NormOperands {
  Value* x;
  Value* scale;
  Value* bias;
};
Status raise_norm(Graph& graph, Node& root, std::string_view op, std::string_view source_op,
                  NormOperands operands, int axis, double epsilon);

}  // namespace opweld
