// KV caches that a step of decoding appends to: in place where that is declared, else copied.
#include <gmock/gmock.h>

#include "graph/text.h"
#include "ops/reference.h"
#include "rewrite/in_place.h"
#include "runtime/compare.h"
#include "runtime/compiled.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;

struct Step {
  std::string dtype = "f32";
  std::string mode = "linear";
  bool declared = true;
  int head = 64;
  bool interleaved = false;
};

// One layer's attention over a cache of 48 positions; `at` is how many of them are taken.
std::string step(const Step& options = {}) {
  const int head = options.head;
  const auto weights = [&](const std::string& name, int columns, int seed) {
    return fmt::format("%{} = constant {{value = {}[64, {}] random {}}}\n", name, options.dtype,
                       columns, seed);
  };
  const auto heads = [&](const std::string& name, int count) {
    return fmt::format(
        "%{0}m = matmul(%h, %w{0})\n%{0}r = reshape(%{0}m) {{shape = <b, s, {1}, {2}>}}\n"
        "%{0} = transpose(%{0}r) {{permutation = [0, 2, 1, 3]}}\n",
        name, count, head);
  };
  std::string text = fmt::format(
      "graph step(%x: {0}[b, s, 64], %past_k: {0}[b, 2, 48, {1}], %past_v: {0}[b, 2, 48, {1}], "
      "%at: i64[b], %length: i64[b], %cos: {0}[s, {2}], %sin: {0}[s, {2}]) {{\n",
      options.dtype, head, head / 2);
  text += weights("wq", 4 * head, 1) + weights("wk", 2 * head, 2) + weights("wv", 2 * head, 3);
  text += fmt::format("%wo = constant {{value = {}[{}, 64] random 4}}\n", options.dtype, 4 * head);
  // Sums of products stay small.
  text +=
      fmt::format("%f = constant {{value = {}[] {{0.125}}}}\n%h = mul(%x, %f)\n", options.dtype);
  text += heads("q", 4) + heads("k", 2) + heads("v", 2);
  text += fmt::format(R"(%qt = rope(%q, %cos, %sin) {{interleaved = {3}}}
    %kt = rope(%k, %cos, %sin) {{interleaved = {3}}}
    %keys = tensor_scatter(%past_k, %kt, %at) {{axis = 2, mode = "{0}"}} @"/cache/keys"
    %values = tensor_scatter(%past_v, %v, %at) {{axis = 2, mode = "{0}"}} @"/cache/values"
    %a = attention(%qt, %keys, %values, _, %length) {{scale = 0.125, causal = "bottom_right"}}
    %t = transpose(%a) {{permutation = [0, 2, 1, 3]}}
    %r = reshape(%t) {{shape = <b, s, {4}>}}
    %o = matmul(%r, %wo)
    %y = add(%o, %x)
    return %y as "y", %keys as "present_k"{1}, %values as "present_v"{2} }})",
                      options.mode, options.declared ? " in_place %past_k" : "",
                      options.declared ? " in_place %past_v" : "", options.interleaved ? 1 : 0,
                      4 * head);
  return text;
}

// Sequence i has i + first positions taken before the step.
std::vector<Tensor> inputs_of(const std::string& text, std::int64_t batch, std::int64_t rows,
                              std::int64_t first) {
  std::vector<Tensor> inputs = random_inputs(text, {{"b", batch}, {"s", rows}});
  for (std::int64_t i = 0; i < batch; ++i) {
    inputs[3].set_int(i, first + i);
    inputs[4].set_int(i, first + i + rows);
  }
  return inputs;
}

struct Ran {
  Expected<std::vector<Tensor>> outputs;
  std::vector<Tensor> inputs;
  RunStats stats;
};

// Runs with the caches' own memory for what they become.
Ran run_in_place(Executable& model, const std::vector<Tensor>& inputs,
                 const RunOptions& options = {}) {
  Ran ran{fail("not run"), {}, {}};
  for (const Tensor& input : inputs) ran.inputs.push_back(input.clone().value());
  const std::vector<Sizes> sizes = model.output_sizes(inputs).value();
  std::vector<Tensor> outputs = {Tensor::allocate(inputs[0].dtype(), sizes[0]).value(),
                                 ran.inputs[1], ran.inputs[2]};
  if (const Status status = model.run_into(ran.inputs, outputs, &ran.stats, options)) {
    ran.outputs = outputs;
  } else {
    ran.outputs = tl::unexpected(status.error());
  }
  return ran;
}

Executable compiled_with(const std::string& text, const CompileOptions& options) {
  auto result = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(result->executable);
}

void expect_agree(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const Comparison result = compare(actual[i], expected[i], default_tolerance(actual[i].dtype()));
    EXPECT_TRUE(result.equal) << "output " << i << ": " << result.message;
  }
}

// Heads of a panel, and such as end within one, turned by halves and by neighbours.
std::vector<Step> steps_of_every_head() {
  return {{}, {.head = 32, .interleaved = true}, {.head = 80}, {.head = 24}};
}

TEST(Cache, ProjectionsWriteIntoIt) {
  for (const Step& options : steps_of_every_head()) {
    SCOPED_TRACE(options.head);
    Executable model = compiled(step(options));
    EXPECT_THAT(to_text(model.plan()), HasSubstr("tensor_scatter + tensor_scatter"));
    int scattering = 0;
    for (const Kernel& kernel : model.plan().kernels) {
      const bool scatters = kernel.label.find("tensor_scatter") != std::string::npos;
      if (!scatters) continue;
      ++scattering;
      EXPECT_EQ(kernel.kind, KernelKind::Contract) << kernel.label;
    }
    EXPECT_EQ(scattering, 1) << to_text(model.plan());
  }
}

TEST(Cache, HeadsOfEverySizeAreRightInIt) {
  for (const Step& options : steps_of_every_head()) {
    SCOPED_TRACE(options.head);
    const std::string text = step(options);
    Executable model = compiled(text);
    for (const std::int64_t rows : {0, 1, 5, 17}) {
      const std::vector<Tensor> inputs = inputs_of(text, 2, rows, 9);
      const auto expected =
          evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
      expect_agree(run_in_place(model, inputs).outputs.value(), expected);
    }
  }
}

TEST(Cache, IsRightInPlaceAndCopied) {
  for (const std::string target : {"host", "host-avx2"}) {
    for (const FusionLevel level : {FusionLevel::Auto, FusionLevel::None}) {
      CompileOptions options;
      options.level = level;
      options.target = target;
      options.threads = 2;
      const std::string text = step();
      Executable model = compiled_with(text, options);
      Executable copying = compiled_with(step({.declared = false}), options);
      for (const auto& [batch, rows, first] : {std::array<std::int64_t, 3>{1, 1, 0},
                                               {1, 1, 47},
                                               {2, 1, 17},
                                               {3, 5, 0},
                                               {1, 17, 31},
                                               {2, 0, 5},
                                               {0, 3, 0}}) {
        SCOPED_TRACE(fmt::format("batch {}, {} rows from {}", batch, rows, first));
        const std::vector<Tensor> inputs = inputs_of(text, batch, rows, first);
        const auto expected =
            evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
        const Ran ran = run_in_place(model, inputs);
        ASSERT_TRUE(ran.outputs) << ran.outputs.error().message;
        expect_agree(*ran.outputs, expected);
        // The same in memory of its own, which leaves the inputs as they were.
        const std::vector<Tensor> kept = {inputs[1].clone().value(), inputs[2].clone().value()};
        expect_identical(model.run(inputs).value(), *ran.outputs);
        expect_identical({inputs[1], inputs[2]}, kept);
        expect_agree(copying.run(inputs).value(), expected);
      }
    }
  }
}

TEST(Cache, IsTheSameToTheBitWhenStrict) {
  for (const Step& of :
       {Step{}, Step{.dtype = "bf16"}, Step{.dtype = "bf16", .head = 32, .interleaved = true},
        Step{.dtype = "f16", .head = 80}}) {
    const std::string text = step(of);
    const std::vector<Tensor> inputs = inputs_of(text, 2, 5, 9);
    std::vector<std::vector<Tensor>> results;
    for (const FusionLevel level : {FusionLevel::Auto, FusionLevel::None}) {
      for (const int threads : {1, 3}) {
        CompileOptions compiling;
        compiling.level = level;
        compiling.threads = threads;
        compiling.strict = true;
        Executable model = compiled_with(text, compiling);
        results.push_back(run_in_place(model, inputs).outputs.value());
        RunOptions together;
        together.single_launch = true;
        results.push_back(run_in_place(model, inputs, together).outputs.value());
      }
    }
    for (const auto& result : results) expect_identical(result, results.front());
  }
}

TEST(Cache, MovesNothingButTheNewRows) {
  const std::string text = step();
  Executable model = compiled(text);
  const std::vector<Tensor> inputs = inputs_of(text, 2, 1, 3);
  const Ran in_place = run_in_place(model, inputs);
  const std::int64_t cache = inputs[1].num_bytes();
  const std::int64_t rows = cache / 48;
  RunStats copied;
  ASSERT_TRUE(model.run(inputs, &copied));
  EXPECT_EQ(copied.bytes_read - in_place.stats.bytes_read, 2 * cache);
  EXPECT_EQ(copied.bytes_written - in_place.stats.bytes_written, 2 * cache);
  std::int64_t written = 0;
  for (std::size_t i = 0; i < model.plan().kernels.size(); ++i) {
    if (model.plan().kernels[i].label.find("tensor_scatter") == std::string::npos) continue;
    written = in_place.stats.by_kernel[i].bytes_written;
  }
  // The queries have twice the heads of keys and values.
  EXPECT_EQ(written, (2 + 1 + 1) * rows);
}

TEST(Cache, GoesRoundWhereItIsCircular) {
  const std::string text = step({.mode = "circular"});
  Executable model = compiled(text);
  std::vector<Tensor> inputs = inputs_of(text, 2, 5, 0);
  for (const std::int64_t at : {46, 48 + 45, -3}) {
    inputs[3].set_int(0, at);
    inputs[4].set_int(0, 48);
    const auto expected =
        evaluate(parse_graph(text).value(), inputs, {.in_f64 = true, .observer = {}}).value();
    expect_agree(run_in_place(model, inputs).outputs.value(), expected);
  }
}

TEST(Cache, IsNotWrittenOutside) {
  const std::string text = step();
  Executable model = compiled(text);
  std::vector<Tensor> inputs = inputs_of(text, 2, 3, 45);
  inputs[3].set_int(1, 46);
  inputs[4].set_int(1, 48);
  const Ran ran = run_in_place(model, inputs);
  ASSERT_FALSE(ran.outputs);
  EXPECT_THAT(ran.outputs.error().message, HasSubstr("/cache/"));
  EXPECT_THAT(ran.outputs.error().message, HasSubstr("batch 1, write index 46"));
  // Rows that were not to be written are what they were.
  const std::int64_t row = 64;
  for (std::int64_t i = 0; i < inputs[1].num_elements(); ++i) {
    if (i / row % 48 >= 45) continue;
    ASSERT_EQ(ran.inputs[1].get_double(i), inputs[1].get_double(i)) << i;
  }
}

TEST(Cache, AccountSaysWhatIsCopied) {
  const auto notes = [](const std::string& text) {
    return fmt::format("{}", fmt::join(compile(parse_graph(text).value(), {}).value().notes, "\n"));
  };
  EXPECT_EQ(notes(step()), "");
  const std::string copied = notes(step({.declared = false}));
  EXPECT_THAT(copied, HasSubstr("/cache/keys copies the cache 'past_k' into 'present_k': declare "
                                "it in place (present_k=past_k)"));
  EXPECT_THAT(copied, HasSubstr("present_v=past_v"));
  EXPECT_THAT(notes(R"(graph g(%past: f32[b, t, 8], %new: f32[b, s, 8]) {
    %p = concat(%past, %new) {axis = 1} @"/cache/Concat"
    return %p as "present" })"),
              HasSubstr("/cache/Concat copies 'past' into 'present'"));
}

// ---- declarations ----

std::string error_of(const std::string& text) {
  const auto result = compile(parse_graph(text).value(), {});
  return result ? std::string() : result.error().message;
}

TEST(InPlace, AsksForAScatterIntoTheInput) {
  EXPECT_THAT(error_of(R"(graph g(%past: f32[b, 8, 4], %x: f32[b, 8, 4]) {
    %y = add(%past, %x) @"/add"
    return %y as "present" in_place %past })"),
              HasSubstr("/add"));
  EXPECT_THAT(error_of(R"(graph g(%past: f32[b, 8, 4], %other: f32[b, 8, 4], %x: f32[b, 2, 4]) {
    %y = tensor_scatter(%past, %x) {axis = 1, mode = "linear"} @"/write"
    return %y as "present" in_place %other })"),
              HasSubstr("/write"));
  EXPECT_THAT(error_of(R"(graph g(%past: f32[b, 8, 4]) {
    return %past as "present" in_place %past })"),
              HasSubstr("itself an input"));
}

TEST(InPlace, AsksForOneType) {
  EXPECT_THAT(error_of(R"(graph g(%past: f32[b, 8, 4], %x: f32[b, 8, 8]) {
    %y = neg(%x)
    return %y as "present" in_place %past })"),
              HasSubstr("f32[b, 8, 8] and the other f32[b, 8, 4]"));
}

TEST(InPlace, LetsNobodyElseReadTheInput) {
  const std::string head = R"(graph g(%past: f32[b, 8, 4], %x: f32[b, 8, 4], %at: i64[b]) {
    %y = tensor_scatter(%past, %x, %at) {axis = 1, mode = "linear"} @"/write"
    )";
  EXPECT_EQ(error_of(head + R"(return %y as "present" in_place %past })"), "");
  const std::string read = error_of(head + R"(%z = neg(%past) @"/reader"
    return %y as "present" in_place %past, %z as "z" })");
  EXPECT_THAT(read, HasSubstr("/reader"));
  EXPECT_THAT(read, HasSubstr("/write"));
  EXPECT_THAT(error_of(head + R"(return %y as "present" in_place %past, %past as "old" })"),
              HasSubstr("gives out"));
  EXPECT_THAT(error_of(R"(graph g(%past: f32[b, 8, 4], %at: i64[b]) {
    %y = tensor_scatter(%past, %past, %at) {axis = 1, mode = "linear"} @"/write"
    return %y as "present" in_place %past })"),
              HasSubstr("reads what the input held"));
}

TEST(InPlace, PutsOneOutputInAPlace) {
  EXPECT_THAT(error_of(R"(graph g(%past: f32[b, 8, 4], %x: f32[b, 2, 4]) {
    %y = tensor_scatter(%past, %x) {axis = 1, mode = "linear"}
    return %y as "first" in_place %past, %y as "second" in_place %past })"),
              HasSubstr("another output"));
  // One that is given out a second time is copied there.
  const std::string text = R"(graph g(%past: f32[b, 8, 4], %x: f32[b, 2, 4]) {
    %y = tensor_scatter(%past, %x) {axis = 1, mode = "linear"}
    return %y as "first", %y as "second" in_place %past })";
  Executable model = compiled(text);
  const std::vector<Tensor> inputs = random_inputs(text, {{"b", 3}});
  Tensor past = inputs[0].clone().value();
  std::vector<Tensor> outputs = {Tensor::allocate(DType::F32, {3, 8, 4}).value(), past};
  ASSERT_TRUE(model.run_into(std::vector{past, inputs[1]}, outputs));
  const auto expected = evaluate(parse_graph(text).value(), inputs).value();
  expect_identical(outputs, expected);
}

TEST(InPlace, IsDeclaredByName) {
  Graph graph = parse_graph(step({.declared = false})).value();
  EXPECT_TRUE(declare_in_place(graph, "present_k", "past_k"));
  EXPECT_THAT(declare_in_place(graph, "present", "past_k").error().message,
              HasSubstr("its outputs are y, present_k, present_v"));
  EXPECT_THAT(declare_in_place(graph, "present_k", "past").error().message,
              HasSubstr("its inputs are x, past_k"));
  EXPECT_THAT(declare_in_place(graph, "past_k", "present_k").error().message,
              HasSubstr("the output comes first: present_k=past_k"));
  EXPECT_THAT(declare_in_place(graph, "present_k", "past_v").error().message,
              HasSubstr("lies in place of input 'past_k' already"));
  EXPECT_TRUE(declare_in_place(graph, "present_k", "past_k")) << "twice the same";
  const std::string text = to_text(graph, {.full_constants = true});
  EXPECT_THAT(text, HasSubstr("%keys as \"present_k\" in_place %past_k"));
  EXPECT_EQ(to_text(parse_graph(text).value(), {.full_constants = true}), text);
  EXPECT_EQ(to_text(graph.clone(), {.full_constants = true}), text);
}

TEST(InPlace, MemoryIsSharedAsDeclaredOrNotAtAll) {
  const std::string body = R"(graph g(%past: f32[2, 8, 4], %x: f32[2, 2, 4], %spare: f32[3, 8, 4]) {
    %y = tensor_scatter(%past, %x) {axis = 1, mode = "linear"}
    %z = neg(%spare)
    return %y as "present"{}, %z as "z" })";
  for (const bool declared : {false, true}) {
    std::string text = body;
    text.replace(text.find("{}"), 2, declared ? " in_place %past" : "");
    Executable model = compiled(text);
    std::vector<Tensor> inputs = random_inputs(text, {});
    Tensor z = Tensor::allocate(DType::F32, {3, 8, 4}).value();
    const auto error_with = [&](const Tensor& present) {
      std::vector<Tensor> outputs = {present, z};
      const Status status = model.run_into(inputs, outputs);
      return status ? std::string() : status.error().message;
    };
    const std::string same = error_with(inputs[0]);
    EXPECT_EQ(same.empty(), declared) << same;
    if (!declared) {
      EXPECT_THAT(same, HasSubstr("'present' overlaps input 'past'"));
    }
    // Another input, and half of the right one.
    const Tensor other =
        Tensor::borrow_mutable(DType::F32, {2, 8, 4}, inputs[2].mutable_data(), nullptr);
    EXPECT_THAT(error_with(other), HasSubstr("'present' overlaps input 'spare'"));
    Tensor space = Tensor::allocate(DType::F32, {3, 8, 4}).value();
    constexpr std::int64_t kShift = 8 * 4 * 4;
    inputs[0] = Tensor::borrow_mutable(DType::F32, {2, 8, 4}, space.mutable_data(), nullptr);
    const Tensor shifted =
        Tensor::borrow_mutable(DType::F32, {2, 8, 4}, space.mutable_data() + kShift, nullptr);
    EXPECT_THAT(error_with(shifted), HasSubstr("'present' overlaps input 'past'"));
  }
}

}  // namespace
}  // namespace opweld::testing
