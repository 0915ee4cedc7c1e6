// Chains through the whole compiler: what is planned, and that no answer changes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "compile.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

struct Settings {
  FusionLevel level = FusionLevel::Auto;
  bool strict = false;
  std::string target = "host";
  int threads = 2;
};

Executable compiled(const std::string& text, const Settings& settings) {
  CompileOptions options;
  options.level = settings.level;
  options.strict = settings.strict;
  options.target = settings.target;
  options.threads = settings.threads;
  options.verify_passes = true;
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

// A block of an encoder without its attention: projection, residual, norm, feed-forward, residual,
// norm. `scale` keeps sums of halves small. So many rows for each core of this machine.
std::string encoder_block(const std::string& dtype, int rows, int width, int inner) {
  return fmt::format(R"(graph g(%x: {0}[{4}, {1}, {2}]) {{
    %scale = constant {{value = {0}[] {{0.125}}}}
    %wo = constant {{value = {0}[{2}, {2}] random 1}}
    %wu = constant {{value = {0}[{2}, {3}] random 2}}
    %wd = constant {{value = {0}[{3}, {2}] random 3}}
    %bu = constant {{value = {0}[{3}] random 4}}
    %g1 = constant {{value = {0}[{2}] random 5}}
    %b1 = constant {{value = {0}[{2}] random 6}}
    %g2 = constant {{value = {0}[{2}] random 7}}
    %b2 = constant {{value = {0}[{2}] random 8}}
    %o = matmul(%x, %wo)
    %r1 = add(%o, %x)
    %n1 = layer_norm(%r1, %g1, %b1) {{axis = -1, epsilon = 1e-05}}
    %s = mul(%n1, %scale)
    %u = matmul(%s, %wu)
    %ub = add(%u, %bu)
    %h = gelu(%ub)
    %d = matmul(%h, %wd)
    %r2 = add(%d, %n1)
    %y = layer_norm(%r2, %g2, %b2) {{axis = -1, epsilon = 1e-05}}
    return %y as "y"
  }})",
                     dtype, rows, width, inner, host_target().cores);
}

std::vector<Tensor> inputs_of(const std::string& text, unsigned seed) {
  const Graph graph = parse_graph(text).value();
  const TensorType& type = graph.inputs()[0]->type();
  return {random_tensor(type, evaluate(type.shape, {}).value(), seed)};
}

void expect_equal(const Tensor& actual, const Tensor& expected) {
  const Comparison result = compare(actual, expected, default_tolerance(actual.dtype()));
  EXPECT_TRUE(result.equal) << result.message;
}

// A text whose rows are written ROWS: 200 for each core.
std::string with_rows(std::string text) {
  for (auto at = text.find("ROWS"); at != std::string::npos; at = text.find("ROWS")) {
    text.replace(at, 4, std::to_string(200 * host_target().cores));
  }
  return text;
}

struct Case {
  std::string dtype;
  int rows, width, inner;
};

class Chains : public ::testing::TestWithParam<Case> {};

TEST_P(Chains, AreOneKernelAndRight) {
  const auto& [dtype, rows, width, inner] = GetParam();
  const std::string text = encoder_block(dtype, rows, width, inner);
  const auto inputs = inputs_of(text, 11);
  const Graph graph = parse_graph(text).value();
  const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
  for (const std::string target : {"host", "host-avx512", "host-avx2", "host-generic"}) {
    if (!find_target(target)) continue;
    Executable fused = compiled(text, {.target = target});
    EXPECT_EQ(fused.plan().kernels.size(), 1U) << to_text(fused.plan());
    expect_equal(fused.run(inputs).value()[0], exact[0]);
  }
}

TEST_P(Chains, AreBitIdenticalInStrict) {
  const auto& [dtype, rows, width, inner] = GetParam();
  const std::string text = encoder_block(dtype, rows, width, inner);
  const auto inputs = inputs_of(text, 12);
  Executable unfused = compiled(text, {.level = FusionLevel::None, .strict = true});
  Executable fused = compiled(text, {.strict = true});
  EXPECT_LT(fused.plan().kernels.size(), unfused.plan().kernels.size());
  EXPECT_TRUE(identical(fused.run(inputs).value()[0], unfused.run(inputs).value()[0]));
}

TEST_P(Chains, DoNotDependOnThreads) {
  const auto& [dtype, rows, width, inner] = GetParam();
  const std::string text = encoder_block(dtype, rows, width, inner);
  const auto inputs = inputs_of(text, 13);
  const Tensor one = compiled(text, {.threads = 1}).run(inputs).value()[0];
  for (const int threads : {2, 3, 5}) {
    EXPECT_TRUE(identical(one, compiled(text, {.threads = threads}).run(inputs).value()[0]));
  }
}

INSTANTIATE_TEST_SUITE_P(TypesAndTails, Chains,
                         ::testing::Values(Case{"f32", 200, 64, 128}, Case{"f32", 331, 17, 33},
                                           Case{"f32", 500, 96, 80}, Case{"f64", 200, 24, 40},
                                           Case{"f16", 250, 40, 24}, Case{"bf16", 250, 40, 24},
                                           Case{"bf16", 500, 64, 96}),
                         [](const auto& name) {
                           const Case& of = name.param;
                           return fmt::format("{}_{}x{}x{}", of.dtype, of.rows, of.width, of.inner);
                         });

TEST(ChainPlan, RowsThatAreNoNumbersSpoilTheirRowsAndNoOthers) {
  const std::string text = encoder_block("f32", 300, 64, 96);
  auto inputs = inputs_of(text, 14);
  const double infinity = std::numeric_limits<double>::infinity();
  inputs[0].set_double(64 * 7 + 3, infinity);
  inputs[0].set_double(64 * 298 + 63, std::nan(""));
  const Graph graph = parse_graph(text).value();
  const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
  expect_equal(compiled(text, {}).run(inputs).value()[0], exact[0]);
}

// A value between the stages that the model returns, too, is written as well as kept.
TEST(ChainPlan, ValuesBetweenStagesMayBeOutputs) {
  const std::string text = with_rows(R"(graph g(%x: f32[ROWS, 48]) {
    %v = constant {value = f32[48, 70] random 1}
    %w = constant {value = f32[70, 48] random 2}
    %g = constant {value = f32[48] random 3}
    %n = rms_norm(%x, %g) {axis = -1, epsilon = 1e-06}
    %a = matmul(%n, %v)
    %b = silu(%a)
    %c = matmul(%b, %w)
    %y = add(%c, %n)
    return %b as "b", %n as "n", %y as "y"
  })");
  const auto inputs = inputs_of(text, 15);
  Executable fused = compiled(text, {});
  EXPECT_EQ(to_text(fused.plan()), "0 chain: rms_norm + matmul + silu + matmul + add\n");
  const auto exact =
      evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
  const auto actual = fused.run(inputs).value();
  for (std::size_t i = 0; i < exact.size(); ++i) expect_equal(actual[i], exact[i]);
}

// What the next norm or softmax wants to know of a product's rows comes out of its kernel.
// A norm that is read again, and its root, which all tasks that share the columns out have made.
TEST(ChainPlan, NormsOfSharedColumnsAreStoredOnce) {
  const std::string text = R"(graph g(%x: f32[s, 50]) {
    %w = constant {value = f32[50, 333] random 1}
    %mean = reduce_mean(%x) {axes = [-1], keepdims = 1}
    %c = sub(%x, %mean)
    %cc = mul(%c, %c)
    %variance = reduce_mean(%cc) {axes = [-1], keepdims = 1}
    %root = rsqrt(%variance)
    %n = mul(%c, %root)
    %y = matmul(%n, %w)
    %z = relu(%y)
    return %n as "n", %root as "root", %z as "z"
  })";
  const Graph graph = parse_graph(text).value();
  for (const bool strict : {false, true}) {
    Executable unfused = compiled(text, {.level = FusionLevel::None, .strict = strict});
    for (const int threads : {1, 2, 5}) {
      Executable fused = compiled(text, {.strict = strict, .threads = threads});
      EXPECT_EQ(to_text(fused.plan()),
                "0 chain: reduce_mean + sub + mul + reduce_mean + rsqrt + mul + matmul + relu\n");
      for (const std::int64_t rows : {0, 1, 2, 7, 8, 9, 64, 130, 401}) {
        SCOPED_TRACE(fmt::format("{} rows, {} threads, strict {}", rows, threads, strict));
        const std::vector<Tensor> inputs = {
            random_tensor(graph.inputs()[0]->type(), {rows, 50}, 3)};
        const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
        const auto apart = unfused.run(inputs).value();
        const auto together = fused.run(inputs).value();
        for (std::size_t i = 0; i < exact.size(); ++i) {
          expect_equal(together[i], exact[i]);
          EXPECT_TRUE(!strict || identical(together[i], apart[i]));
        }
      }
    }
  }
}

// Two kernels of equal code one behind the other, so that what a thread keeps of the first would
// pass for what the second wants, and runs with other rows.
TEST(ChainPlan, NormsAreKeptForTheirKernelAndRunAlone) {
  const std::string text = R"(graph g(%x: f32[s, 200]) {
    %w = constant {value = f32[200, 200] random 1}
    %v = constant {value = f32[200, 200] random 2}
    %n = layer_norm(%x) {axis = -1, epsilon = 1e-05}
    %a = matmul(%n, %w)
    %m = layer_norm(%a) {axis = -1, epsilon = 1e-05}
    %y = matmul(%m, %v)
    return %a as "a", %y as "y"
  })";
  const Graph graph = parse_graph(text).value();
  for (const int threads : {1, 2, 3}) {
    Executable fused = compiled(text, {.threads = threads});
    EXPECT_EQ(to_text(fused.plan()),
              "0 chain: layer_norm + matmul\n1 chain: layer_norm + matmul\n");
    for (const unsigned seed : {1, 2}) {
      for (const bool single_launch : {false, true}) {
        const std::vector<Tensor> inputs = {
            random_tensor(graph.inputs()[0]->type(), {33, 200}, seed)};
        const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
        RunOptions options;
        options.single_launch = single_launch;
        const auto actual = fused.run(inputs, nullptr, options).value();
        for (std::size_t i = 0; i < exact.size(); ++i) expect_equal(actual[i], exact[i]);
      }
    }
  }
}

TEST(ChainPlan, StatisticsOfAProductsRowsAreItsResultsToo) {
  const std::string text = with_rows(R"(graph g(%x: f32[ROWS, 48]) {
    %v = constant {value = f32[48, 70] random 1}
    %a = matmul(%x, %v)
    %q = mul(%a, %a)
    %s = reduce_sum(%q) {axes = [1]}
    %m = reduce_max(%a) {axes = [1]}
    return %a as "a", %s as "s", %m as "m"
  })");
  const auto inputs = inputs_of(text, 17);
  Executable fused = compiled(text, {});
  EXPECT_EQ(fused.plan().kernels.size(), 1U) << to_text(fused.plan());
  const auto exact =
      evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
  const auto actual = fused.run(inputs).value();
  for (std::size_t i = 0; i < exact.size(); ++i) expect_equal(actual[i], exact[i]);
}

// The second product needs the first and another that is not part of the chain.
TEST(ChainPlan, MatmulsSideBySideAreNoChain) {
  const std::string text = with_rows(R"(graph g(%x: f32[ROWS, 48]) {
    %v = constant {value = f32[48, 70] random 1}
    %w = constant {value = f32[48, 70] random 2}
    %u = constant {value = f32[70, 8] random 3}
    %a = matmul(%x, %v)
    %e = exp(%x)
    %c = matmul(%e, %w)
    %d = mul(%a, %c)
    %y = matmul(%d, %u)
    return %y as "y"
  })");
  const auto inputs = inputs_of(text, 16);
  Executable fused = compiled(text, {});
  EXPECT_GT(fused.plan().kernels.size(), 1U);
  const auto exact =
      evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
  expect_equal(fused.run(inputs).value()[0], exact[0]);
}

// The plan does what it may, and all outputs are right, in strict to the bit.
void expect_right(const std::string& text, unsigned seed) {
  const auto inputs = inputs_of(text, seed);
  const auto exact =
      evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
  const auto apart = compiled(text, {.level = FusionLevel::None, .strict = true}).run(inputs);
  for (const std::string target : {"host", "host-generic"}) {
    const auto fused = compiled(text, {.target = target}).run(inputs);
    for (std::size_t i = 0; i < exact.size(); ++i) expect_equal(fused.value()[i], exact[i]);
  }
  const auto strict = compiled(text, {.strict = true}).run(inputs);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_TRUE(identical(strict.value()[i], apart.value()[i])) << "output " << i;
  }
}

// Row i of a stage is row i of the next one; behind a transpose it would be another.
TEST(ChainPlan, RowsInAnotherOrderAreReadFromMemory) {
  const std::string transpose = "%t = transpose(%m) {permutation = [1, 0, 2]}\n";
  const std::string merge = "%t0 = transpose(%m) {permutation = [1, 0, 2]}\n" +
                            with_rows("%t = reshape(%t0) {shape = <ROWS, 48>}\n");
  const std::string project = "%m = matmul(%x, %w)\n";
  const std::string norm = "%m = rms_norm(%x) {axis = -1, epsilon = 0.25}\n";
  const std::string then_project = "%y = matmul(%t, %w)\n";
  const std::string then_norm = "%y = softmax(%t) {axis = -1}\n";
  for (const std::string& first : {project, norm}) {
    for (const std::string& order : {transpose, merge}) {
      for (const std::string& second : {then_project, then_norm}) {
        if (first == norm && second == then_norm) continue;  // a kernel of their own
        const std::string text = std::string("graph g(%x: f32[2, ") +
                                 std::to_string(100 * host_target().cores) +
                                 ", 48]) {\n%w = constant {value = f32[48, 48] random 1}\n" +
                                 first + order + second + "return %y as \"y\"\n}";
        SCOPED_TRACE(text);
        expect_right(text, 17);
      }
    }
  }
}

TEST(ChainPlan, ReductionsOfMoreThanTheLastAxisAreNoStages) {
  for (const std::string norm :
       {"%n = layer_norm(%x) {axis = 1, epsilon = 0.25}\n",
        "%n = rms_norm(%x) {axis = -2, epsilon = 0.25}\n",
        "%r = reduce_max(%x) {axes = [1, 2], keepdims = 1}\n%n = sub(%x, %r)\n",
        "%r = reduce_mean(%x) {axes = [0, 2], keepdims = 1}\n%n = mul(%x, %r)\n"}) {
    for (const int rows : {1, 8}) {  // more axes of one element do no harm
      const std::string text = with_rows("graph g(%x: f32[ROWS, ") + std::to_string(rows) +
                               ", 48]) {\n%w = constant {value = f32[48, 40] random 1}\n" + norm +
                               "%y = matmul(%n, %w)\nreturn %y as \"y\"\n}";
      SCOPED_TRACE(text);
      expect_right(text, 18);
    }
  }
}

}  // namespace
}  // namespace opweld::testing
