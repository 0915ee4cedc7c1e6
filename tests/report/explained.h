// A graph written as text, compiled and asked about.
#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "compile.h"
#include "ops/builder.h"
#include "report/account.h"
#include "report/require.h"
#include "report/usual_sizes.h"
#include "report/why.h"

namespace opweld::testing {

class Explained {
 public:
  explicit Explained(std::string_view text, CompileOptions options = {})
      : compiled_(compile_with_history(text, std::move(options))),
        sizes_(usual_sizes(compiled_.executable.graph())),
        names_(compiled_.executable.graph(), &*compiled_.history) {}

  [[nodiscard]] const Graph& graph() const { return compiled_.executable.graph(); }
  [[nodiscard]] const FusionPlan& plan() const { return plan(sizes_); }
  [[nodiscard]] const FusionPlan& plan(const Bindings& sizes) const {
    return compiled_.executable.plan(sizes);
  }
  [[nodiscard]] const Bindings& sizes() const { return sizes_; }
  [[nodiscard]] const ModelNames& names() const { return names_; }
  [[nodiscard]] PlannedModel model() const { return {graph(), plan(), sizes_, names_}; }

  [[nodiscard]] Answer why(std::string_view name) const {
    const auto answer = why_there(model(), name);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer.value_or(Answer());
  }
  [[nodiscard]] Answer why(std::string_view a, std::string_view b) const {
    const auto answer = why_together(model(), a, b);
    EXPECT_TRUE(answer) << answer.error().message;
    return answer.value_or(Answer());
  }
  // What is wrong with the requirement; empty where it is met.
  [[nodiscard]] std::string missing(std::string_view pattern) const {
    const auto parsed = parse_pattern(pattern);
    if (!parsed) return parsed.error().message;
    const Status met = require_fusion(model(), *parsed);
    return met ? "" : met.error().message;
  }
  [[nodiscard]] std::string json() const {
    return explain_json(plan(), sizes_, {}, {}, &names_).value();
  }

 private:
  static Compiled compile_with_history(std::string_view text, CompileOptions options) {
    options.history = true;
    return compile(parse_graph(text).value(), options).value();
  }

  Compiled compiled_;
  Bindings sizes_;
  ModelNames names_;
};

// A feed-forward with its activation spelled out, between an embedding and a sort.
inline constexpr const char* kFeedForward = R"(graph g(%x: f32[n, 16]) {
  %w = constant {value = f32[16, 16] random 1}
  %b = constant {value = f32[16] random 2}
  %half = constant {value = f32[] {0.5}}
  %one = constant {value = f32[] {1.0}}
  %root = constant {value = f32[] {1.4142135}}
  %m = matmul(%x, %w) @"/mlp/MatMul" op "MatMul" scope "layers.0"
  %a = add(%m, %b) @"/mlp/Add" op "Add" scope "layers.0"
  %d = div(%a, %root) @"/act/Div" op "Div" scope "layers.0"
  %e = erf(%d) @"/act/Erf" op "Erf" scope "layers.0"
  %p = add(%e, %one) @"/act/Add" op "Add" scope "layers.0"
  %q = mul(%a, %p) @"/act/Mul" op "Mul" scope "layers.0"
  %g = mul(%q, %half) @"/act/Mul_1" op "Mul" scope "layers.0"
  %v, %i = top_k(%g) {axis = 1, k = <8>, largest = 0, sorted = 1} @"/TopK" op "TopK"
  return %v as "v", %i as "i"
})";

// Two matmuls that are one kernel where tasks have rows enough, and else two.
inline constexpr const char* kRowsDecide = R"(graph g(%x: f32[n, 32]) {
  %v = constant {value = f32[32, 64] random 1}
  %w = constant {value = f32[64, 32] random 2}
  %a = matmul(%x, %v) @"/up" op "MatMul"
  %b = tanh(%a) @"/act" op "Tanh"
  %c = matmul(%b, %w) @"/down" op "MatMul"
  return %c as "y"
})";

}  // namespace opweld::testing
