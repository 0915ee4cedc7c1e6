// Small questions that the raising passes ask of a graph, and how they put an answer in its place.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "graph/graph.h"

namespace opweld {

// The node that makes the value, if it is this operator; else null. Where a reader is on another
// stream, nobody looks behind the value.
Node* made_by(const Value* value, std::string_view op);

// ---- constants ----

// The number, if the value is a constant of one element (a float or an integer).
std::optional<double> scalar_constant(const Value* value);

// The one number that all elements of the value are, if it is a constant or made by expanding one.
std::optional<double> uniform_value(const Value* value);

// Whether a number of that dtype may stand for the real number `expected`. An exporter rounds it to
// the dtype, perhaps after having computed it (1 / sqrt 2) from numbers that were rounded already:
// up to four roundings of half a unit in the last place are granted, relative to `expected`.
bool is_about(double number, double expected, DType dtype);
// The same of a scalar constant.
bool is_about(const Value* value, double expected);

// The operand beside the constant of a product with a scalar constant (in either order), or of a
// quotient by one; `factor` receives what the operand is multiplied by.
Value* scaled_operand(const Node& node, double& factor);

// ---- readers ----

// Read once, and by a node rather than as an output of the model: nobody misses it when it goes. A
// reader on another stream does: what is on two is never made into one.
bool has_one_reader(const Value* value);

// The node that alone reads the value, if perhaps with several operands; null if it is an output,
// or if that node is on another stream.
Node* only_reader(const Value* value);

// Whether all that reads the value is on the stream of what makes it. Inputs and constants are on
// every one.
bool stays_on_its_stream(const Value* value);

// The other operand of a node of two, of which one is `value`; null if neither is.
Value* other_operand(const Node& node, const Value* value);

// Whether the results of these nodes, except those of `root`, are read by these nodes alone, and
// all are on the stream of `root`.
bool is_closed(std::span<Node* const> nodes, const Node* root);

// ---- axes ----

// The first of the axes that a reduction runs over, if they are the last ones of its operand, none
// left out, and are kept with size 1.
std::optional<int> first_reduced_axis(const Node& reduction);

// A transpose that swaps the last two axes and leaves the rest.
bool swaps_last_axes(const Node& transpose);

// Whether the value spreads over that shape without making it larger.
bool spreads_over(const Value* value, const Shape& shape);

// ---- what comes in place ----

// Of an operator that computes in the compute type and rounds once, from x to `result`: where x is
// widened to the compute type by a cast and the result does nothing but go back by another, x
// becomes the narrow operand and the narrow result is returned; the casts are not needed then, and
// all roundings stay. Else `result`.
Value* take_in_casts(Value*& x, Value* result);

// For a node called `op` that does what ends in `root` of the user's model.
Source raised_source(const Node& root, std::string_view op);

// For a node that does what all of these do, side by side: their names joined by " + ".
Source joined_source(std::span<const Node* const> nodes);

// Readers of `old` read `raised` instead, which takes its name.
void replace_by_raised(Graph& graph, Value* old, Value* raised);

}  // namespace opweld
