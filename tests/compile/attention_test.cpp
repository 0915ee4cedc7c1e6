// Attention as it is run: on several threads, and in how much memory.
#include <gtest/gtest.h>

#include <cstring>

#include "compile.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

constexpr std::string_view kDecode = R"(
graph g(%q: f32[b, 4, 1, 16], %k: f32[b, 2, t, 16], %v: f32[b, 2, t, 16]) {
  %a = attention(%q, %k, %v) {scale = 0.25, causal = "none"}
  %y = neg(%a)
  return %y as "y"
})";

// A free number of queries, over pages of 16 keys.
constexpr std::string_view kPaged = R"(
graph g(%q: f32[b, 4, s, 16], %k: f32[5, 2, 16, 16], %v: f32[5, 2, 16, 16], %n: i64[b],
        %c: i64[b, w]) {
  %a = attention(%q, %k, %v, _, %n, _, %c) {scale = 0.25, causal = "bottom_right"}
  %y = neg(%a)
  return %y as "y"
})";

// On a matrix unit where there is one.
constexpr std::string_view kPrefillInBf16 = R"(
graph g(%q: bf16[b, 4, s, 40], %k: bf16[b, 2, t, 40], %v: bf16[b, 2, t, 24]) {
  %a = attention(%q, %k, %v) {scale = 0.25, causal = "bottom_right"}
  %y = neg(%a)
  return %y as "y"
})";

constexpr std::string_view kPrefill = R"(
graph g(%x: f32[2, s, 8]) {
  %h = reshape(%x) {shape = <1, 2, s, 8>}
  %q = mul(%h, %h)
  %a = attention(%q, %h, %h) {scale = 0.25, causal = "top_left"}
  %y = neg(%a)
  return %y as "y"
})";

Executable compiled(std::string_view text, int threads) {
  CompileOptions options;
  options.threads = threads;
  auto result = compile(parse_graph(std::string(text)).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

void expect_same_bits_on_any_team(std::string_view text, const std::vector<Bindings>& sizes) {
  Executable alone = compiled(text, 1);
  ASSERT_EQ(alone.plan().kernels.size(), 1U);
  for (const int threads : {2, 5}) {
    Executable team = compiled(text, threads);
    for (const Bindings& bindings : sizes) {
      std::vector<Tensor> inputs;
      for (const auto* input : alone.graph().inputs()) {
        inputs.push_back(
            random_tensor(input->type(), evaluate(input->shape(), bindings).value(), 7));
        // Tables name one of five pages; sequences differ in length.
        if (input->type().rank() != 1) continue;
        for (std::int64_t b = 0; b < inputs.back().num_elements(); ++b) {
          inputs.back().set_int(b, 16 * bindings.find("w").value() - 5 * b);
        }
      }
      const Tensor expected = std::move(alone.run(inputs)->front());
      for (int repeat = 0; repeat < 20; ++repeat) {
        const Tensor actual = std::move(team.run(inputs)->front());
        const auto bytes = static_cast<std::size_t>(expected.num_bytes());
        ASSERT_EQ(std::memcmp(actual.data(), expected.data(), bytes), 0);
      }
    }
  }
}

TEST(Attention, SplitKeysGiveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<Bindings> sizes;
  for (const std::int64_t keys : {0, 3, 700, 5000}) sizes.push_back({{"b", 3}, {"t", keys}});
  expect_same_bits_on_any_team(kDecode, sizes);
}

TEST(Attention, SplitPagesGiveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<Bindings> sizes;
  for (const std::int64_t queries : {1, 2, 16, 17}) {
    for (const std::int64_t pages : {1, 50}) {
      sizes.push_back({{"b", 3}, {"s", queries}, {"w", pages}});
    }
  }
  expect_same_bits_on_any_team(kPaged, sizes);
}

TEST(Attention, ManyQueriesInBf16GiveTheSameBitsOnAnyNumberOfThreads) {
  std::vector<Bindings> sizes;
  for (const std::int64_t queries : {17, 300}) {
    for (const std::int64_t keys : {17, 333}) {
      sizes.push_back({{"b", 2}, {"s", queries}, {"t", keys}});
    }
  }
  expect_same_bits_on_any_team(kPrefillInBf16, sizes);
}

// Double precision has no kernel: it runs as a call, which finds the same faults.
TEST(Attention, PagesInDoublePrecisionRunAsACall) {
  Executable executable = compiled(R"(
graph g(%q: f64[2, 2, 3, 4], %k: f64[4, 1, 5, 4], %v: f64[4, 1, 5, 2], %n: i32[2], %c: i32[2, 2]) {
  %y, %l = attention(%q, %k, %v, _, %n, _, %c) {causal = "bottom_right", lse = 1}
  return %y as "y", %l as "l"
})",
                                   1);
  std::vector<Tensor> inputs;
  for (const Value* input : executable.graph().inputs()) {
    const Sizes sizes = evaluate(input->shape(), Bindings{}).value();
    inputs.push_back(random_tensor(input->type(), sizes, 3));
  }
  for (int b = 0; b < 2; ++b) inputs[3].set_int(b, 10 - 4 * b);
  for (int i = 0; i < 4; ++i) inputs[4].set_int(i, 3 - i);
  const auto expected = evaluate(executable.graph(), inputs);
  const auto actual = executable.run(inputs);
  ASSERT_TRUE(expected && actual);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto bytes = static_cast<std::size_t>((*expected)[i].num_bytes());
    EXPECT_EQ(std::memcmp((*actual)[i].data(), (*expected)[i].data(), bytes), 0);
  }
  inputs[4].set_int(3, 4);
  const auto failed = executable.run(inputs);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("(sequence 1, entry 1, block 4, blocks 4)"),
            std::string::npos)
      << failed.error().message;
}

// As exporters write it: positions by range, distances, slopes, a causal mask, scores.
std::string alibi_written_out(const std::string& sizes) {
  return fmt::format(R"(
graph g(%q: f32[2, 4, {0}, 8], %k: f32[2, 4, {0}, 8], %v: f32[2, 4, {0}, 8]) {{
  %slopes = constant {{value = f32[4, 1, 1] {{0.25, 0.0625, 0.015625, 0.00390625}}}}
  %low = constant {{value = f32[] {{-3.4028234663852886e38}}}}
  %zero = constant {{value = f32[] {{0.0}}}}
  %root = constant {{value = f32[] {{2.828427}}}}
  %null = constant {{value = i64[] {{0}}}}
  %one = constant {{value = i64[] {{1}}}}
  %column = range(%null, %one) {{length = <{0}>}}
  %row = reshape(%column) {{shape = <{0}, 1>}}
  %apart = sub(%column, %row)
  %distance = cast(%apart) {{to = f32}}
  %bias = mul(%slopes, %distance)
  %later = gt(%column, %row)
  %hidden = select(%later, %low, %zero)
  %mask = add(%bias, %hidden)
  %kt = transpose(%k) {{permutation = [0, 1, 3, 2]}}
  %product = matmul(%q, %kt)
  %scaled = div(%product, %root)
  %scores = add(%scaled, %mask)
  %weights = softmax(%scores) {{axis = 3}}
  %y = matmul(%weights, %v)
  return %y as "y"
}})",
                     sizes);
}

TEST(Attention, AlibiWrittenOutIsOneKernelWithSlopes) {
  for (const std::string sizes : {"s", "37"}) {  // with a known size, the bias is a constant
    const std::string text = alibi_written_out(sizes);
    Executable executable = compiled(text, 2);
    ASSERT_EQ(executable.plan().kernels.size(), 1U);
    const Node* attention = nullptr;
    for (const auto& node : executable.graph().nodes()) {
      if (node->op() == "attention") attention = node.get();
    }
    ASSERT_NE(attention, nullptr);
    EXPECT_EQ(attention->attributes().text("causal", "none"), "top_left");
    EXPECT_EQ(attention->operand(3), nullptr);
    ASSERT_NE(attention->operand(5), nullptr);
    const Graph model = parse_graph(text).value();
    std::vector<Tensor> inputs;
    for (const Value* input : model.inputs()) {
      inputs.push_back(random_tensor(input->type(), {2, 4, 37, 8}, 1 + inputs.size()));
    }
    const auto expected = evaluate(model, inputs, {.in_f64 = true, .observer = {}});
    ASSERT_TRUE(expected) << expected.error().message;
    expect_close(executable.run(inputs)->front(), expected->front(), DType::F32);
  }
}

// Of a run with so many queries and keys.
std::int64_t bytes_worked_in(Executable& executable, std::int64_t length) {
  const Value* input = executable.graph().inputs()[0];
  const std::vector<Tensor> inputs = {random_tensor(input->type(), {2, length, 8}, 1)};
  RunStats stats;
  EXPECT_TRUE(executable.run(inputs, &stats));
  std::int64_t scratch = 0;
  for (const ExecutableKernel& kernel : executable.kernels()) {
    if (kernel.code == nullptr) continue;
    std::vector<std::int64_t> symbols(kernel.code->symbols.size(), length);  // s alone
    scratch += kernel.code->scratch_bytes.evaluate(symbols).value();
  }
  return stats.arena_bytes + scratch;
}

TEST(Attention, WorksInMemoryLinearInTheLength) {
  Executable executable = compiled(kPrefill, 2);
  const std::int64_t shorter = bytes_worked_in(executable, 4096);
  const std::int64_t longer = bytes_worked_in(executable, 16384);
  EXPECT_LE(longer, 4 * shorter);
  // The scores of one head alone would take 1 GiB.
  EXPECT_LE(longer, std::int64_t{4} << 20);
}

}  // namespace
}  // namespace opweld::testing
