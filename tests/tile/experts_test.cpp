// Kernels of a mixture of experts: rows that they sort themselves, rows that are looked up when all
// of them are there, and both stages in one. Against the reference in f64.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kExperts = 5;

// Sizes of a mixture.
struct Sizes3 {
  std::int64_t width = 24;
  std::int64_t inner = 20;
  std::int64_t chosen = 2;
};

// The rows of the experts, in their order; `token` is the operator that makes of the place of a
// choice the token's.
std::string sorted_rows(const Sizes3& sizes) {
  return fmt::format(R"(
    %flat = reshape(%c) {{shape = <{0}*t>}}
    %order, %place, %counts = sort_by_group(%flat) {{groups = <{1}>}} @"sort"
    %chosen = constant {{value = i64[] {{{0}}}}}
    %token = div(%order, %chosen)
    %rows = gather(%x, %token) {{axis = 0}})",
                     sizes.chosen, kExperts);
}

std::string gate_and_up(const std::string& dtype, const Sizes3& sizes) {
  return fmt::format(R"(
    %wu = constant {{value = {0}[{1}, {2}, {4}] random 5}}
    %gu = grouped_matmul(%rows, %wu, %counts)
    %g = slice(%gu) {{starts = <0, 0>, sizes = <{5}*t, {3}>, steps = [1, 1]}}
    %u = slice(%gu) {{starts = <0, {3}>, sizes = <{5}*t, {3}>, steps = [1, 1]}}
    %a = sigmoid(%g)
    %h = mul(%a, %u))",
                     dtype, kExperts, sizes.width, sizes.inner, 2 * sizes.inner, sizes.chosen);
}

std::string down(const std::string& dtype, const Sizes3& sizes) {
  return fmt::format(R"(
    %wd = constant {{value = {0}[{1}, {2}, {3}] random 6}}
    %d = grouped_matmul(%h, %wd, %counts) @"down")",
                     dtype, kExperts, sizes.inner, sizes.width);
}

// Back at the tokens, weighed, and with what they were added.
std::string summed(const Sizes3& sizes) {
  return fmt::format(R"(
    %back = gather(%d, %place) {{axis = 0}}
    %apart = reshape(%back) {{shape = <t, {0}, {1}>}}
    %w = reshape(%s) {{shape = <t, {0}, 1>}}
    %weighed = mul(%apart, %w)
    %sum = reduce_sum(%weighed) {{axes = [1], keepdims = 0}}
    %y = add(%sum, %x))",
                     sizes.chosen, sizes.width);
}

std::string graph(const std::string& dtype, const Sizes3& sizes, const std::string& body,
                  const std::string& outputs) {
  return fmt::format("graph g(%x: {0}[t, {1}], %c: i64[t, {2}], %s: {0}[t, {2}]) {{{3}\n{4}\n}}",
                     dtype, sizes.width, sizes.chosen, body, "    return " + outputs);
}

// Both stages, with all that is before and behind them.
std::string mixture(const std::string& dtype, const Sizes3& sizes) {
  return graph(dtype, sizes,
               sorted_rows(sizes) + gate_and_up(dtype, sizes) + down(dtype, sizes) + summed(sizes),
               R"(%y as "y")");
}

// Which experts tokens choose: all the first, all the last, in turn, at random with one left out.
std::vector<Tensor> choices(std::int64_t tokens, std::int64_t chosen) {
  std::vector<Tensor> result;
  std::mt19937 random(11);
  for (int way = 0; way < 4; ++way) {
    Tensor tensor = Tensor::allocate(DType::I64, {tokens, chosen}).value();
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      const std::int64_t any = static_cast<std::int64_t>(random() % kExperts);
      const std::int64_t each[] = {0, kExperts - 1, i % kExperts, any == 2 ? 3 : any};
      tensor.set_int(i, each[way]);
    }
    result.push_back(std::move(tensor));
  }
  return result;
}

// Every way to choose: against the reference, and the same bits in whatever order tasks run.
void check(const GroupRunner& group, std::int64_t tokens, std::int64_t chosen) {
  ASSERT_EQ(group.error(), "");
  for (Tensor& choice : choices(tokens, chosen)) {
    SCOPED_TRACE(fmt::format("{} tokens", tokens));
    std::vector<Tensor> inputs = group.random_inputs({{"t", tokens}});
    inputs[1] = std::move(choice);
    group.check(inputs);
    if (::testing::Test::HasFailure()) return;
    const auto forwards = group.run(inputs).value();
    const auto backwards = group.run(inputs, GroupRunner::Order::LastTaskFirst).value();
    for (std::size_t i = 0; i < forwards.size(); ++i) {
      ASSERT_TRUE(identical(forwards[i], backwards[i]));
    }
  }
}

constexpr std::int64_t kTokens[] = {0, 1, 2, 7, 16, 31, 131, 640};

TEST(ExpertKernels, SortTheRowsThatTheyMultiply) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const auto& [width, inner, chosen] : {Sizes3{1, 1, 1}, {24, 20, 2}, {33, 50, 3}}) {
      const Sizes3 sizes{width, inner, chosen};
      const GroupRunner group(
          graph("f32", sizes, sorted_rows(sizes) + gate_and_up("f32", sizes), R"(%h as "h")"),
          KernelKind::Contract, target);
      for (const std::int64_t tokens : kTokens) check(group, tokens, chosen);
    }
  }
}

// What sorting gives is wanted by other kernels as well.
TEST(ExpertKernels, GiveOutWhatTheySorted) {
  const Sizes3 sizes;
  const GroupRunner group(
      graph("f32", sizes, sorted_rows(sizes) + gate_and_up("f32", sizes),
            R"(%h as "h", %place as "place", %counts as "counts", %order as "order")"),
      KernelKind::Contract);
  for (const std::int64_t tokens : kTokens) check(group, tokens, sizes.chosen);
}

TEST(ExpertKernels, HaveBothStagesInOne) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const auto& [width, inner, chosen] :
         {Sizes3{1, 2, 1}, {24, 20, 2}, {33, 50, 3}, {16, 64, 8}}) {
      const Sizes3 sizes{width, inner, chosen};
      const GroupRunner group(mixture("f32", sizes), KernelKind::Chain, target);
      for (const std::int64_t tokens : kTokens) check(group, tokens, chosen);
    }
  }
}

TEST(ExpertKernels, OfDoubles) {
  const GroupRunner group(mixture("f64", {}), KernelKind::Chain);
  for (const std::int64_t tokens : {0, 1, 7, 131}) check(group, tokens, 2);
}

// A depth that goes through blocks, in either stage.
TEST(ExpertKernels, OfLongRows) {
  for (const auto& [width, inner] : {std::pair{1700, 24}, {24, 1700}}) {
    const GroupRunner group(mixture("f32", {width, inner, 2}), KernelKind::Chain);
    for (const std::int64_t tokens : {1, 50}) {
      std::vector<Tensor> inputs = group.random_inputs({{"t", tokens}});
      inputs[1] = std::move(choices(tokens, 2).back());
      for (std::int64_t i = 0; i < inputs[0].num_elements(); ++i) {
        inputs[0].set_double(i, inputs[0].get_double(i) / 64);
      }
      group.check(inputs);
    }
  }
}

// Experts with biases, and two stages that are given their order by another kernel.
TEST(ExpertKernels, OfRowsThatOthersSorted) {
  const GroupRunner group(R"(graph g(%x: f32[r, 24], %counts: i64[5], %place: i64[r]) {
    %wu = constant {value = f32[5, 24, 20] random 5}
    %bu = constant {value = f32[5, 20] random 7}
    %wd = constant {value = f32[5, 20, 24] random 6}
    %bd = constant {value = f32[5, 24] random 8}
    %m = grouped_matmul(%x, %wu, %counts, %bu)
    %h = relu(%m)
    %d = grouped_matmul(%h, %wd, %counts, %bd)
    %y = gather(%d, %place) {axis = 0}
    return %y as "y"
  })",
                          KernelKind::Chain);
  ASSERT_EQ(group.error(), "");
  for (const std::int64_t rows : kTokens) {
    std::vector<Tensor> inputs = group.random_inputs({{"r", rows}});
    for (std::int64_t e = 0; e < 5; ++e) inputs[1].set_int(e, e == 3 ? rows : 0);
    for (std::int64_t i = 0; i < rows; ++i) inputs[2].set_int(i, rows - 1 - i);
    group.check(inputs);
  }
}

// The second stage alone: tasks have some of the columns.
TEST(ExpertKernels, LookUpRowsWhenAllAreThere) {
  for (const char* target : {"host", "host-avx2"}) {
    for (const std::int64_t width : {1, 24, 33, 700}) {
      const Sizes3 sizes{width, 20, 2};
      const std::string text = fmt::format(
          "graph g(%h: f32[2*t, 20], %counts: i64[5], %place: i64[2*t], %s: f32[t, 2], "
          "%x: f32[t, {}]) {{{}{}\nreturn %y as \"y\"\n}}",
          width, down("f32", sizes), summed(sizes));
      const GroupRunner group(text, KernelKind::Contract, target);
      ASSERT_EQ(group.error(), "");
      for (const std::int64_t tokens : kTokens) {
        std::vector<Tensor> inputs = group.random_inputs({{"t", tokens}});
        for (std::int64_t e = 0; e < 5; ++e) inputs[1].set_int(e, 0);
        inputs[1].set_int(1, tokens);
        inputs[1].set_int(4, tokens);
        for (std::int64_t i = 0; i < 2 * tokens; ++i) {
          inputs[2].set_int(i, i % 2 == 0 ? i / 2 : 2 * tokens - 1 - i / 2);
        }
        group.check(inputs);
        ASSERT_FALSE(::testing::Test::HasFailure()) << tokens << " tokens, " << width << " wide";
        EXPECT_TRUE(identical(group.run(inputs).value()[0],
                              group.run(inputs, GroupRunner::Order::LastTaskFirst).value()[0]));
      }
    }
  }
}

// NaN and infinities of a token stay with it; those of an expert reach the tokens that chose it.
TEST(ExpertKernels, NanAndInfinityStayWhereTheyBelong) {
  const Sizes3 sizes;
  const GroupRunner group(mixture("f32", sizes), KernelKind::Chain);
  constexpr std::int64_t kRows = 40;
  std::vector<Tensor> inputs = group.random_inputs({{"t", kRows}});
  inputs[1] = std::move(choices(kRows, sizes.chosen).back());
  inputs[0].set_double(3 * sizes.width + 1, std::nan(""));
  inputs[0].set_double(9 * sizes.width, std::numeric_limits<double>::infinity());
  inputs[2].set_double(15 * sizes.chosen, std::nan(""));
  group.check(inputs);
  const Tensor y = std::move(group.run(inputs).value()[0]);
  for (std::int64_t t = 0; t < kRows; ++t) {
    const bool touched = t == 3 || t == 9 || t == 15;
    EXPECT_NE(std::isfinite(y.get_double(t * sizes.width + 2)), touched) << t;
  }
}

TEST(ExpertKernels, AnExpertThatThereIsNotFailsTheRun) {
  const Sizes3 sizes;
  for (const bool both : {false, true}) {
    const GroupRunner group(
        both ? mixture("f32", sizes)
             : graph("f32", sizes, sorted_rows(sizes) + gate_and_up("f32", sizes), R"(%h as "h")"),
        both ? KernelKind::Chain : KernelKind::Contract);
    ASSERT_EQ(group.error(), "");
    for (const std::int64_t wrong : {kExperts, std::int64_t{-1}, std::int64_t{1} << 40}) {
      std::vector<Tensor> inputs = group.random_inputs({{"t", 9}});
      inputs[1].set_int(7, wrong);
      const auto result = group.run(inputs);
      ASSERT_FALSE(result);
      EXPECT_THAT(result.error().message,
                  HasSubstr(fmt::format("sort_by_group 'sort': a row is of a group that there is "
                                        "not (row 7, group {}, groups 5)",
                                        wrong)));
    }
  }
}

TEST(ExpertKernels, ARowThatThereIsNotFailsTheRun) {
  const GroupRunner group(R"(graph g(%h: f32[r, 20], %counts: i64[5], %place: i64[p]) {
    %wd = constant {value = f32[5, 20, 24] random 6}
    %d = grouped_matmul(%h, %wd, %counts)
    %y = gather(%d, %place) {axis = 0} @"back"
    return %y as "y"
  })",
                          KernelKind::Contract);
  for (const std::int64_t rows : {0, 5}) {
    std::vector<Tensor> inputs = group.random_inputs({{"r", rows}, {"p", 3}});
    for (std::int64_t e = 0; e < 5; ++e) inputs[1].set_int(e, e == 2 ? rows : 0);
    for (const std::int64_t wrong : {rows, -rows - 1}) {
      for (std::int64_t i = 0; i < 3; ++i) inputs[2].set_int(i, wrong);
      const auto result = group.run(inputs);
      ASSERT_FALSE(result);
      EXPECT_THAT(result.error().message, HasSubstr("gather 'back': an index is out of range"));
    }
  }
}

TEST(ExpertKernels, RefuseWhatTheyCannotHold) {
  const auto error = [](const std::string& body, KernelKind kind) {
    return GroupRunner(
               "graph g(%x: f32[r, 8], %c: i64[4], %p: i64[r], %n: f32[r, 8]) {\n"
               "%w = constant {value = f32[4, 8, 8] random 6}\n"
               "%v = constant {value = f32[8, 8] random 6}\n" +
                   body + "\n}",
               kind)
        .error();
  };
  const std::string product = "%d = grouped_matmul(%x, %w, %c)\n";
  const std::string looked_up = product + "%b = gather(%d, %p) {axis = 0}\n";
  EXPECT_EQ(error(looked_up + "return %b as \"b\", %d as \"d\"", KernelKind::Contract),
            "rows that are looked up are stored as well");
  EXPECT_EQ(error(looked_up + "%y = reduce_sum(%b) {axes = [1], keepdims = 1}\nreturn %y as \"y\"",
                  KernelKind::Contract),
            "reduce_sum goes on from rows that are looked up");
  EXPECT_EQ(error(looked_up + "%y = matmul(%b, %v)\nreturn %y as \"y\"", KernelKind::Chain),
            "matmul goes on from rows that are looked up");
  EXPECT_EQ(error(looked_up + "%y = transpose(%b) {permutation = [1, 0]}\nreturn %y as \"y\"",
                  KernelKind::Contract),
            "an output does not have the columns of the rows that are looked up");
  EXPECT_EQ(error("%m = matmul(%x, %v)\n%d = grouped_matmul(%m, %w, %c)\nreturn %d as \"d\"",
                  KernelKind::Chain),
            "its stages have rows of tokens and rows of experts");
}

}  // namespace
}  // namespace opweld::testing
