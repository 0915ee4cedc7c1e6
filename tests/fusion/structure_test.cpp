#include "fusion/structure.h"

#include "fusion/planning.h"

namespace opweld::testing {
namespace {

Graph graph_of(const std::string& text) {
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().message;
  return graph ? std::move(*graph) : Graph();
}

// All of a graph as one kernel.
Kernel kernel_of_all(const Graph& graph) {
  Kernel kernel;
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant") kernel.nodes.push_back(node.get());
  }
  complete_kernel(kernel);
  return kernel;
}

TEST(Structure, NamesCountForNothing) {
  const Graph first = graph_of(R"(graph g(%x: f32[s, 64], %r: f32[s, 64]) {
    %w = constant {value = f32[64, 64] random 1}
    %m = matmul(%x, %w) @"/layers.0/MatMul" op "MatMul" scope "layers.0"
    %y = add(%m, %r)
    return %y as "y"
  })");
  const Graph second = graph_of(R"(graph h(%a: f32[s, 64], %b: f32[s, 64]) {
    %k = constant {value = f32[64, 64] random 2}
    %c = matmul(%a, %k) @"/layers.1/MatMul" op "MatMul" scope "layers.1"
    %d = add(%c, %b) @"/layers.1/Add"
    return %d as "other"
  })");
  Structures structures;
  EXPECT_EQ(structures.key_of(kernel_of_all(first)), structures.key_of(kernel_of_all(second)));
}

// Each differs from the first in one thing that a schedule may go by.
TEST(Structure, WhatAScheduleSeesCounts) {
  const auto text = [](const std::string& type, const std::string& constant,
                       const std::string& body, const std::string& outputs) {
    return "graph g(%x: " + type + ", %r: " + type + ") {\n  %c = constant {value = " + constant +
           "}\n" + body + "  return " + outputs + "\n}";
  };
  const std::string type = "f32[s, 8]";
  const std::string constant = "f32[8] splat 1.0";
  const auto body = [](const std::string& sum, const std::string& epsilon = "1e-05") {
    return "  %h = " + sum + "\n  %y = rms_norm(%h, %c) {axis = -1, epsilon = " + epsilon + "}\n";
  };
  const std::string add = body("add(%x, %r)");
  const std::string y = "%y as \"y\"";
  const Graph graphs[] = {
      graph_of(text(type, constant, add, y)),
      graph_of(text("f32[t, 8]", constant, add, y)),
      graph_of(text("f16[s, 8]", "f16[8] splat 1.0", add, y)),
      graph_of(text(type, "f32[1] splat 1.0", add, y)),
      graph_of(text(type, "f32[1] splat 2.0", add, y)),
      graph_of(text(type, constant, add, y + ", %h as \"h\"")),
      graph_of(text(type, constant, body("add(%r, %x)"), y)),
      graph_of(text(type, constant, body("add(%x, %x)"), y)),
      graph_of(text(type, constant, body("sub(%x, %r)"), y)),
      graph_of(text(type, constant, body("add(%x, %r)", "1e-06"), y)),
  };
  Structures structures;
  std::vector<Structures::Key> keys;
  for (const Graph& graph : graphs) {
    Structures::Key key = structures.key_of(kernel_of_all(graph));
    // Which of two inputs comes first is no difference, since inputs are named by their order.
    if (&graph == &graphs[6]) {
      EXPECT_EQ(key, keys.front());
      continue;
    }
    EXPECT_EQ(std::ranges::count(keys, key), 0) << &graph - graphs;
    keys.push_back(std::move(key));
  }
}

TEST(Structure, WeightsAreDataButNumbersAreCode) {
  const auto scaled_by = [](const std::string& constant) {
    return graph_of("graph g(%x: f32[s, 8]) {\n  %c = constant {value = " + constant +
                    "}\n  %y = mul(%x, %c)\n  return %y as \"y\"\n}");
  };
  const Graph graphs[] = {scaled_by("f32[8] random 1"), scaled_by("f32[8] random 2"),
                          scaled_by("f32[] {2.0}"), scaled_by("f32[] {3.0}")};
  Structures structures;
  std::vector<Structures::Key> keys;
  for (const Graph& graph : graphs) keys.push_back(structures.key_of(kernel_of_all(graph)));
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_NE(keys[1], keys[2]);
  EXPECT_NE(keys[2], keys[3]);
}

TEST(Structure, AKindOfKernelIsPartOfTheQuestion) {
  const Graph graph = graph_of(R"(graph g(%x: f32[s, 8]) {
    %y = exp(%x)
    return %y as "y"
  })");
  Kernel kernel = kernel_of_all(graph);
  Structures structures;
  const Structures::Key as_map = structures.key_of(kernel);
  kernel.kind = KernelKind::Row;
  EXPECT_NE(structures.key_of(kernel), as_map);
}

// Layers with weights, norms and residuals of their own.
std::string layers(int count) {
  std::string text = "graph g(%x0: f32[s, 64]) {\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format(R"(
      %g{0} = constant {{value = f32[64] random {0}}}
      %u{0} = constant {{value = f32[64, 192] random {0}}}
      %d{0} = constant {{value = f32[192, 64] random {0}}}
      %n{0} = rms_norm(%x{0}, %g{0}) {{axis = -1, epsilon = 1e-05}}
      %a{0} = matmul(%n{0}, %u{0})
      %b{0} = silu(%a{0})
      %c{0} = matmul(%b{0}, %d{0})
      %x{1} = add(%c{0}, %x{0})
    )",
                        i, i + 1);
  }
  return text + fmt::format("  return %x{} as \"y\"\n}}", count);
}

TEST(Structure, LayersThatAreEqualAreLoweredOnce) {
  const auto questions = [](int count) {
    const Graph graph = graph_of(layers(count));
    int asked = 0;
    const Target target = host_target();
    PlanOptions options;
    options.target = &target;
    options.oracle = remembered([&](const Graph& group, KernelKind kind) {
      ++asked;
      return tile::lower(group, kind, {&target, false}, "group")
          .map([&](tile::LoweredKernel kernel) {
            return tile::estimate(std::move(kernel), target);
          });
    });
    const auto plan = plan_fusion(graph, options);
    EXPECT_TRUE(plan) << plan.error().message;
    return asked;
  };
  // The first layer and the last have other neighbours than those between.
  EXPECT_GT(questions(3), 0);
  EXPECT_EQ(questions(3), questions(32));
}

}  // namespace
}  // namespace opweld::testing
