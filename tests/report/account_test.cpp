// The record of a plan: a verdict on every edge, and the lines that tell of them.
#include "report/account.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "explained.h"

namespace opweld::testing {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr FusionLevel kLevels[] = {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto};

// Merged projections that are taken apart, a value that is read twice by one operator, a reshape,
// an operator with two results of which both are read, and a weight that is stored as f16.
constexpr const char* kManyEdges = R"(graph g(%x: f32[n, 64]) {
  %v = constant {value = f32[64, 64] random 1}
  %w = constant {value = f32[64, 64] random 2}
  %h = constant {value = f16[64, 64] random 3}
  %u = cast(%h) {to = f32} @"Widen"
  %e = exp(%x) @"Exp"
  %q = matmul(%e, %v) @"Q"
  %k = matmul(%e, %w) @"K"
  %t = transpose(%k) {permutation = [1, 0]} @"T"
  %s = matmul(%q, %t) @"S"
  %p = softmax(%s) {axis = -1} @"P"
  %o = matmul(%p, %e) @"O"
  %z = matmul(%o, %u) @"Z"
  %m = mul(%z, %z) @"Square"
  %r = reshape(%m) {shape = <64*n>} @"R"
  %a, %i = top_k(%r) {axis = 0, k = <1>, largest = 0, sorted = 1} @"Largest"
  %j = cast(%i) {to = f32} @"J"
  %y = add(%a, %j) @"Y"
  return %y as "y", %m as "m"
})";

// Every operand that another operator computed, by the names of the two.
std::map<std::pair<std::string, std::string>, int> edges_of(const Graph& graph) {
  std::map<std::pair<std::string, std::string>, int> edges;
  for (const auto& node : graph.nodes()) {
    for (const Value* operand : node->operands()) {
      const Node* const producer = operand != nullptr ? operand->producer() : nullptr;
      if (producer == nullptr || producer->op() == "constant") continue;
      ++edges[{producer->display_name(), node->display_name()}];
    }
  }
  return edges;
}

TEST(Account, HasOneVerdictForEveryEdge) {
  for (const char* text : {kFeedForward, kManyEdges}) {
    for (const FusionLevel level : kLevels) {
      CompileOptions options;
      options.level = level;
      const Explained explained(text, options);
      const auto expected = edges_of(explained.graph());
      EXPECT_FALSE(expected.empty());
      std::map<std::pair<std::string, std::string>, int> told;
      const json account = json::parse(explained.json());
      for (const json& edge : account["edges"]) {
        ++told[{edge["from"], edge["to"]}];
        const bool fused = edge["verdict"] == "fused";
        EXPECT_TRUE(fused || edge["verdict"] == "kept");
        for (const char* text_of_kept : {"code", "rule", "remedy"}) {
          EXPECT_EQ(edge[text_of_kept] == "", fused) << edge;
        }
        EXPECT_GE(edge["bytes_saved"], 0);
        EXPECT_GE(edge["flops_added"], 0);
        EXPECT_TRUE(edge["kernel"].is_null() || fused) << edge;
        EXPECT_FALSE(edge["from_sources"].empty());
        EXPECT_FALSE(edge["to_sources"].empty());
      }
      EXPECT_EQ(told, expected);
      EXPECT_THAT(edge_log(explained.plan(), explained.sizes()).value(),
                  SizeIs(explained.plan().verdicts.size()));
    }
  }
}

// Every operator of the model that a run computes is in the kernels' sources, and none twice.
TEST(Account, NamesEveryOperatorOfTheModelOnce) {
  const Explained explained(kManyEdges);
  std::map<std::string, int> named;
  const json account = json::parse(explained.json());
  for (const json& kernel : account["kernels"]) {
    for (const json& source : kernel["sources"]) ++named[source];
  }
  for (const char* name :
       {"Exp", "Q", "K", "T", "S", "P", "O", "Z", "Square", "Largest", "J", "Y"}) {
    EXPECT_EQ(named[name], 1) << name;
  }
}

TEST(Account, CountsOperationsThatAreDoneAgain) {
  // The exp is computed for every row of y, 128 of them, instead of once: 127 * 64 * 20 operations.
  const Explained explained(R"(graph g(%x: f32[64], %z: f32[n, 64]) {
    %e = exp(%x) @"Exp"
    %y = add(%e, %z) @"Add"
    return %y as "y"
  })");
  const json edges = json::parse(explained.json())["edges"];
  ASSERT_THAT(edges, SizeIs(1));
  EXPECT_EQ(edges[0]["flops_added"], 127 * 64 * 20);
  EXPECT_EQ(edges[0]["bytes_saved"], 2 * 64 * 4);
}

TEST(Account, LinesSayWhatBecameOfEachEdge) {
  const Explained explained(R"(graph g(%x: f32[n]) {
    %a = exp(%x) @"Exp"
    %b = neg(%a) @"Neg"
    %v, %i = top_k(%b) {axis = 0, k = <1>, largest = 0, sorted = 1} @"TopK"
    return %v as "v"
  })");
  EXPECT_THAT(edge_log(explained.plan(), explained.sizes()).value(),
              ElementsAre("AutoFusion: fuse Exp | Neg -> FusedKernel_0 saves 1.0 kB",
                          StartsWith("AutoFusion: keep Neg | TopK: opaque (TopK is run by a call) "
                                     "[F-OPAQUE] hint: ")));
}

TEST(Account, SaysThatNothingWasFused) {
  CompileOptions options;
  options.level = FusionLevel::None;
  EXPECT_THAT(nothing_fused_line(Explained(kFeedForward, options).plan()),
              HasSubstr("no kernel fuses operators; kept apart: "));
  const Explained alone("graph g(%x: f32[n]) { %y = exp(%x)\n return %y as \"y\" }");
  EXPECT_THAT(nothing_fused_line(alone.plan()), HasSubstr("no operator reads what another"));
}

// A model's names may be any bytes, and an account is read by others.
TEST(Account, IsJsonWhateverTheNamesAre) {
  const Explained explained(
      "graph g(%x: f32[n]) {\n%y = exp(%x) @\"a\xff\\\"b\"\n%z = neg(%y)\n"
      "return %z as \"z\"\n}");
  const json account = json::parse(explained.json(), nullptr, false);
  EXPECT_TRUE(account.is_object());
  EXPECT_THAT(account["edges"], SizeIs(1));
}

}  // namespace
}  // namespace opweld::testing
