// Attention as the first stage of a chain: all heads of a task's rows, then the projection and what
// follows it.
#include <cstring>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

struct Layer {
  std::string dtype = "f32";
  std::string keys = "s";  // how many
  int heads = 4;
  int key_heads = 2;
  int head = 16;
  int value_head = 16;
  std::string operands = {};  // further ones of the attention, and their inputs
  std::string inputs = {};
  std::string attributes = {};  // beside the scale
  bool norm = false;
  // Behind the norm a matmul to so many columns, and the choice of a router among them.
  int experts = 0;
  bool gives_out_heads = false;
  bool heads_in_order = true;
};

std::string group(const Layer& l) {
  const int width = l.heads * l.value_head;
  std::string text = fmt::format(
      "graph g(%q: {0}[b, {1}, s, {2}], %k: {0}[b, {3}, {4}, {2}], %v: {0}[b, {3}, {4}, {5}], %x: "
      "{0}[b, s, 40]{6}) where s in [17, 4096] {{\n",
      l.dtype, l.heads, l.head, l.key_heads, l.keys, l.value_head, l.inputs);
  text += fmt::format("%w = constant {{value = {0}[{1}, 40] random 1}}\n", l.dtype, width);
  text +=
      fmt::format("%a = attention(%q, %k, %v{}) {{scale = 0.25{}}}\n", l.operands, l.attributes);
  if (l.heads_in_order) {
    text += "%t = transpose(%a) {permutation = [0, 2, 1, 3]}\n";
  } else {
    text += "%t = transpose(%a) {permutation = [0, 2, 3, 1]}\n";
  }
  text += fmt::format("%r = reshape(%t) {{shape = <b, s, {}>}}\n", width);
  text += "%m = matmul(%r, %w)\n%y = add(%m, %x)\n";
  std::string outputs = "%y as \"y\"";
  if (l.norm) {
    text += "%n = rms_norm(%y) {axis = -1, epsilon = 0.25}\n";
    outputs += ", %n as \"n\"";
  }
  if (l.experts > 0) {
    text += fmt::format("%router = constant {{value = {}[40, {}] random 2}}\n", l.dtype, l.experts);
    text += R"(%rows = reshape(%n) {shape = <b * s, 40>}
      %logits = matmul(%rows, %router)
      %p = softmax(%logits) {axis = -1}
      %best, %i = top_k(%p) {axis = 1, k = <2>}
      %sum = reduce_sum(%best) {axes = [1], keepdims = 1}
      %share = div(%best, %sum)
)";
    outputs += ", %share as \"share\", %i as \"i\"";
  }
  if (l.gives_out_heads) outputs += ", %a as \"a\", %r as \"r\"";
  return text + "return " + outputs + "\n}";
}

void expect_right(const Layer& layer, const std::string& target = "host", bool strict = false) {
  SCOPED_TRACE(group(layer));
  const GroupRunner runner(group(layer), KernelKind::Chain, target, strict);
  ASSERT_EQ(runner.error(), "");
  for (const std::int64_t s : {17, 96, 97, 193}) {
    for (const std::int64_t b : {1, 3}) {
      SCOPED_TRACE(fmt::format("b {}, s {}, {}", b, s, target));
      runner.check({{"b", b}, {"s", s}, {"t", 33}});
    }
  }
}

TEST(AttentionChain, GoesOnIntoTheProjection) {
  expect_right({});
  expect_right({.norm = true});
  expect_right({.norm = true, .gives_out_heads = true});
}

// The attention half of a layer with a mixture of experts, up to what each token chooses.
TEST(AttentionChain, GoesOnThroughARouter) {
  for (const int experts : {2, 7, 8, 64}) expect_right({.norm = true, .experts = experts});
  expect_right({.attributes = ", causal = \"top_left\"", .norm = true, .experts = 8});
  for (const std::string target : {"host-generic", "host-avx2", "host-avx512"}) {
    if (!find_target(target)) continue;
    expect_right({.norm = true, .experts = 8}, target);
    expect_right({.norm = true, .experts = 8}, target, true);
  }
}

TEST(AttentionChain, EveryTargetAndType) {
  for (const std::string target : {"host-generic", "host-avx2", "host-avx512", "host-amx"}) {
    if (!find_target(target)) continue;
    expect_right({.norm = true}, target);
    expect_right({.dtype = "bf16", .heads = 1, .key_heads = 1, .value_head = 32}, target);
    expect_right({.dtype = "f16", .heads = 1, .key_heads = 1}, target);
  }
}

TEST(AttentionChain, EveryNumberOfHeadsAndTheirSizes) {
  expect_right({.heads = 1, .key_heads = 1, .head = 7, .value_head = 5});
  expect_right({.heads = 6, .key_heads = 6, .head = 3, .value_head = 17});
  expect_right({.heads = 5, .key_heads = 1, .head = 64, .value_head = 64});
}

TEST(AttentionChain, EveryOption) {
  expect_right({.keys = "t"});
  expect_right({.attributes = ", causal = \"top_left\""});
  expect_right({.keys = "t", .attributes = ", causal = \"bottom_right\""});
  expect_right({.attributes = ", window_left = 9, window_right = 2, softcap = 3.0"});
  expect_right({.operands = ", %mask", .inputs = ", %mask: bool[b, 1, s, s]"});
  expect_right({.keys = "t", .operands = ", %mask", .inputs = ", %mask: f32[s, t]"});
  // From 0 to 4 keys are valid.
  expect_right({.operands = ", _, %n", .inputs = ", %n: i64[b]"});
}

TEST(AttentionChain, FewRowsAndNoBatch) {
  const GroupRunner free(group({}), KernelKind::Chain);
  ASSERT_EQ(free.error(), "");
  free.check({{"b", 0}, {"s", 17}});
  const GroupRunner router(group({.norm = true, .experts = 5}), KernelKind::Chain);
  ASSERT_EQ(router.error(), "");
  router.check({{"b", 0}, {"s", 17}});
  const std::string text =
      "graph g(%q: f32[b, 2, 50, 8], %k: f32[b, 2, 50, 8], %x: f32[b, 50, 16]) {\n"
      "%w = constant {value = f32[16, 16] random 1}\n"
      "%a = attention(%q, %k, %k) {scale = 0.5}\n"
      "%t = transpose(%a) {permutation = [0, 2, 1, 3]}\n"
      "%r = reshape(%t) {shape = <b, 50, 16>}\n"
      "%m = matmul(%r, %w)\n%y = add(%m, %x)\nreturn %y as \"y\" }";
  const GroupRunner fixed(text, KernelKind::Chain);
  ASSERT_EQ(fixed.error(), "");
  for (const std::int64_t b : {0, 1, 5}) fixed.check({{"b", b}});
}

// Values that are no numbers behind keys that are hidden, and those that are not.
TEST(AttentionChain, KeepsWhatIsHiddenOut) {
  const GroupRunner runner(group({.attributes = ", causal = \"top_left\"", .norm = true}),
                           KernelKind::Chain);
  ASSERT_EQ(runner.error(), "");
  std::vector<Tensor> inputs = runner.random_inputs({{"b", 2}, {"s", 150}});
  const double odd[] = {std::nan(""), HUGE_VAL, -HUGE_VAL};
  for (std::int64_t i = 0; i < 3; ++i) {
    inputs[2].set_double(inputs[2].num_elements() - 1 - 700 * i, odd[i]);
  }
  runner.check(inputs);
}

TEST(AttentionChain, RowsOfNaNAsZeros) {
  const GroupRunner runner(group({.attributes = ", zero_nan_rows = 1", .norm = true}),
                           KernelKind::Chain);
  ASSERT_EQ(runner.error(), "");
  for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    std::vector<Tensor> inputs = runner.random_inputs({{"b", 2}, {"s", 150}});
    for (std::int64_t i = 0; i < 3; ++i) {
      inputs[0].set_double(inputs[0].num_elements() - 1 - 700 * i, odd);
    }
    runner.check(inputs);
  }
}

// The same bits as a kernel of attention and one of the projection.
TEST(AttentionChain, IsTheSameToTheBitWhenStrict) {
  for (const std::string dtype : {"f32", "bf16"}) {
    for (const std::string causal : {"none", "top_left"}) {
      const Layer layer{.dtype = dtype, .attributes = ", causal = \"" + causal + "\""};
      const GroupRunner whole(group(layer), KernelKind::Chain, "host", true);
      ASSERT_EQ(whole.error(), "");
      const std::string types =
          fmt::format("%q: {0}[b, 4, s, 16], %k: {0}[b, 2, s, 16], %v: {0}[b, 2, s, 16]", dtype);
      const GroupRunner attention("graph a(" + types + ") where s in [17, 4096] {\n" +
                                      "%a = attention(%q, %k, %v) {scale = 0.25, causal = \"" +
                                      causal + "\"}\n" +
                                      "%t = transpose(%a) {permutation = [0, 2, 1, 3]}\n"
                                      "%r = reshape(%t) {shape = <b, s, 64>}\nreturn %r as \"r\" }",
                                  KernelKind::Attention, "host", true);
      ASSERT_EQ(attention.error(), "");
      const GroupRunner projection(
          fmt::format("graph p(%r: {0}[b, s, 64], %x: {0}[b, s, 40]) where s in [17, 4096] {{\n"
                      "%w = constant {{value = {0}[64, 40] random 1}}\n"
                      "%m = matmul(%r, %w)\n%y = add(%m, %x)\nreturn %y as \"y\" }}",
                      dtype),
          KernelKind::Contract, "host", true);
      ASSERT_EQ(projection.error(), "");
      for (const std::int64_t s : {17, 96, 97, 250}) {
        std::vector<Tensor> inputs = whole.random_inputs({{"b", 2}, {"s", s}});
        // No number: the whole block of rows is computed anew where it is hidden.
        inputs[2].set_double(inputs[2].num_elements() - 1, std::nan(""));
        const auto apart = attention.run({inputs[0], inputs[1], inputs[2]}).value();
        const auto expected = projection.run({apart[0], inputs[3]}).value();
        for (const auto order :
             {GroupRunner::Order::FirstTaskFirst, GroupRunner::Order::LastTaskFirst}) {
          const auto actual = whole.run(inputs, order).value();
          EXPECT_EQ(std::memcmp(actual[0].data(), expected[0].data(),
                                static_cast<std::size_t>(actual[0].num_bytes())),
                    0)
              << dtype << " " << causal << " " << s;
        }
      }
    }
  }
}

TEST(AttentionChain, RefusesWhatIsNoChain) {
  const auto error = [](const std::string& text) {
    return GroupRunner(text, KernelKind::Chain).error();
  };
  EXPECT_EQ(error(group({})), "");
  EXPECT_NE(error(group({.heads_in_order = false})), "");
  // Few queries and many keys are shared out by keys.
  std::string few = group({.keys = "t"});
  few.replace(few.find(" where s in [17, 4096]"), 22, "");
  EXPECT_EQ(error(few),
            "an attention of up to 16 queries splits the keys among tasks, and how many there are, "
            "s, is not known");
  EXPECT_EQ(error(R"(graph g(%q: f32[1, 2, 8, 8], %k: f32[1, 2, 8, 8]) {
    %w = constant {value = f32[16, 16] random 1}
    %a = attention(%q, %k, %k) {scale = 0.5}
    %t = transpose(%a) {permutation = [0, 2, 1, 3]}
    %r = reshape(%t) {shape = <1, 8, 16>}
    %m = matmul(%r, %w)
    return %m as "m" })"),
            "an attention of up to 16 queries splits the keys among tasks, and it has 8");
}

}  // namespace
}  // namespace opweld::testing
