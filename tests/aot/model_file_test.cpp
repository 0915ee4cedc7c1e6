// A model that was written and read is the model: the same bits, the same plans, the same errors.
#include "aot/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "aot/container.h"
#include "aot/written_model.h"
#include "graph/text.h"
#include "target/target.h"

namespace opweld::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// On random inputs of these sizes, kernel by kernel and in one launch, on one thread and several.
void expect_same_runs(WrittenModel& model, const std::string& text,
                      const std::vector<Bindings>& all_sizes) {
  for (const int threads : {1, 3}) {
    aot::LoadedModel loaded = model.load(threads);
    EXPECT_EQ(loaded.executable.threads(), threads);
    for (const Bindings& sizes : all_sizes) {
      const std::vector<Tensor> inputs = random_inputs(text, sizes);
      const auto expected = model.original().run(inputs);
      for (const bool single_launch : {false, true}) {
        RunOptions options;
        options.single_launch = single_launch;
        const auto results = loaded.executable.run(inputs, nullptr, options);
        ASSERT_EQ(results.has_value(), expected.has_value());
        if (expected) {
          expect_identical(*results, *expected);
        } else {
          EXPECT_EQ(results.error().message, expected.error().message);
          EXPECT_EQ(results.error().kind, expected.error().kind);
        }
      }
    }
  }
}

std::string plans_text(const Executable& executable) {
  std::string text;
  for (const PlanVersion& version : executable.versions()) {
    for (const SizeCondition& each : version.plan.conditions) {
      text += fmt::format("{} >= {}\n", each.size, each.least);
    }
    text += to_text(version.plan);
  }
  return text;
}

TEST(ModelFile, GivesTheSameBitsForAllLengthsOnEveryTarget) {
  const std::string text = layers_text();
  const std::vector<Bindings> sizes = {{{"n", 1}},  {{"n", 3}},  {{"n", 15}},
                                       {{"n", 16}}, {{"n", 17}}, {{"n", 300}}};
  for (const std::string& target : offered_targets()) {
    SCOPED_TRACE(target);
    CompileOptions options;
    options.target = target;
    WrittenModel model(text, options);
    expect_same_runs(model, text, sizes);
    EXPECT_EQ(plans_text(model.load().executable), plans_text(model.original()));
  }
}

TEST(ModelFile, GivesTheSameBitsAtEveryLevelAndInStrictNumerics) {
  const std::string text = layers_text();
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    for (const bool strict : {false, true}) {
      CompileOptions options;
      options.level = level;
      options.strict = strict;
      WrittenModel model(text, options);
      expect_same_runs(model, text, {{{"n", 5}}, {{"n", 64}}});
      EXPECT_EQ(model.load().executable.plan().level, level);
    }
  }
}

TEST(ModelFile, KeepsEveryPlanOfAModelThatHasSeveral) {
  // Rows that are many enough make a chain pay.
  const std::string text = R"(graph g(%x: f32[b, s, 256]) {
    %w = constant {value = f32[256, 1024] random 1}
    %v = constant {value = f32[1024, 256] random 2}
    %m = matmul(%x, %w)
    %a = gelu(%m)
    %d = matmul(%a, %v)
    %y = add(%d, %x)
    return %y as "y" })";
  WrittenModel model(text);
  EXPECT_EQ(model.load().executable.versions().size(), model.original().versions().size());
  expect_same_runs(model, text, {{{"b", 1}, {"s", 2}}, {{"b", 2}, {"s", 200}}});
}

TEST(ModelFile, CallsWhatNoScheduleServes) {
  const std::string text = R"(graph g(%x: f32[n, 17]) {
    %c = constant {value = f32[17] random 4}
    %a = add(%x, %c)
    %v, %i = top_k(%a) {axis = 1, k = <5>, largest = 0}
    %s = softmax(%v) {axis = 1}
    return %s as "s", %i as "i" })";
  WrittenModel model(text);
  expect_same_runs(model, text, {{{"n", 1}}, {{"n", 33}}, {{"n", 0}}});
}

TEST(ModelFile, CallsTheCLibraryForWhatIsNotInlined) {
  const std::string text = R"(graph g(%x: f64[n], %y: f32[n]) {
    %two = constant {value = f32[] splat 2.5}
    %a = sin(%x) %b = cos(%x) %c = exp(%x) %d = tanh(%x) %e = erf(%x)
    %f = abs(%x) %h = log(%f)
    %i = pow(%y, %two) %j = sin(%y)
    return %a as "a", %b as "b", %c as "c", %d as "d", %e as "e", %h as "h", %i as "i", %j as "j" })";
  for (const char* target : {"host", "host-generic"}) {
    CompileOptions options;
    options.target = target;
    WrittenModel model(text, options);
    expect_same_runs(model, text, {{{"n", 1}}, {{"n", 31}}, {{"n", 0}}});
  }
}

TEST(ModelFile, GivesOutConstantsInputsAliasesAndValuesTwice) {
  const std::string text = R"(graph g(%x: f32[n, 6]) {
    %c = constant {value = f32[2, 3] random 1}
    %i = constant {value = i64[3] {2, -1, 0}}
    %y = relu(%x)
    %z = reshape(%y) {shape = <n, 2, 3>}
    %e = constant {value = f32[0, 4] splat 0.0}
    return %c as "c", %i as "i", %x as "x", %y as "y", %z as "z", %y as "again", %e as "e" })";
  WrittenModel model(text);
  expect_same_runs(model, text, {{{"n", 1}}, {{"n", 7}}, {{"n", 0}}});
}

TEST(ModelFile, TellsTheSameErrors) {
  const std::string text = R"(graph g(%t: f32[9, 4], %i: i64[n], %k: f32[n, 2]) {
    %y = gather(%t, %i) {axis = 0} @"/embed/Gather"
    return %y as "y" })";
  WrittenModel model(text);
  aot::LoadedModel loaded = model.load();
  std::vector<Tensor> inputs = random_inputs(text, {{"n", 4}});
  inputs[1].set_int(2, 9);
  const auto outside = loaded.executable.run(inputs);
  ASSERT_FALSE(outside);
  EXPECT_THAT(outside.error().message, HasSubstr("/embed/Gather"));
  EXPECT_EQ(outside.error().message, model.original().run(inputs).error().message);
  inputs[2] = Tensor::allocate(DType::F32, {5, 2}).value();
  EXPECT_EQ(loaded.executable.run(inputs).error().message,
            model.original().run(inputs).error().message);
  inputs.pop_back();
  EXPECT_EQ(loaded.executable.run(inputs).error().message,
            model.original().run(inputs).error().message);
}

TEST(ModelFile, UpdatesACacheInPlace) {
  const std::string text = R"(graph g(%past: f32[b, 2, 48, 8], %new: f32[b, 2, s, 8], %at: i64[b]) {
    %keys = tensor_scatter(%past, %new, %at) {axis = 2, mode = "linear"}
    return %keys as "present" in_place %past })";
  WrittenModel model(text);
  aot::LoadedModel loaded = model.load();
  std::vector<Tensor> inputs = random_inputs(text, {{"b", 2}, {"s", 3}});
  inputs[2].set_int(0, 0);
  inputs[2].set_int(1, 40);
  const auto expected = model.original().run(inputs).value();
  expect_identical(loaded.executable.run(inputs).value(), expected);
  std::vector<Tensor> outputs = {inputs[0]};
  ASSERT_TRUE(loaded.executable.run_into(inputs, outputs));
  expect_identical(outputs, expected);
}

TEST(ModelFile, WeightsAreUsedWhereTheFileIsMapped) {
  const WrittenModel model(layers_text());
  const SharedBytes file = map_file(model.path()).value();
  const auto loaded = aot::read_model(file);
  ASSERT_TRUE(loaded) << loaded.error().message;
  int constants = 0;
  for (const ExecutableKernel& kernel : loaded->executable.kernels()) {
    for (const auto& constant : kernel.constants) {
      EXPECT_GE(constant.value.data(), file.bytes.data());
      EXPECT_LE(constant.value.data() + constant.value.num_bytes(),
                file.bytes.data() + file.bytes.size());
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(constant.value.data()) % kBlockAlignment, 0U);
      ++constants;
    }
  }
  EXPECT_GT(constants, 0);
}

TEST(ModelFile, EqualWeightsAreThereOnce) {
  const auto weight_bytes = [](const std::string& text) {
    const WrittenModel model(text);
    const SharedBytes file = map_file(model.path()).value();
    return aot::read_sections(file.bytes).value().bytes(aot::Section::Weights).size();
  };
  const auto two = [](const char* second) {
    return fmt::format(R"(graph g(%x: f32[n, 640]) {{
      %w = constant {{value = f32[640, 640] random 1}}
      {}
      %a = matmul(%x, %w) %b = relu(%a) %c = matmul(%b, {})
      return %c as "y" }})",
                       second, *second == '\0' ? "%w" : "%v");
  };
  EXPECT_EQ(weight_bytes(two("")), 640U * 640 * 4);
  EXPECT_EQ(weight_bytes(two("%v = constant {value = f32[640, 640] random 2}")),
            2 * 640U * 640 * 4);
}

TEST(ModelFile, TellsWhereItCameFromAndItsAccount) {
  CompileOptions options;
  options.target = "host-generic";
  const WrittenModel model(layers_text(), options, R"({"kernels": 3})");
  const aot::LoadedModel loaded = model.load();
  EXPECT_EQ(loaded.account, R"({"kernels": 3})");
  EXPECT_EQ(loaded.origin.target, "host-generic");
  EXPECT_EQ(loaded.origin.version, "test");
  EXPECT_THAT(loaded.origin.features, ::testing::Contains("sse2"));
}

TEST(ModelFile, WantsTheObjectsOfItsKernels) {
  const auto compiled = compile(parse_graph(layers_text()).value());
  const TemporaryFolder folder;
  const Status written =
      aot::write_model(folder.path() + "/m.opw", compiled->executable, {}, "", "");
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("object was not kept"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ModelFile, MissingAndForeignFilesAreNamed) {
  const TemporaryFolder folder;
  const auto error_of = [&](const char* name, std::string_view content) {
    const std::string path = folder.path() + "/" + name;
    if (!content.empty()) std::ofstream(path) << content;
    const auto loaded = aot::load_model_file(path);
    EXPECT_FALSE(loaded);
    const std::string message = loaded ? "" : loaded.error().message;
    EXPECT_THAT(message, StartsWith(path));
    return message;
  };
  EXPECT_THAT(error_of("missing.opw", ""), HasSubstr("cannot be opened"));
  EXPECT_THAT(error_of("text.opw", "graph g() {}"), HasSubstr("opweld compile"));
  EXPECT_THAT(error_of("short.opw", "OPWELD\r\n"), HasSubstr("cut short"));
}

// The file with one section changed, and digests that fit.
std::string with_section(const std::string& file, aot::Section changed, const std::string& text) {
  const auto sections = aot::read_sections(std::as_bytes(std::span(file))).value();
  std::array<aot::Parts, aot::kSections> parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto section = static_cast<aot::Section>(i);
    parts[i] = {section == changed ? std::string_view(text) : sections.text(section)};
  }
  std::string kept;
  std::string result;
  for (const std::string_view part : aot::join_sections(parts, kept)) result += part;
  return result;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ModelFile, AConstantThatIsReadMustHaveItsBytes) {
  const WrittenModel model(R"(graph g(%x: f32[n]) {
    %c = constant {value = f32[3] random 1}
    %y = relu(%x)
    return %y as "y", %c as "c" })");
  const std::string file = model.bytes();
  const std::string record(
      aot::read_sections(std::as_bytes(std::span(file))).value().text(aot::Section::Record));
  const auto loaded = aot::read_model(aligned_copy(
      with_section(file, aot::Section::Record, replaced(record, "\"offset\":0", "\"nothing\":0"))));
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("is missing"));
}

TEST(ModelFile, OfAnotherProcessorSaysWhatIsMissing) {
  const WrittenModel model(layers_text());
  const std::string file = model.bytes();
  const std::string record(
      aot::read_sections(std::as_bytes(std::span(file))).value().text(aot::Section::Record));
  // No processor has both: one is AMD's of long ago, the other Intel's of today.
  const std::string foreign = with_section(
      file, aot::Section::Record,
      replaced(record, "\"features\":[", "\"features\":[\"xop\",\"amx-fp16\",\"avx4096\","));
  const auto loaded = aot::read_model(aligned_copy(foreign));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::Usage);
  EXPECT_THAT(loaded.error().message, HasSubstr("avx4096"));
  EXPECT_THAT(loaded.error().message, HasSubstr("lacks"));
  EXPECT_THAT(loaded.error().message, HasSubstr("target 'host'"));
}

TEST(ModelFile, SectionsThatDoNotBelongTogetherAreErrors) {
  const WrittenModel model(layers_text());
  const std::string file = model.bytes();
  const auto sections = aot::read_sections(std::as_bytes(std::span(file))).value();
  const auto message = [&](aot::Section section, const std::string& text) {
    const auto loaded = aot::read_model(aligned_copy(with_section(file, section, text)));
    return loaded ? "" : loaded.error().message;
  };
  const std::string record(sections.text(aot::Section::Record));
  const std::string graph(sections.text(aot::Section::Graph));
  const std::string plans(sections.text(aot::Section::Plans));
  EXPECT_EQ(message(aot::Section::Graph, graph), "");
  EXPECT_THAT(message(aot::Section::Graph, "graph g() {"), HasSubstr("its graph"));
  EXPECT_THAT(message(aot::Section::Graph, "graph g(%x: f32[n]) { return %x as \"y\" }"),
              HasSubstr("its plans"));
  EXPECT_THAT(message(aot::Section::Graph, replaced(graph, "tensor = 0", "tensor = 99")),
              HasSubstr("not among its tensors"));
  EXPECT_THAT(message(aot::Section::Plans, "[]"), HasSubstr("its plans"));
  EXPECT_THAT(
      message(aot::Section::Plans, replaced(plans, "\"kernels\":[[", "\"kernels\":[[0,0,[-1]],[")),
      HasSubstr("its plans"));
  EXPECT_THAT(message(aot::Section::Record, "{}"), HasSubstr("its record"));
  EXPECT_THAT(message(aot::Section::Record, replaced(record, "\"code\":0", "\"code\":77")),
              HasSubstr("its record"));
  EXPECT_THAT(message(aot::Section::Record, replaced(record, "\"entry\":0", "\"entry\":99999999")),
              HasSubstr("does not lie within its code"));
  EXPECT_THAT(message(aot::Section::Record, replaced(record, "\"offset\":0", "\"offset\":1")),
              HasSubstr("does not lie within its weights"));
  EXPECT_THAT(message(aot::Section::Weights, "short"),
              HasSubstr("does not lie within its weights"));
  EXPECT_THAT(message(aot::Section::Code, ""), HasSubstr("no code"));
  EXPECT_THAT(message(aot::Section::Code, std::string(1, '\xc3')),
              HasSubstr("does not lie within its code"));
}

}  // namespace
}  // namespace opweld::testing
