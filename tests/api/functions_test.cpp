// Every named function against its formula, evaluated here in double.
#include "opweld/functions.h"

#include <cmath>

#include "compute.h"

namespace opweld {
namespace {

using testing::compute;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Input;
using testing::message_of;
using Operands = std::vector<GraphTensor>;

const Input kX{{7}, {-2.5F, -1, -0.25F, 0.5F, 1, 2, 3.5F}};
const Input kY{{7}, {1.5F, -1, 2, 0.25F, 4, 2, -3}};

struct Unary {
  const char* name;
  GraphTensor (*function)(const GraphTensor&);
  double (*formula)(double);
};

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(Functions, UnaryOnesAreTheirFormulas) {
  const Unary functions[] = {
      {"negate", negate, [](double x) { return -x; }},
      {"minus", [](const GraphTensor& x) { return -x; }, [](double x) { return -x; }},
      {"abs", abs, [](double x) { return std::fabs(x); }},
      {"exp", exp, [](double x) { return std::exp(x); }},
      {"log", log, [](double x) { return std::log(x); }},
      {"sqrt", sqrt, [](double x) { return std::sqrt(x); }},
      {"rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {"sin", sin, [](double x) { return std::sin(x); }},
      {"cos", cos, [](double x) { return std::cos(x); }},
      {"tanh", tanh, [](double x) { return std::tanh(x); }},
      {"erf", erf, [](double x) { return std::erf(x); }},
      {"sigmoid", sigmoid, sigmoid_of},
      {"relu", relu, [](double x) { return x > 0 ? x : 0; }},
      {"silu", silu, [](double x) { return x * sigmoid_of(x); }},
      {"gelu", [](const GraphTensor& x) { return gelu(x); },
       [](double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; }},
      {"gelu by tanh", [](const GraphTensor& x) { return gelu(x, GeluForm::Tanh); },
       [](double x) {
         return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
       }},
      {"x + 2", [](const GraphTensor& x) { return x + 2; }, [](double x) { return x + 2; }},
      {"x - 2", [](const GraphTensor& x) { return x - 2; }, [](double x) { return x - 2; }},
      {"x * 2", [](const GraphTensor& x) { return x * 2; }, [](double x) { return x * 2; }},
      {"x / 2", [](const GraphTensor& x) { return x / 2; }, [](double x) { return x / 2; }},
      {"2 + x", [](const GraphTensor& x) { return 2 + x; }, [](double x) { return 2 + x; }},
      {"2 - x", [](const GraphTensor& x) { return 2 - x; }, [](double x) { return 2 - x; }},
      {"2 * x", [](const GraphTensor& x) { return 2 * x; }, [](double x) { return 2 * x; }},
      {"2 / x", [](const GraphTensor& x) { return 2 / x; }, [](double x) { return 2 / x; }},
  };
  for (const Unary& each : functions) {
    const auto result =
        compute({kX}, [&](GraphBuilder&, const Operands& x) { return each.function(x[0]); });
    ASSERT_EQ(result.size(), kX.values.size()) << each.name;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const double expected = each.formula(kX.values[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(result[i])) << each.name;
      } else {
        EXPECT_NEAR(result[i], expected, 1e-6 * (1 + std::fabs(expected))) << each.name;
      }
    }
  }
}

TEST(Functions, BinaryOnesAreTheirFormulas) {
  struct Binary {
    const char* name;
    GraphTensor (*function)(const GraphTensor&, const GraphTensor&);
    double (*formula)(double, double);
  };
  const auto chosen = [](const GraphTensor& condition, const GraphTensor& a) {
    return select(condition, a, a * 0);
  };
  static const auto kChosen = chosen;
  const Binary functions[] = {
      {"add", add, [](double a, double b) { return a + b; }},
      {"sub", sub, [](double a, double b) { return a - b; }},
      {"mul", mul, [](double a, double b) { return a * b; }},
      {"div", div, [](double a, double b) { return a / b; }},
      {"pow", pow, [](double a, double b) { return std::pow(a, b); }},
      {"minimum", minimum, [](double a, double b) { return std::fmin(a, b); }},
      {"maximum", maximum, [](double a, double b) { return std::fmax(a, b); }},
      {"+", [](const GraphTensor& a, const GraphTensor& b) { return a + b; },
       [](double a, double b) { return a + b; }},
      {"-", [](const GraphTensor& a, const GraphTensor& b) { return a - b; },
       [](double a, double b) { return a - b; }},
      {"*", [](const GraphTensor& a, const GraphTensor& b) { return a * b; },
       [](double a, double b) { return a * b; }},
      {"/", [](const GraphTensor& a, const GraphTensor& b) { return a / b; },
       [](double a, double b) { return a / b; }},
      {"less", [](const GraphTensor& a, const GraphTensor& b) { return kChosen(less(a, b), a); },
       [](double a, double b) { return a < b ? a : 0; }},
      {"greater",
       [](const GraphTensor& a, const GraphTensor& b) { return kChosen(greater(a, b), a); },
       [](double a, double b) { return a > b ? a : 0; }},
      {"equal", [](const GraphTensor& a, const GraphTensor& b) { return kChosen(equal(a, b), a); },
       [](double a, double b) { return a == b ? a : 0; }},
  };
  for (const Binary& each : functions) {
    const auto result = compute(
        {kX, kY}, [&](GraphBuilder&, const Operands& x) { return each.function(x[0], x[1]); });
    ASSERT_EQ(result.size(), kX.values.size()) << each.name;
    for (std::size_t i = 0; i < result.size(); ++i) {
      const double expected = each.formula(kX.values[i], kY.values[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(result[i])) << each.name;
      } else {
        EXPECT_NEAR(result[i], expected, 1e-6 * (1 + std::fabs(expected))) << each.name;
      }
    }
  }
}

// 0, 1, 2 ... as [sizes].
Input counted(Sizes sizes, float factor = 1) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  Input input{std::move(sizes), {}};
  for (std::int64_t i = 0; i < count; ++i) {
    input.values.push_back(factor * static_cast<float>(i));
  }
  return input;
}

TEST(Functions, MatmulAndLinear) {
  const Input a{{2, 3}, {1, 2, 3, 4, 5, 6}};
  const Input b{{3, 2}, {1, 0, 0, 1, 1, 1}};
  EXPECT_THAT(compute({a, b}, [](GraphBuilder&, const Operands& x) { return matmul(x[0], x[1]); }),
              ElementsAre(4, 5, 10, 11));
  const Input bias{{2}, {10, 20}};
  EXPECT_THAT(compute({a, b, bias},
                      [](GraphBuilder&, const Operands& x) { return linear(x[0], x[1], x[2]); }),
              ElementsAre(14, 25, 20, 31));
  EXPECT_THAT(compute({a, b}, [](GraphBuilder&, const Operands& x) { return linear(x[0], x[1]); }),
              ElementsAre(4, 5, 10, 11));
}

TEST(Functions, GroupedMatmul) {
  const Input x{{3, 1}, {1, 2, 3}};
  const Input w{{2, 1, 2}, {1, 10, 100, 1000}};
  const Input bias{{2, 2}, {1, 2, 3, 4}};
  const auto run = [&](std::vector<float> bounds, RowBounds kind) {
    return compute({x, w, {{2}, std::move(bounds)}, bias},
                   [kind](GraphBuilder&, const Operands& o) {
                     return grouped_matmul(o[0], o[1], cast(o[2], DType::I64), o[3], kind);
                   });
  };
  EXPECT_THAT(run({2, 1}, RowBounds::Counts), ElementsAre(2, 12, 3, 22, 303, 3004));
  EXPECT_THAT(run({1, 3}, RowBounds::Ends), ElementsAre(2, 12, 203, 2004, 303, 3004));
  EXPECT_THAT(compute({x, w, {{2}, {0, 3}}},
                      [](GraphBuilder&, const Operands& o) {
                        return grouped_matmul(o[0], o[1], cast(o[2], DType::I64));
                      }),
              ElementsAre(100, 1000, 200, 2000, 300, 3000));
}

TEST(Functions, Views) {
  const Input x = counted({2, 3});
  EXPECT_THAT(compute({x}, [](GraphBuilder&, const Operands& o) { return transpose(o[0]); }),
              ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(compute({counted({1, 2, 2})},
                      [](GraphBuilder&, const Operands& o) { return transpose(o[0], {0, 2, 1}); }),
              ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(
      compute({x}, [](GraphBuilder&, const Operands& o) { return slice(o[0], {0, 1}, {2, 2}); }),
      ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(
      compute({x}, [](GraphBuilder&,
                      const Operands& o) { return concat({o[0], reshape(o[0], {2, 3})}, 0); }),
      ElementsAre(0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(compute({counted({1, 2})},
                      [](GraphBuilder&, const Operands& o) { return expand(o[0], {2, 2}); }),
              ElementsAre(0, 1, 0, 1));
  const std::vector<std::int64_t> rows = {1, -2};
  EXPECT_THAT(compute({x},
                      [&](GraphBuilder& builder, const Operands& o) {
                        return gather(o[0], builder.constant(TensorView(rows, {2})));
                      }),
              ElementsAre(3, 4, 5, 0, 1, 2));
}

TEST(Functions, Reductions) {
  const Input x = counted({2, 3});
  const auto over = [&](auto function, const std::vector<std::int64_t>& axes) {
    return compute({x},
                   [&](GraphBuilder&, const Operands& o) { return function(o[0], axes, false); });
  };
  EXPECT_THAT(over(reduce_sum, {1}), ElementsAre(3, 12));
  EXPECT_THAT(over(reduce_sum, {}), ElementsAre(15));
  EXPECT_THAT(over(reduce_mean, {-1}), ElementsAre(1, 4));
  EXPECT_THAT(over(reduce_max, {0}), ElementsAre(3, 4, 5));
  EXPECT_THAT(over(reduce_min, {0, 1}), ElementsAre(0));
}

TEST(Functions, Normalisations) {
  const Input x{{1, 4}, {1, 2, 3, 6}};
  const auto soft = compute({x}, [](GraphBuilder&, const Operands& o) { return softmax(o[0]); });
  const auto log_soft =
      compute({x}, [](GraphBuilder&, const Operands& o) { return log_softmax(o[0]); });
  const Input scale{{4}, {1, 2, 1, 2}};
  const Input bias{{4}, {0, 0, 5, 5}};
  const auto rms = compute(
      {x, scale}, [](GraphBuilder&, const Operands& o) { return rms_norm(o[0], o[1], 0.5); });
  const auto layer = compute({x, scale, bias}, [](GraphBuilder&, const Operands& o) {
    return layer_norm(o[0], o[1], o[2], 0.5);
  });
  const auto biased = compute(
      {x, bias}, [](GraphBuilder&, const Operands& o) { return layer_norm(o[0], {}, o[1], 0.5); });
  const double total = std::exp(1) + std::exp(2) + std::exp(3) + std::exp(6);
  const double mean_square = (1.0 + 4 + 9 + 36) / 4;
  const double variance = (4.0 + 1 + 0 + 9) / 4;  // the mean is 3
  for (std::size_t i = 0; i < 4; ++i) {
    const double value = x.values[i];
    EXPECT_NEAR(soft[i], std::exp(value) / total, 1e-6);
    EXPECT_NEAR(log_soft[i], value - std::log(total), 1e-5);
    EXPECT_NEAR(rms[i], value / std::sqrt(mean_square + 0.5) * scale.values[i], 1e-6);
    const double normal = (value - 3) / std::sqrt(variance + 0.5);
    EXPECT_NEAR(layer[i], normal * scale.values[i] + bias.values[i], 1e-5);
    EXPECT_NEAR(biased[i], normal + bias.values[i], 1e-5);
  }
}

TEST(Functions, RotaryEmbeddingTurnsPairs) {
  const Input x{{1, 1, 1, 4}, {1, 2, 3, 4}};
  const Input cos{{1, 2}, {0, 1}};
  const Input sin{{1, 2}, {1, 0}};
  EXPECT_THAT(
      compute({x, cos, sin},
              [](GraphBuilder&, const Operands& o) { return rotary_embedding(o[0], o[1], o[2]); }),
      ElementsAre(-3, 2, 1, 4));
  EXPECT_THAT(compute({x, cos, sin},
                      [](GraphBuilder&, const Operands& o) {
                        return rotary_embedding(o[0], o[1], o[2], true);
                      }),
              ElementsAre(-2, 1, 3, 4));
}

// One head, written out: two queries, three keys, head size 2, values of size 1.
TEST(Functions, Attention) {
  const Input q{{1, 1, 2, 2}, {1, 0, 0, 2}};
  const Input k{{1, 1, 3, 2}, {1, 1, 2, 0, 0, 1}};
  const Input v{{1, 1, 3, 1}, {10, 20, 30}};
  const double scores[2][3] = {{1, 2, 0}, {2, 0, 2}};
  const auto expected = [&](int query, double scale, double softcap, auto visible) {
    double total = 0;
    double sum = 0;
    for (int key = 0; key < 3; ++key) {
      if (!visible(key)) continue;
      double score = scores[query][key] * scale;
      if (softcap != 0) score = softcap * std::tanh(score / softcap);
      total += std::exp(score);
      sum += std::exp(score) * v.values[static_cast<std::size_t>(key)];
    }
    return total == 0 ? 0 : sum / total;
  };
  const auto run = [&](const AttentionOptions& options) {
    return compute({q, k, v}, [&](GraphBuilder&, const Operands& o) {
      return attention(o[0], o[1], o[2], options);
    });
  };
  const auto check = [&](const AttentionOptions& options, double scale, double softcap,
                         auto visible) {
    const auto result = run(options);
    for (int query = 0; query < 2; ++query) {
      EXPECT_NEAR(result[static_cast<std::size_t>(query)],
                  expected(query, scale, softcap, [&](int key) { return visible(query, key); }),
                  1e-4);
    }
  };
  const double usual = 1 / std::sqrt(2.0);
  check({}, usual, 0, [](int, int) { return true; });
  check({.scale = 0.25}, 0.25, 0, [](int, int) { return true; });
  check({.causal = Causal::TopLeft}, usual, 0, [](int s, int t) { return t <= s; });
  check({.causal = Causal::BottomRight}, usual, 0, [](int s, int t) { return t <= s + 1; });
  check({.window_left = 0, .window_right = 1}, usual, 0,
        [](int s, int t) { return t >= s && t <= s + 1; });
  check({.softcap = 1.5}, usual, 1.5, [](int, int) { return true; });
  const auto masked = compute({q, k, v}, [&](GraphBuilder& builder, const Operands& o) {
    const std::vector<std::uint8_t> bytes = {1, 0, 1, 0, 0, 0};  // the second query sees nothing
    AttentionOptions options;
    options.mask = builder.constant(TensorView(DType::Bool, {2, 3}, bytes.data(), bytes.size()));
    return attention(o[0], o[1], o[2], options);
  });
  EXPECT_NEAR(masked[0], expected(0, usual, 0, [](int key) { return key != 1; }), 1e-4);
  EXPECT_EQ(masked[1], 0);
}

TEST(Functions, CastConverts) {
  const auto result = compute(
      {{{4}, {-1.75F, 2.5F, 1e30F, NAN}}},
      [](GraphBuilder&, const Operands& o) { return cast(cast(o[0], DType::I32), DType::F32); });
  EXPECT_THAT(result, ElementsAre(-1, 2, 2147483648.0, 0));
}

// ---- used wrongly ----

TEST(Functions, OfAbsentTensorsAreAbsent) {
  const GraphTensor nothing;
  EXPECT_FALSE(add(nothing, nothing).valid());
  EXPECT_FALSE((nothing * 2).valid());
  EXPECT_FALSE(attention(nothing, nothing, nothing).valid());
  EXPECT_FALSE(attention_with_lse(nothing, nothing, nothing).lse.valid());
  EXPECT_FALSE(transpose(nothing).valid());
  EXPECT_FALSE(concat({}, 0).valid());
  EXPECT_EQ(nothing.type(), "invalid");
  EXPECT_TRUE(nothing.sizes().empty());
}

std::string failure(const std::function<GraphTensor(const GraphTensor&)>& body) {
  GraphBuilder builder;
  const GraphTensor x = builder.input("x", DType::F32, {"s", 6});
  EXPECT_FALSE(body(x).valid());
  EXPECT_FALSE(builder.finish());
  EXPECT_EQ(builder.finish().error().message, message_of(builder.status()));
  return message_of(builder.status());
}

TEST(Functions, MisuseIsNamed) {
  const GraphTensor nothing;
  EXPECT_THAT(failure([](const GraphTensor& x) { return matmul(x, reduce_sum(x, {}, false)); }),
              HasSubstr("matmul"));
  EXPECT_THAT(failure([&](const GraphTensor& x) { return add(x, nothing); }),
              HasSubstr("is missing"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return softmax(x, 2); }), HasSubstr("axis 2"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return reshape(x, {"t", 6}); }), HasSubstr("t"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return reshape(reduce_sum(x, {0}), {5}); }),
              HasSubstr("reshape"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return transpose(x, {0, 0}); }),
              HasSubstr("transpose"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return add(x, cast(x, DType::F16)); }),
              HasSubstr("f16"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return cast(x, DType::I32) + 0.5; }),
              HasSubstr("0.5 is no value of i32"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return attention(x, x, x); }),
              HasSubstr("attention"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return cast(x, static_cast<DType>(77)); }),
              HasSubstr("dtype"));
  EXPECT_THAT(failure([](const GraphTensor& x) {
                return attention(x, x, x, {.causal = static_cast<Causal>(9)});
              }),
              HasSubstr("causal"));
  EXPECT_THAT(failure([](const GraphTensor& x) { return apply("matmull", {x, x}); }),
              HasSubstr("did you mean 'matmul'"));
}

TEST(Functions, AttentionOfAFreeHeadSizeNeedsAScale) {
  GraphBuilder builder;
  const GraphTensor q = builder.input("q", DType::F32, {1, 1, "s", "d"});
  EXPECT_FALSE(attention(q, q, q).valid());
  EXPECT_THAT(message_of(builder.status()), HasSubstr("scale"));
}

}  // namespace
}  // namespace opweld
