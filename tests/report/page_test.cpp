// The document of the page: every operator of the model has its fate, every edge its verdict.
#include "report/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compile.h"
#include "fusion/reasons.h"
#include "ops/builder.h"
#include "report/provenance.h"

namespace opweld {
namespace {

using Json = nlohmann::json;

// A softmax that rewrites find in its primitive spelling, between a matmul and what reads it twice;
// and a reshape whose sizes are computed.
constexpr std::string_view kModel = R"(
graph model(%x: f32[n, 8]) {
  %w = constant {value = f32[8, 8] random 1}
  %two = constant {value = f32[] {2.0}}
  %four = mul(%two, %two) @"/sizes/Mul"
  %h = matmul(%x, %w) @"/layers.0/MatMul" op "MatMul" scope "layers.0"
  %s = mul(%h, %four) @"/layers.0/Mul" op "Mul" scope "layers.0"
  %m = reduce_max(%s) {axes = [1]} @"/layers.0/Max"
  %d = sub(%s, %m) @"/layers.0/Sub"
  %e = exp(%d) @"/layers.0/Exp"
  %t = reduce_sum(%e) {axes = [1]} @"/layers.0/Sum"
  %p = div(%e, %t) @"/layers.0/Div"
  %f = reshape(%p) {shape = <2*n, 4>} @"/layers.0/Reshape"
  %y = neg(%f) @"/out/Neg"
  return %y as "y", %p as "weights"
})";

struct Made {
  Graph imported;
  Executable executable;
  Bindings sizes{{"n", 5}};
};

Made made(std::string_view text, FusionLevel level = FusionLevel::Auto) {
  Graph imported = parse_graph(text).value();
  CompileOptions options;
  options.level = level;
  options.threads = 1;
  auto compiled = compile(imported.clone(), options);
  EXPECT_TRUE(compiled) << compiled.error().message;
  return {std::move(imported), std::move(compiled->executable)};
}

PageContent content_of(const Made& model) {
  PageContent content;
  content.version = "1.2.3";
  content.model = "model.graph";
  content.imported = &model.imported;
  content.executable = &model.executable;
  content.sizes = model.sizes;
  content.target = find_target("host-generic").value();
  return content;
}

Json document(const Made& model) {
  const auto json = page_json(content_of(model));
  EXPECT_TRUE(json) << json.error().message;
  return json ? Json::parse(*json) : Json();
}

std::size_t operators_in(const Graph& graph) {
  std::size_t operators = 0;
  for (const auto& node : graph.nodes()) operators += node->op() == "constant" ? 0 : 1;
  return operators;
}

// Edges between operators, by operand.
std::size_t edges_in(const Graph& graph) {
  std::size_t edges = 0;
  for (const auto& node : graph.nodes()) {
    for (const Value* operand : node->operands()) {
      if (operand == nullptr || operand->producer() == nullptr) continue;
      edges += operand->producer()->op() == "constant" ? 0 : 1;
    }
  }
  return edges;
}

class PageAtLevel : public ::testing::TestWithParam<FusionLevel> {};

TEST_P(PageAtLevel, NoNodeAndNoEdgeIsMissing) {
  const Made model = made(kModel, GetParam());
  const Json page = document(model);
  const auto check = [](const Json& drawn, const Graph& graph) {
    std::size_t operators = 0;
    for (const Json& node : drawn["nodes"]) operators += node["fate"] == "edge" ? 0 : 1;
    EXPECT_EQ(operators, operators_in(graph));
    std::size_t edges = 0;
    for (const Json& edge : drawn["edges"]) {
      edges += edge["verdict"] == "edge" ? 0 : 1;
      ASSERT_LT(edge["from"].get<std::size_t>(), drawn["nodes"].size());
      ASSERT_LT(edge["to"].get<std::size_t>(), drawn["nodes"].size());
    }
    EXPECT_EQ(edges, edges_in(graph));
  };
  check(page["before"], model.imported);
  check(page["after"], model.executable.graph());
}

TEST_P(PageAtLevel, EveryVerdictIsTheTruth) {
  const Made model = made(kModel, GetParam());
  const Json page = document(model);
  for (const char* const view : {"before", "after"}) {
    const Json& nodes = page[view]["nodes"];
    for (const Json& edge : page[view]["edges"]) {
      const Json& from = nodes[edge["from"].get<std::size_t>()];
      const Json& to = nodes[edge["to"].get<std::size_t>()];
      const bool placed = from.contains("kernel") && to.contains("kernel");
      if (!placed) continue;
      const bool same = from["kernel"] == to["kernel"];
      EXPECT_EQ(edge["verdict"], same ? "fused" : "kept") << view << edge;
      EXPECT_EQ(edge.value("kernel", -1), same ? from["kernel"].get<int>() : -1) << edge;
    }
  }
}

TEST_P(PageAtLevel, CodesAreExplained) {
  const Json page = document(made(kModel, GetParam()));
  for (const Json& edge : page["after"]["edges"]) {
    if (edge["verdict"] != "kept") continue;
    EXPECT_TRUE(page["reasons"].contains(edge["code"].get<std::string>())) << edge;
  }
  EXPECT_EQ(page["reasons"].size(), all_reasons().size());
}

INSTANTIATE_TEST_SUITE_P(Levels, PageAtLevel,
                         ::testing::Values(FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto));

TEST(Page, FiguresAreThoseOfTheExecutable) {
  const Made model = made(kModel);
  const Json page = document(model);
  const FusionPlan& plan = model.executable.plan(model.sizes);
  ASSERT_EQ(page["kernels"].size(), plan.kernels.size());
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    EXPECT_EQ(page["kernels"][i]["read_bytes"],
              FusionPlan::bytes_read(plan.kernels[i]).evaluate(model.sizes).value());
    EXPECT_FALSE(page["kernels"][i].contains("seconds"));
  }
  EXPECT_EQ(page["memory"]["arena_bytes"],
            model.executable.memory(model.sizes, false)->arena_bytes);
  EXPECT_EQ(page["sizes"]["n"], 5);
}

TEST(Page, BlocksThatAreLiveTogetherDoNotOverlap) {
  const Made model = made(kModel, FusionLevel::None);
  const auto blocks = model.executable.arena(model.sizes).value();
  ASSERT_GT(blocks.size(), 2U);
  const std::int64_t arena = model.executable.memory(model.sizes, false)->arena_bytes;
  for (const ArenaBlock& a : blocks) {
    EXPECT_LE(a.offset + a.bytes, arena);
    EXPECT_LE(a.first_kernel, a.last_kernel);
    for (const ArenaBlock& b : blocks) {
      // In the kernel that takes over a place, both names stand for it.
      const bool together = a.first_kernel < b.last_kernel && b.first_kernel < a.last_kernel;
      if (&a == &b || !together) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
    }
  }
}

TEST(Origins, OfEachKind) {
  const Made model = made(kModel);
  const auto origins = trace_origins(model.imported, model.executable.plan(model.sizes));
  std::map<std::string, Origin> by_name;
  for (const auto& [node, origin] : origins) by_name[node->display_name()] = origin;
  EXPECT_EQ(by_name.at("/layers.0/MatMul").fate, OperatorFate::Kept);
  EXPECT_EQ(by_name.at("/sizes/Mul").fate, OperatorFate::Folded);
  // The softmax goes by the name of its last step; the others are part of it.
  const int softmax = by_name.at("/layers.0/Div").kernel;
  EXPECT_GE(softmax, 0);
  for (const char* const name : {"/layers.0/Max", "/layers.0/Sub", "/layers.0/Exp"}) {
    EXPECT_EQ(by_name.at(name).fate, OperatorFate::Absorbed) << name;
    EXPECT_EQ(by_name.at(name).kernel, softmax) << name;
  }
}

// With nothing rewritten every operator is where it was.
TEST(Origins, AtLevelNoneAllThatIsNotFoldedIsKept) {
  const Made model = made(kModel, FusionLevel::None);
  for (const auto& [node, origin] :
       trace_origins(model.imported, model.executable.plan(model.sizes))) {
    EXPECT_TRUE(origin.fate == OperatorFate::Kept || origin.fate == OperatorFate::Folded ||
                origin.fate == OperatorFate::Alias)
        << node->display_name() << ": " << to_string(origin.fate);
  }
}

TEST(RenderPage, NothingInTheDocumentCanEndItsElement) {
  const std::string page =
      render_page("<script>\"opweld-report-goes-here\"</script>",
                  R"({"a": "</script><script>alert(1)</script><!-- & \u2028"})")
          .value();
  EXPECT_TRUE(page.starts_with("<script>{"));
  EXPECT_EQ(page.find("</script"), page.size() - std::string("</script>").size());
  EXPECT_EQ(page.find("<!--"), std::string::npos);
  // And it is the same document still.
  const std::string inner = page.substr(8, page.size() - 17);
  EXPECT_EQ(Json::parse(inner)["a"], "</script><script>alert(1)</script><!-- & \u2028");
}

TEST(RenderPage, TheMarkerMustBeThereOnce) {
  const std::string marker(kPageMarker);
  EXPECT_FALSE(render_page("<html>", "{}"));
  EXPECT_FALSE(render_page(marker + marker, "{}"));
  EXPECT_EQ(render_page("a" + marker + "b", "{}").value(), "a{}b");
}

TEST(Page, NamesThatAreNotUtf8DoNotBreakIt) {
  Made model = made(kModel);
  PageContent content = content_of(model);
  content.model = "\xff\xfe.onnx";
  const auto json = page_json(content);
  ASSERT_TRUE(json);
  EXPECT_FALSE(Json::parse(*json)["model"].get<std::string>().empty());
}

}  // namespace
}  // namespace opweld
