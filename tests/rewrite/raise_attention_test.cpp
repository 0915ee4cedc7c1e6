#include <gtest/gtest.h>

#include <random>

#include "ops/builder.h"
#include "ops/reference.h"
#include "rewrite/dce.h"
#include "rewrite/raise/attention.h"

namespace opweld {
namespace {

Tensor random_tensor(const Value* input, const Bindings& bindings, unsigned seed) {
  Tensor tensor =
      Tensor::allocate(input->dtype(), evaluate(input->shape(), bindings).value()).value();
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(-1, 1);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (input->dtype() == DType::Bool) {
      tensor.set_int(i, i % 3 != 1 ? 1 : 0);
    } else {
      tensor.set_double(i, real(random));
    }
  }
  return tensor;
}

// Raises, and checks that the graph still means the same. Returns the number of attentions found.
int raised(const std::string& text) {
  Graph graph = parse_graph(text).value();
  const Bindings bindings = {{"b", 2}, {"h", 4}, {"s", 5}, {"t", 7}, {"d", 4}};
  std::vector<Tensor> inputs;
  unsigned seed = 1;
  for (const Value* input : graph.inputs())
    inputs.push_back(random_tensor(input, bindings, seed++));
  const auto before = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
  EXPECT_TRUE(raise_attention(graph));
  EXPECT_TRUE(eliminate_dead_code(graph));
  const Status sound = verify(graph);
  EXPECT_TRUE(sound) << sound.error().message;
  const auto after = evaluate(graph, inputs, {.in_f64 = true, .observer = {}}).value();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].sizes(), after[i].sizes());
    for (std::int64_t j = 0; j < before[i].num_elements(); ++j) {
      EXPECT_NEAR(before[i].get_double(j), after[i].get_double(j), 1e-9);
    }
  }
  int found = 0;
  for (const auto& node : graph.nodes()) found += node->op() == "attention" ? 1 : 0;
  return found;
}

std::string graph_text(const std::string& scores, const std::string& mask = "") {
  return "graph g(%q: f32[b, h, s, d], %k: f32[b, h, t, d], %v: f32[b, h, t, d]" + mask +
         ") {\n %c = constant {value = f32[] {0.5}}\n"
         " %kt = transpose(%k) {permutation = [0, 1, 3, 2]}\n" +
         scores + " %p = softmax(%x) {axis = 3}\n %y = matmul(%p, %v)\n return %y as \"y\"\n}";
}

TEST(RaiseAttention, ScaleAsProductOrQuotientOnEitherSide) {
  EXPECT_EQ(raised(graph_text("%m = matmul(%q, %kt)\n %x = mul(%m, %c)\n")), 1);
  EXPECT_EQ(raised(graph_text("%m = matmul(%q, %kt)\n %x = mul(%c, %m)\n")), 1);
  EXPECT_EQ(raised(graph_text("%m = matmul(%q, %kt)\n %x = div(%m, %c)\n")), 1);
  EXPECT_EQ(raised(graph_text("%x = matmul(%q, %kt)\n")), 1);
}

TEST(RaiseAttention, ScaleFoldedIntoQueriesKeysOrBoth) {
  EXPECT_EQ(raised(graph_text("%qs = mul(%q, %c)\n %x = matmul(%qs, %kt)\n")), 1);
  EXPECT_EQ(raised(graph_text("%qs = mul(%q, %c)\n %ks = div(%kt, %c)\n %m = matmul(%qs, %ks)\n"
                              "%x = mul(%m, %c)\n")),
            1);
}

TEST(RaiseAttention, AdditiveMasksInEitherOrder) {
  const std::string mask = ", %m: f32[b, 1, 1, t]";
  EXPECT_EQ(
      raised(graph_text("%a = matmul(%q, %kt)\n %e = mul(%a, %c)\n %x = add(%e, %m)\n", mask)), 1);
  EXPECT_EQ(
      raised(graph_text("%a = matmul(%q, %kt)\n %e = div(%a, %c)\n %x = add(%m, %e)\n", mask)), 1);
}

TEST(RaiseAttention, BooleanMasksThatHideWithMinusInfinity) {
  EXPECT_EQ(raised(graph_text("%a = matmul(%q, %kt)\n %i = constant {value = f32[] {-inf}}\n"
                              "%x = select(%m, %a, %i)\n",
                              ", %m: bool[s, t]")),
            1);
}

TEST(RaiseAttention, RepeatedHeadsOfGroupedQueries) {
  EXPECT_EQ(raised(R"(graph g(%q: f32[b, 4, s, d], %k: f32[b, 2, t, d], %v: f32[b, 2, t, d]) {
    %k1 = reshape(%k) {shape = <b, 2, 1, t, d>}
    %k2 = expand(%k1) {shape = <b, 2, 2, t, d>}
    %k3 = reshape(%k2) {shape = <b, 4, t, d>}
    %v1 = reshape(%v) {shape = <b, 2, 1, t, d>}
    %v2 = expand(%v1) {shape = <b, 2, 2, t, d>}
    %v3 = reshape(%v2) {shape = <b, 4, t, d>}
    %kt = transpose(%k3) {permutation = [0, 1, 3, 2]}
    %m = matmul(%q, %kt)
    %p = softmax(%m) {axis = -1}
    %y = matmul(%p, %v3)
    return %y as "y"
  })"),
            1);
}

TEST(RaiseAttention, NearMissesStayAsTheyAre) {
  // The mask is scaled as well.
  EXPECT_EQ(raised(graph_text("%a = matmul(%q, %kt)\n %e = add(%a, %m)\n %x = mul(%e, %c)\n",
                              ", %m: f32[b, 1, 1, t]")),
            0);
  // The softmax runs over the queries.
  EXPECT_EQ(raised(R"(graph g(%q: f32[b, h, s, d], %k: f32[b, h, d, s], %v: f32[b, h, s, d]) {
    %m = matmul(%q, %k)
    %p = softmax(%m) {axis = 2}
    %y = matmul(%p, %v)
    return %y as "y"
  })"),
            0);
  // The scores are an output.
  EXPECT_EQ(raised(R"(graph g(%q: f32[b, h, s, d], %k: f32[b, h, d, t], %v: f32[b, h, t, d]) {
    %m = matmul(%q, %k)
    %p = softmax(%m) {axis = 3}
    %y = matmul(%p, %v)
    return %y as "y", %m as "m"
  })"),
            0);
  // The scale depends on data.
  EXPECT_EQ(
      raised(graph_text("%a = matmul(%q, %kt)\n %x = mul(%a, %m)\n", ", %m: f32[b, h, s, t]")), 0);
}

}  // namespace
}  // namespace opweld
