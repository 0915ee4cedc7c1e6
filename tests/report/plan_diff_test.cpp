#include "report/plan_diff.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "explained.h"

namespace opweld::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

PlanRecord record_of(std::string_view text, FusionLevel level = FusionLevel::Auto) {
  CompileOptions options;
  options.level = level;
  const auto record = parse_plan_record(Explained(text, options).json(), "a.json");
  EXPECT_TRUE(record) << record.error().message;
  return record.value_or(PlanRecord());
}

// Every operator of the library, found and left alone.
PlanRecord apart(std::string_view text) {
  CompileOptions options;
  options.without = {KernelKind::Map, KernelKind::Contract};
  return parse_plan_record(Explained(text, options).json(), "a.json").value();
}

TEST(PlanDiff, APlanEqualsItself) {
  const PlanRecord record = record_of(kFeedForward);
  EXPECT_THAT(record.kernels, SizeIs(2));
  const PlanDiff diff = compare_plans(record, record_of(kFeedForward));
  EXPECT_TRUE(diff.empty());
  EXPECT_EQ(to_text(diff), "");
  EXPECT_TRUE(nlohmann::json::parse(to_json(diff))["equal"]);
}

TEST(PlanDiff, KernelsThatShareOperatorsBelongTogether) {
  const PlanRecord before = apart(kFeedForward);
  const PlanRecord after = record_of(kFeedForward);
  const PlanDiff diff = compare_plans(before, after);
  ASSERT_THAT(diff.kernels, SizeIs(1));  // that of the sort is as it was
  EXPECT_THAT(diff.kernels[0].before, SizeIs(3));
  EXPECT_THAT(diff.kernels[0].after, SizeIs(1));
  ASSERT_THAT(diff.verdicts, SizeIs(2));
  const std::string text = to_text(diff);
  for (const char* part :
       {"kernels: 4 -> 2\n", "written bytes: ", "  - contract MatMul [layers.0], ",
        "  - map Add [layers.0], ", "  + contract MatMul + Add + Gelu [layers.0], ",
        ": '/act/Add', '/act/Div'", "  /mlp/MatMul | /mlp/Add: kept by F-WITHOUT ("}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(diff.summary(), HasSubstr("1 group of kernels, 2 verdicts"));
}

TEST(PlanDiff, TheOtherWayRoundIsTheSameButForItsSigns) {
  const PlanRecord before = record_of(kFeedForward, FusionLevel::None);
  const PlanRecord after = record_of(kFeedForward);
  const PlanDiff there = compare_plans(before, after);
  const PlanDiff back = compare_plans(after, before);
  EXPECT_EQ(there.kernels.size(), back.kernels.size());
  EXPECT_EQ(there.verdicts.size(), back.verdicts.size());
  EXPECT_EQ(there.figures.size(), back.figures.size());
  EXPECT_EQ(to_text(there).size(), to_text(back).size());
}

TEST(PlanDiff, EdgesOfAGraphThatChanged) {
  const auto with = [](const char* between) {
    return fmt::format(R"(graph g(%x: f32[n]) {{
      %a = exp(%x) @"A"
      %b = {}(%a) @"B"
      %y = abs(%b) @"{}"
      return %y as "y"
    }})",
                       between, between);
  };
  const PlanRecord before = record_of(with("neg"));
  const PlanRecord after = record_of(with("tanh"));
  const PlanDiff diff = compare_plans(before, after);
  ASSERT_THAT(diff.gone, SizeIs(1));
  ASSERT_THAT(diff.added, SizeIs(1));
  EXPECT_THAT(to_text(diff),
              AllOf(HasSubstr("  - B | neg\n"), HasSubstr("  + B | tanh\n"),
                    HasSubstr("  - map exp + neg + abs"), Not(HasSubstr("  - A | B"))));
}

TEST(PlanDiff, LayersThatChangedAlikeAreShownOnce) {
  const auto with = [](const char* last) {
    std::string text = "graph g(%x0: f32[n, 8]) {\n";
    for (int i = 0; i < 5; ++i) {
      text += fmt::format(
          "%w{0} = constant {{value = f32[8, 8] random {0}}}\n"
          "%m{0} = matmul(%x{0}, %w{0}) @\"/layers.{0}/MatMul\" scope \"layers.{0}\"\n"
          "%x{1} = {2}(%m{0}) @\"/layers.{0}/Act\" scope \"layers.{0}\"\n",
          i, i + 1, last);
    }
    return text + "return %x5 as \"y\"\n}";
  };
  const PlanRecord before = record_of(with("tanh"), FusionLevel::None);
  const PlanRecord after = record_of(with("exp"), FusionLevel::None);
  const PlanDiff diff = compare_plans(before, after);
  EXPECT_THAT(diff.kernels, SizeIs(5));
  EXPECT_THAT(to_text(diff),
              AllOf(HasSubstr("  - map tanh [layers.0]"), HasSubstr("  + map exp [layers.0]"),
                    HasSubstr("    and 4 more like it\n"), Not(HasSubstr("[layers.1]"))));
  EXPECT_THAT(nlohmann::json::parse(to_json(diff))["kernels"], SizeIs(5));
}

TEST(PlanDiff, WhatIsNoAccountIsAUsageError) {
  const std::string good = Explained(kFeedForward).json();
  const auto message = [](const std::string& text) {
    const auto record = parse_plan_record(text, "b.json");
    EXPECT_FALSE(record) << text;
    if (record) return std::string();
    EXPECT_EQ(record.error().kind, ErrorKind::Usage);
    return record.error().message;
  };
  for (const char* text : {"", "no JSON", "[]", "3", "{}", "{\"level\": 3}"}) {
    EXPECT_THAT(message(text), AllOf(HasSubstr("b.json"), HasSubstr("--explain=b.json")));
  }
  for (const char* key : {"level", "sizes", "kernels", "edges", "totals"}) {
    nlohmann::json changed = nlohmann::json::parse(good);
    changed.erase(key);
    EXPECT_THAT(message(changed.dump()), HasSubstr(key));
    for (const nlohmann::json& other :
         {nlohmann::json(nullptr), nlohmann::json(1.5), nlohmann::json::array({1, "a"}),
          nlohmann::json{{"a", "b"}}}) {
      changed[key] = other;
      message(changed.dump());
    }
  }
  for (std::size_t length = 0; length < good.size(); length += 97) message(good.substr(0, length));
}

TEST(PlanDiff, TellsThatAnotherOfAGraphsPlansIsRun) {
  const auto record_at = [](std::int64_t rows) {
    const Explained explained(kRowsDecide);
    const Bindings sizes = {{"n", rows}};
    const auto json = explain_json(explained.plan(sizes), sizes, {}, {}, &explained.names());
    return parse_plan_record(json.value(), "a.json").value();
  };
  const PlanRecord one = record_at(1);
  const PlanRecord two = record_at(2);
  const PlanRecord many = record_at(100000);
  EXPECT_THAT(to_text(compare_plans(one, many)), HasSubstr("plan: 2 of 2 -> 1 of 2\n"));
  EXPECT_THAT(to_text(compare_plans(one, two)), Not(HasSubstr("plan: ")));
}

}  // namespace
}  // namespace opweld::testing
