// Every kind of scalar expression through the code generator, against the interpreter.
#include <cmath>
#include <cstdlib>

#include "kernel_runner.h"

namespace opweld {
namespace {

using testing::GuardedTensor;
using testing::KernelRunner;
using testing::same;
using testing::test_targets;
using tile::MemoryRef;
using tile::ProgramBuilder;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

std::vector<ScalarValue> special_values(DType type) {
  std::vector<ScalarValue> values;
  if (type == DType::Bool) return {{0, 0}, {0, 1}};
  if (is_float(type)) {
    for (const double each :
         {0.0,  -0.0, 1.0,          -1.0, 0.5,   1.5,  2.5,   -2.5,      3.0,        -7.25, 1e-3,
          1e10, -3e9, 2147483648.0, 1e20, -1e20, 88.0, 1e-40, kInfinity, -kInfinity, kNan}) {
      values.push_back({each, 0});
    }
    return values;
  }
  const bool wide = type == DType::I64;
  for (const std::int64_t each :
       {0, 1, -1, 2, -2, 3, 5, -7, 16, 31, 32, 63, 64, 100, 1000003, -65536}) {
    values.push_back({0, each});
  }
  values.push_back({0, wide ? std::numeric_limits<std::int64_t>::max() : 2147483647});
  values.push_back({0, wide ? std::numeric_limits<std::int64_t>::min() : -2147483648LL});
  return values;
}

// Every combination of special values for `count` arguments, argument i in column i.
std::vector<std::vector<ScalarValue>> combinations(const std::vector<DType>& types) {
  std::vector<std::vector<ScalarValue>> columns(types.size());
  std::size_t total = 1;
  for (const DType type : types) total *= special_values(type).size();
  for (std::size_t i = 0; i < total; ++i) {
    std::size_t rest = i;
    for (std::size_t argument = 0; argument < types.size(); ++argument) {
      const auto values = special_values(types[argument]);
      columns[argument].push_back(values[rest % values.size()]);
      rest /= values.size();
    }
  }
  return columns;
}

// y[i] = expression(x0[i], x1[i], ...), as vectors and as scalars.
struct Elementwise {
  std::vector<DType> types;
  std::function<Expr(ExprPool&, std::span<const Expr>)> make;

  [[nodiscard]] tile::TileProgram program(std::int64_t count, bool vector) const {
    ProgramBuilder program("elementwise");
    std::vector<MemoryRef> inputs;
    for (const DType type : types) inputs.push_back(program.input("x", type, {count}));
    ExprPool probe;
    const MemoryRef y = program.output("y", probe[in(probe)].type, {count});
    const auto body = [&](Expr i) {
      std::vector<Expr> arguments;
      for (const MemoryRef& input : inputs) {
        arguments.push_back(program.load(program.at(input, {i})));
      }
      program.store(program.at(y, {i}), make(program.exprs(), arguments));
    };
    if (vector) {
      program.vector("i", count, {.unroll = 2}, body);
    } else {
      program.serial("i", count, body);
    }
    return program.finish();
  }

  Expr in(ExprPool& pool) const {
    std::vector<Expr> arguments;
    for (std::size_t i = 0; i < types.size(); ++i) {
      arguments.push_back(pool.input(static_cast<int>(i), types[i]));
    }
    return make(pool, arguments);
  }
};

using Accepts = std::function<bool(const ScalarValue& actual, const ScalarValue& expected)>;

void check(const Elementwise& elementwise, const Accepts& accepts = same) {
  ExprPool pool;
  const Expr expr = elementwise.in(pool);
  const DType result = pool[expr].type;
  const auto columns = combinations(elementwise.types);
  const auto count = static_cast<std::int64_t>(columns[0].size());
  std::vector<std::unique_ptr<GuardedTensor>> inputs;
  std::vector<void*> params;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    inputs.push_back(std::make_unique<GuardedTensor>(elementwise.types[i], columns[i]));
    params.push_back(inputs.back()->data());
  }
  auto interpreter = ScalarInterpreter::make(pool, expr).value();
  for (const Target& target : test_targets()) {
    for (const bool vector : {true, false}) {
      const KernelRunner kernel(elementwise.program(count, vector), target);
      GuardedTensor y(result, count);
      params.push_back(y.data());
      ASSERT_EQ(kernel(params), 0);
      params.pop_back();
      for (std::int64_t i = 0; i < count; ++i) {
        std::vector<ScalarValue> arguments;
        std::string shown;
        for (const auto& input : inputs) {
          arguments.push_back(input->at(i));
          shown += fmt::format(" {}|{}", arguments.back().real, arguments.back().integer);
        }
        const ScalarValue expected = interpreter(arguments);
        const ScalarValue actual = y.at(i);
        ASSERT_TRUE(accepts(actual, expected))
            << to_string(pool, expr) << " of" << shown << " is " << actual.real << '|'
            << actual.integer << " and should be " << expected.real << '|' << expected.integer
            << " on " << target.name << (vector ? " in vectors" : " in scalars");
      }
    }
  }
}

// One operation on arguments of one type.
Elementwise operation(ExprKind kind, DType type) {
  return {std::vector<DType>(static_cast<std::size_t>(arity(kind)), type),
          [kind](ExprPool& pool, std::span<const Expr> arguments) {
            return pool.make(kind, arguments);
          }};
}

// Right to a few units in the last place: the elementary functions have error bounds of their own,
// which are tested where they are written.
Accepts nearly(DType type) {
  const double tolerance = type == DType::F32 ? 0x1p-20 : 0x1p-48;
  return [tolerance](const ScalarValue& actual, const ScalarValue& expected) {
    if (std::isnan(expected.real) || std::isinf(expected.real) || expected.real == 0) {
      return std::isnan(expected.real) ? std::isnan(actual.real) : actual.real == expected.real;
    }
    return std::abs(actual.real - expected.real) <= tolerance * std::abs(expected.real) + 1e-37;
  };
}

struct ExprOfFloats : ::testing::TestWithParam<std::tuple<ExprKind, DType>> {};

TEST_P(ExprOfFloats, GivesTheInterpretersBits) {
  const auto [kind, type] = GetParam();
  check(operation(kind, type));
}

INSTANTIATE_TEST_SUITE_P(
    Exact, ExprOfFloats,
    ::testing::Combine(::testing::Values(ExprKind::Add, ExprKind::Sub, ExprKind::Mul, ExprKind::Div,
                                         ExprKind::Min, ExprKind::Max, ExprKind::Neg, ExprKind::Abs,
                                         ExprKind::Sign, ExprKind::Sqrt, ExprKind::Rsqrt,
                                         ExprKind::Floor, ExprKind::Ceil, ExprKind::Round,
                                         ExprKind::Reciprocal, ExprKind::Eq, ExprKind::Ne,
                                         ExprKind::Lt, ExprKind::Le, ExprKind::IsNan,
                                         ExprKind::IsInf, ExprKind::Mod, ExprKind::Fmod),
                       ::testing::Values(DType::F32, DType::F64)),
    [](const auto& test) {
      return std::string(to_string(std::get<0>(test.param))) + "_" +
             std::string(to_string(std::get<1>(test.param)));
    });

struct ElementaryExpr : ::testing::TestWithParam<std::tuple<ExprKind, DType>> {};

TEST_P(ElementaryExpr, IsNearlyWhatTheInterpreterGives) {
  const auto [kind, type] = GetParam();
  check(operation(kind, type), nearly(type));
}

INSTANTIATE_TEST_SUITE_P(All, ElementaryExpr,
                         ::testing::Combine(::testing::Values(ExprKind::Exp, ExprKind::Log,
                                                              ExprKind::Tanh, ExprKind::Erf,
                                                              ExprKind::Sigmoid),
                                            ::testing::Values(DType::F32, DType::F64)),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) + "_" +
                                  std::string(to_string(std::get<1>(test.param)));
                         });

struct ExprOfIntegers : ::testing::TestWithParam<std::tuple<ExprKind, DType>> {};

TEST_P(ExprOfIntegers, GivesTheInterpretersBits) {
  const auto [kind, type] = GetParam();
  check(operation(kind, type));
}

INSTANTIATE_TEST_SUITE_P(
    All, ExprOfIntegers,
    ::testing::Combine(::testing::Values(ExprKind::Add, ExprKind::Sub, ExprKind::Mul, ExprKind::Div,
                                         ExprKind::Mod, ExprKind::Fmod, ExprKind::Min,
                                         ExprKind::Max, ExprKind::Pow, ExprKind::Neg, ExprKind::Abs,
                                         ExprKind::Sign, ExprKind::Eq, ExprKind::Ne, ExprKind::Lt,
                                         ExprKind::Le, ExprKind::And, ExprKind::Or, ExprKind::Xor,
                                         ExprKind::Not, ExprKind::ShiftLeft, ExprKind::ShiftRight),
                       ::testing::Values(DType::I32, DType::I64)),
    [](const auto& test) {
      return std::string(to_string(std::get<0>(test.param))) + "_" +
             std::string(to_string(std::get<1>(test.param)));
    });

TEST(Expr, OfBools) {
  for (const ExprKind kind : {ExprKind::And, ExprKind::Or, ExprKind::Xor, ExprKind::Not,
                              ExprKind::Eq, ExprKind::Ne, ExprKind::Lt, ExprKind::Le}) {
    check(operation(kind, DType::Bool));
  }
}

TEST(Expr, FusesMultiplyAdd) {
  for (const DType type : {DType::F32, DType::F64}) check(operation(ExprKind::Fma, type));
}

// x * y + z rounds twice: 1 + 2e + e^2 - (1 + 2e) is 0, not e^2.
TEST(Expr, NeverContracts) {
  const float e = std::ldexp(1.0F, -23);
  const Elementwise separate{
      {DType::F32, DType::F32, DType::F32}, [](ExprPool& pool, std::span<const Expr> x) {
        return pool.binary(ExprKind::Add, pool.binary(ExprKind::Mul, x[0], x[1]), x[2]);
      }};
  for (const Target& target : test_targets()) {
    const KernelRunner kernel(separate.program(17, true), target);
    GuardedTensor x(DType::F32, std::vector<ScalarValue>(17, {1 + e, 0}));
    GuardedTensor z(DType::F32, std::vector<ScalarValue>(17, {-(1 + 2 * e), 0}));
    GuardedTensor y(DType::F32, 17);
    ASSERT_EQ(kernel({x.data(), x.data(), z.data(), y.data()}), 0);
    for (std::int64_t i = 0; i < 17; ++i) ASSERT_EQ(y.at(i).real, 0) << target.name;
  }
}

TEST(Expr, SelectsOfEveryType) {
  for (const DType type : {DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool}) {
    check({{DType::Bool, type, type},
           [](ExprPool& pool, std::span<const Expr> x) { return pool.select(x[0], x[1], x[2]); }});
  }
}

TEST(Expr, ConvertsBetweenAllTypes) {
  const DType types[] = {DType::F32, DType::F64, DType::I32, DType::I64, DType::Bool};
  for (const DType from : types) {
    for (const DType to : types) {
      if (from == to) continue;
      check({{from},
             [to](ExprPool& pool, std::span<const Expr> x) { return pool.convert(x[0], to); }});
    }
  }
}

TEST(Expr, RoundsToEveryStorageType) {
  for (const DType storage : {DType::F16, DType::BF16}) {
    check({{DType::F32}, [storage](ExprPool& pool, std::span<const Expr> x) {
             return pool.store(x[0], storage);
           }});
  }
  for (const DType storage : {DType::I16, DType::I8, DType::U8}) {
    check({{DType::I32}, [storage](ExprPool& pool, std::span<const Expr> x) {
             return pool.store(x[0], storage);
           }});
  }
}

// Every bf16 and f16 value, through memory and back; and the ties between neighbours.
TEST(Expr, HalvesRoundToEvenInMemory) {
  for (const DType half : {DType::F16, DType::BF16}) {
    std::vector<ScalarValue> values;
    for (int i = 0; i < 3000; ++i) {
      const double value = std::ldexp(1 + i / 4096.0, i % 40 - 28);
      values.push_back({i % 2 == 0 ? value : -value, 0});
    }
    for (const double value :
         {65504.0, 65520.0, 1e6, 3e38, kInfinity, -kInfinity, kNan, 0x1p-25, 6e-8, -0.0}) {
      values.push_back({value, 0});
    }
    const auto count = static_cast<std::int64_t>(values.size());
    ProgramBuilder program("narrow");
    const MemoryRef x = program.input("x", DType::F32, {count});
    const MemoryRef h = program.output("h", half, {count});
    const MemoryRef y = program.output("y", DType::F32, {count});
    program.vector("i", count, [&](Expr i) {
      program.store(program.at(h, {i}), program.load(program.at(x, {i})));
    });
    program.vector("i", count, [&](Expr i) {
      program.store(program.at(y, {i}), program.load(program.at(h, {i})));
    });
    const tile::TileProgram made = program.finish();
    GuardedTensor input(DType::F32, values);
    std::vector<ScalarValue> rounded;
    for (std::int64_t i = 0; i < count; ++i) rounded.push_back(input.at(i));
    GuardedTensor expected(half, rounded);
    for (const Target& target : test_targets()) {
      GuardedTensor halves(half, count);
      GuardedTensor floats(DType::F32, count);
      ASSERT_EQ(KernelRunner(made, target)({input.data(), halves.data(), floats.data()}), 0);
      for (std::int64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(same(halves.at(i), expected.at(i)))
            << rounded[static_cast<std::size_t>(i)].real << " became " << halves.at(i).real
            << " on " << target.name;
        ASSERT_TRUE(same(floats.at(i), halves.at(i)));
      }
    }
  }
}

// Sizes of every form, computed by the kernel from its symbols.
TEST(Expr, ComputesSizes) {
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t", {0, 4096, 8});
  const std::vector<Dim> sizes = {s,
                                  s * t + 3 - 2 * s,
                                  floor_div(s, 7),
                                  mod(s, 5),
                                  min(s, t),
                                  max(s, t),
                                  floor_div(3 - s, 4),
                                  floor_div(t, 8),
                                  ceil_div(s * s, t + 1)};
  const auto count = static_cast<std::int64_t>(sizes.size());
  ProgramBuilder program("sizes");
  const MemoryRef y = program.output("y", DType::I64, {count});
  for (std::int64_t i = 0; i < count; ++i) {
    program.store(program.at(y, {i}), program.exprs().size_of(sizes[static_cast<std::size_t>(i)]));
  }
  const tile::TileProgram made = program.finish();
  const KernelRunner kernel(made);
  for (const std::int64_t s_value : {0, 1, 5, 7, 128}) {
    for (const std::int64_t t_value : {0, 8, 64}) {
      GuardedTensor result(DType::I64, count);
      ASSERT_EQ(kernel({result.data()}, {s_value, t_value}), 0);
      for (std::int64_t i = 0; i < count; ++i) {
        const Dim& size = sizes[static_cast<std::size_t>(i)];
        EXPECT_EQ(result.at(i).integer, size.evaluate({{"s", s_value}, {"t", t_value}}).value())
            << size.to_string() << " for s = " << s_value << ", t = " << t_value;
      }
    }
  }
}

// Masked-off lanes hold any bits: none of them may divide by zero.
TEST(Expr, TailsDoNotTrapOnZeroDivisors) {
  for (const DType type : {DType::I32, DType::I64}) {
    for (const ExprKind kind : {ExprKind::Div, ExprKind::Mod, ExprKind::Fmod}) {
      for (const std::int64_t count : testing::kLengths) {
        std::vector<ScalarValue> dividends;
        for (std::int64_t i = 0; i < count; ++i) dividends.push_back({0, i});
        GuardedTensor x(type, dividends);
        GuardedTensor d(type, std::vector<ScalarValue>(static_cast<std::size_t>(count), {0, 16}));
        GuardedTensor y(type, count);
        ASSERT_EQ(KernelRunner(operation(kind, type).program(count, true))(
                      {x.data(), d.data(), y.data()}),
                  0);
        for (std::int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(y.at(i).integer, kind == ExprKind::Div ? i / 16 : i % 16);
        }
      }
    }
  }
}

}  // namespace
}  // namespace opweld
