// Reductions: every combiner, the fixed order of combination, NaN, and nesting with vector loops.
#include <algorithm>
#include <cmath>

#include "kernel_runner.h"

namespace opweld {
namespace {

using testing::GuardedTensor;
using testing::KernelRunner;
using testing::kLengths;
using testing::same;
using testing::test_targets;
using tile::Combiner;
using tile::MemoryRef;
using tile::ProgramBuilder;

const double kNan = std::nan("");
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Values whose sums depend on the order of summation.
std::vector<ScalarValue> uneven(std::int64_t count) {
  std::vector<ScalarValue> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back({static_cast<float>(std::sin(static_cast<double>(i)) *
                                         std::pow(10.0, static_cast<double>(i % 7))),
                      0});
  }
  return values;
}

// The order that tile_ir.h fixes, step by step in f32.
float sum_in_order(const std::vector<ScalarValue>& values, std::size_t lanes, std::size_t unroll) {
  std::vector<std::vector<float>> accumulators(unroll, std::vector<float>(lanes, 0.0F));
  for (std::size_t i = 0; i < values.size(); ++i) {
    accumulators[i / lanes % unroll][i % lanes] += static_cast<float>(values[i].real);
  }
  while (accumulators.size() > 1) {
    std::vector<std::vector<float>> next;
    for (std::size_t i = 0; i + 1 < accumulators.size(); i += 2) {
      next.push_back(accumulators[i]);
      for (std::size_t l = 0; l < lanes; ++l) next.back()[l] += accumulators[i + 1][l];
    }
    if (accumulators.size() % 2 == 1) next.push_back(accumulators.back());
    accumulators = next;
  }
  std::vector<float> left = accumulators[0];
  for (std::size_t half = lanes / 2; half >= 1; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) left[l] += left[l + half];
  }
  return left[0];
}

tile::TileProgram sum_program(const tile::IndexValue& count, const Dim& shape,
                              const ProgramBuilder::VectorOptions& options) {
  ProgramBuilder program("sum");
  const MemoryRef x = program.input("x", DType::F32, {shape});
  const MemoryRef y = program.output("y", DType::F32, {1});
  Expr sum = kNoExpr;
  program.vector("i", count, options, [&](Expr i) {
    sum = program.reduce(Combiner::Sum, program.load(program.at(x, {i})), i);
  });
  program.store(program.at(y, {0}), sum);
  return program.finish();
}

TEST(Reduce, SumsInTheOrderThatTheContractFixes) {
  const Dim n = Dim::symbol("n");
  for (const Target& target : test_targets()) {
    for (const int unroll : {1, 2, 3, 4}) {
      for (const int lanes : {4, 8, 16}) {
        const auto symbolic = sum_program(n, n, {.unroll = unroll, .lanes = lanes});
        const KernelRunner kernel(symbolic, target);
        for (const std::int64_t count : kLengths) {
          const auto values = uneven(count);
          GuardedTensor x(DType::F32, values);
          GuardedTensor y(DType::F32, 1);
          ASSERT_EQ(kernel({x.data(), y.data()}, {count}), 0);
          const float expected = sum_in_order(values, static_cast<std::size_t>(lanes),
                                              static_cast<std::size_t>(unroll));
          ASSERT_EQ(y.at(0).real, expected)
              << count << " elements, " << lanes << " lanes by " << unroll << " on " << target.name;
        }
      }
    }
  }
}

TEST(Reduce, SumsAKnownCountInTheSameOrder) {
  for (const std::int64_t count : kLengths) {
    const auto values = uneven(count);
    GuardedTensor x(DType::F32, values);
    GuardedTensor y(DType::F32, 1);
    const auto program = sum_program(count, count, {.unroll = 2, .lanes = 8});
    ASSERT_EQ(KernelRunner(program)({x.data(), y.data()}), 0);
    ASSERT_EQ(y.at(0).real, sum_in_order(values, 8, 2)) << count;
  }
}

// A symbol of known divisor needs no masks; the order is the same.
TEST(Reduce, SumsAMultipleOfTheLanes) {
  const Dim n = Dim::symbol("n", {0, 4096, 8});
  const KernelRunner kernel(sum_program(n, n, {.unroll = 4, .lanes = 8}));
  for (const std::int64_t count : {0, 8, 16, 32, 40, 56, 640}) {
    const auto values = uneven(count);
    GuardedTensor x(DType::F32, values);
    GuardedTensor y(DType::F32, 1);
    ASSERT_EQ(kernel({x.data(), y.data()}, {count}), 0);
    ASSERT_EQ(y.at(0).real, sum_in_order(values, 8, 4)) << count;
  }
}

// One value and one position, combined in plain loops.
struct Expected {
  double real = 0;
  std::int64_t integer = 0;
};

Expected reduce_plainly(Combiner combiner, DType type, const std::vector<ScalarValue>& values) {
  Expected result;
  const bool real = is_float(type);
  const double limit = combiner == Combiner::Max ? -kInfinity : kInfinity;
  std::int64_t integer_limit = type == DType::I32 ? std::numeric_limits<std::int32_t>::max()
                                                  : std::numeric_limits<std::int64_t>::max();
  if (combiner == Combiner::Max) integer_limit = -integer_limit - 1;
  if (combiner == Combiner::Prod) result = {1, 1};
  if (combiner == Combiner::Max || combiner == Combiner::Min) result = {limit, integer_limit};
  if (combiner == Combiner::All) result.integer = 1;
  for (const ScalarValue& value : values) {
    switch (combiner) {
      case Combiner::Sum:
        result.real += value.real;
        result.integer += value.integer;
        break;
      case Combiner::Prod:
        result.real *= value.real;
        result.integer *= value.integer;
        break;
      case Combiner::Max:
        if (std::isnan(value.real) || value.real > result.real) {
          if (!std::isnan(result.real)) result.real = value.real;
        }
        result.integer = std::max(result.integer, value.integer);
        break;
      case Combiner::Min:
        if (std::isnan(value.real) || value.real < result.real) {
          if (!std::isnan(result.real)) result.real = value.real;
        }
        result.integer = std::min(result.integer, value.integer);
        break;
      case Combiner::Any:
        result.integer |= value.integer;
        break;
      default:
        result.integer &= value.integer;
        break;
    }
  }
  if (real) result.integer = 0;
  if (!real) result.real = 0;
  return result;
}

// Small whole numbers: every order gives the same sum and product.
std::vector<ScalarValue> whole(DType type, std::int64_t count, std::int64_t seed) {
  std::vector<ScalarValue> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = (i * 31 + seed) % 17 - 8;
    if (type == DType::Bool) {
      values.push_back({0, static_cast<std::int64_t>(number > seed % 9)});
    } else if (is_float(type)) {
      values.push_back({static_cast<double>(number), 0});
    } else {
      values.push_back({0, number});
    }
  }
  return values;
}

struct Case {
  Combiner combiner;
  DType type;
};

const std::vector<Case>& plain_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> made = {{Combiner::Any, DType::Bool}, {Combiner::All, DType::Bool}};
    for (const DType type : {DType::F32, DType::F64, DType::I32, DType::I64}) {
      for (const Combiner combiner :
           {Combiner::Sum, Combiner::Prod, Combiner::Max, Combiner::Min}) {
        made.push_back({combiner, type});
      }
    }
    return made;
  }();
  return cases;
}

// x[a, n, b] reduced over n, with the vector loop over n, over b around it, over b inside it, and
// none.
enum class Form { OverLanes, LanesAround, LanesInside, Scalar };

tile::TileProgram reduce_program(const Case& each, Form form, const Dim& n, std::int64_t b) {
  ProgramBuilder program("reduce");
  const MemoryRef x = program.input("x", each.type, {n, b});
  const MemoryRef y = program.output("y", each.type, {b});
  Expr result = kNoExpr;
  const auto element = [&](Expr i, Expr j, Expr over) {
    result = program.reduce(each.combiner, program.load(program.at(x, {i, j})), over);
  };
  switch (form) {
    case Form::OverLanes:
      program.serial("j", b, [&](Expr j) {
        program.vector("i", n, {.unroll = 2}, [&](Expr i) { element(i, j, i); });
        program.store(program.at(y, {j}), result);
      });
      break;
    case Form::LanesAround:
      program.vector("j", b, [&](Expr j) {
        program.serial("i", n, [&](Expr i) { element(i, j, i); });
        program.store(program.at(y, {j}), result);
      });
      break;
    case Form::LanesInside: {
      // All of b into one value, which goes everywhere.
      program.serial("i", n, [&](Expr i) {
        program.vector("j", b, {.unroll = 2}, [&](Expr j) { element(i, j, i); });
      });
      program.vector("k", b, [&](Expr k) { program.store(program.at(y, {k}), result); });
      break;
    }
    case Form::Scalar:
      program.serial("j", b, [&](Expr j) {
        program.serial("i", n, [&](Expr i) { element(i, j, i); });
        program.store(program.at(y, {j}), result);
      });
      break;
  }
  return program.finish();
}

void check_reduction(const Case& each, Form form, const std::vector<ScalarValue>& values,
                     std::int64_t n, std::int64_t b, const Target& target) {
  const KernelRunner kernel(reduce_program(each, form, Dim::symbol("n"), b), target);
  GuardedTensor x(each.type, values);
  GuardedTensor y(each.type, b);
  ASSERT_EQ(kernel({x.data(), y.data()}, {n}), 0);
  for (std::int64_t j = 0; j < b; ++j) {
    std::vector<ScalarValue> column;
    for (std::int64_t i = 0; i < n * b; ++i) {
      if (form == Form::LanesInside || i % b == j)
        column.push_back(values[static_cast<std::size_t>(i)]);
    }
    const Expected expected = reduce_plainly(each.combiner, each.type, column);
    const ScalarValue actual = y.at(j);
    const bool both_nan = std::isnan(expected.real) && std::isnan(actual.real);
    ASSERT_TRUE(both_nan || (actual.real == expected.real && actual.integer == expected.integer))
        << "combiner " << static_cast<int>(each.combiner) << " of " << n << " x " << b << ' '
        << to_string(each.type) << " in form " << static_cast<int>(form) << " at " << j << " is "
        << actual.real << '|' << actual.integer << " and should be " << expected.real << '|'
        << expected.integer << " on " << target.name;
  }
}

TEST(Reduce, CombinesInEveryForm) {
  const Target target = find_target("host-avx2").value();
  for (const Case& each : plain_cases()) {
    for (const Form form : {Form::OverLanes, Form::LanesAround, Form::LanesInside, Form::Scalar}) {
      for (const std::int64_t n : {0, 1, 3, 8, 17, 33}) {
        // Products stay within 2^53 when few factors are not 1.
        auto values = whole(each.type, n * 11, n);
        if (each.combiner == Combiner::Prod) {
          for (std::size_t i = 0; i < values.size(); ++i) {
            if (i % 40 != 3)
              values[i] = is_float(each.type) ? ScalarValue{1, 0} : ScalarValue{0, 1};
          }
        }
        check_reduction(each, form, values, n, 11, target);
      }
    }
  }
}

TEST(Reduce, CombinesOnEveryTarget) {
  for (const Target& target : test_targets()) {
    for (const Case& each : plain_cases()) {
      if (each.combiner == Combiner::Prod) continue;
      for (const Form form : {Form::OverLanes, Form::LanesAround, Form::LanesInside}) {
        check_reduction(each, form, whole(each.type, 31 * 9, 4), 31, 9, target);
      }
    }
  }
}

TEST(Reduce, NanWinsWhereverItStands) {
  for (const Target& target : test_targets()) {
    for (const Combiner combiner : {Combiner::Max, Combiner::Min}) {
      for (const DType type : {DType::F32, DType::F64}) {
        for (const std::int64_t at : {0, 5, 16, 17, 32}) {
          auto values = whole(type, 33, 3);
          values[0].real = kInfinity;
          values[1].real = -kInfinity;
          values[static_cast<std::size_t>(at)].real = kNan;
          for (const Form form : {Form::OverLanes, Form::LanesAround, Form::Scalar}) {
            check_reduction({combiner, type}, form, values, 33, 1, target);
          }
        }
      }
    }
  }
}

// Position of the winner, in plain loops.
std::int64_t arg_plainly(Combiner combiner, const std::vector<ScalarValue>& values, bool real) {
  const bool greatest = combiner == Combiner::ArgMaxFirst || combiner == Combiner::ArgMaxLast;
  const bool last = combiner == Combiner::ArgMaxLast || combiner == Combiner::ArgMinLast;
  const auto key = [&](std::size_t i) {
    if (!real) return static_cast<double>(greatest ? values[i].integer : -values[i].integer);
    return greatest ? values[i].real : -values[i].real;
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double a = key(best);
    const double b = key(i);
    const bool equal = a == b || (std::isnan(a) && std::isnan(b));
    const bool better = b > a || (std::isnan(b) && !std::isnan(a));
    if (better || (equal && last)) best = i;
  }
  return static_cast<std::int64_t>(best);
}

TEST(Reduce, FindsPositions) {
  for (const Target& target : test_targets()) {
    for (const Combiner combiner : {Combiner::ArgMaxFirst, Combiner::ArgMaxLast,
                                    Combiner::ArgMinFirst, Combiner::ArgMinLast}) {
      for (const DType type : {DType::F32, DType::F64, DType::I32, DType::I64}) {
        const Dim n = Dim::symbol("n");
        ProgramBuilder program("arg");
        const MemoryRef x = program.input("x", type, {n});
        const MemoryRef y = program.output("y", DType::I64, {3});
        Expr over_lanes = kNoExpr;
        Expr plain = kNoExpr;
        program.vector("i", n, {.unroll = 3}, [&](Expr i) {
          over_lanes = program.arg_reduce(combiner, program.load(program.at(x, {i})), i, i);
        });
        program.serial("k", n, [&](Expr k) {
          plain = program.arg_reduce(combiner, program.load(program.at(x, {k})), k, k);
        });
        program.store(program.at(y, {0}), over_lanes);
        program.store(program.at(y, {1}), plain);
        program.vector("j", 1, [&](Expr j) {
          Expr around = kNoExpr;
          program.serial("m", n, [&](Expr m) {
            const Expr place = program.add(m, j);
            around = program.arg_reduce(combiner, program.load(program.at(x, {place})), m, m);
          });
          program.store(program.at(y, {program.add(j, 2)}), around);
        });
        const KernelRunner kernel(program.finish(), target);
        for (const std::int64_t count : {1, 3, 8, 17, 33, 640}) {
          for (const int trial : {0, 1, 2, 3}) {
            auto values = whole(type, count, trial);
            if (is_float(type) && trial == 2) values.back().real = kNan;
            if (is_float(type) && trial == 3) {
              for (auto& value : values) value.real = -kInfinity;
              values[values.size() / 2].real = kNan;
              values[values.size() / 3].real = kNan;
            }
            GuardedTensor input(type, values);
            GuardedTensor output(DType::I64, 3);
            ASSERT_EQ(kernel({input.data(), output.data()}, {count}), 0);
            const std::int64_t expected = arg_plainly(combiner, values, is_float(type));
            for (std::int64_t i = 0; i < 3; ++i) {
              ASSERT_EQ(output.at(i).integer, expected)
                  << "combiner " << static_cast<int>(combiner) << " of " << count << ' '
                  << to_string(type) << ", trial " << trial << ", form " << i << " on "
                  << target.name;
            }
          }
        }
        GuardedTensor nothing(type, 0);
        GuardedTensor output(DType::I64, 3);
        ASSERT_EQ(kernel({nothing.data(), output.data()}, {0}), 0);
        for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(output.at(i).integer, 0);
      }
    }
  }
}

// Two passes over a row in which the second needs the first, several results at once.
TEST(Reduce, FeedsALaterPass) {
  const Dim n = Dim::symbol("n");
  ProgramBuilder program("normalise");
  const MemoryRef x = program.input("x", DType::F32, {2, n});
  const MemoryRef y = program.output("y", DType::F32, {2, n});
  ExprPool& pool = program.exprs();
  const Expr row = program.grid("row", 2);
  Expr top = kNoExpr;
  Expr low = kNoExpr;
  program.vector("i", n, {.unroll = 2}, [&](Expr i) {
    const Expr v = program.load(program.at(x, {row, i}));
    top = program.reduce(Combiner::Max, v, i);
    low = program.reduce(Combiner::Min, v, i);
  });
  const Expr range = program.map(pool.binary(ExprKind::Sub, top, low));
  program.vector("k", n, [&](Expr k) {
    const Expr v = program.load(program.at(x, {row, k}));
    program.store(program.at(y, {row, k}), pool.binary(ExprKind::Sub, v, range));
  });
  const KernelRunner kernel(program.finish());
  for (const std::int64_t count : kLengths) {
    const auto values = whole(DType::F32, 2 * count, 5);
    GuardedTensor input(DType::F32, values);
    GuardedTensor output(DType::F32, 2 * count);
    ASSERT_EQ(kernel({input.data(), output.data()}, {count}), 0);
    for (std::int64_t r = 0; r < 2; ++r) {
      const std::vector<ScalarValue> line(values.begin() + r * count,
                                          values.begin() + (r + 1) * count);
      const double expected_range = reduce_plainly(Combiner::Max, DType::F32, line).real -
                                    reduce_plainly(Combiner::Min, DType::F32, line).real;
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(output.at(r * count + i).real,
                  line[static_cast<std::size_t>(i)].real - expected_range);
      }
    }
  }
}

}  // namespace
}  // namespace opweld
