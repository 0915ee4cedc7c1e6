#include "rewrite/merge_projections.h"

#include <cmath>

#include "rewrite/raising.h"

namespace opweld {
namespace {

// The sums are the same sums, so the results are equal, not near.
const RaisingCase kCase{merge_projections, {{"b", 2}, {"s", 5}}, {kInf, -kInf, kNan, 0.0}, 0.0};

std::string weights(std::string_view name, std::string_view sizes, int seed = 1) {
  return fmt::format(" %{} = constant {{value = f32{} random {}}}\n", name, sizes, seed);
}

std::string graph(std::string_view body, std::string_view results = "%y as \"y\"") {
  return fmt::format("graph g(%x: f32[b, s, 8], %z: f32[b, s, 8]) {{\n{} return {}\n}}", body,
                     results);
}

const std::string kHeads =
    " %qr = reshape(%q) {shape = <b, s, 2, 2>}\n %kr = reshape(%k) {shape = <b, s, 2, 2>}\n"
    " %vr = reshape(%v) {shape = <b, s, 2, 3>}\n"
    " %qh = transpose(%qr) {permutation = [0, 2, 1, 3]}\n"
    " %kh = transpose(%kr) {permutation = [0, 2, 1, 3]}\n"
    " %vh = transpose(%vr) {permutation = [0, 2, 1, 3]}\n"
    " %y = attention(%qh, %kh, %vh) {scale = 0.5}\n";

const std::string kWeights = weights("wq", "[8, 4]", 1) + weights("wk", "[8, 4]", 2) +
                             weights("wv", "[8, 6]", 3) + weights("bq", "[4]", 4) +
                             weights("bk", "[1, 1, 4]", 5) + weights("bv", "[6]", 6);

const std::string kPlain = " %q = matmul(%x, %wq)\n %k = matmul(%x, %wk)\n %v = matmul(%x, %wv)\n";

const std::string kMerged =
    "matmul slice slice slice reshape reshape reshape transpose transpose "
    "transpose attention";

// Values and shapes of the constants do not matter here.
std::string without_constants(const std::string& text) {
  std::string left;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start) + 1;
    const std::string line = text.substr(start, end - start);
    if (line.find(" = constant ") == std::string::npos) left += line;
    start = end;
  }
  return left;
}

TEST(MergeProjections, BeforeAndAfter) {
  EXPECT_EQ(without_constants(raised_text(graph(kWeights + kPlain + kHeads), kCase)),
            R"(graph g(%x: f32[b, s, 8], %z: f32[b, s, 8]) {
  %1 = matmul(%x, %0)
  %q = slice(%1) {sizes = <b, s, 4>, starts = <0, 0, 0>, steps = [1, 1, 1]}
  %k = slice(%1) {sizes = <b, s, 4>, starts = <0, 0, 4>, steps = [1, 1, 1]}
  %v = slice(%1) {sizes = <b, s, 6>, starts = <0, 0, 8>, steps = [1, 1, 1]}
  %qr = reshape(%q) {shape = <b, s, 2, 2>}
  %kr = reshape(%k) {shape = <b, s, 2, 2>}
  %vr = reshape(%v) {shape = <b, s, 2, 3>}
  %qh = transpose(%qr) {permutation = [0, 2, 1, 3]}
  %kh = transpose(%kr) {permutation = [0, 2, 1, 3]}
  %vh = transpose(%vr) {permutation = [0, 2, 1, 3]}
  %y = attention(%qh, %kh, %vh) {scale = 0.5}
  return %y as "y"
}
)");
}

TEST(MergeProjections, BiasesOfAllAreMerged) {
  const std::string biased =
      " %qm = matmul(%x, %wq)\n %q = add(%qm, %bq)\n %km = matmul(%x, %wk)\n %k = add(%bk, %km)\n"
      " %vm = matmul(%x, %wv)\n %v = add(%vm, %bv)\n";
  EXPECT_EQ(raised(graph(kWeights + biased + kHeads), kCase),
            "matmul add slice slice slice reshape reshape reshape transpose transpose transpose "
            "attention");
}

// As in Whisper, whose keys have none.
TEST(MergeProjections, WhereSomeHaveNoBiasTheyGetMinusZero) {
  const std::string biased =
      " %qm = matmul(%x, %wq)\n %q = add(%qm, %bq)\n %k = matmul(%x, %wk)\n"
      " %vm = matmul(%x, %wv)\n %v = add(%vm, %bv)\n";
  const Graph after = raised_graph(graph(kWeights + biased + kHeads), kCase);
  const Node* sum = nullptr;
  for (const auto& node : after.nodes()) {
    if (node->op() == "add") sum = node.get();
  }
  ASSERT_NE(sum, nullptr);
  const Tensor& bias = sum->operand(1)->producer()->attributes().tensor("value");
  ASSERT_EQ(bias.sizes(), Sizes{14});
  for (std::int64_t i = 4; i < 8; ++i) {
    EXPECT_EQ(bias.get_double(i), 0);
    EXPECT_TRUE(std::signbit(bias.get_double(i)));
  }
  EXPECT_NE(bias.get_double(3), 0);
  EXPECT_NE(bias.get_double(8), 0);
}

TEST(MergeProjections, ABiasOfAnotherShapeIsNoBias) {
  // The scalar and the matrix are read by pointwise operators of their own.
  for (const std::string& bias : {weights("c", "[]"), weights("c", "[1]")}) {
    const std::string sum =
        " %a = matmul(%x, %wq)\n %q = add(%a, %c)\n %k = matmul(%x, %wk)\n"
        " %v = matmul(%x, %wv)\n";
    const std::string left = raised(graph(joined({kWeights, bias, sum, kHeads})), kCase);
    EXPECT_EQ(left.substr(0, left.find(" reshape")), "matmul add matmul slice slice") << bias;
  }
}

const std::string kGate = weights("wg", "[8, 5]", 1) + weights("wu", "[8, 5]", 2) +
                          " %g = matmul(%x, %wg)\n %u = matmul(%x, %wu)\n";

TEST(MergeProjections, GatePairsInAnySpelling) {
  for (const std::string body : {
           " %a = silu(%g)\n %y = mul(%a, %u)\n",
           " %a = silu(%g)\n %y = mul(%u, %a)\n",
           " %a = sigmoid(%g)\n %c = mul(%a, %g)\n %y = mul(%c, %u)\n",
           " %one = constant {value = f32[] {1.5}}\n %n = neg(%g)\n %e = exp(%n)\n"
           " %d = add(%e, %one)\n %c = div(%g, %d)\n %y = mul(%c, %u)\n",
           " %a = gelu(%g)\n %b = mul(%a, %u)\n %y = add(%b, %z5)\n",
           " %y = mul(%g, %u)\n",
       }) {
    const bool residual = body.find("z5") != std::string::npos;
    const std::string third = residual ? " %z5 = slice(%z) {starts = <0, 0, 0>, sizes = <b, s, 5>, "
                                         "steps = [1, 1, 1]}\n"
                                       : "";
    const std::string left = raised(graph(joined({kGate, third, body})), kCase);
    EXPECT_EQ(left.find("matmul slice slice"), 0U) << body << left;
    EXPECT_EQ(left.rfind("matmul"), 0U) << body << left;
  }
}

TEST(MergeProjections, GatePairAndHeadsOfOneOperandStayApart) {
  const std::string left =
      raised(graph(joined({kWeights, kPlain, kHeads, kGate, " %w = mul(%g, %u)\n"}),
                   "%y as \"y\", %w as \"w\""),
             kCase);
  EXPECT_EQ(left, kMerged + " matmul slice slice mul");
}

TEST(MergeProjections, NoGatePair) {
  const auto stays = [](const std::string& body, const std::string& results = "%y as \"y\"") {
    const std::string left = raised(graph(body, results), kCase);
    EXPECT_EQ(left.find("slice"), std::string::npos) << body << left;
  };
  // Not brought together, or not by pointwise operators alone.
  stays(kGate + " %a = silu(%g)\n %b = silu(%u)\n", "%a as \"a\", %b as \"b\"");
  stays(kGate + " %a = softmax(%g) {axis = -1}\n %y = mul(%a, %u)\n");
  // One is an output as well, or read elsewhere.
  stays(kGate + " %a = silu(%g)\n %y = mul(%a, %u)\n", "%y as \"y\", %g as \"g\"");
  stays(kGate + " %a = silu(%g)\n %y = mul(%a, %u)\n %m = reduce_max(%u) {axes = [-1]}\n",
        "%y as \"y\", %m as \"m\"");
  // Broadcast against each other.
  stays(weights("wg", "[8, 1]", 1) + weights("wu", "[8, 5]", 2) +
        " %g = matmul(%x, %wg)\n %u = matmul(%x, %wu)\n %y = mul(%g, %u)\n");
}

TEST(MergeProjections, NearMissesStayAsTheyAre) {
  const auto left = [](const std::string& body, const std::string& results = "%y as \"y\"") {
    return raised(graph(body + kHeads, results), kCase);
  };
  const std::string none =
      "matmul matmul matmul reshape reshape reshape transpose transpose "
      "transpose attention";
  const auto with = [](std::string_view q, std::string_view k, std::string_view v) {
    return joined({kWeights, " %q = ", q, "\n %k = ", k, "\n %v = ", v, "\n"});
  };
  EXPECT_EQ(left(kWeights + kPlain), kMerged);
  // Another operand; two of one operand are merged still.
  EXPECT_EQ(left(with("matmul(%x, %wq)", "matmul(%z, %wk)", "matmul(%x, %wv)")),
            "matmul slice slice matmul reshape reshape reshape transpose transpose transpose "
            "attention");
  EXPECT_EQ(left(with("matmul(%x, %wq)", "matmul(%z, %wk)",
                      "slice(%x) {starts = <0, 0, 0>, "
                      "sizes = <b, s, 6>, steps = [1, 1, 1]}")),
            "matmul matmul slice reshape reshape reshape transpose transpose transpose attention");
  // A result that is given out, or that has a second reader.
  const std::string two = "matmul slice slice matmul";
  EXPECT_EQ(left(kWeights + kPlain, "%y as \"y\", %v as \"v\"").find(two), 0U);
  EXPECT_EQ(left(kWeights + kPlain, "%y as \"y\", %vh as \"v\"").find(two), 0U);
  EXPECT_EQ(left(kWeights + kPlain + " %t = tanh(%v)\n", "%y as \"y\", %t as \"t\"").find(two), 0U);
  // Weights that something else reads: they would be held twice.
  EXPECT_EQ(left(kWeights + kPlain + " %t = tanh(%wv)\n", "%y as \"y\", %t as \"t\"").find(two),
            0U);
  EXPECT_EQ(left(with("matmul(%x, %wq)", "matmul(%x, %wq)", "matmul(%x, %wv)")), none);
}

TEST(MergeProjections, WeightsThatAreComputedOrBatchedStay) {
  const std::string reads = " %y = matmul(%q, %k)\n";
  const auto left = [&](const std::string& inputs, const std::string& body) {
    return raised("graph g(" + inputs + ") {\n" + body + reads + " return %y as \"y\"\n}",
                  {merge_projections, {{"s", 4}}});
  };
  const std::string both = " %q = matmul(%x, %v)\n %k = matmul(%x, %w)\n";
  const std::string x = "%x: f32[4, 4]";
  EXPECT_EQ(left(x, weights("v", "[4, 4]", 1) + weights("w", "[4, 4]", 2) + both),
            "matmul slice slice matmul");
  EXPECT_EQ(left(x + ", %v: f32[4, 4]", weights("w", "[4, 4]", 2) + both), "matmul matmul matmul");
  EXPECT_EQ(left(x, weights("v", "[3, 4, 4]", 1) + weights("w", "[3, 4, 4]", 2) + both),
            "matmul matmul matmul");
  // Of integers, which are a call.
  EXPECT_EQ(left("%x: i32[4, 4]",
                 " %v = constant {value = i32[4, 4] random 1}\n"
                 " %w = constant {value = i32[4, 4] random 2}\n" +
                     both),
            "matmul matmul matmul");
  // Nothing to multiply, or nothing to multiply with.
  EXPECT_EQ(left("%x: f32[4, 0]", weights("v", "[0, 4]", 1) + weights("w", "[0, 4]", 2) + both),
            "matmul matmul matmul");
}

TEST(MergeProjections, EveryDtype) {
  for (const std::string dtype : {"f16", "bf16", "f64"}) {
    std::string text = graph(weights("wq", "[8, 4]", 1) + weights("wk", "[8, 4]", 2) +
                             " %q = matmul(%x, %wq)\n %k = matmul(%x, %wk)\n"
                             " %t = transpose(%k) {permutation = [0, 2, 1]}\n"
                             " %y = matmul(%q, %t)\n");
    for (std::size_t at = 0; (at = text.find("f32", at)) != std::string::npos;) {
      text.replace(at, 3, dtype);
    }
    EXPECT_EQ(raised(text, kCase), "matmul slice slice transpose matmul") << dtype;
  }
}

// Attention in double precision is a call, for which slices would be copied.
TEST(MergeProjections, AttentionInDoublePrecisionStays) {
  std::string text = graph(kWeights + kPlain + kHeads);
  for (std::size_t at = 0; (at = text.find("f32", at)) != std::string::npos;) {
    text.replace(at, 3, "f64");
  }
  EXPECT_EQ(raised(text, kCase).find("slice"), std::string::npos);
}

TEST(MergeProjections, NamesOfTheModelStay) {
  Graph before = parse_graph("graph g(%x: f32[s, 4]) {\n" + weights("v", "[4, 4]", 1) +
                             weights("w", "[4, 4]", 2) + weights("c", "[4]", 3) +
                             " %m = matmul(%x, %v) @\"/q/MatMul\" op \"MatMul\" scope \"layer.0\"\n"
                             " %q = add(%m, %c) @\"/q/Add\" op \"Add\" scope \"layer.0\"\n"
                             " %k = matmul(%x, %w) @\"/k/MatMul\" op \"MatMul\" scope \"layer.0\"\n"
                             " %t = transpose(%k) {permutation = [1, 0]}\n"
                             " %y = matmul(%q, %t)\n return %y as \"y\"\n}")
                     .value();
  ASSERT_TRUE(merge_projections(before));
  std::vector<Source> sources;
  for (const auto& node : before.nodes()) {
    if (node->op() != "constant") sources.push_back(node->source());
  }
  ASSERT_EQ(sources.size(), 6U);
  EXPECT_EQ(sources[0], (Source{"/q/MatMul + /k/MatMul", "MatMul + MatMul", "layer.0", 2}));
  EXPECT_EQ(sources[1], (Source{"/q/Add", "Add", "layer.0"}));
  EXPECT_EQ(sources[2], (Source{"/q/Add", "Slice", "layer.0", 0}));
  EXPECT_EQ(sources[3], (Source{"/k/MatMul", "Slice", "layer.0", 0}));
}

}  // namespace
}  // namespace opweld
