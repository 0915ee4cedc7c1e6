// docs/numerics.md, claim by claim, at every level of fusion.
#include <cmath>
#include <cstring>
#include <random>

#include "compute.h"

namespace opweld {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::message_of;

constexpr FusionLevel kLevels[] = {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto};

HostTensor run(const char* text, const std::vector<TensorView>& inputs,
               const CompileSettings& settings = {}) {
  const Result<Model> model = Model::parse(text);
  EXPECT_TRUE(model) << message_of(model);
  const Result<Program> program = model->compile(settings);
  EXPECT_TRUE(program) << message_of(program);
  auto outputs = program->run(inputs);
  EXPECT_TRUE(outputs) << message_of(outputs);
  return outputs->front();
}

std::vector<float> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

// The f16 nearest to a value of moderate size, by arithmetic alone: 11 significant bits.
double to_half(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 11)), exponent - 11);
}

HostTensor halves(const std::vector<double>& values) {
  GraphBuilder builder;
  builder.output("y", cast(builder.input("x", DType::F64, {"n"}), DType::F16));
  return builder.finish()
      ->compile()
      ->run({TensorView(values, {std::ssize(values)})})
      .value()
      .front();
}

TEST(Numerics, AFusedChainOfHalvesIsRoundedOnceAndByStrictEachTime) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(to_half(0.3 + i * 0x1p-9));
  const HostTensor x = halves(values);
  ASSERT_EQ(x.to_doubles(), values);
  constexpr const char* kChain = R"(
    graph g(%x: f16[n]) {
      %a = mul(%x, %x)
      %b = add(%a, %x)
      return %b as "y"
    })";
  const auto once = run(kChain, {x}).to_doubles();
  for (const FusionLevel level : kLevels) {
    const auto each =
        run(kChain, {x}, {.fusion = level, .numerics = Numerics::Strict}).to_doubles();
    const auto usual = run(kChain, {x}, {.fusion = level}).to_doubles();
    int different = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      ASSERT_EQ(once[i], to_half(value * value + value)) << value;
      ASSERT_EQ(each[i], to_half(to_half(value * value) + value)) << value;
      // Where nothing is fused, the default stores and so rounds as strict does.
      ASSERT_EQ(usual[i], level == FusionLevel::Auto ? once[i] : each[i]) << value;
      different += once[i] != each[i] ? 1 : 0;
    }
    EXPECT_GT(different, 0);
  }
}

// Element [i, j] of a b + c, the product as one chain in the order of the depth.
std::vector<float> chained(const std::vector<float>& a, const std::vector<float>& b,
                           const std::vector<float>& c, std::int64_t depth, std::int64_t n) {
  std::vector<float> result;
  for (std::int64_t at = 0; at < std::ssize(c); ++at) {
    float sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      sum = std::fma(a[static_cast<std::size_t>(at / n * depth + k)],
                     b[static_cast<std::size_t>(k * n + at % n)], sum);
    }
    result.push_back(sum + c[static_cast<std::size_t>(at)]);
  }
  return result;
}

// Whatever the shape, the target, the threads and what else the kernel does.
TEST(Numerics, AMatmulIsAChainOfFusedMultiplyAdds) {
  const Model model = Model::parse(R"(
    graph g(%a: f32[m, k], %b: f32[k, n], %c: f32[m, n]) {
      %p = matmul(%a, %b)
      %y = add(%p, %c)
      return %y as "y"
    })")
                          .value();
  std::vector<Program> programs;
  for (const char* target : {"host", "host-generic"}) {
    for (const int threads : {1, 3}) {
      programs.push_back(model.compile({.threads = threads, .target = target}).value());
    }
  }
  for (const std::int64_t k : {1, 7, 384, 385, 900}) {
    for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{1, 40}, {5, 17}, {33, 64}}) {
      const auto a = random_values(m * k, 1);
      const auto b = random_values(k * n, 2);
      const auto c = random_values(m * n, 3);
      const std::vector<float> expected = chained(a, b, c, k, n);
      for (const Program& program : programs) {
        const HostTensor y =
            program.run({TensorView(a, {m, k}), TensorView(b, {k, n}), TensorView(c, {m, n})})
                .value()
                .front();
        ASSERT_EQ(std::memcmp(y.data(), expected.data(), y.num_bytes()), 0)
            << m << " " << n << " " << k << " " << program.threads() << " threads";
      }
    }
  }
}

TEST(Numerics, ThreadsDoNotChangeABit) {
  constexpr const char* kMixed = R"(
    graph g(%x: f32[s, 96], %g: f32[96]) {
      %n = rms_norm(%x, %g)
      %t = transpose(%n) {permutation = [1, 0]}
      %p = matmul(%n, %t)
      %w = softmax(%p)
      %m = matmul(%w, %n)
      %s = reduce_sum(%m) {axes = [0, 1], keepdims = 0}
      %y = add(%m, %s)
      return %y as "y"
    })";
  const auto x = random_values(std::int64_t{67} * 96, 4);
  const auto g = random_values(96, 5);
  for (const FusionLevel level : kLevels) {
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 3}) {
      results.push_back(run(kMixed, {TensorView(x, {67, 96}), TensorView(g, {96})},
                            {.fusion = level, .threads = threads})
                            .to_doubles());
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST(Numerics, ProductsAndSumsAreNotContracted) {
  const auto x = random_values(1000, 6);
  const auto y = run(R"(
    graph g(%x: f32[n]) {
      %p = mul(%x, %x)
      %y = sub(%p, %x)
      return %y as "y"
    })",
                     {TensorView(x, {1000})})
                     .to_doubles();
  int contracted_differs = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const volatile float product = x[i] * x[i];
    ASSERT_EQ(y[i], product - x[i]);
    contracted_differs += y[i] != std::fma(x[i], x[i], -x[i]) ? 1 : 0;
  }
  EXPECT_GT(contracted_differs, 0);
}

TEST(Numerics, NanInfinitiesAndZeros) {
  const std::vector<float> x = {NAN, INFINITY, -INFINITY, -0.0F, 2};
  const TensorView view(x, {5});
  for (const FusionLevel level : kLevels) {
    const CompileSettings settings{.fusion = level};
    const auto of = [&](const std::string& body) {
      const std::string text = "graph g(%x: f32[5]) { %zero = constant {value = f32[1] {0.0}} " +
                               body + " return %y as \"y\" }";
      return run(text.c_str(), {view}, settings).to_doubles();
    };
    const auto products = of("%y = mul(%x, %zero)");
    EXPECT_TRUE(std::isnan(products[0]) && std::isnan(products[1]) && std::isnan(products[2]));
    EXPECT_TRUE(std::signbit(products[3]));
    const auto sums = of("%y = add(%x, %zero)");
    EXPECT_FALSE(std::signbit(sums[3]));
    EXPECT_TRUE(std::isnan(of("%y = max(%x, %zero)")[0]));
    EXPECT_TRUE(std::isnan(of("%y = min(%zero, %x)")[0]));
    EXPECT_TRUE(std::isnan(of("%y = reduce_max(%x)")[0]));
    EXPECT_TRUE(std::isnan(of("%y = reduce_min(%x)")[0]));
    EXPECT_THAT(of("%c = eq(%x, %x) %y = cast(%c) {to = f32}"), ElementsAre(0, 1, 1, 1, 1));
    EXPECT_THAT(of("%c = ne(%x, %x) %y = cast(%c) {to = f32}"), ElementsAre(1, 0, 0, 0, 0));
    EXPECT_THAT(of("%c = cast(%x) {to = bool} %y = cast(%c) {to = f32}"),
                ElementsAre(1, 1, 1, 0, 1));
    EXPECT_THAT(of("%c = cast(%x) {to = i32} %y = cast(%c) {to = f32}"),
                ElementsAre(0, 2147483648.0, -2147483648.0, 0, 2));
    EXPECT_THAT(of("%c = cast(%x) {to = u8} %y = cast(%c) {to = f32}"),
                ElementsAre(0, 255, 0, 0, 2));
    EXPECT_THAT(of("%y = softmax(%x)"), Each(::testing::IsNan()));
  }
}

TEST(Numerics, ReductionsOfNothingGiveTheNeutralElement) {
  const TensorView empty(DType::F32, {3, 0}, nullptr, 0);
  for (const FusionLevel level : kLevels) {
    const auto of = [&](const std::string& op) {
      const std::string text = "graph g(%x: f32[3, n]) { %y = " + op +
                               "(%x) {axes = [1], keepdims = 0} return %y as \"y\" }";
      return run(text.c_str(), {empty}, {.fusion = level}).to_doubles();
    };
    EXPECT_THAT(of("reduce_sum"), ElementsAre(0, 0, 0));
    EXPECT_THAT(of("reduce_prod"), ElementsAre(1, 1, 1));
    EXPECT_THAT(of("reduce_max"), Each(-INFINITY));
    EXPECT_THAT(of("reduce_min"), Each(INFINITY));
    EXPECT_THAT(of("reduce_mean"), Each(::testing::IsNan()));
    EXPECT_THAT(run("graph g(%a: f32[3, n], %b: f32[n, 2]) { %y = matmul(%a, %b) return %y as "
                    "\"y\" }",
                    {empty, TensorView(DType::F32, {0, 2}, nullptr, 0)}, {.fusion = level})
                    .to_doubles(),
                ElementsAre(0, 0, 0, 0, 0, 0));
  }
}

TEST(Numerics, IntegersNeverTrap) {
  constexpr std::int32_t kLeast = INT32_MIN;
  const std::vector<std::int32_t> a = {7, -7, 7, -7, 5, kLeast, kLeast};
  const std::vector<std::int32_t> b = {2, 2, -2, -2, 0, -1, 0};
  for (const FusionLevel level : kLevels) {
    const auto of = [&](const std::string& op) {
      const std::string text =
          "graph g(%a: i32[7], %b: i32[7]) { %y = " + op + "(%a, %b) return %y as \"y\" }";
      return run(text.c_str(), {TensorView(a, {7}), TensorView(b, {7})}, {.fusion = level})
          .to_doubles();
    };
    EXPECT_THAT(of("div"), ElementsAre(3, -3, -3, 3, 0, kLeast, 0));
    EXPECT_THAT(of("mod"), ElementsAre(1, 1, -1, -1, 0, 0, 0));
    EXPECT_THAT(of("fmod"), ElementsAre(1, -1, 1, -1, 0, 0, 0));
    EXPECT_THAT(of("mul"), ElementsAre(14, -14, -14, 14, 0, kLeast, 0));
  }
}

}  // namespace
}  // namespace opweld
