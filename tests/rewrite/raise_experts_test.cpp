#include <gmock/gmock.h>

#include <cmath>

#include "rewrite/expert_spellings.h"
#include "rewrite/raise/experts.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

int count_of(const Graph& graph, std::string_view op) {
  int count = 0;
  for (const auto& node : graph.nodes()) count += node->op() == op ? 1 : 0;
  return count;
}

// Tokens and router: random, or a router that finds all experts equal, so that the first are
// chosen by all tokens and the others by none.
std::vector<Tensor> inputs_of(const Graph& graph, std::int64_t tokens, bool ties) {
  std::vector<Tensor> inputs = random_inputs(graph, {{"t", tokens}}, {});
  for (std::int64_t i = 0; ties && i < inputs[1].num_elements(); ++i) inputs[1].set_double(i, 0);
  return inputs;
}

// Means the same in double precision for all numbers of tokens.
RaisedWithNotes raise(const std::string& text) {
  auto parsed = parse_graph(text);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message) << "\n" << text;
  const Graph before = std::move(*parsed);
  RaisedWithNotes result = raised_with_notes(before, raise_experts);
  for (const std::int64_t tokens : {0, 1, 2, 9, 40}) {
    for (const bool ties : {false, true}) {
      const std::vector<Tensor> inputs = inputs_of(before, tokens, ties);
      expect_same(results_of(before, inputs, true), results_of(result.graph, inputs, true), 1e-12);
    }
  }
  return result;
}

// Two stages of each: nothing is left of the branches.
void expect_merged(const ExpertSpelling& of, int other_products = 1) {
  const RaisedWithNotes raised = raise(experts_text(of));
  EXPECT_EQ(count_of(raised.graph, "grouped_matmul"), 2) << of.share << " " << of.expert;
  EXPECT_EQ(count_of(raised.graph, "matmul"), other_products) << of.share << " " << of.expert;
  EXPECT_THAT(raised.notes, IsEmpty());
}

std::string note_of(const ExpertSpelling& of) {
  const RaisedWithNotes raised = raise(experts_text(of));
  EXPECT_EQ(count_of(raised.graph, "grouped_matmul"), 0);
  EXPECT_EQ(raised.notes.size(), 1U);
  return raised.notes.empty() ? "" : raised.notes.front();
}

TEST(RaiseExperts, EverySpellingOfTheShares) {
  for (const std::string share :
       {"scatter", "one_hot", "select", "product", "rows", "slots", "batch", "stack", "einsum"}) {
    for (const bool normalised : {true, false}) {
      for (const int choices : {1, 2, 5}) {
        ExpertSpelling of;
        of.share = share;
        of.normalised = normalised;
        of.choices = choices;
        expect_merged(of);
      }
    }
  }
}

TEST(RaiseExperts, MatricesGatheredForEachChoice) {
  for (const std::string share : {"gathered", "flat", "below", "beside"}) {
    for (const int choices : {2, 3, 5}) {
      ExpertSpelling of;
      of.share = share;
      of.choices = choices;
      expect_merged(of);
    }
  }
}

TEST(RaiseExperts, GatheredByOtherIndicesTheyStay) {
  std::string text = experts_text({.share = "gathered"});
  // The next expert's matrix.
  text.replace(text.find("gather(%wd, %which)"), 19, "gather(%wd, %others)");
  text.insert(text.find("    %wgu = "),
              "    %last = constant {value = i64[] {4}}\n    %others = sub(%last, %which)\n");
  const RaisedWithNotes raised = raise(text);
  EXPECT_EQ(count_of(raised.graph, "grouped_matmul"), 0);
  EXPECT_THAT(raised.notes, Contains(HasSubstr("multiplies no row by the matrix of a choice")));
}

// Each is a change of one thing in a spelling that is found.
TEST(RaiseExperts, AllChoicesInOneProductOfSomethingElseStay) {
  const auto grouped = [](std::string text, const std::string& from, const std::string& to) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return count_of(raise(text.replace(text.find(from), from.size(), to)).graph, "grouped_matmul");
  };
  const std::string below = experts_text({.share = "below"});
  const std::string beside = experts_text({.share = "beside"});
  // Columns of one choice end up in another's: the axis of choices is not the outer one.
  EXPECT_EQ(grouped(beside, "permutation = [0, 2, 1, 3]", "permutation = [0, 2, 3, 1]"), 0);
  // The next expert's matrices.
  EXPECT_EQ(grouped(below, "    %mu = gather(%wu, %which)",
                    "    %last = constant {value = i64[] {4}}\n    %others = sub(%last, %which)\n"
                    "    %mu = gather(%wu, %others)"),
            0);
  // Other rows than those of the tokens.
  EXPECT_EQ(grouped(below, "    %xu = reshape(%x)",
                    "    %negative = neg(%x)\n    %xu = reshape(%negative)"),
            0);
  // What weighs the choices is spread over columns.
  EXPECT_EQ(grouped(below, "    %biased = add(%each, %vd)\n",
                    "    %wc = reshape(%w) {shape = <t, 2, 1>}\n"
                    "    %half = add(%each, %vd)\n    %biased = mul(%half, %wc)\n"),
            0);
}

// A token's row that is cut into one for each choice is not that row once for each.
TEST(RaiseExperts, RowsThatAreCutAmongChoicesStay) {
  const auto grouped = [](const std::string& from, const std::string& to) {
    std::string text = experts_text({.share = "gathered"});
    EXPECT_NE(text.find(from), std::string::npos) << text;
    const RaisedWithNotes raised = raise(text.replace(text.find(from), from.size(), to));
    EXPECT_EQ(raised.notes.size(), 1U);
    return count_of(raised.graph, "grouped_matmul");
  };
  // What the experts read.
  EXPECT_EQ(
      grouped(fmt::format("    %rows = expand(%lifted) {{shape = <t, 2, 1, {}>}}\n", kExpertWidth),
              fmt::format("    %negative = neg(%x)\n"
                          "    %both = concat(%x, %negative) {{axis = 1}}\n"
                          "    %rows = reshape(%both) {{shape = <t, 2, 1, {}>}}\n",
                          kExpertWidth)),
      0);
  // What a product by the matrices of all choices gives, in an order that is none of those known.
  EXPECT_EQ(grouped("    %gu = matmul(%rows, %mgu) @\"gate_up\"\n",
                    fmt::format("    %tgu = transpose(%mgu) {{permutation = [0, 2, 3, 1]}}\n"
                                "    %agu = reshape(%tgu) {{shape = <t, {0}, {1}>}}\n"
                                "    %xgu = reshape(%x) {{shape = <t, 1, {0}>}}\n"
                                "    %pgu = matmul(%xgu, %agu) @\"gate_up\"\n"
                                "    %gu = reshape(%pgu) {{shape = <t, 2, 1, {2}>}}\n",
                                kExpertWidth, 4 * kExpertInner, 2 * kExpertInner)),
            0);
}

TEST(RaiseExperts, EverySpellingOfAnExpert) {
  for (const std::string expert : {"gated", "gate_up", "relu", "biases"}) {
    for (const std::string share : {"select", "slots"}) {
      ExpertSpelling of;
      of.share = share;
      of.expert = expert;
      expect_merged(of);
    }
  }
}

TEST(RaiseExperts, AddedInAnyOrderToAnything) {
  ExpertSpelling of;
  of.order = {3, 0, 4, 2, 1};
  expect_merged(of);
  of.before = "nothing";
  expect_merged(of);
  // An expert that all tokens go through stays a feed-forward of its own.
  of.before = "shared";
  expect_merged(of, 4);
}

// A bias that is no operand of the product, since more than the product is added to.
TEST(RaiseExperts, RowsOfAnExpertSpreadOverItsTokens) {
  ExpertSpelling of;
  of.expert = "biases";
  std::string text = experts_text(of);
  for (std::string::size_type at = 0; (at = text.find("= add(%c_", at)) != std::string::npos;
       ++at) {
    text.replace(at, 6, "= mul(");
  }
  const RaisedWithNotes raised = raise(text);
  EXPECT_EQ(count_of(raised.graph, "grouped_matmul"), 2);
  EXPECT_EQ(count_of(raised.graph, "matmul"), 1);
}

TEST(RaiseExperts, NamesOfAllBranchesStay) {
  const RaisedWithNotes raised = raise(experts_text({}));
  std::vector<std::string> names;
  for (const auto& node : raised.graph.nodes()) {
    if (node->op() == "grouped_matmul") names.push_back(node->source().name);
  }
  EXPECT_THAT(names,
              ElementsAre("x0.gate + x1.gate + x2.gate + x3.gate + x4.gate + x0.up + x1.up + "
                          "x2.up + x3.up + x4.up",
                          "x0.down + x1.down + x2.down + x3.down + x4.down"));
}

TEST(RaiseExperts, NoSecondCopyOfTheWeightsIsLeft) {
  const RaisedWithNotes raised = raise(experts_text({}));
  std::int64_t elements = 0;
  for (const auto& node : raised.graph.nodes()) {
    if (node->op() == "constant") {
      elements += node->attributes().tensor("value").num_elements();
    }
  }
  EXPECT_LE(elements, 5 * 3 * kExpertWidth * kExpertInner + 8);
}

// A token whose numbers overflow in an expert that it did not choose: masks that multiply make it
// NaN in the model as it is written, selections do not.
TEST(RaiseExperts, WhatWasNotChosenDoesNotSpoilTheToken) {
  for (const std::string share : {"scatter", "slots"}) {
    ExpertSpelling of;
    of.share = share;
    std::string text = experts_text(of);
    // The router always prefers the first two; the last expert is infinite.
    text.replace(text.find("%d_x4 = constant {value = f32[20, 12] random 53}"), 48,
                 "%d_x4 = constant {value = f32[20, 12] splat inf}");
    const Graph before = parse_graph(text).value();
    Graph after = before.clone();
    ASSERT_TRUE(raise_experts(after));
    EXPECT_EQ(count_of(after, "grouped_matmul"), 2);
    const std::vector<Tensor> inputs = inputs_of(before, 7, true);
    const Tensor was = results_of(before, inputs, true)[0];
    const Tensor is = results_of(after, inputs, true)[0];
    for (std::int64_t i = 0; i < is.num_elements(); ++i) {
      EXPECT_TRUE(std::isfinite(is.get_double(i)));
      EXPECT_EQ(std::isnan(was.get_double(i)), share == "scatter");
    }
  }
}

TEST(RaiseExperts, NearMissesStayAndSayWhy) {
  ExpertSpelling of;
  of.share = "select";
  of.expert = "relu";
  of.odd_one = 2;
  EXPECT_THAT(note_of(of), StartsWith("5 experts that end in add_"));
  EXPECT_THAT(note_of(of), EndsWith(" stay apart: relu 'x0.act' and tanh 'x2.act' differ"));
  of.odd_one = -1;
  of.order = {0, 1, 2, 4};
  EXPECT_THAT(note_of(of), HasSubstr("of 5 that 'router' chooses among, the sum leaves out 3"));
  of.order = {0, 1, 2, 3, 4, 2};
  EXPECT_THAT(note_of(of), HasSubstr("expert 2 is added twice"));
  of.order = {};
  of.returns = ", %h_x3 as \"inner\"";
  EXPECT_THAT(note_of(of), HasSubstr("relu 'x3.act' is an output of the model"));
  of.returns = ", %more as \"more\"";
  of.extra = "    %more = exp(%h_x1)\n";
  EXPECT_THAT(note_of(of), HasSubstr("relu 'x1.act' is read by exp"));
  of.extra = "    %more = exp(%y_x1)\n";
  EXPECT_THAT(note_of(of), HasSubstr("expert 1 is read elsewhere as well"));
}

// Near misses of sums over experts that are products.
TEST(RaiseExperts, SumsByAProductOfSomethingElseStay) {
  const std::string einsum = experts_text({.share = "einsum"});
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  const auto grouped = [](const std::string& text) {
    return count_of(raise(text).graph, "grouped_matmul");
  };
  // Gates that are no share of a choice.
  EXPECT_EQ(grouped(replaced(einsum, "%sum = matmul(%last, %shares)",
                             "%soft = reshape(%p) {shape = <t, 5, 1>}\n"
                             "    %sum = matmul(%last, %soft)")),
            0);
  // One of the experts' matrices for all of them.
  EXPECT_EQ(grouped(replaced(einsum, "f32[5, 20, 12] random 3", "f32[20, 12] random 3")), 0);
  // What they compute is read elsewhere.
  EXPECT_EQ(
      grouped(experts_text(
          {.share = "einsum", .extra = "    %more = exp(%each)\n", .returns = ", %more as \"m\""})),
      0);
  EXPECT_EQ(grouped(experts_text({.share = "einsum", .returns = ", %front as \"m\""})), 0);
  EXPECT_EQ(grouped(experts_text({.share = "stack", .returns = ", %all as \"m\""})), 0);
  // A step in which experts meet.
  EXPECT_EQ(grouped(replaced(einsum, "transpose(%h) {permutation = [1, 0, 2]}",
                             "transpose(%neg) {permutation = [1, 0, 2]}\n    %unused = neg(%h)")
                        .insert(einsum.find("    %front ="),
                                "    %total_h = reduce_sum(%h) {axes = [1], keepdims = 1}\n"
                                "    %neg = sub(%h, %total_h)\n")),
            0);
}

TEST(RaiseExperts, RowsSelectedByAnotherExpertStay) {
  std::string text = experts_text({.share = "rows"});
  text.replace(text.find("select(%chose_x3"), 16, "select(%chose_x2");
  EXPECT_EQ(count_of(raise(text).graph, "grouped_matmul"), 0);
}

TEST(RaiseExperts, BranchesInAnotherOrderOrUnlikeStay) {
  ExpertSpelling of;
  of.share = "stack";
  of.expert = "relu";
  of.odd_one = 2;
  EXPECT_THAT(note_of(of), HasSubstr("relu 'x0.act' and tanh 'x2.act' differ"));
}

TEST(RaiseExperts, DifferentWeightsStay) {
  std::string text = experts_text({.share = "select"});
  text.replace(text.find("select(%is_x3, %w,"), 18, "select(%is_x3, %best,");
  const RaisedWithNotes raised = raise(text);
  EXPECT_EQ(count_of(raised.graph, "grouped_matmul"), 0);
  EXPECT_THAT(raised.notes, Contains(HasSubstr("experts 0 and 3 count by different weights")));
}

// Weights that are not those of a choice: every token goes to every expert.
TEST(RaiseExperts, WhatIsNoChoiceStays) {
  ExpertSpelling of;
  std::string text = experts_text(of);
  // The probabilities of all.
  std::string all = text;
  all.replace(all.find("scatter_elements(%zeros, %which, %w) {axis = 1, reduction = \"none\"}"), 67,
              "mul(%p, %one)");
  EXPECT_EQ(count_of(raise(all).graph, "grouped_matmul"), 0);
  // Those that are as great as the k-th greatest: more than k where there are ties.
  std::string ties = text;
  ties.replace(
      ties.find("%shares = scatter_elements(%zeros, %which, %w) {axis = 1, reduction = \"none\"}"),
      77,
      "%least = reduce_min(%best) {axes = [1], keepdims = 1}\n %kept = ge(%p, %least)\n"
      " %shares = select(%kept, %p, %none)");
  EXPECT_EQ(count_of(raise(ties).graph, "grouped_matmul"), 0);
  // The least instead of the greatest.
  std::string least = text;
  least.replace(least.find("k = <2>}"), 8, "k = <2>, largest = 0}");
  EXPECT_EQ(count_of(raise(least).graph, "grouped_matmul"), 0);
}

TEST(RaiseExperts, BranchesOnOtherStreamsStay) {
  std::string text = experts_text({.share = "select", .expert = "relu"});
  text.replace(text.find("@\"x2.act\""), 9, "@\"x2.act\" stream \"copy\"");
  const RaisedWithNotes raised = raise(text);
  EXPECT_EQ(count_of(raised.graph, "grouped_matmul"), 0);
}

}  // namespace
}  // namespace opweld
