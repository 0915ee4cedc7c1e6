// Kernels that are right are called right, wherever they round, overflow and saturate; kernels that
// are not are called faulty.
#include "tile/kernel_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "compile.h"
#include "ops/reference.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

// What becomes of a kernel's first output before it is judged.
using Tampering = std::function<void(Tensor& written)>;

struct Case {
  std::string text;
  Bindings sizes = {};
  double scale = 1;  // of random inputs
  bool strict = false;
  std::string target = "host";
  std::optional<double> all = {};  // every element of the inputs, if not random
};

struct Outcome {
  std::string plan;
  int kernels = 0;
  std::string fault;             // of the first kernel that was called faulty
  bool agrees_unrounded = true;  // every kernel, with its operators in f64, rounded nowhere
};

std::vector<Tensor> inputs_of(const Graph& graph, const Case& given) {
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    Tensor tensor = random_tensor(input->type(), evaluate(input->shape(), given.sizes).value(),
                                  static_cast<unsigned>(inputs.size()) + 1);
    if (is_float(tensor.dtype())) {
      for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
        tensor.set_double(i, given.all.value_or(tensor.get_double(i) * given.scale));
      }
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

// `judged_strict`: as if the kernels had been made in that mode.
Outcome judge(const Case& given, std::optional<bool> judged_strict = {},
              const Tampering& tamper = {}) {
  Graph graph = parse_graph(given.text).value();
  const std::vector<Tensor> inputs = inputs_of(graph, given);
  CompileOptions options;
  options.strict = given.strict;
  options.target = given.target;
  options.threads = 2;
  options.keep_constants = true;
  Compiled compiled = compile(std::move(graph), options).value();
  const Target target = find_target(given.target).value();
  const tile::LowerOptions lowered{&target, judged_strict.value_or(given.strict)};
  Executable& executable = compiled.executable;
  const Bindings sizes = bind_symbols(executable.graph(), inputs).value();
  Outcome outcome;
  outcome.plan = to_text(executable.plan(sizes));
  RunOptions observing;
  observing.observer = [&](const Kernel& kernel, std::span<const Tensor> read,
                           std::span<const Tensor> written) -> Status {
    std::vector<Tensor> outputs;
    for (const Tensor& each : written) outputs.push_back(each.clone().value());
    if (tamper) tamper(outputs.front());
    const auto comparisons = judge_kernel(kernel, lowered, sizes, read, outputs).value();
    ++outcome.kernels;
    ReferenceOptions in_f64;
    in_f64.in_f64 = true;
    const auto exact = evaluate(extract_group(kernel), read, sizes, in_f64).value();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outcome.fault.empty()) outcome.fault = comparisons[i].message;
      const Tolerance tolerance = default_tolerance(outputs[i].dtype());
      outcome.agrees_unrounded &= compare(written[i], exact[i], tolerance).equal;
    }
    return {};
  };
  EXPECT_TRUE(executable.run(inputs, nullptr, observing));
  return outcome;
}

// One element by more than any tolerance.
void off(Tensor& written) {
  std::int64_t i = 0;
  while (!std::isfinite(written.get_double(i))) ++i;
  written.set_double(i, written.get_double(i) / 2 + 1);
}

// The smallest element, by that share of what most are.
void off_by(double share, Tensor& written) {
  std::int64_t smallest = 0;
  double sum = 0;
  int count = 0;
  for (std::int64_t i = 0; i < written.num_elements(); ++i) {
    const double size = std::abs(written.get_double(i));
    if (!std::isfinite(size)) continue;
    sum += size;
    ++count;
    if (!(size >= std::abs(written.get_double(smallest)))) smallest = i;
  }
  written.set_double(smallest, written.get_double(smallest) + sum / count * share);
}

// The first finite element becomes infinite.
void to_infinity(Tensor& written) {
  for (std::int64_t i = 0; i < written.num_elements(); ++i) {
    const double value = written.get_double(i);
    if (std::isfinite(value)) return written.set_double(i, std::copysign(HUGE_VAL, value));
  }
}

// And the other way round.
void from_infinity(Tensor& written) {
  for (std::int64_t i = 0; i < written.num_elements(); ++i) {
    const double value = written.get_double(i);
    if (std::isinf(value)) return written.set_double(i, std::copysign(60000, value));
  }
}

// A norm in bf16 before a matmul whose result is f32: what goes from the one to the other is
// rounded more coarsely than the result is compared.
Case normed_matmul(double scale) {
  return {R"(graph g(%x: bf16[n, 64]) {
    %s = constant {value = bf16[64] random 1}
    %w = constant {value = bf16[64, 48] random 2}
    %a = rms_norm(%x, %s) {axis = -1, epsilon = 1e-05}
    %m = matmul(%a, %w)
    %y = cast(%m) {to = f32}
    return %y as "y" })",
          {{"n", 50}},
          scale};
}

TEST(KernelReference, AChainRoundsBetweenItsStages) {
  for (const double scale : {1.0, 1.0 / 400, 400.0}) {
    SCOPED_TRACE(scale);
    const Outcome outcome = judge(normed_matmul(scale));
    EXPECT_EQ(outcome.plan, "0 chain: rms_norm + matmul + cast\n");
    EXPECT_EQ(outcome.fault, "");
    EXPECT_NE(judge(normed_matmul(scale), {}, off).fault, "");
  }
  EXPECT_FALSE(judge(normed_matmul(1.0 / 400)).agrees_unrounded) << "the test shows nothing";
}

// So many rows for each core of this machine that the two are a chain.
Case two_matmuls(double scale) {
  return {fmt::format(R"(graph g(%x: f16[{}, 256]) {{
    %v = constant {{value = f16[256, 256] random 1}}
    %w = constant {{value = f16[256, 64] random 2}}
    %h = matmul(%x, %v)
    %y = matmul(%h, %w)
    return %y as "y" }})",
                      128 * host_target().cores),
          {},
          scale};
}

TEST(KernelReference, HalvesOverflowWhereTheKernelRoundsThem) {
  // At 400 the second product overflows, at 4000 also the first, and what follows is NaN.
  for (const double scale : {400.0, 4000.0}) {
    SCOPED_TRACE(scale);
    const Outcome outcome = judge(two_matmuls(scale));
    EXPECT_EQ(outcome.plan, "0 chain: matmul + matmul\n");
    EXPECT_EQ(outcome.fault, "");
    EXPECT_FALSE(outcome.agrees_unrounded);
  }
  EXPECT_NE(judge(two_matmuls(400), {}, off).fault, "");
  // More than what operands of a sum may be off by for being rounded the other way.
  const auto slightly_off = [](Tensor& written) { off_by(0.01, written); };
  EXPECT_NE(judge(two_matmuls(400), {}, slightly_off).fault, "");
  EXPECT_NE(judge(two_matmuls(400), {}, to_infinity).fault, "");
  EXPECT_NE(judge(two_matmuls(400), {}, from_infinity).fault, "");
}

// Four stages, three of which round to bf16: what may be rounded either way in one of them goes
// through the others, and is still little.
Case feed_forward(double scale) {
  return {fmt::format(R"(graph g(%x: bf16[{}, 64]) {{
    %v = constant {{value = bf16[64, 64] random 1}}
    %u = constant {{value = bf16[64, 128] random 2}}
    %w = constant {{value = bf16[128, 64] random 3}}
    %o = matmul(%x, %v)
    %h = add(%o, %x)
    %n = rms_norm(%h) {{axis = -1, epsilon = 1e-05}}
    %m = matmul(%n, %u)
    %a = silu(%m)
    %d = matmul(%a, %w)
    %s = add(%d, %h)
    %y = cast(%s) {{to = f32}}
    return %y as "y" }})",
                      128 * host_target().cores),
          {},
          scale};
}

TEST(KernelReference, ALongChainIsHeldToWhatItsRoundingDecides) {
  for (const char* target : {"host", "host-generic"}) {
    for (const double scale : {1.0 / 400, 1.0, 400.0}) {
      SCOPED_TRACE(fmt::format("{} on {}", scale, target));
      Case given = feed_forward(scale);
      given.target = target;
      const Outcome outcome = judge(given);
      EXPECT_EQ(outcome.kernels, 1) << outcome.plan;
      EXPECT_FALSE(outcome.agrees_unrounded);
      EXPECT_EQ(outcome.fault, "");
      const auto slightly_off = [](Tensor& written) { off_by(0.05, written); };
      EXPECT_NE(judge(given, {}, slightly_off).fault, "");
    }
  }
}

// The two stages of five experts, of which each token chose two, and the sum of what they gave.
Case experts(const std::string& dtype, std::int64_t tokens, double scale) {
  return {fmt::format(R"(graph g(%x: {0}[{1}, 64], %c: i64[{1}, 2], %s: {0}[{1}, 2]) {{
    %v = constant {{value = {0}[5, 64, 96] random 1}}
    %w = constant {{value = {0}[5, 96, 64] random 2}}
    %two = constant {{value = i64[] {{2}}}}
    %flat = reshape(%c) {{shape = <{2}>}}
    %order, %place, %counts = sort_by_group(%flat) {{groups = <5>}}
    %token = div(%order, %two)
    %rows = gather(%x, %token) {{axis = 0}}
    %m = grouped_matmul(%rows, %v, %counts)
    %h = silu(%m)
    %d = grouped_matmul(%h, %w, %counts)
    %b = gather(%d, %place) {{axis = 0}}
    %p = reshape(%b) {{shape = <{1}, 2, 64>}}
    %q = reshape(%s) {{shape = <{1}, 2, 1>}}
    %a = mul(%p, %q)
    %z = reduce_sum(%a) {{axes = [1], keepdims = 0}}
    %y = cast(%z) {{to = f32}}
    return %y as "y" }})",
                      dtype, tokens, 2 * tokens),
          {},
          scale};
}

TEST(KernelReference, ExpertsRoundBetweenTheirStagesAndBeforeTheirSum) {
  const std::int64_t many = std::int64_t{640} * host_target().cores;
  const auto far_off = [](Tensor& y) { y.set_double(0, 4 * y.get_double(0) + 10000); };
  for (const std::string dtype : {"f16", "bf16"}) {
    for (const std::int64_t tokens : {std::int64_t{3}, many}) {
      SCOPED_TRACE(fmt::format("{}, {} tokens", dtype, tokens));
      const Case given = experts(dtype, tokens, 1);
      const Outcome outcome = judge(given);
      EXPECT_EQ(outcome.kernels, tokens == many ? 1 : 2) << outcome.plan;
      EXPECT_EQ(outcome.fault, "");
      EXPECT_FALSE(outcome.agrees_unrounded);
      EXPECT_NE(judge(given, {}, far_off).fault, "");
    }
  }
}

// A value that is as near to the limit as f32 sums tell may be on either side of it, and no other.
TEST(KernelReference, AtTheLimitOfATypeAKernelMayRoundEitherWay) {
  const auto given = [](double value) {
    Case cast{R"(graph g(%x: f32[2]) {
      %y = cast(%x) {to = f16}
      return %y as "y" })"};
    cast.all = value;
    return cast;
  };
  const auto as = [](double value) { return [value](Tensor& y) { y.set_double(0, value); }; };
  for (const double near : {65519.0, 65521.0}) {
    EXPECT_EQ(judge(given(near)).fault, "");
    for (const double other : {65504.0, HUGE_VAL}) {
      EXPECT_EQ(judge(given(near), {}, as(other)).fault, "") << near << " as " << other;
    }
    for (const double wrong : {-HUGE_VAL, std::nan(""), 65504.0 / 2}) {
      EXPECT_NE(judge(given(near), {}, as(wrong)).fault, "") << near << " as " << wrong;
    }
  }
  for (const double far : {65000.0, 66000.0}) EXPECT_EQ(judge(given(far)).fault, "");
  EXPECT_NE(judge(given(65000), {}, as(HUGE_VAL)).fault, "");
  EXPECT_NE(judge(given(66000), {}, as(65504)).fault, "");
}

// x op z in a half type, and a cast.
Case then_cast(const std::string& op, const std::string& half, const std::string& to, bool strict,
               double scale = 1) {
  return {fmt::format(R"(graph g(%x: {1}[n], %z: {1}[n]) {{
    %a = {0}(%x, %z)
    %y = cast(%a) {{to = {2}}}
    return %y as "y" }})",
                      op, half, to),
          {{"n", 500}},
          scale,
          strict};
}

TEST(KernelReference, StrictRoundsAtEveryOperator) {
  for (const bool strict : {false, true}) {
    const Case given = then_cast("add", "bf16", "f32", strict);
    const Outcome outcome = judge(given);
    EXPECT_EQ(outcome.plan, "0 map: add + cast\n");
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.agrees_unrounded, !strict);
    EXPECT_NE(judge(given, {}, off).fault, "");
  }
  // It is a fault to round where the mode does not.
  EXPECT_NE(judge(then_cast("add", "bf16", "f32", true), false).fault, "");
}

// 160000 in f32 and no number of f16: the integer is that or the largest one.
TEST(KernelReference, CastsSaturateWhereTheOperandOverflowed) {
  for (const bool strict : {false, true}) {
    const Case given = then_cast("mul", "f16", "i32", strict, 400);
    const Outcome outcome = judge(given);
    EXPECT_EQ(outcome.plan, "0 map: mul + cast\n");
    EXPECT_EQ(outcome.fault, "");
    EXPECT_EQ(outcome.agrees_unrounded, !strict);
    const auto one_more = [](Tensor& y) { y.set_int(7, y.get_int(7) - 1); };
    EXPECT_NE(judge(given, {}, one_more).fault, "");
  }
  EXPECT_NE(judge(then_cast("mul", "f16", "i32", true, 400), false).fault, "");
}

// 0.7f * 10 is 7 in f32, and a little less in f64.
TEST(KernelReference, WholeNumbersComeOfValuesInTheComputeType) {
  Case given{R"(graph g(%x: f32[5]) {
    %ten = constant {value = f32[] {10.0}}
    %a = mul(%x, %ten)
    %y = cast(%a) {to = i32}
    return %y as "y" })"};
  given.all = 0.7;
  const Outcome outcome = judge(given);
  EXPECT_EQ(outcome.kernels, 1);
  EXPECT_FALSE(outcome.agrees_unrounded);
  EXPECT_EQ(outcome.fault, "");
  EXPECT_NE(judge(given, {}, [](Tensor& y) { y.set_int(0, 6); }).fault, "");
}

Case attention(double scale, int queries) {
  return {fmt::format(R"(graph g(%q: bf16[1, 2, {0}, 32], %k: bf16[1, 2, 300, 32],
                            %v: bf16[1, 2, 300, 32]) {{
    %a = attention(%q, %k, %v) {{scale = {1}}}
    %y = cast(%a) {{to = f32}}
    return %y as "y" }})",
                      queries, 0.2 / scale / scale),
          {},
          scale};
}

// Weights of up to 400 on either side: what bf16 leaves of them shows in an f32 result.
TEST(KernelReference, TheWeightsOfAnAttentionOnAMatrixUnitAreBf16) {
  for (const int queries : {5, 64}) {
    for (const double scale : {1.0, 400.0}) {
      SCOPED_TRACE(fmt::format("{} queries, {}", queries, scale));
      const Outcome outcome = judge(attention(scale, queries));
      EXPECT_EQ(outcome.plan, "0 attention: attention + cast\n");
      EXPECT_EQ(outcome.fault, "");
      const bool rounds = host_target().has_amx_bf16 && queries > 16;
      EXPECT_EQ(outcome.agrees_unrounded, !rounds);
      EXPECT_NE(judge(attention(scale, queries), {}, off).fault, "");
    }
  }
  // Without that unit the weights are f32, and it is a fault if they are not.
  if (!host_target().has_amx_bf16) return;
  Case elsewhere = attention(400, 64);
  elsewhere.target = "host-avx512";
  EXPECT_TRUE(judge(elsewhere).agrees_unrounded);
}

// What the unit takes for zero, a large weight makes visible.
TEST(KernelReference, SubnormalsAreZeroToAMatrixUnit) {
  const Case given{R"(graph g(%x: bf16[40, 64]) {
    %w = constant {value = bf16[64, 32] splat 1e38}
    %y = matmul(%x, %w)
    return %y as "y" })",
                   {},
                   1e-39};
  const Outcome outcome = judge(given);
  EXPECT_EQ(outcome.plan, "0 contract: matmul\n");
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(outcome.agrees_unrounded, !host_target().has_amx_bf16);
}

}  // namespace
}  // namespace opweld::testing
