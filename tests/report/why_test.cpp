#include "report/why.h"

#include <gmock/gmock.h>

#include "explained.h"

namespace opweld::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Why, AnOperatorInAKernelWithOthers) {
  const Answer answer = Explained(kFeedForward).why("/mlp/Add");
  EXPECT_EQ(answer.happened,
            "'/mlp/Add' (Add) runs in FusedKernel_0 [layers.0] (MatMul + Add + Gelu) together with "
            "'/mlp/MatMul' and '/act/Mul_1'.");
  EXPECT_EQ(answer.rule, "No rule keeps it from any of its neighbours.");
  EXPECT_EQ(answer.change, "Nothing needs to change.");
  EXPECT_EQ(answer.code, "");
}

TEST(Why, AnOperatorThatBecameAPartOfAnother) {
  const Answer answer = Explained(kFeedForward).why("/act/Erf");
  EXPECT_THAT(answer.happened,
              StartsWith("'/act/Erf' (Erf) became a part of '/act/Mul_1' (Gelu), which runs in "
                         "FusedKernel_0"));
  EXPECT_THAT(answer.rule, HasSubstr("Its reader '/TopK' is kept apart by F-OPAQUE"));
  EXPECT_EQ(answer.code, "F-OPAQUE");
}

TEST(Why, AnOperatorThatIsKeptApart) {
  const Answer answer = Explained(kFeedForward).why("/TopK");
  EXPECT_EQ(answer.happened, "'/TopK' (TopK) runs in a kernel of its own, Kernel_1 (TopK).");
  EXPECT_THAT(
      answer.rule,
      AllOf(StartsWith("Its producer '/act/Mul_1' is kept apart by F-OPAQUE: "), EndsWith(").")));
  EXPECT_EQ(answer.change,
            "For a custom operator, declare an expression or a body (docs/custom-operators.md).");
}

TEST(Why, NeighboursThatShareAKernel) {
  const Answer answer = Explained(kFeedForward).why("/mlp/MatMul", "/mlp/Add");
  EXPECT_EQ(answer.happened,
            "'/mlp/MatMul' (MatMul) and '/mlp/Add' (Add) share FusedKernel_0 [layers.0] (MatMul + "
            "Add + Gelu).");
  // 128 rows of 16 floats, written and read.
  EXPECT_EQ(answer.rule,
            "No rule keeps them apart, so the f32[n, 16] between them stays on chip, which saves "
            "16.4 kB of traffic.");
}

TEST(Why, NeighboursThatAreKeptApart) {
  for (const bool swapped : {false, true}) {
    const Explained explained(kFeedForward);
    const Answer answer =
        swapped ? explained.why("/TopK", "/act/Mul_1") : explained.why("/act/Mul_1", "/TopK");
    EXPECT_THAT(answer.happened,
                AllOf(HasSubstr("are in different kernels, FusedKernel_0 and Kernel_1"),
                      HasSubstr("f32[n, 16]"), HasSubstr("16.4 kB")));
    EXPECT_THAT(answer.rule, StartsWith("F-OPAQUE: "));
    EXPECT_EQ(answer.code, "F-OPAQUE");
  }
}

TEST(Why, OperatorsWithOthersBetweenThem) {
  const Explained explained(kFeedForward);
  const Answer together = explained.why("/mlp/MatMul", "/act/Div");
  EXPECT_THAT(together.happened,
              AllOf(HasSubstr("stands '/mlp/Add'"), HasSubstr("all of them share FusedKernel_0")));
  const Answer apart = explained.why("/mlp/MatMul", "/TopK");
  EXPECT_THAT(apart.happened, HasSubstr("the kernels part between '/act/Mul_1' and '/TopK'"));
  EXPECT_EQ(apart.code, "F-OPAQUE");
}

TEST(Why, PartsOfOneOperator) {
  const Answer answer = Explained(kFeedForward).why("/act/Erf", "/act/Mul");
  EXPECT_EQ(answer.happened, "'/act/Erf' and '/act/Mul' are one operator here, Gelu '/act/Mul_1'.");
}

TEST(Why, OperatorsThatNoDataLeadsBetween) {
  const Explained explained(R"(graph g(%x: f32[n], %z: f32[n, 4]) {
    %a = exp(%x) @"A"
    %b = neg(%z) @"B"
    return %a as "a", %b as "b"
  })");
  const Answer answer = explained.why("A", "B");
  EXPECT_THAT(answer.happened, HasSubstr("no data flows from one to the other"));
  EXPECT_THAT(answer.change, HasSubstr("detached"));
  EXPECT_THAT(explained.why("A").rule, HasSubstr("It has no neighbours"));
}

TEST(Why, WhatTheLevelLeavesApart) {
  CompileOptions options;
  options.level = FusionLevel::None;
  const Answer answer = Explained(kFeedForward, options).why("/mlp/MatMul", "/mlp/Add");
  EXPECT_EQ(answer.code, "F-LEVEL");
  EXPECT_EQ(answer.change, "Compile with --fusion=auto.");
}

TEST(Why, WhatIsInNoKernel) {
  const Explained explained(R"(graph g(%x: f32[4, n]) {
    %c = constant {value = f32[4, 1] {1.0, 2.0, 3.0, 4.0}}
    %e = exp(%c) @"Folded"
    %u = neg(%x) @"Unread"
    %m = mul(%x, %e) @"Mul"
    %t = transpose(%m) {permutation = [1, 0]} @"There"
    %b = transpose(%t) {permutation = [1, 0]} @"Back"
    %y = neg(%b) @"Neg"
    %r = reshape(%x) {shape = <4*n>} @"Reshape"
    %s, %i = top_k(%r) {axis = 0, k = <1>, largest = 0, sorted = 1} @"Largest"
    return %y as "y", %s as "s", %i as "i"
  })");
  EXPECT_THAT(explained.why("Folded").happened, HasSubstr("depends on no input"));
  EXPECT_THAT(explained.why("Folded").rule, HasSubstr("'fold-constants'"));
  EXPECT_THAT(explained.why("Unread").happened, HasSubstr("nothing that the model gives out"));
  EXPECT_THAT(explained.why("Back").happened, HasSubstr("which read 'Mul' instead"));
  EXPECT_THAT(explained.why("Reshape").happened, HasSubstr("gives the same memory another shape"));
  EXPECT_THAT(explained.why("Folded", "Mul").happened, HasSubstr("depends on no input"));
}

// Three sentences, each with its end, whatever is asked about.
TEST(Why, EveryAnswerHasThreeSentences) {
  for (const FusionLevel level : {FusionLevel::None, FusionLevel::Ops, FusionLevel::Auto}) {
    CompileOptions options;
    options.level = level;
    const Explained explained(kFeedForward, options);
    const Graph original = parse_graph(kFeedForward).value();
    std::vector<std::string> names;
    for (const auto& node : original.nodes()) {
      if (node->op() != "constant") names.push_back(node->display_name());
    }
    std::vector<Answer> answers;
    for (const std::string& a : names) {
      answers.push_back(explained.why(a));
      for (const std::string& b : names) answers.push_back(explained.why(a, b));
    }
    EXPECT_EQ(answers.size(), 8U * 9U);
    for (const Answer& answer : answers) {
      for (const std::string& part : {answer.happened, answer.rule, answer.change}) {
        EXPECT_THAT(part, EndsWith("."));
        EXPECT_EQ(part.find(". "), std::string::npos) << part;
      }
    }
  }
}

TEST(ModelNames, AreFoundByWhatTheyAloneBeginWith) {
  const Explained explained(kFeedForward);
  EXPECT_EQ(explained.names().find("/mlp/M")->name, "/mlp/MatMul");
  EXPECT_EQ(explained.names().find("/T")->name, "/TopK");
  // Tensors: the whole name, or the beginning where no operator's name begins so.
  EXPECT_EQ(explained.names().find("q")->name, "/act/Mul");
}

TEST(ModelNames, SuggestWhatIsLikeATypo) {
  const Explained explained(kFeedForward);
  const auto message = [&](std::string_view text) {
    const auto found = explained.names().find(text);
    EXPECT_FALSE(found);
    if (found) return std::string();
    EXPECT_EQ(found.error().kind, ErrorKind::Usage);
    return found.error().message;
  };
  EXPECT_THAT(message("/mlp/MatMull"), HasSubstr("did you mean '/mlp/MatMul'?"));
  EXPECT_THAT(message("mlp/add"), HasSubstr("'/mlp/Add'"));
  EXPECT_THAT(message("/act/"), AllOf(HasSubstr("5 operators"), HasSubstr("and 2 more")));
  EXPECT_THAT(message("nothing like it at all"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(message(""), HasSubstr("no operator called ''"));
}

TEST(ModelNames, SourcesAreAllOperatorsThatANodeDoesTheWorkOf) {
  const Explained explained(kFeedForward);
  std::vector<std::string> sources;
  for (const Kernel& kernel : explained.plan().kernels) {
    for (const std::string& name : sources_of(kernel, explained.names())) sources.push_back(name);
  }
  EXPECT_THAT(sources, ::testing::ElementsAre("/mlp/MatMul", "/mlp/Add", "/act/Div", "/act/Erf",
                                              "/act/Add", "/act/Mul", "/act/Mul_1", "/TopK"));
}

TEST(Why, SaysWhichOfSeveralPlansIsMeant) {
  const Explained explained(kRowsDecide);
  const auto happened = [&](std::int64_t rows) {
    const Bindings sizes = {{"n", rows}};
    const PlannedModel model{explained.graph(), explained.plan(sizes), sizes, explained.names()};
    const std::string one = why_there(model, "/act").value().happened;
    const std::string two = why_together(model, "/up", "/down").value().happened;
    const auto head = [](const std::string& text) { return text.substr(0, text.find(':')); };
    EXPECT_EQ(head(one), head(two));
    return one;
  };
  EXPECT_THAT(happened(1),
              StartsWith("In plan 2 of 2, for any other sizes: '/act' (Tanh) runs in "));
  const std::string many = happened(100000);
  EXPECT_THAT(many, ::testing::ContainsRegex("^In plan 1 of 2, for [0-9]+ rows of a task of "
                                             "FusedKernel_0 or more, [0-9]+ here: '/act'"));
}

}  // namespace
}  // namespace opweld::testing
