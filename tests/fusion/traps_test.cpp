// Small graphs that other fusion compilers were once known to get wrong.
#include <set>

#include "compile.h"
#include "fusion/planning.h"
#include "ops/reference.h"
#include "runtime/compare.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

// Runs the graph fused and unfused at these sizes and expects of both what the definitions give.
void expect_right(const std::string& text, const std::vector<Bindings>& sizes) {
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
    SCOPED_TRACE(static_cast<int>(level));
    CompileOptions options;
    options.level = level;
    options.threads = 2;
    auto compiled = compile(parse_graph(text).value(), options);
    ASSERT_TRUE(compiled) << compiled.error().message;
    const Graph graph = parse_graph(text).value();
    for (const Bindings& bindings : sizes) {
      std::vector<Tensor> inputs;
      for (const Value* input : graph.inputs()) {
        inputs.push_back(random_tensor(input->type(), evaluate(input->shape(), bindings).value(),
                                       static_cast<unsigned>(inputs.size()) + 1));
      }
      const auto expected = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
      const auto actual = compiled->executable.run(inputs);
      ASSERT_TRUE(actual) << actual.error().message;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const Comparison result =
            compare_strictly((*actual)[i], expected[i], default_tolerance((*actual)[i].dtype()));
        EXPECT_TRUE(result.equal) << graph.outputs()[i].name << ": " << result.message;
      }
    }
  }
}

std::vector<Bindings> lengths() {
  std::vector<Bindings> all;
  for (const std::int64_t n : kLengths) all.push_back({{"n", n}});
  return all;
}

// A feeds E at once, and round a way on which something stands that joins nobody.
constexpr const char* kDiamond = R"(graph g(%x: f32[n, 8]) {
  %a = exp(%x)
  %c = neg(%a)
  %g = abs(%c)
  %h, %i = top_k(%g) {axis = 1, k = <8>, largest = 0, sorted = 1}
  %k = sigmoid(%h)
  %d = tanh(%k)
  %q = sqrt(%g)
  %e = add(%a, %d)
  return %e as "e", %q as "q"
})";

TEST(Traps, ADiamondKeepsItsTwoEndsApartAndFusesTheRest) {
  const PlannedGraph planned(kDiamond);
  EXPECT_EQ(planned.verdict("a", "e").code, ReasonCode::Cycle);
  EXPECT_EQ(planned.edge("a", "c"), "fused");
  EXPECT_EQ(planned.edge("c", "g"), "fused");
  EXPECT_EQ(planned.edge("k", "d"), "fused");
  EXPECT_EQ(planned.edge("d", "e"), "fused");
  EXPECT_EQ(planned.text(),
            "0 map: exp + neg + abs + sqrt\n1 extern: top_k\n"
            "2 map: sigmoid + tanh + add\n");
  expect_right(kDiamond, lengths());
}

TEST(Traps, ADiamondOfOperatorsThatJoinIsOneKernel) {
  constexpr const char* kJoining = R"(graph g(%x: f32[n, 8]) {
    %a = exp(%x)
    %c = neg(%a)
    %g = abs(%c)
    %d = tanh(%g)
    %e = add(%a, %d)
    return %e as "e"
  })";
  EXPECT_EQ(PlannedGraph(kJoining).text(), "0 map: exp + neg + abs + tanh + add\n");
  expect_right(kJoining, lengths());
}

TEST(Traps, TheSameTensorAsBothOperands) {
  constexpr const char* kSquare = R"(graph g(%x: f32[n, n]) {
    %a = tanh(%x)
    %m = matmul(%a, %a)
    %s = mul(%m, %m)
    %y = add(%x, %x)
    return %s as "s", %y as "y"
  })";
  const PlannedGraph planned(kSquare);
  EXPECT_EQ(planned.edge("m", "s"), "fused");
  for (const Kernel& kernel : planned.plan().kernels) {
    const std::set<const Value*> once(kernel.inputs.begin(), kernel.inputs.end());
    EXPECT_EQ(once.size(), kernel.inputs.size()) << kernel.label << " reads each input once";
  }
  std::vector<Bindings> sizes = lengths();
  sizes.pop_back();  // a product of 640 x 640 adds no case
  expect_right(kSquare, sizes);
}

TEST(Traps, AnIntermediateThatIsAnOutputIsStillWritten) {
  constexpr const char* kGivenOut = R"(graph g(%x: f32[n]) {
    %c = constant {value = f32[3] {1.0, 2.0, 3.0}}
    %a = exp(%x)
    %b = neg(%a)
    return %b as "b", %a as "a", %c as "c", %x as "x", %a as "again"
  })";
  EXPECT_EQ(PlannedGraph(kGivenOut).text(), "0 map: exp + neg\n");
  expect_right(kGivenOut, lengths());
}

// x + i0 + i1 + ... + i49.
std::string chain_of_adds() {
  std::string inputs = "%x: f32[n]";
  std::string body;
  std::string last = "x";
  for (int i = 0; i < 50; ++i) {
    inputs += fmt::format(", %i{}: f32[n]", i);
    body += fmt::format("  %a{} = add(%{}, %i{})\n", i, last, i);
    last = fmt::format("a{}", i);
  }
  return "graph g(" + inputs + ") {\n" + body + "  return %" + last + " as \"y\"\n}";
}

TEST(Traps, ALongChainIsCutAndTheCutSaysWhy) {
  const PlannedGraph planned(chain_of_adds());
  ASSERT_EQ(planned.plan().kernels.size(), 2U);
  std::vector<ReasonCode> cuts;
  for (const Verdict& verdict : planned.plan().verdicts) {
    if (verdict.code != ReasonCode::Fused) cuts.push_back(verdict.code);
  }
  EXPECT_EQ(cuts, std::vector{ReasonCode::Limit});
  expect_right(chain_of_adds(), lengths());
}

// Meaning, not spelling: each pair has as many kernels, of the same kinds.
std::string kinds(const std::string& text) {
  auto compiled = compile(parse_graph(text).value());
  EXPECT_TRUE(compiled) << compiled.error().message;
  std::string found;
  for (const Kernel& kernel : compiled->executable.plan().kernels) {
    found += fmt::format("{} ", to_string(kernel.kind));
  }
  return found;
}

TEST(Traps, SwappedOperandsFuseAlike) {
  const auto text = [](std::string_view sum, std::string_view product) {
    return fmt::format(R"(graph g(%x: f32[n, 64], %r: f32[n, 64], %g: f32[64]) {{
      %w = constant {{value = f32[64, 64] random 1}}
      %m = matmul(%x, %w)
      %h = add({})
      %s = sigmoid(%h)
      %p = mul({})
      %y = softmax(%p) {{axis = -1}}
      return %y as "y", %h as "h"
    }})",
                       sum, product);
  };
  const std::string plain = kinds(text("%m, %r", "%h, %s"));
  EXPECT_EQ(plain, kinds(text("%r, %m", "%h, %s")));
  EXPECT_EQ(plain, kinds(text("%m, %r", "%s, %h")));
  EXPECT_EQ(plain, kinds(text("%r, %m", "%s, %h")));
}

TEST(Traps, IdleCastsAndReshapesFuseAlike) {
  constexpr const char* kFrame = R"(graph g(%x: f32[n, 64], %g: f32[64]) {{
    %w = constant {{value = f32[64, 64] random 1}}
    %m = matmul(%x, %w)
    {}
    %t = tanh(%between)
    %y = rms_norm(%t, %g) {{axis = -1, epsilon = 1e-05}}
    return %y as "y"
  }})";
  const std::string plain = kinds(fmt::format(kFrame, "%between = neg(%m)"));
  EXPECT_EQ(plain, "chain ");
  EXPECT_EQ(plain, kinds(fmt::format(kFrame, "%o = cast(%m) {to = f32} %between = neg(%o)")));
  EXPECT_EQ(plain, kinds(fmt::format(kFrame, R"(%o = reshape(%m) {shape = <n, 8, 8>}
    %q = neg(%o)
    %between = reshape(%q) {shape = <n, 64>})")));
  EXPECT_EQ(plain, kinds(fmt::format(kFrame, R"(%o = neg(%m)
    %between = reshape(%o) {shape = <n, 64>})")));
}

// y = x.flip() read beside x: what is written in place must not be what is still to be read.
TEST(Traps, ReadsThatPrecedeAWriteSeeTheOldValue) {
  expect_right(R"(graph g(%x: f32[n, 33]) {
    %a = tanh(%x)
    %f = slice(%a) {starts = <0, 32>, sizes = <n, 33>, steps = [1, -1]}
    %s = reduce_sum(%f) {axes = [1]}
    %b = add(%s, %f)
    %y = add(%a, %b)
    return %y as "y"
  })",
               lengths());
}

}  // namespace
}  // namespace opweld::testing
