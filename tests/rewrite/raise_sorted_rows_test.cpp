// Experts as PyTorch traces those of transformers: choices are sorted, counted, and put back.
#include <gmock/gmock.h>

#include "rewrite/raise/sorted_rows.h"
#include "rewrite/raising.h"

namespace opweld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kGroups = 5;

// torch.histc of the sorted numbers as floats, with a bin for each group.
const std::string kHistogram = R"(
    %number = cast(%sorted) {to = f32}
    %low = constant {value = f32[] {0.0}}
    %high = constant {value = f32[] {4.0}}
    %bins = constant {value = f32[] {5.0}}
    %above = ge(%number, %low)
    %below = le(%number, %high)
    %inside = and(%above, %below)
    %scaled = mul(%number, %bins)
    %at = div(%scaled, %high)
    %whole = cast(%at) {to = i64}
    %last = constant {value = i64[] {4}}
    %bin = min(%whole, %last)
    %insides = reshape(%inside) {shape = <2*t, 1>}
    %own = reshape(%bin) {shape = <2*t, 1>}
    %each = iota() {shape = <5>, axis = 0, dtype = i64}
    %same = eq(%own, %each)
    %hit = and(%insides, %same)
    %ones = cast(%hit) {to = i64}
    %found = reduce_sum(%ones) {axes = [0], keepdims = 0}
    %counted = cast(%found) {to = f32}
    %counts = cast(%counted) {to = i32}
)";

// Comparisons with all groups, of the numbers as they come.
const std::string kComparison = R"(
    %own = reshape(%groups) {shape = <2*t, 1>}
    %each = constant {value = i64[5] {0, 1, 2, 3, 4}}
    %same = eq(%own, %each)
    %ones = cast(%same) {to = i32}
    %counts = reduce_sum(%ones) {axes = [0], keepdims = 0}
)";

const std::string kScatter = R"(
    %none = constant {value = i64[] {0}}
    %step = constant {value = i64[] {1}}
    %empty = expand(%none) {shape = <2*t>}
    %tuples = reshape(%order) {shape = <2*t, 1>}
    %rising = range(%none, %step) {length = <2*t>}
    %place = scatter_nd(%empty, %tuples, %rising) {reduction = "none"}
)";

const std::string kSecondSort =
    "    %unread, %place = top_k(%order) {axis = 0, k = <2*t>, largest = 0, sorted = 1}\n";

struct Spelling {
  std::string counts = kHistogram;
  std::string inverse = kScatter;
  std::string groups = "%groups = reshape(%which) {shape = <2*t>}";
  int experts = kGroups;  // that the router chooses among
  std::string returns = "";
};

std::string text_of(const Spelling& of) {
  return fmt::format(
      R"(graph moe(%x: f32[t, 12], %router: f32[12, {0}], %given: i64[2*t]) {{
    %logits = matmul(%x, %router)
    %p = softmax(%logits) {{axis = -1}}
    %best, %which = top_k(%p) {{axis = 1, k = <2>}} @"router"
    {1}
    %sorted, %order = top_k(%groups) {{axis = 0, k = <2*t>, largest = 0, sorted = 1}} @"sort"
    %two = constant {{value = i64[] {{2}}}}
    %token = div(%order, %two)
    %rows = gather(%x, %token) {{axis = 0}}
    {2}
    %ends = cumsum(%counts) {{axis = 0}}
    %wu = constant {{value = f32[5, 12, 20] random 1}}
    %wd = constant {{value = f32[5, 20, 12] random 2}}
    %up = grouped_matmul(%rows, %wu, %ends) {{cumulative = 1}} @"up"
    %act = silu(%up)
    %down = grouped_matmul(%act, %wd, %ends) {{cumulative = 1}} @"down"
    %weights = reshape(%best) {{shape = <2*t>}}
    %in_order = gather(%weights, %order) {{axis = 0}}
    %column = reshape(%in_order) {{shape = <2*t, 1>}}
    %weighed = mul(%down, %column)
    {3}
    %back = gather(%weighed, %place) {{axis = 0}}
    %apart = reshape(%back) {{shape = <t, 2, 12>}}
    %y = reduce_sum(%apart) {{axes = [1], keepdims = 0}}
    return %y as "y"{4}
}})",
      of.experts, of.groups, of.counts, of.inverse, of.returns);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  EXPECT_NE(text.find(from), std::string::npos) << from;
  return text.replace(text.find(from), from.size(), to);
}

RaisedWithNotes raise(const std::string& text) {
  auto parsed = parse_graph(text);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message) << "\n" << text;
  return raised_with_notes(parsed.value(), raise_sorted_rows);
}

// Not a bit is another for any number of tokens, be they shared out or all be of the first two.
RaisedWithNotes raise_and_compare(const std::string& text) {
  RaisedWithNotes result = raise(text);
  const Graph before = parse_graph(text).value();
  for (const std::int64_t tokens : {0, 1, 2, 9, 40}) {
    for (const bool ties : {false, true}) {
      std::vector<Tensor> inputs = random_inputs(before, {{"t", tokens}}, {});
      for (std::int64_t i = 0; ties && i < inputs[1].num_elements(); ++i) {
        inputs[1].set_double(i, 0);
      }
      for (const bool in_f64 : {false, true}) {
        expect_same(results_of(before, inputs, in_f64), results_of(result.graph, inputs, in_f64),
                    0);
      }
    }
  }
  return result;
}

std::string operators_of(const Graph& graph) {
  std::string names;
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant") names += (names.empty() ? "" : " ") + node->op();
  }
  return names;
}

TEST(RaiseSortedRows, EverySpelling) {
  for (const std::string& counts : {kHistogram, kComparison}) {
    for (const std::string& inverse : {kScatter, kSecondSort}) {
      Spelling of;
      of.counts = counts;
      of.inverse = inverse;
      const RaisedWithNotes raised = raise_and_compare(text_of(of));
      EXPECT_THAT(raised.notes, IsEmpty());
      EXPECT_EQ(operators_of(raised.graph),
                "matmul softmax top_k reshape sort_by_group div gather grouped_matmul silu "
                "grouped_matmul reshape reshape gather mul reshape reduce_sum");
    }
  }
}

// Of a router in f32 beside experts in bf16, for one; each rounding stays.
TEST(RaiseSortedRows, WeightsThatAreCast) {
  std::string text = replaced(text_of({}), "%weights = reshape(%best)",
                              "%narrow = cast(%best) {to = bf16}\n    %weights = reshape(%narrow)");
  text = replaced(text, "%column = reshape(%in_order) {shape = <2*t, 1>}",
                  "%standing = reshape(%in_order) {shape = <2*t, 1>}\n"
                  "    %column = cast(%standing) {to = f32}");
  const RaisedWithNotes raised = raise_and_compare(text);
  EXPECT_THAT(operators_of(raised.graph), HasSubstr("sort_by_group"));
  EXPECT_THAT(operators_of(raised.graph), HasSubstr("gather mul reshape reduce_sum"));
}

// Rows of the groups' own biases ask for the groups in that order.
TEST(RaiseSortedRows, SortedGroupsThatAreRead) {
  const std::string text = replaced(text_of({}), "    %act = silu(%up)\n",
                                    "    %biases = constant {value = f32[5, 20] random 3}\n"
                                    "    %bias = gather(%biases, %sorted) {axis = 0}\n"
                                    "    %biased = add(%up, %bias)\n    %act = silu(%biased)\n");
  const RaisedWithNotes raised = raise_and_compare(text);
  EXPECT_THAT(operators_of(raised.graph), HasSubstr("sort_by_group gather"));
  EXPECT_THAT(operators_of(raised.graph), ::testing::Not(HasSubstr("cumsum")));
}

TEST(RaiseSortedRows, ItsNameIsThatOfTheSort) {
  const RaisedWithNotes raised = raise(text_of({}));
  std::vector<std::string> names;
  for (const auto& node : raised.graph.nodes()) {
    if (node->op() == "sort_by_group") names.push_back(node->source().name);
    if (node->op() == "grouped_matmul") names.push_back(node->source().name);
  }
  EXPECT_THAT(names, ElementsAre("sort", "up", "down"));
}

// What does not hold, said once, and nothing is raised.
std::string note_of(const std::string& text, bool computes = true) {
  const RaisedWithNotes raised = computes ? raise_and_compare(text) : raise(text);
  EXPECT_THAT(operators_of(raised.graph), ::testing::Not(HasSubstr("sort_by_group")));
  EXPECT_EQ(raised.notes.size(), 1U);
  return raised.notes.empty() ? "" : raised.notes.front();
}

TEST(RaiseSortedRows, GroupsThatMayBeAnyNumberStay) {
  Spelling of;
  of.groups = "%groups = reshape(%given) {shape = <2*t>}";
  EXPECT_EQ(
      note_of(text_of(of)),
      "rows that 'sort' sorts for 'up' are not known to be its groups: what it sorts may be any "
      "number, and groups are below 5");
  // A number more than there are groups: in such a run the rows of the last are no group's.
  of = {};
  of.experts = 6;
  EXPECT_THAT(note_of(text_of(of), /*computes=*/false),
              HasSubstr("what it sorts may be up to 5, and groups are below 5"));
  // Fewer are fine: the last group is empty.
  of.experts = 4;
  EXPECT_THAT(raise_and_compare(text_of(of)).notes, IsEmpty());
}

TEST(RaiseSortedRows, EndsOfSomethingElseStay) {
  const std::string text = text_of({});
  // Bins that are wider than one number.
  EXPECT_THAT(note_of(replaced(text, "%bins = constant {value = f32[] {5.0}}",
                               "%bins = constant {value = f32[] {3.0}}")),
              HasSubstr("count something else than the rows of each group"));
  // The last group's rows counted as the first one's.
  EXPECT_THAT(note_of(replaced(text, "%same = eq(%own, %each)",
                               "%turned = sub(%last, %own)\n    %same = eq(%turned, %each)")),
              HasSubstr("count something else"));
  // Of what somebody else chose.
  EXPECT_THAT(note_of(replaced(text, "%number = cast(%sorted)", "%number = cast(%given)")),
              HasSubstr("count something else"));
  // In a dtype that does not count far.
  EXPECT_THAT(note_of(replaced(text, "%counted = cast(%found) {to = f32}",
                               "%counted = cast(%found) {to = f16}")),
              HasSubstr("no running sum of counts"));
  // Beginnings of groups, and ends counted from the last.
  for (const std::string how : {"exclusive", "reverse"}) {
    EXPECT_THAT(note_of(replaced(text, "cumsum(%counts) {axis = 0}",
                                 "cumsum(%counts) {axis = 0, " + how + " = 1}"),
                        /*computes=*/false),
                HasSubstr("no running sum of counts"));
  }
}

TEST(RaiseSortedRows, OnAnotherStreamTheyStay) {
  EXPECT_THAT(note_of(replaced(text_of({}), "@\"sort\"", "@\"sort\" stream \"copy\"")),
              HasSubstr("they are on different streams"));
}

// Nothing is sorted by group, so nothing is nearly found.
TEST(RaiseSortedRows, OtherOrdersSayNothing) {
  for (const std::string how : {"largest = 1", "largest = 0, sorted = 0"}) {
    const RaisedWithNotes raised =
        raise_and_compare(replaced(text_of({}), "k = <2*t>, largest = 0, sorted = 1} @\"sort\"",
                                   "k = <2*t>, " + how + "} @\"sort\""));
    EXPECT_THAT(operators_of(raised.graph), ::testing::Not(HasSubstr("sort_by_group")));
    EXPECT_THAT(raised.notes, IsEmpty());
  }
}

// The groups are found, and what is like an inverse of the order stays as it is.
TEST(RaiseSortedRows, OtherPlacesStay) {
  const auto kept = [](const std::string& text) {
    const std::string names = operators_of(raise_and_compare(text).graph);
    EXPECT_THAT(names, HasSubstr("sort_by_group"));
    return names;
  };
  // From the last place to the first.
  EXPECT_THAT(kept(replaced(text_of({}), "    %place = scatter_nd(%empty, %tuples, %rising)",
                            "    %count = sizes {values = <2*t>}\n"
                            "    %behind = sub(%count, %step)\n"
                            "    %falling = sub(%behind, %rising)\n"
                            "    %place = scatter_nd(%empty, %tuples, %falling)")),
              HasSubstr("scatter_nd"));
  // Added to what is there.
  EXPECT_THAT(kept(replaced(text_of({}), "reduction = \"none\"", "reduction = \"add\"")),
              HasSubstr("scatter_nd"));
  // By a descending sort of the order.
  Spelling of;
  of.inverse = replaced(kSecondSort, "largest = 0", "largest = 1");
  EXPECT_THAT(kept(text_of(of)), HasSubstr("sort_by_group div gather grouped_matmul silu "
                                           "grouped_matmul reshape gather reshape mul top_k"));
}

// Rows are weighed where they stand if their weights are read elsewhere, or not in their order.
TEST(RaiseSortedRows, OtherWeightsStay) {
  const std::string ending = "mul gather reshape reduce_sum";
  Spelling of;
  of.returns = ", %weighed as \"weighed\"";
  EXPECT_THAT(operators_of(raise_and_compare(text_of(of)).graph), HasSubstr(ending));
  const std::string unsorted =
      replaced(text_of({}), "%column = reshape(%in_order)", "%column = reshape(%weights)");
  EXPECT_THAT(operators_of(raise_and_compare(unsorted).graph), HasSubstr(ending));
}

}  // namespace
}  // namespace opweld
