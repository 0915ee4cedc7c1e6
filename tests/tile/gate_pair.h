// A group that several schedules serve: the gate of two products of one matrix.
#pragma once

#include <fmt/format.h>

#include <string>

namespace opweld::testing {

// y = (x wu + cu) sigmoid(x wg + cg) + r, with [wg | wu] one constant of [depth, 2 columns].
inline std::string gate_pair(const std::string& dtype, std::int64_t depth, std::int64_t columns) {
  return fmt::format(R"(graph g(%x: {3}[b, s, {2}], %r: {3}[b, s, {0}]) {{
    %w = constant {{value = {3}[{2}, {1}] random 3}}
    %c = constant {{value = {3}[{1}] random 4}}
    %m = matmul(%x, %w)
    %d = add(%m, %c)
    %u = slice(%d) {{starts = <0, 0, {0}>, sizes = <b, s, {0}>, steps = [1, 1, 1]}}
    %g = slice(%d) {{starts = <0, 0, 0>, sizes = <b, s, {0}>, steps = [1, 1, 1]}}
    %a = sigmoid(%g)
    %p = mul(%u, %a)
    %y = add(%p, %r)
    return %y as "y"
  }})",
                     columns, 2 * columns, depth, dtype);
}

}  // namespace opweld::testing
