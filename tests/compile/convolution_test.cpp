// Models of one Conv through the whole compiler: every two of its options, fused and unfused,
// against plain loops in double precision; strict is the unfused run bit by bit; and what stands
// behind a convolution is in its kernel.
#include <cmath>
#include <limits>

#include "compile.h"
#include "import/convolution_model.h"
#include "runtime/compare.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

Executable compiled(const ModelBuilder& model, FusionLevel level, bool strict = false) {
  CompileOptions options;
  options.level = level;
  options.threads = 2;
  options.strict = strict;
  options.verify_passes = true;
  auto graph = model.import();
  EXPECT_TRUE(graph) << graph.error().message;
  auto result = compile(std::move(*graph), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

void check(const ConvolutionChoice& choice, DType dtype) {
  SCOPED_TRACE(::testing::PrintToString(choice) + std::string(to_string(dtype)));
  const ConvolutionModel model(choice, dtype);
  const ModelBuilder onnx = model.model();
  Executable unfused = compiled(onnx, FusionLevel::None);
  Executable fused = compiled(onnx, FusionLevel::Auto);
  Executable strict = compiled(onnx, FusionLevel::Auto, true);
  Executable strict_unfused = compiled(onnx, FusionLevel::None, true);
  const bool free = choice[kFreeSizes] == kAllFree;
  for (const std::int64_t longer : free ? Sizes{0, 1, 9} : Sizes{0}) {
    const Tensor x = model.random(model.image_sizes(2, longer), 1);
    const std::vector<Tensor> inputs = model.inputs(x);
    const Tensor expected = model.expected(x);
    for (Executable* each : {&unfused, &fused, &strict}) {
      const auto outputs = each->run(inputs);
      ASSERT_TRUE(outputs) << outputs.error().message;
      // Products are rounded to halves before the bias is added, where nothing is fused.
      Tolerance tolerance = default_tolerance(dtype);
      if (dtype != DType::F32) tolerance.absolute = tolerance.relative;
      const Comparison result = compare(outputs->front(), expected, tolerance);
      EXPECT_TRUE(result.equal) << result.message;
    }
    expect_identical(strict.run(inputs).value(), strict_unfused.run(inputs).value());
  }
}

TEST(Convolution, EachTwoOptions) {
  int turn = 0;
  for (const ConvolutionChoice& choice :
       CoveringArray<kConvolutionFactors>(kConvolutionLevels).choices()) {
    constexpr std::array<DType, 3> kDTypes{DType::F32, DType::BF16, DType::F16};
    check(choice, kDTypes.at(static_cast<std::size_t>(turn++) % kDTypes.size()));
  }
}

// A vision model's stem: y = gelu(conv(x)) as rows of tokens, plus positions.
ModelBuilder stem(std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  ModelBuilder model(22);
  model.input("x", {"batch", "3", "32", "32"}).output("y");
  const auto weights = static_cast<std::size_t>(16 * 3 * kernel * kernel);
  model.initializer(
      tensor_proto<float>("w", {16, 3, kernel, kernel}, std::vector<float>(weights, 0.1F)));
  model.initializer(tensor_proto<float>("b", {16}, std::vector<float>(16, 0.5F)));
  const std::int64_t side = (32 + 2 * pad - kernel) / stride + 1;
  const auto count = static_cast<std::size_t>(side * side * 16);
  model.initializer(
      tensor_proto<float>("positions", {1, side * side, 16}, std::vector<float>(count, 0.25F)));
  model.ints("shape", {0, 16, -1});
  model.node("Conv", {"x", "w", "b"}, {"c"})
      .set("strides", std::vector<std::int64_t>{stride, stride})
      .set("pads", std::vector<std::int64_t>(4, pad));
  model.node("Gelu", {"c"}, {"g"});
  model.node("Reshape", {"g", "shape"}, {"r"});
  model.node("Transpose", {"r"}, {"t"}).set("perm", std::vector<std::int64_t>{0, 2, 1});
  model.node("Add", {"t", "positions"}, {"y"});
  return model;
}

TEST(Convolution, IsOneKernelWithWhatFollows) {
  struct Form {
    std::int64_t kernel, stride, pad;
    std::string windows;  // the kernel that writes them, where the product cannot read them
  };
  const std::vector<Form> forms{
      {8, 8, 0, ""}, {1, 1, 0, ""}, {3, 2, 1, "pad + gather + gather + reshape + transpose"}};
  for (const auto& [kernel, stride, pad, windows] : forms) {
    Executable executable = compiled(stem(kernel, stride, pad), FusionLevel::Auto);
    const std::vector<Kernel>& kernels = executable.plan().kernels;
    ASSERT_EQ(kernels.size(), windows.empty() ? 1U : 2U) << to_text(executable.plan());
    EXPECT_EQ(kernels.back().kind, KernelKind::Contract);
    if (!windows.empty()) {
      EXPECT_THAT(to_text(executable.plan()), ::testing::HasSubstr(windows));
    }
  }
}

TEST(Convolution, NaNReachesItsWindowsAlone) {
  ModelBuilder model(22);
  model.input("x", {"1", "1", "n"}).output("y");
  model.initializer(tensor_proto<float>("w", {1, 1, 3}, {1, 1, 1}));
  model.node("Conv", {"x", "w"}, {"y"}).set("pads", std::vector<std::int64_t>{1, 1});
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
    Executable executable = compiled(model, level);
    for (const std::int64_t length : {1, 3, 7, 8, 15, 16, 17, 31, 33}) {
      for (const std::int64_t odd : {std::int64_t{0}, length / 2, length - 1}) {
        Tensor x = Tensor::allocate(DType::F32, {1, 1, length}).value();
        x.set_double(odd, std::nan(""));
        const auto outputs = executable.run(std::vector<Tensor>{x});
        ASSERT_TRUE(outputs) << outputs.error().message;
        for (std::int64_t i = 0; i < length; ++i) {
          const bool reached = std::abs(i - odd) <= 1;
          EXPECT_EQ(std::isnan(outputs->front().get_double(i)), reached) << i << " of " << length;
        }
      }
    }
  }
}

TEST(Convolution, OfNothingIsNothing) {
  ModelBuilder model(22);
  model.input("x", {"batch", "2", "n"}).output("y");
  model.initializer(tensor_proto<float>("w", {3, 2, 3}, std::vector<float>(18, 1)));
  model.node("Conv", {"x", "w"}, {"y"});
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Auto}) {
    Executable executable = compiled(model, level);
    for (const Sizes& sizes : {Sizes{0, 2, 9}, Sizes{2, 2, 2}}) {
      const std::vector<Tensor> inputs{Tensor::allocate(DType::F32, sizes).value()};
      const auto outputs = executable.run(inputs);
      ASSERT_TRUE(outputs) << outputs.error().message;
      EXPECT_EQ(outputs->front().sizes(), (Sizes{sizes[0], 3, sizes[2] - 2}));
    }
    // A window that is longer by more than one is an error of the run.
    const std::vector<Tensor> inputs{Tensor::allocate(DType::F32, {1, 2, 1}).value()};
    EXPECT_FALSE(executable.run(inputs));
  }
}

}  // namespace
}  // namespace opweld::testing
