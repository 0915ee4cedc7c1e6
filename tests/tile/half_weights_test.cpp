// Weights kept in f16 or bf16 and multiplied in f32: against the reference in f64, and to the bit
// what the same weights give that were f32 before.
#include <cstring>
#include <tuple>

#include "tile/gate_pair.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

// The same graph with each widened constant as a constant in f32.
Graph with_wide_weights(const std::string& text) {
  Graph graph = parse_graph(text).value();
  for (Node* node : graph.nodes_in_order()) {
    if (node->op() != "cast") continue;
    const Tensor& stored = node->operand(0)->producer()->attributes().tensor("value");
    auto wide = evaluate_node(*node, std::vector<Tensor>{stored}, Bindings()).value();
    Value* const constant = graph
                                .add_node("constant", {}, {{"value", std::move(wide.front())}},
                                          {node->result()->type()}, {}, node)
                                ->result();
    graph.replace_all_uses(node->result(), constant);
    graph.erase(node);
  }
  return graph;
}

void expect_same_bits(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  const auto bytes = static_cast<std::size_t>(actual.num_bytes());
  if (bytes == 0) return;
  EXPECT_EQ(std::memcmp(actual.data(), expected.data(), bytes), 0);
}

class HalfWeights : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static const std::string& dtype() { return std::get<0>(GetParam()); }
  static const std::string& target() { return std::get<1>(GetParam()); }

  static void check(const std::string& text, const std::vector<Bindings>& sizes,
                    bool strict = false) {
    const GroupRunner group(text, KernelKind::Contract, target(), strict);
    const GroupRunner wide(with_wide_weights(text), KernelKind::Contract, target(), strict);
    ASSERT_NE(group.program_text().find(dtype() + "["), std::string::npos);
    for (const Bindings& each : sizes) {
      const std::vector<Tensor> inputs = group.random_inputs(each);
      group.check(inputs);
      const auto narrow_results = group.run(inputs).value();
      const auto wide_results = wide.run(inputs).value();
      for (std::size_t i = 0; i < narrow_results.size(); ++i) {
        expect_same_bits(narrow_results[i], wide_results[i]);
      }
    }
  }

  static std::string plain(std::int64_t depth, std::int64_t columns,
                           const std::string& rows = "m") {
    return fmt::format(R"(graph g(%x: f32[{3}, {0}]) {{
      %w = constant {{value = {2}[{0}, {1}] random 3}}
      %c = cast(%w) {{to = f32}}
      %y = matmul(%x, %c)
      return %y as "y"
    }})",
                       depth, columns, dtype(), rows);
  }

  static std::vector<Bindings> rows(std::initializer_list<std::int64_t> counts) {
    std::vector<Bindings> sizes;
    for (const std::int64_t m : counts) sizes.push_back({{"m", m}});
    return sizes;
  }
};

// Few rows widen weights in the register tile, many a panel at a time.
TEST_P(HalfWeights, EveryTailOfRowsDepthAndColumns) {
  for (const std::int64_t depth : {1, 2, 3, 7, 31}) {
    for (const std::int64_t columns : {1, 7, 16, 33, 64, 97}) {
      if (depth * columns == 1) continue;  // a number, no matrix
      SCOPED_TRACE(fmt::format("depth {}, {} columns", depth, columns));
      check(plain(depth, columns), rows({0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 17, 61}));
    }
  }
}

TEST_P(HalfWeights, NoDepthGivesZerosAndNoColumnsNothing) {
  check(plain(0, 5), rows({0, 1, 33}));
  check(plain(5, 0), rows({0, 1, 33}));
}

TEST_P(HalfWeights, LongDepthsGoThroughBlocks) {
  check(plain(1537, 30), rows({1, 5, 13}));
  check(plain(2003, 30), rows({1, 13}));
}

// More rows than a task takes. Of so many sums of so many products some come out near zero, where
// f32 has few digits left; they are the same as of wide weights all the same.
TEST_P(HalfWeights, ManyRowsOfLongDepth) {
  const std::string text = plain(1537, 70);
  const GroupRunner group(text, KernelKind::Contract, target());
  const GroupRunner wide(with_wide_weights(text), KernelKind::Contract, target());
  const std::vector<Tensor> inputs = group.random_inputs({{"m", 211}});
  expect_same_bits(group.run(inputs).value()[0], wide.run(inputs).value()[0]);
}

TEST_P(HalfWeights, RowsThatAreANumber) {
  for (const char* count : {"1", "6", "13", "64", "211"}) {
    SCOPED_TRACE(count);
    check(plain(67, 131, count), {Bindings{}});
  }
}

TEST_P(HalfWeights, StrictNumerics) {
  check(plain(67, 131), rows({1, 7, 40}), /*strict=*/true);
}

TEST_P(HalfWeights, PairsOfGates) {
  for (const std::int64_t columns : {1, 17, 64}) {
    std::string text = gate_pair("f32", 37, columns);
    const std::string wide = "%w = constant {value = f32[";
    const auto at = text.find(wide);
    text.replace(at, wide.size(), "%n = constant {value = " + dtype() + "[");
    text.insert(text.find('\n', at), "\n %w = cast(%n) {to = f32}");
    check(text, {{{"b", 1}, {"s", 1}}, {{"b", 2}, {"s", 5}}, {{"b", 3}, {"s", 31}}});
  }
}

TEST_P(HalfWeights, MatricesOfABatch) {
  check(fmt::format(R"(graph g(%x: f32[3, m, 19]) {{
    %w = constant {{value = {}[3, 19, 21] random 3}}
    %c = cast(%w) {{to = f32}}
    %y = matmul(%x, %c)
    return %y as "y"
  }})",
                    dtype()),
        rows({0, 1, 7, 40}));
}

TEST_P(HalfWeights, MatricesOfGroups) {
  const std::string text = fmt::format(R"(graph g(%x: f32[t, 37], %n: i64[5]) {{
    %w = constant {{value = {}[5, 37, 71] random 3}}
    %c = cast(%w) {{to = f32}}
    %y = grouped_matmul(%x, %c, %n)
    return %y as "y"
  }})",
                                       dtype());
  const GroupRunner group(text, KernelKind::Contract, target());
  const GroupRunner wide(with_wide_weights(text), KernelKind::Contract, target());
  for (const std::vector<int>& counts :
       {std::vector<int>{0, 0, 0, 0, 0}, {1, 0, 2, 0, 3}, {7, 13, 0, 61, 1}, {0, 0, 97, 0, 0}}) {
    std::int64_t total = 0;
    for (const int count : counts) total += count;
    std::vector<Tensor> inputs = group.random_inputs({{"t", total}});
    for (std::size_t i = 0; i < counts.size(); ++i) {
      inputs[1].set_int(static_cast<std::int64_t>(i), counts[i]);
    }
    group.check(inputs);
    expect_same_bits(group.run(inputs).value()[0], wide.run(inputs).value()[0]);
  }
}

// NaN and infinities stay what they are, and subnormals are no zeros.
TEST_P(HalfWeights, NumbersThatAreSpecial) {
  check(fmt::format(R"(graph g(%x: f32[m, 2]) {{
    %w = constant {{value = {}[2, 4] {{inf, -inf, nan, 1.0e-7, 6.0e-8, 0.0, -0.0, 1.0}}}}
    %c = cast(%w) {{to = f32}}
    %y = matmul(%x, %c)
    return %y as "y"
  }})",
                    dtype()),
        rows({1, 6, 40}));
}

std::string name_of(const ::testing::TestParamInfo<HalfWeights::ParamType>& tested) {
  std::string name = std::get<0>(tested.param) + "_" + std::get<1>(tested.param);
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Targets, HalfWeights,
                         ::testing::Combine(::testing::Values("bf16", "f16"),
                                            ::testing::Values("host", "host-avx2", "host-avx512",
                                                              "host-generic")),
                         name_of);

}  // namespace
}  // namespace opweld::testing
