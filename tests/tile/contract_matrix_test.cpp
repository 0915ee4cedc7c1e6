// bf16 matmuls with constant weights, which go to the matrix unit where the target has one: against
// the reference in f64 at tails of every side. Where there is no unit, the same cases hold the
// vector path to the same values.
#include <gmock/gmock.h>

#include <limits>

#include "tile/gate_pair.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class MatrixContract : public ::testing::TestWithParam<std::string> {
 protected:
  static bool on_unit() { return GetParam() == "host-amx"; }
  static GroupRunner group(const std::string& text, bool strict = false) {
    GroupRunner runner(text, KernelKind::Contract, GetParam(), strict);
    const bool uses_unit = runner.program_text().find("matrix_dot") != std::string::npos;
    EXPECT_EQ(uses_unit, on_unit() && !strict) << runner.program_text();
    return runner;
  }
  static std::string plain(std::int64_t depth, std::int64_t columns) {
    return fmt::format(R"(graph g(%x: bf16[m, {0}]) {{
      %w = constant {{value = bf16[{0}, {1}] random 3}}
      %y = matmul(%x, %w)
      return %y as "y"
    }})",
                       depth, columns);
  }
};

constexpr std::int64_t kRows[] = {0, 1, 2, 15, 16, 17, 31, 32, 33, 47, 61, 101};

TEST_P(MatrixContract, EveryTailOfRowsDepthAndColumns) {
  for (const std::int64_t depth : {1, 2, 3, 31, 32, 33, 61, 64, 97}) {
    for (const std::int64_t columns : {1, 7, 16, 31, 32, 33, 53, 64}) {
      if (depth * columns == 1) continue;  // a number, no matrix
      SCOPED_TRACE(fmt::format("depth {}, {} columns", depth, columns));
      const GroupRunner product = group(plain(depth, columns));
      for (const std::int64_t m : kRows) product.check({{"m", m}});
    }
  }
}

TEST_P(MatrixContract, NoDepthGivesZerosAndNoColumnsNothing) {
  for (const std::int64_t m : {0, 1, 33}) {
    group(plain(0, 5)).check({{"m", m}});
    group(plain(5, 0)).check({{"m", m}});
  }
}

// Whole, in blocks, and with padding in the last of them; more rows than a task takes.
TEST_P(MatrixContract, LongDepthsGoThroughBlocks) {
  for (const std::int64_t depth : {1024, 1025, 1056, 1531, 2048}) {
    SCOPED_TRACE(depth);
    const GroupRunner product = group(plain(depth, 40));
    for (const std::int64_t m : {0, 1, 17, 33}) product.check({{"m", m}});
  }
  group(plain(1088, 37)).check({{"m", 259}});
  group(plain(96, 37)).check({{"m", 523}});
}

TEST_P(MatrixContract, RowsThatAreANumber) {
  for (const std::int64_t m : {1, 16, 31, 32, 64, 257}) {
    group(fmt::format(R"(graph g(%x: bf16[{}, 64]) {{
      %w = constant {{value = bf16[64, 33] random 3}}
      %y = matmul(%x, %w)
      return %y as "y"
    }})",
                      m))
        .check(Bindings{});
  }
}

TEST_P(MatrixContract, EpiloguesAloneAndInPairs) {
  const std::string steps[] = {
      "add(%V, %c)", "sigmoid(%V)", "add(%V, %r)", "mul(%V, %r)", "relu(%V)", "neg(%V)",
  };
  const auto spell = [](std::string step, const std::string& value) {
    return step.replace(step.find("%V"), 2, value);
  };
  for (const std::string& first : steps) {
    for (const std::string& second : steps) {
      SCOPED_TRACE(first + ", " + second);
      const GroupRunner pair = group(R"(graph g(%x: bf16[b, s, 64], %r: bf16[b, s, 40]) {
        %w = constant {value = bf16[64, 40] random 1}
        %c = constant {value = bf16[40] random 2}
        %m = matmul(%x, %w)
        %a = )" + spell(first, "%m") +
                                     "\n%y = " + spell(second, "%a") + R"(
        return %y as "y", %a as "a"
      })");
      for (const std::int64_t s : {1, 19}) pair.check({{"b", 2}, {"s", s}});
    }
  }
}

TEST_P(MatrixContract, ResultsOfAnotherType) {
  const GroupRunner wide = group(R"(graph g(%x: bf16[m, 64]) {
    %w = constant {value = bf16[64, 40] random 1}
    %m = matmul(%x, %w)
    %y = cast(%m) {to = f32}
    return %m as "m", %y as "y"
  })");
  for (const std::int64_t m : {1, 35}) wide.check({{"m", m}});
}

TEST_P(MatrixContract, BatchesOfRowsAndOfWeights) {
  const GroupRunner weights = group(R"(graph g(%x: bf16[b, 3, s, 64]) {
    %w = constant {value = bf16[3, 64, 40] random 1}
    %y = matmul(%x, %w)
    return %y as "y"
  })");
  const GroupRunner padded = group(R"(graph g(%x: bf16[1, s, 45]) {
    %w = constant {value = bf16[2, 45, 33] random 1}
    %y = matmul(%x, %w)
    return %y as "y"
  })");
  for (const std::int64_t s : {0, 1, 17, 32, 70}) {
    weights.check({{"b", 2}, {"s", s}});
    padded.check({{"s", s}});
  }
}

// Rows that do not lie side by side: heads taken apart, a transposed operand.
TEST_P(MatrixContract, ViewsOfTheLeftOperand) {
  const GroupRunner heads = group(R"(graph g(%a: bf16[b, s, 192]) {
    %w = constant {value = bf16[3, 64, 40] random 1}
    %p = reshape(%a) {shape = <b, s, 3, 64>}
    %q = transpose(%p) {permutation = [0, 2, 1, 3]}
    %y = matmul(%q, %w)
    return %y as "y"
  })");
  const GroupRunner transposed = group(R"(graph g(%a: bf16[64, s]) {
    %w = constant {value = bf16[64, 40] random 1}
    %t = transpose(%a) {permutation = [1, 0]}
    %y = matmul(%t, %w)
    return %y as "y"
  })");
  for (const std::int64_t s : {1, 16, 37}) {
    heads.check({{"b", 2}, {"s", s}});
    transposed.check({{"s", s}});
  }
}

// Neither is read in place: one is gathered, of one there is more than the depth asks for.
TEST_P(MatrixContract, MovedRowsArePacked) {
  for (const std::int64_t depth : {45, 64, 1100}) {
    const GroupRunner gathered = group(fmt::format(R"(graph g(%x: bf16[5, {0}], %i: i64[m]) {{
      %w = constant {{value = bf16[{0}, 40] random 1}}
      %t = gather(%x, %i) {{axis = 0}}
      %y = matmul(%t, %w)
      return %y as "y"
    }})",
                                                   depth));
    const GroupRunner sliced = group(fmt::format(R"(graph g(%x: bf16[m, {1}]) {{
      %w = constant {{value = bf16[{0}, 40] random 1}}
      %t = slice(%x) {{starts = <0, 3>, sizes = <m, {0}>, steps = [1, 2]}}
      %y = matmul(%t, %w)
      return %y as "y"
    }})",
                                                 depth, 2 * depth + 3));
    for (const std::int64_t m : {1, 33, 60}) {
      gathered.check({{"m", m}});
      sliced.check({{"m", m}});
    }
  }
}

TEST_P(MatrixContract, GatePairsShareATile) {
  for (const std::int64_t depth : {45, 64, 1100}) {
    for (const std::int64_t columns : {1, 7, 16, 17, 33, 48}) {
      SCOPED_TRACE(fmt::format("depth {}, {} columns", depth, columns));
      const GroupRunner pair = group(gate_pair("bf16", depth, columns));
      for (const std::int64_t s : {0, 1, 16, 21}) pair.check({{"b", 2}, {"s", s}});
    }
  }
}

TEST_P(MatrixContract, GroupsOfRowsHaveMatricesOfTheirOwn) {
  for (const std::int64_t depth : {45, 64, 1100}) {
    const GroupRunner groups = group(fmt::format(R"(graph g(%x: bf16[m, {0}], %n: i64[5]) {{
      %w = constant {{value = bf16[5, {0}, 40] random 3}}
      %y = grouped_matmul(%x, %w, %n)
      return %y as "y"
    }})",
                                                 depth));
    const std::vector<std::vector<std::int64_t>> splits = {
        {0, 0, 0, 0, 0}, {1, 0, 0, 0, 0}, {3, 40, 0, 16, 2}, {0, 0, 33, 0, 64}, {300, 0, 0, 0, 1}};
    for (const auto& rows : splits) {
      std::int64_t m = 0;
      for (const std::int64_t each : rows) m += each;
      std::vector<Tensor> inputs = groups.random_inputs({{"m", m}});
      for (std::size_t i = 0; i < rows.size(); ++i) {
        inputs[1].set_int(static_cast<std::int64_t>(i), rows[i]);
      }
      groups.check(inputs);
    }
  }
}

// In the columns that pad weights and in the depth that pads rows there is nothing to meet them.
TEST_P(MatrixContract, NanAndInfinityStayInTheirRows) {
  for (const std::int64_t depth : {33, 64}) {
    const GroupRunner product = group(plain(depth, 37));
    for (const double special :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity()}) {
      std::vector<Tensor> inputs = product.random_inputs({{"m", 35}});
      for (const std::int64_t row : {2, 17, 34}) {
        inputs[0].set_double(row * depth + depth - 1, special);
        inputs[0].set_double(row * depth, special);
      }
      product.check(inputs);
    }
  }
}

// A row's results are the same bits whatever rows are beside it.
TEST_P(MatrixContract, RowsDoNotKnowOfEachOther) {
  for (const std::int64_t depth : {45, 1088}) {
    const GroupRunner product = group(plain(depth, 40));
    const Tensor all = product.random_inputs({{"m", 70}})[0];
    const Tensor together = product.run({all}).value()[0];
    for (const std::int64_t count : {1, 16, 33}) {
      Tensor some = Tensor::allocate(DType::BF16, {count, depth}).value();
      for (std::int64_t i = 0; i < count * depth; ++i) {
        some.set_double(i, all.get_double(7 * depth + i));
      }
      const Tensor apart = product.run({some}).value()[0];
      for (std::int64_t i = 0; i < count * 40; ++i) {
        ASSERT_EQ(apart.get_double(i), together.get_double(7 * 40 + i)) << count << ": " << i;
      }
    }
  }
}

TEST_P(MatrixContract, StrictNumericsKeepTheChain) {
  const GroupRunner product = group(plain(64, 40), /*strict=*/true);
  for (const std::int64_t m : {1, 33}) product.check({{"m", m}});
}

// What is no constant, no bf16, or not rounded to it yet, is multiplied in vectors.
TEST_P(MatrixContract, OtherOperandsDoWithoutTheUnit) {
  for (const char* text : {R"(graph g(%x: bf16[m, 64], %w: bf16[64, 40]) {
    %y = matmul(%x, %w)
    return %y as "y"
  })",
                           R"(graph g(%x: f16[m, 64]) {
    %w = constant {value = f16[64, 40] random 3}
    %y = matmul(%x, %w)
    return %y as "y"
  })",
                           R"(graph g(%x: bf16[m, 64], %r: bf16[m, 1]) {
    %w = constant {value = bf16[64, 40] random 3}
    %s = mul(%x, %r)
    %t = transpose(%s) {permutation = [0, 1]}
    %y = matmul(%t, %w)
    return %y as "y"
  })"}) {
    const GroupRunner product(text, KernelKind::Contract, GetParam());
    EXPECT_THAT(product.program_text(), Not(HasSubstr("matrix_dot")));
    product.check({{"m", 33}});
  }
}

std::vector<std::string> targets() {
  if (find_target("host-amx")) return {"host-amx", "host-avx512"};
  return {"host"};
}

INSTANTIATE_TEST_SUITE_P(Target, MatrixContract, ::testing::ValuesIn(targets()),
                         [](const auto& each) {
                           if (each.param == "host-amx") return "OnTheMatrixUnit";
                           return each.param == "host" ? "FallbackOnHostWithoutUnit"
                                                       : "FallbackOfVectors";
                         });

}  // namespace
}  // namespace opweld::testing
