// Keys and values that a concat joins of past and new rows, and that are given out: the attention
// stores them, every row, whatever its queries see of them.
#include <cstring>
#include <limits>

#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

struct JoinedGroup {
  std::string queries = "s";
  std::string rows = "s";  // new ones
  std::string past = "p";
  std::string attributes = "causal = \"bottom_right\"";
  std::string mask = {};  // type; empty: none
  bool lengths = false;
  std::string dtype = "f32";
  int heads = 4;
  int key_heads = 2;

  [[nodiscard]] std::string inputs() const {
    const auto tensor = [&](const std::string& name, int count, const std::string& length,
                            const std::string& width) {
      return fmt::format("%{}: {}[b, {}, {}, {}]", name, dtype, count, length, width);
    };
    std::string text = tensor("q", heads, queries, "d") + ", " + tensor("pk", key_heads, past, "d");
    text += ", " + tensor("nk", key_heads, rows, "d") + ", " + tensor("pv", key_heads, past, "e");
    text += ", " + tensor("nv", key_heads, rows, "e");
    if (!mask.empty()) text += ", %m: " + mask;
    if (lengths) text += ", %n: i64[b]";
    return text;
  }

  [[nodiscard]] std::string attention() const {
    return fmt::format("%y = attention(%q, %k, %v, {}, {}) {{scale = 0.3, {}}}\n",
                       mask.empty() ? "_" : "%m", lengths ? "%n" : "_", attributes);
  }

  [[nodiscard]] std::string text() const {
    return "graph g(" + inputs() +
           ") {\n%k = concat(%pk, %nk) {axis = 2}\n%v = concat(%pv, %nv) {axis = 2}\n" +
           attention() + "return %y as \"y\", %k as \"present_k\", %v as \"present_v\" }";
  }
};

struct JoinedSizes {
  std::int64_t queries = 1;
  std::int64_t past = 0;
  std::int64_t head = 16;
  std::int64_t value_head = 16;
  std::int64_t batch = 2;

  [[nodiscard]] Bindings bindings() const {
    return {{"b", batch}, {"s", queries}, {"p", past}, {"d", head}, {"e", value_head}};
  }
};

// One after the other, head by head.
Tensor joined(const Tensor& past, const Tensor& rows) {
  Sizes sizes = past.sizes();
  sizes[2] += rows.sizes()[2];
  Tensor result = Tensor::allocate(past.dtype(), sizes).value();
  std::byte* to = result.mutable_data();
  const std::int64_t heads = sizes[0] * sizes[1];
  for (std::int64_t head = 0; head < heads; ++head) {
    for (const Tensor* part : {&past, &rows}) {
      const std::int64_t bytes = part->num_bytes() / heads;
      if (bytes > 0) std::memcpy(to, part->data() + head * bytes, static_cast<std::size_t>(bytes));
      to += bytes;
    }
  }
  return result;
}

void expect_same_bytes(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  if (expected.num_bytes() == 0) return;
  EXPECT_EQ(
      std::memcmp(actual.data(), expected.data(), static_cast<std::size_t>(expected.num_bytes())),
      0);
}

// The result against the reference in f64, what is joined to the bit, whatever task comes first.
void expect_right(const GroupRunner& group, const std::vector<Tensor>& inputs) {
  group.check(inputs);
  for (const auto order : {GroupRunner::Order::FirstTaskFirst, GroupRunner::Order::LastTaskFirst}) {
    const auto outputs = group.run(inputs, order);
    ASSERT_TRUE(outputs) << outputs.error().message;
    expect_same_bytes((*outputs)[1], joined(inputs[1], inputs[2]));
    expect_same_bytes((*outputs)[2], joined(inputs[3], inputs[4]));
  }
}

void expect_right(const GroupRunner& group, const JoinedSizes& sizes) {
  SCOPED_TRACE(fmt::format("{} queries after {}, heads of {} and {}, batch {}", sizes.queries,
                           sizes.past, sizes.head, sizes.value_head, sizes.batch));
  ASSERT_EQ(group.error(), "");
  expect_right(group, group.random_inputs(sizes.bindings()));
}

const std::string kTargets[] = {"host", "host-avx2"};

// No queries, one, few, many: which form it is, only the run knows. Chunks are of 192 and 256 keys.
TEST(JoinedRows, AnyNumberOfQueriesAndPastRows) {
  for (const std::string& target : kTargets) {
    const GroupRunner group(JoinedGroup().text(), KernelKind::Attention, target);
    for (const std::int64_t queries : {0, 1, 2, 5, 16, 17, 97, 200}) {
      for (const std::int64_t past : {0, 1, 7, 127, 191, 256, 257, 521}) {
        expect_right(group, JoinedSizes{.queries = queries, .past = past});
      }
    }
    expect_right(group, JoinedSizes{.queries = 1, .past = 33, .batch = 0});
    expect_right(group, JoinedSizes{.queries = 40, .past = 33, .batch = 0});
  }
}

TEST(JoinedRows, NumbersOfQueriesThatAreKnown) {
  for (const std::string& target : kTargets) {
    for (const std::string queries : {"1", "3", "16", "17"}) {
      const JoinedGroup options{.queries = queries, .rows = queries};
      const GroupRunner group(options.text(), KernelKind::Attention, target);
      for (const std::int64_t past : {0, 1, 255, 256, 300, 1021}) {
        expect_right(group, JoinedSizes{.past = past});
      }
    }
    // All keys in one chunk, and in several.
    for (const std::string past : {"0", "31", "512"}) {
      const JoinedGroup options{.queries = "1", .rows = "1", .past = past};
      expect_right(GroupRunner(options.text(), KernelKind::Attention, target), JoinedSizes());
    }
  }
}

TEST(JoinedRows, SizesOfHeads) {
  for (const std::string& target : kTargets) {
    const GroupRunner group(JoinedGroup().text(), KernelKind::Attention, target);
    for (const std::int64_t size : {1, 3, 8, 17, 64, 131}) {
      for (const std::int64_t queries : {1, 3, 20}) {
        expect_right(group,
                     JoinedSizes{.queries = queries, .past = 150, .head = size, .value_head = 24});
        expect_right(group,
                     JoinedSizes{.queries = queries, .past = 150, .head = 24, .value_head = size});
      }
    }
  }
}

// As many heads as share K and V make several tasks of the rows of a chunk, of which one stores it.
TEST(JoinedRows, HeadsThatShareThem) {
  const std::pair<int, int> kHeads[] = {{1, 1}, {3, 3}, {4, 1}, {6, 2}, {40, 1}};
  for (const std::string& target : kTargets) {
    for (const auto& [heads, key_heads] : kHeads) {
      const JoinedGroup options{.heads = heads, .key_heads = key_heads};
      const GroupRunner group(options.text(), KernelKind::Attention, target);
      for (const std::int64_t queries : {0, 1, 4, 16, 33}) {
        expect_right(group,
                     JoinedSizes{.queries = queries, .past = 270, .head = 8, .value_head = 8});
      }
    }
  }
}

TEST(JoinedRows, HalfTypes) {
  for (const std::string target : {"host", "host-avx512", "host-avx2"}) {
    for (const std::string dtype : {"f16", "bf16"}) {
      const JoinedGroup options{.dtype = dtype};
      const GroupRunner group(options.text(), KernelKind::Attention, target);
      for (const std::int64_t queries : {0, 1, 7, 70}) {
        expect_right(group,
                     JoinedSizes{.queries = queries, .past = 263, .head = 64, .value_head = 32});
      }
    }
  }
}

// Rows that no query sees are stored as well.
TEST(JoinedRows, MasksWindowsAndLengths) {
  const JoinedGroup kGroups[] = {
      {.attributes = "causal = \"none\""},
      {.attributes = "causal = \"top_left\""},
      {.attributes = "causal = \"bottom_right\", window_left = 20"},
      {.attributes = "causal = \"none\", window_left = 3, window_right = 2, softcap = 1.5"},
      {.attributes = "causal = \"none\"", .mask = "bool[b, 1, s, p + s]"},
      {.attributes = "causal = \"bottom_right\"", .mask = "f32[b, 4, s, p + s]"},
      {.attributes = "causal = \"bottom_right\"", .lengths = true},
  };
  for (const JoinedGroup& options : kGroups) {
    SCOPED_TRACE(options.text());
    const GroupRunner group(options.text(), KernelKind::Attention);
    ASSERT_EQ(group.error(), "");
    for (const std::int64_t queries : {0, 1, 9, 30}) {
      for (const std::int64_t past : {0, 5, 700}) {
        const JoinedSizes sizes{.queries = queries, .past = past};
        std::vector<Tensor> inputs = group.random_inputs(sizes.bindings());
        if (options.lengths) {
          inputs.back().set_int(0, past / 3);
          inputs.back().set_int(1, past + queries);
        }
        expect_right(group, inputs);
      }
    }
  }
}

// What a row holds is stored as it is; where it is hidden it keeps out of the result.
TEST(JoinedRows, RowsThatAreNoNumbers) {
  const double odd[] = {std::nan(""), HUGE_VAL, -HUGE_VAL};
  const GroupRunner group(JoinedGroup{.attributes = "causal = \"top_left\""}.text(),
                          KernelKind::Attention);
  for (const std::int64_t queries : {1, 5, 40}) {
    std::vector<Tensor> inputs =
        group.random_inputs(JoinedSizes{.queries = queries, .past = 300}.bindings());
    for (const std::size_t operand : {1U, 2U, 3U, 4U}) {
      const std::int64_t elements = inputs[operand].num_elements();
      for (std::int64_t i = 0; i < 3; ++i) inputs[operand].set_double(elements - 1 - i, odd[i]);
    }
    // Scores of hidden keys do not count, whatever they are.
    expect_right(group, inputs);
  }
}

TEST(JoinedRows, OneOfThemOrBothTheSame) {
  const std::string head =
      "graph g(%q: f32[b, 4, s, 16], %p: f32[b, 2, p, 16], %n: f32[b, 2, s, 16], %o: f32[b, 2, p + "
      "s, 16]) {\n%j = concat(%p, %n) {axis = 2}\n";
  for (const std::string operands : {"%j, %o", "%o, %j", "%j, %j"}) {
    const GroupRunner group(head + "%y = attention(%q, " + operands +
                                ") {scale = 0.3, causal = \"bottom_right\"}\n"
                                "return %y as \"y\", %j as \"present\" }",
                            KernelKind::Attention);
    ASSERT_EQ(group.error(), "");
    for (const std::int64_t queries : {0, 1, 6, 50}) {
      group.check({{"b", 2}, {"s", queries}, {"p", 300}});
    }
  }
}

// Three parts, of which the new rows come with heads side by side; and given out in two orders.
TEST(JoinedRows, ViewsOnEitherSide) {
  const std::string text = R"(graph g(%q: f32[b, s, 64], %first: f32[b, 2, 40, 16],
                                       %past: f32[b, 2, p, 16], %n: f32[b, s, 32]) {
    %q4 = reshape(%q) {shape = <b, s, 4, 16>}
    %qt = transpose(%q4) {permutation = [0, 2, 1, 3]}
    %n4 = reshape(%n) {shape = <b, s, 2, 16>}
    %nt = transpose(%n4) {permutation = [0, 2, 1, 3]}
    %k = concat(%first, %past, %nt) {axis = 2}
    %a = attention(%qt, %k, %k) {scale = 0.25, causal = "bottom_right"}
    %at = transpose(%a) {permutation = [0, 2, 1, 3]}
    %y = reshape(%at) {shape = <b, s, 64>}
    %turned = transpose(%k) {permutation = [0, 2, 1, 3]}
    return %y as "y", )";
  for (const std::string outputs :
       {"%k as \"k\"", "%turned as \"t\"", "%k as \"k\", %turned as \"t\""}) {
    const GroupRunner group(text + outputs + " }", KernelKind::Attention);
    ASSERT_EQ(group.error(), "");
    for (const std::int64_t queries : {0, 1, 6, 50}) {
      for (const std::int64_t past : {0, 3, 400}) {
        group.check({{"b", 2}, {"s", queries}, {"p", past}});
      }
    }
  }
}

// The same bits as an attention that reads what another kernel has joined.
TEST(JoinedRows, AreTheSameToTheBitWhenStrict) {
  for (const std::string dtype : {"f32", "bf16"}) {
    const JoinedGroup options{.dtype = dtype};
    const GroupRunner group(options.text(), KernelKind::Attention, "host", true);
    const GroupRunner apart(
        fmt::format("graph g(%q: {0}[b, 4, s, d], %k: {0}[b, 2, t, d], %v: {0}[b, 2, t, e]) {{\n",
                    dtype) +
            options.attention() + "return %y as \"y\" }",
        KernelKind::Attention, "host", true);
    for (const std::int64_t queries : {1, 6, 50}) {
      const auto inputs =
          group.random_inputs(JoinedSizes{.queries = queries, .past = 391}.bindings());
      const auto expected =
          apart.run({inputs[0], joined(inputs[1], inputs[2]), joined(inputs[3], inputs[4])});
      expect_same_bytes(group.run(inputs).value()[0], expected.value()[0]);
    }
  }
}

TEST(JoinedRows, RefusesWhatIsNotStoredOnItsWay) {
  const auto error = [](const std::string& text) {
    return GroupRunner(text, KernelKind::Attention).error();
  };
  const std::string inputs =
      "graph g(%q: f32[b, 2, s, 8], %p: f32[b, 2, p, 8], %n: f32[b, 2, s, 8], %h: f32[b, 2, s, 4]) "
      "{\n";
  const std::string attention = " {scale = 0.3, causal = \"none\"}\nreturn %y as \"y\"";
  const std::string rows = inputs + "%k = concat(%p, %n) {axis = 2}\n";
  EXPECT_EQ(error(rows + "%y = attention(%q, %k, %k)" + attention + " }"),
            "it joins rows that nothing else reads");
  EXPECT_EQ(error(inputs + "%k = concat(%h, %h) {axis = 3}\n%y = attention(%q, %k, %k)" +
                  attention + ", %k as \"k\" }"),
            "it joins keys or values, but not rows of them");
  EXPECT_EQ(error(inputs + "%j = concat(%h, %h) {axis = 3}\n%y = attention(%j, %p, %p)" +
                  attention + ", %j as \"j\" }"),
            "it joins what is neither the keys nor the values of the attention");
  const JoinedGroup none{.queries = "0", .rows = "0"};
  EXPECT_EQ(error(none.text()),
            "without queries there are no tasks to store the rows that it joins");
}

}  // namespace
}  // namespace opweld::testing
