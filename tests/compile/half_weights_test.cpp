// Weights in f16 or bf16 that a model multiplies in f32: kept as they are stored, at every level of
// fusion, by whatever spelling they come.
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

// 256 x 192 weights of f32 would be 196,608 bytes.
constexpr std::int64_t kHalfBytes = 256L * 192 * 2;

const std::string kPlain = "[256, 192] random 1}\n %c = cast(%w) {to = f32}\n %y = matmul(%x, %c)";
const std::string kTransposed =
    "[192, 256] random 1}\n %c = cast(%w) {to = f32}\n"
    " %t = transpose(%c) {permutation = [1, 0]}\n %y = matmul(%x, %t)";
const std::string kReshaped =
    "[2, 128, 192] random 1}\n %c = cast(%w) {to = f32}\n"
    " %t = reshape(%c) {shape = <256, 192>}\n %y = matmul(%x, %t)";

std::string text_of(const std::string& body, const std::string& dtype = "bf16") {
  return "graph g(%x: f32[s, 256]) {\n %w = constant {value = " + dtype + body +
         "\n return %y as \"y\"\n}";
}

// The kernels' results against the reference in f64.
void expect_right(Executable& executable, const std::string& text, std::int64_t s) {
  const std::vector<Tensor> inputs = random_inputs(text, {{"s", s}});
  const auto expected =
      evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
  const auto results = executable.run(inputs).value();
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    expect_close(results[i], expected[i], DType::F32);
  }
}

TEST(HalfWeights, StayAsTheyAreStoredAtEveryLevel) {
  for (const std::string& body : {kPlain, kTransposed, kReshaped}) {
    for (const char* dtype : {"bf16", "f16"}) {
      for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
        SCOPED_TRACE(body);
        const std::string text = text_of(body, dtype);
        Executable executable = compiled(text, 2, level);
        ASSERT_EQ(executable.plan().kernels.size(), 1U);
        const MemoryAccount memory = executable.memory({{"s", 3}}, false).value();
        EXPECT_EQ(memory.weight_bytes, kHalfBytes);
        EXPECT_EQ(memory.held_weight_bytes, kHalfBytes);
        for (const std::int64_t s : {0, 1, 13, 61}) expect_right(executable, text, s);
      }
    }
  }
}

TEST(HalfWeights, CountAsNoOperatorOfTheirOwn) {
  const Executable executable = compiled(text_of(kPlain));
  const Kernel& kernel = executable.plan().kernels.front();
  EXPECT_EQ(kernel.label, "matmul");
  EXPECT_EQ(kernel.name, "Kernel_0");
}

TEST(HalfWeights, TwoReadersHaveThemInF32) {
  const std::string text = text_of(
      "[256, 256] random 1}\n %c = cast(%w) {to = f32}\n %z = matmul(%x, %c)\n"
      " %y = matmul(%z, %c)");
  Executable executable = compiled(text);
  EXPECT_EQ(executable.memory({{"s", 3}}, false).value().weight_bytes, 256L * 256 * 4);
  expect_right(executable, text, 7);
}

// A view of halves and of what is no half is folded whole.
TEST(HalfWeights, ViewsOfSeveralTypesAreFolded) {
  const std::string text = text_of(
      "[128, 192] random 1}\n %c = cast(%w) {to = f32}\n"
      " %d = constant {value = f32[128, 192] random 2}\n"
      " %t = concat(%c, %d) {axis = 0}\n %y = matmul(%x, %t)");
  Executable executable = compiled(text);
  EXPECT_EQ(executable.plan().kernels.size(), 1U);
  expect_right(executable, text, 7);
}

TEST(HalfWeights, GatesAndProjectionsAreMergedAsTheyAreStored) {
  const std::string text = text_of(
      "[256, 192] random 1}\n %c = cast(%w) {to = f32}\n %v = constant {value = bf16[256, 192] "
      "random 2}\n %d = cast(%v) {to = f32}\n %u = matmul(%x, %c)\n %g = matmul(%x, %d)\n"
      " %b = constant {value = f32[192] random 3}\n %h = add(%g, %b)\n %a = sigmoid(%h)\n"
      " %y = mul(%u, %a)");
  Executable executable = compiled(text);
  ASSERT_EQ(executable.plan().kernels.size(), 1U);
  EXPECT_LT(executable.memory({{"s", 3}}, false).value().held_weight_bytes, 3 * kHalfBytes);
  for (const std::int64_t s : {0, 1, 13, 61}) expect_right(executable, text, s);
}

TEST(HalfWeights, ResultsDoNotDependOnThreads) {
  for (const std::int64_t s : {1, 13, 211}) {
    const std::string text = text_of(kPlain);
    const std::vector<Tensor> inputs = random_inputs(text, {{"s", s}});
    Executable alone = compiled(text, 1);
    Executable several = compiled(text, 5);
    expect_identical(alone.run(inputs).value(), several.run(inputs).value());
  }
}

}  // namespace
}  // namespace opweld::testing
