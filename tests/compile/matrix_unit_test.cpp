// bf16 layers through the whole compiler on a target with a matrix unit: weights as exporters leave
// them reach it, and threads change nothing.
#include <gmock/gmock.h>

#include "compile.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Compiled {
  Executable executable;
  std::string programs;
};

Compiled compiled(const std::string& text, const std::string& target, int threads,
                  bool strict = false) {
  std::string programs;
  CompileOptions options;
  options.target = target;
  options.threads = threads;
  options.strict = strict;
  options.dump_after = "tile";
  options.dump = [&](std::string_view, const std::string& dumped) { programs += dumped; };
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return {std::move(result->executable), std::move(programs)};
}

// A layer of a network whose weights are stored [N, K], as a linear layer of most frameworks is,
// with a gate of two of them.
std::string layer(int depth, int width) {
  return fmt::format(R"(graph g(%x: bf16[b, s, {0}]) {{
    %wg = constant {{value = bf16[{1}, {0}] random 1}}
    %wu = constant {{value = bf16[{1}, {0}] random 2}}
    %wd = constant {{value = bf16[{0}, {1}] random 3}}
    %tg = transpose(%wg) {{permutation = [1, 0]}}
    %tu = transpose(%wu) {{permutation = [1, 0]}}
    %td = transpose(%wd) {{permutation = [1, 0]}}
    %g = matmul(%x, %tg)
    %u = matmul(%x, %tu)
    %a = sigmoid(%g)
    %h = mul(%a, %u)
    %d = matmul(%h, %td)
    %y = add(%d, %x)
    return %h as "h", %y as "y"
  }})",
                     depth, width);
}

// What follows its gate.
std::string last_of_layer(int depth, int width) {
  return fmt::format(R"(graph g(%x: bf16[b, s, {0}], %h: bf16[b, s, {1}]) {{
    %wd = constant {{value = bf16[{0}, {1}] random 3}}
    %td = transpose(%wd) {{permutation = [1, 0]}}
    %d = matmul(%h, %td)
    %y = add(%d, %x)
    return %y as "y"
  }})",
                     depth, width);
}

class MatrixUnit : public ::testing::TestWithParam<std::string> {
 protected:
  static bool on_unit() { return GetParam() == "host-amx"; }
};

TEST_P(MatrixUnit, TransposedWeightsAndGatesReachIt) {
  for (const auto& [depth, width] : {std::pair{64, 96}, std::pair{45, 33}}) {
    const std::string text = layer(depth, width);
    const Graph graph = parse_graph(text).value();
    const Graph last = parse_graph(last_of_layer(depth, width)).value();
    Compiled model = compiled(text, GetParam(), 2);
    if (on_unit()) {
      EXPECT_THAT(model.programs, HasSubstr("packed(32 parts 2 pairs)"));
      EXPECT_THAT(model.programs, HasSubstr("packed(32 pairs)"));
    } else {
      EXPECT_THAT(model.programs, Not(HasSubstr("matrix_dot")));
    }
    for (const std::int64_t s : {0, 1, 17, 70}) {
      const std::vector<Tensor> inputs = {
          random_tensor(graph.inputs()[0]->type(), {2, s, depth}, 5)};
      const auto actual = model.executable.run(inputs).value();
      const auto exact = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
      const Comparison h = compare_strictly(actual[0], exact[0], default_tolerance(DType::BF16));
      EXPECT_TRUE(h.equal) << "s = " << s << ": " << h.message;
      // The last product reads what was rounded to bf16.
      const std::vector<Tensor> given = {inputs[0], actual[0]};
      const auto from_h = evaluate(last, given, {.in_f64 = true, .observer = {}}).value();
      const Comparison y = compare_strictly(actual[1], from_h[0], default_tolerance(DType::BF16));
      EXPECT_TRUE(y.equal) << "s = " << s << ": " << y.message;
    }
  }
}

TEST_P(MatrixUnit, ThreadsChangeNothing) {
  const std::string text = layer(1088, 200);
  const Graph graph = parse_graph(text).value();
  Executable one = compiled(text, GetParam(), 1).executable;
  for (const int threads : {2, 3, 5}) {
    Executable many = compiled(text, GetParam(), threads).executable;
    for (const std::int64_t s : {1, 33, 300}) {
      const std::vector<Tensor> inputs = {
          random_tensor(graph.inputs()[0]->type(), {1, s, 1088}, 5)};
      const auto a = one.run(inputs).value();
      const auto b = many.run(inputs).value();
      for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(identical(a[i], b[i])) << threads << " threads, s = " << s;
      }
    }
  }
}

TEST_P(MatrixUnit, StrictNumericsDoWithout) {
  EXPECT_THAT(compiled(layer(64, 96), GetParam(), 1, /*strict=*/true).programs,
              Not(HasSubstr("matrix_dot")));
}

std::vector<std::string> targets() {
  if (find_target("host-amx")) return {"host-amx", "host-avx512"};
  return {"host"};
}

INSTANTIATE_TEST_SUITE_P(Target, MatrixUnit, ::testing::ValuesIn(targets()), [](const auto& each) {
  if (each.param == "host-amx") return "OnTheMatrixUnit";
  return each.param == "host" ? "FallbackOnHostWithoutUnit" : "FallbackOfVectors";
});

}  // namespace
}  // namespace opweld::testing
