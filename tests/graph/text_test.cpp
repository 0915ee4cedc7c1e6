#include "graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "graph/random_graph.h"
#include "graph/verifier.h"

namespace opweld {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Parses, prints with everything shown.
std::string reprint(std::string_view text, const PrintOptions& options = {true, true, true}) {
  auto graph = parse_graph_text(text);
  if (!graph) return graph.error().message;
  const Status status = verify_structure(*graph);
  EXPECT_TRUE(status) << status.error().message;
  return to_text(*graph, options);
}

std::string error_of(std::string_view text) {
  const auto graph = parse_graph_text(text);
  return graph ? "no error" : graph.error().message;
}

// A graph of one node with this attribute.
std::string with_attribute(std::string_view value) {
  return fmt::format(
      "graph g(%x: f32[s]) {{\n  %y: f32[s] = op(%x) {{a = {}}}\n"
      "  return %y as \"y\"\n}}\n",
      value);
}

Attribute attribute_of(std::string_view value) {
  auto graph = parse_graph_text(with_attribute(value));
  EXPECT_TRUE(graph) << graph.error().message;
  if (!graph) return {};
  return *graph->nodes().front()->attributes().find("a");
}

bool reads(std::string_view value, const Attribute& expected) {
  return identical(attribute_of(value), expected);
}

TEST(GraphText, PrintsTheDocumentedForm) {
  const Dim b = Dim::symbol("b");
  const Dim s = Dim::symbol("s", {1, 512, 8});
  Graph graph("add_norm");
  const TensorType type{DType::F32, {b, s, 384}};
  Value* x = graph.add_input("x", type);
  Value* r = graph.add_input("r", type);
  Tensor ones = *Tensor::allocate(DType::F32, {384});
  for (int i = 0; i < 384; ++i) ones.set_double(i, 1);
  Value* g = graph.add_node("constant", {}, {{"value", ones}}, {{DType::F32, {384}}})->result();
  g->set_name("g");
  Value* h = graph.add_node("add", {x, r}, {}, {type}, {"/layer.0/Add", "", ""})->result();
  h->set_name("h");
  Value* y =
      graph.add_node("rms_norm", {h, g}, {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}}, {type})
          ->result();
  y->set_name("y");
  graph.add_output("hidden", y);
  graph.add_output("residual", h);
  EXPECT_EQ(
      to_text(graph, {.types = false, .sources = true, .full_constants = false}),
      R"(graph add_norm(%x: f32[b, s, 384], %r: f32[b, s, 384]) where s in [1, 512] divisible 8 {
  %g = constant {value = f32[384] splat 1.0}
  %h = add(%x, %r) @"/layer.0/Add"
  %y = rms_norm(%h, %g) {axis = -1, epsilon = 1e-05}
  return %y as "hidden", %h as "residual"
}
)");
}

TEST(GraphText, ReadsBackWhatItPrints) {
  const std::string text =
      R"(graph "a b"(%x: f32[b, 2*s + 1, 8]:nhwc, %"in/0": i64[]) where s in [0, 64], t in [1, 9] divisible 3 {
  %v: f32[b, t], %i: i64[floor_div(s, 4)] = top_k(%x, _, %"in/0") {k = <t, 3>} @"/TopK" op "TopK" scope "layers.0"
  %0: f32[] = constant {value = f32[] {0.5}}
  %1: f32[] = "odd op"(%0, %0) {"odd name" = "quote \" and \\ and \x00"}
  %2: f32[] = neg(%1) @"a + b" op "A + B" operators 2
  %3: f32[] = neg(%2) @"" operators 0
  %4: f32[] = neg(%3) @"" stream "copy"
  assume b == 2*t, "why \"so\""
  return %1 as "one", %x as "x", %1 as "again"
}
)";
  EXPECT_EQ(reprint(text), text);
}

TEST(GraphText, SpaceAndCommentsDoNotMatter) {
  EXPECT_EQ(reprint("  # first\ngraph(%x:f32[s])# where\n{%y:f32[ s ]=neg(%x)#}\nreturn%y}\n# end"),
            "graph graph(%x: f32[s]) {\n  %y: f32[s] = neg(%x)\n  return %y as \"y\"\n}\n");
  EXPECT_EQ(reprint("graph g() { return }"), "graph g() {\n  return\n}\n");
}

TEST(GraphText, TellsTheKindsOfAttributesApart) {
  const Dim s = Dim::symbol("s");
  EXPECT_TRUE(reads("-3", Attribute(std::int64_t{-3})));
  EXPECT_TRUE(reads("-9223372036854775808", Attribute(std::numeric_limits<std::int64_t>::min())));
  EXPECT_TRUE(reads("0.5", Attribute(0.5)));
  EXPECT_TRUE(reads("1e2", Attribute(100.0)));
  EXPECT_TRUE(reads("-inf", Attribute(-INFINITY)));
  EXPECT_TRUE(reads("\"f32\"", Attribute(std::string("f32"))));
  EXPECT_TRUE(reads("bf16", Attribute(DType::BF16)));
  EXPECT_TRUE(reads("[]", Attribute(Ints{})));
  EXPECT_TRUE(reads("[1, -2]", Attribute(Ints{1, -2})));
  EXPECT_TRUE(reads("reals []", Attribute(Doubles{})));
  EXPECT_TRUE(reads("[1, 2.5]", Attribute(Doubles{1, 2.5})));
  EXPECT_TRUE(reads("<>", Attribute(Shape{})));
  EXPECT_TRUE(reads("<s, min(s, 3), 4>", Attribute(Shape{s, min(s, 3), 4})));
  EXPECT_TRUE(std::isnan(std::get<double>(attribute_of("nan"))));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(std::get<double>(attribute_of("nan:0xfff8000000000001"))),
            0xfff8000000000001U);
}

TEST(GraphText, PrintsTensorsByTheirSize) {
  const auto printed = [](std::string_view value, bool full) {
    auto graph = parse_graph_text(with_attribute(value));
    if (!graph) return graph.error().message;
    const std::string text = to_text(*graph, {true, true, full});
    const std::size_t start = text.find("{a = ") + 5;
    return text.substr(start, text.find("}\n", start) - start);
  };
  for (const char* text :
       {"f32[] {1.5}", "f32[0, 3] {}", "f16[2] {0.5, 65504.0}", "bf16[1] {1.25}",
        "f64[2] {0.1, -0.0}", "f32[4] {nan, nan:0xffc00000, nan:0x7f800001, -inf}",
        "i64[2] {-9223372036854775808, 9223372036854775807}", "u8[2] {0, 255}",
        "bool[2] {true, false}", "i32[65] splat -7", "f32[8, 9] splat nan",
        "bool[99] splat true"}) {
    EXPECT_EQ(printed(text, false), text);
  }
  EXPECT_EQ(printed("f16[1] {0.1}", false), "f16[1] {0.099975586}");
  EXPECT_EQ(printed("u8[3] bytes \"0aFF10\"", false), "u8[3] {10, 255, 16}");
  const std::string bytes = printed("i16[65] random 1", true);
  EXPECT_THAT(bytes, StartsWith("i16[65] bytes \""));
  EXPECT_EQ(printed(bytes, true), bytes);
  const std::string hash = printed("f32[65] random 1", false);
  EXPECT_THAT(hash, StartsWith("f32[65] hash \""));
  EXPECT_NE(hash, printed("f32[65] random 2", false));
  EXPECT_THAT(printed(hash, false), HasSubstr("cannot be read from its hash"));
}

TEST(GraphText, RandomTensorsStayInTheirRange) {
  const Attribute reals = attribute_of("f32[1000] random 7");
  double low = 1;
  double high = -1;
  for (int i = 0; i < 1000; ++i) {
    const double value = std::get<Tensor>(reals).get_double(i);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_GE(low, -1);
  EXPECT_LT(high, 1);
  EXPECT_LT(low, -0.98);
  EXPECT_GT(high, 0.98);
  const Attribute integers = attribute_of("i64[1000] random 7");
  std::array<int, 10> counts{};
  for (int i = 0; i < 1000; ++i) {
    ++counts.at(static_cast<std::size_t>(std::get<Tensor>(integers).get_int(i)));
  }
  for (const int count : counts) EXPECT_GT(count, 50);
}

TEST(GraphText, TellsApartValuesOfOneName) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::F32, {}});
  for (const char* name : {"x", "x.1", "x", "3", ""}) {
    graph.add_node("neg", {x}, {}, {x->type()})->result()->set_name(name);
  }
  const std::string text = to_text(graph);
  EXPECT_THAT(text, HasSubstr("  %x.1: f32[] = neg(%x)\n  %x.1.1: f32[] = neg(%x)\n"
                              "  %x.2: f32[] = neg(%x)\n  %\"3\": f32[] = neg(%x)\n"
                              "  %0: f32[] = neg(%x)\n"));
  EXPECT_EQ(reprint(text), text);
}

TEST(GraphText, DeclaresSymbolsThatNoInputDeclares) {
  Graph graph;
  const Dim odd = Dim::symbol("unk__12/x y");
  Value* x = graph.add_input("x", {DType::F32, {odd}});
  graph.add_node("op", {x}, {{"shape", Shape{Dim::symbol("t")}}}, {{DType::F32, {odd * 2}}});
  graph.assume_equal(odd, Dim::symbol("u", {1, 5, 1}), "");
  const std::string text = to_text(graph);
  EXPECT_THAT(text, HasSubstr("t in [0, "));
  EXPECT_THAT(text, HasSubstr("u in [1, 5]"));
  EXPECT_EQ(reprint(text), text);
}

TEST(GraphText, PrintsGraphsThatTheVerifierRefuses) {
  Graph other;
  Value* foreign = other.add_input("x", {DType::F32, {}});
  Graph graph;
  graph.add_node("neg", {foreign}, {}, {foreign->type()});
  EXPECT_THAT(to_text(graph), HasSubstr("neg(%?)"));
}

// Whatever graph there is, its text gives it back.
class RandomGraphs : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraphs, RoundTrip) {
  const Graph graph = testing_support::random_graph(static_cast<unsigned>(GetParam()));
  const std::string text = to_text(graph, {true, true, true});
  auto parsed = parse_graph_text(text);
  ASSERT_TRUE(parsed) << parsed.error().message << "\n" << text;
  EXPECT_TRUE(verify_structure(*parsed));
  EXPECT_EQ(testing_support::difference(graph, *parsed), "") << text;
  EXPECT_EQ(to_text(*parsed, {true, true, true}), text);
}

TEST_P(RandomGraphs, CloneIsTheSame) {
  const Graph graph = testing_support::random_graph(static_cast<unsigned>(GetParam()));
  const Graph copy = graph.clone();
  EXPECT_TRUE(verify_structure(copy));
  EXPECT_EQ(testing_support::difference(graph, copy), "");
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraphs, ::testing::Range(0, 60));

// ---- what must be refused ----

TEST(GraphTextErrors, SayWhereAndWhat) {
  EXPECT_EQ(error_of(""), "line 1, column 1: expected 'graph', found the end of the text");
  EXPECT_EQ(error_of("grapher g() {}"), "line 1, column 1: expected 'graph', found 'grapher'");
  EXPECT_EQ(error_of("graph g()\n{\n  %y = neg(%x)\n  return\n}"),
            "line 3, column 12: 'x' is not defined here");
  EXPECT_EQ(error_of("graph g(%x: f31[2]) { return }"),
            "line 1, column 13: expected a dtype such as f32, found 'f31'");
  EXPECT_EQ(error_of("graph g(%x: f32[2], %x: f32[2]) { return }"),
            "line 1, column 21: 'x' is defined twice");
  EXPECT_EQ(error_of("graph g(%x: f32[-2]) { return }"),
            "line 1, column 17: a size cannot be negative");
  EXPECT_THAT(error_of("graph g(%x: f32[s,]) { return }"), StartsWith("line 1, column 19: "));
  EXPECT_THAT(error_of("graph g(%x: f32[s]) where s in [5, 1] { return }"),
              StartsWith("line 1, column 27: "));
  EXPECT_THAT(error_of("graph g(%x: f32[s]) where s in [1, 5], s in [1, 6] { return }"),
              HasSubstr("declared twice"));
  EXPECT_EQ(error_of("graph g(%x: f32[2]:chwn) { return }"),
            "line 1, column 20: expected a format: plain, nchw or nhwc");
  EXPECT_EQ(error_of("graph g(%x: f32[2]) { %y = neg(%x) return }"),
            "line 1, column 28: the type of 'y' is missing");
  EXPECT_THAT(error_of("graph g(%x: f32[2]) { %y: f32[t] = neg(%x) return }"),
              HasSubstr("unknown symbol 't'"));
  EXPECT_THAT(error_of("graph g(%x: f32[]) { %y: f32[] = neg(%x) @\"a\" operators -1 return }"),
              HasSubstr("stands for 0 to 1048576 operators"));
  EXPECT_EQ(error_of("graph g() { return } graph"),
            "line 1, column 22: expected the end of the text, found 'graph'");
  EXPECT_EQ(error_of("graph g(%0: f32[2]) { return %0 }"),
            "line 1, column 30: an output needs a name: %0 as \"name\"");
  EXPECT_EQ(error_of("graph g() { return %x: }"), "line 1, column 20: 'x' is not defined here");
}

TEST(GraphTextErrors, InAttributes) {
  const auto error = [](std::string_view value) { return error_of(with_attribute(value)); };
  EXPECT_EQ(error(""), "line 2, column 28: expected the value of an attribute, found '}'");
  EXPECT_EQ(error("9223372036854775808"),
            "line 2, column 28: '9223372036854775808' does not fit 64 bits");
  EXPECT_EQ(error("1e999"), "line 2, column 28: expected a number of type f64, found '1e999'");
  EXPECT_EQ(error("1-2"), "line 2, column 28: expected an integer, found '1-2'");
  EXPECT_EQ(error("foo"), "line 2, column 28: expected a number of type f64, found 'foo'");
  EXPECT_EQ(error("1, a = 2"), "line 2, column 31: attribute 'a' is given twice");
  EXPECT_EQ(error("[1, \"a\"]"),
            "line 2, column 32: expected the value of an attribute, found '\"'");
  EXPECT_THAT(error("<s"), StartsWith("line 2, column 29: "));
  EXPECT_THAT(error("<s + q>"), HasSubstr("unknown symbol 'q'"));
  EXPECT_EQ(error("\"a\\q\""),
            "line 2, column 31: unknown escape; known are \\\" \\\\ \\n \\t \\xHH");
  EXPECT_EQ(error_of("graph g() {\n  %y: f32[] = op {a = \"b"),
            "line 2, column 23: the quote is not closed");
}

TEST(GraphTextErrors, InTensors) {
  const auto error = [](std::string_view value) { return error_of(with_attribute(value)); };
  EXPECT_EQ(error("f32[2] {1.0}"), "line 2, column 39: expected 2 elements, found 1");
  EXPECT_EQ(error("f32[1] {1.0, 2.0}"), "line 2, column 39: expected 1 elements, found more");
  EXPECT_EQ(error("f32[0] {1.0}"), "line 2, column 36: expected '}', found '1.0'");
  EXPECT_EQ(error("i8[1] {300}"), "line 2, column 35: 300 does not fit i8");
  EXPECT_EQ(error("u8[1] {-1}"), "line 2, column 35: -1 does not fit u8");
  EXPECT_EQ(error("i32[1] {1.5}"), "line 2, column 36: expected an integer, found '1.5'");
  EXPECT_EQ(error("bool[1] {1}"), "line 2, column 37: expected true or false, found '1'");
  EXPECT_EQ(error("f32[1] {nan:0x1}"),
            "line 2, column 36: expected a number of type f32, found 'nan:0x1'");
  EXPECT_EQ(error("f32[-1] {}"), "line 2, column 32: a size cannot be negative");
  EXPECT_EQ(error("f32[s] {}"), "line 2, column 32: expected an integer, found 's'");
  EXPECT_EQ(error("f32[1] bytes \"00\""),
            "line 2, column 41: expected 8 hexadecimal digits, found 2");
  EXPECT_EQ(error("u8[1] bytes \"0g\""),
            "line 2, column 40: '0g' is no pair of hexadecimal digits");
  EXPECT_EQ(error("f32[1] of them"),
            "line 2, column 35: expected '{', splat, bytes or random, found 'of'");
  for (const char* huge : {"f32[4000000000] splat 1.0", "f32[9223372036854775807, 2] random 1",
                           "i8[1099511627776] {1}", "u8[4294967296, 4294967296] {}"}) {
    EXPECT_THAT(error(huge), HasSubstr("the tensors of this text are too large")) << huge;
  }
  EXPECT_THAT(error("f32[99999999999999999999] {}"), HasSubstr("does not fit 64 bits"));
}

// Texts cut off anywhere and texts with a byte replaced give a graph or a located error.
TEST(GraphTextErrors, DamagedTextsNeverDoHarm) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    const std::string text = to_text(testing_support::random_graph(seed), {true, true, true});
    for (std::size_t length = 0; length + 1 < text.size(); ++length) {
      EXPECT_THAT(error_of(std::string_view(text).substr(0, length)), StartsWith("line "));
    }
    for (std::size_t position = 0; position < text.size(); ++position) {
      for (const char byte : {'\0', '"', '%', '\xff', '(', '9', '<'}) {
        std::string damaged = text;
        damaged[position] = byte;
        const auto graph = parse_graph_text(damaged);
        if (graph) {
          EXPECT_NE(to_text(*graph), "");
        } else {
          EXPECT_THAT(graph.error().message, StartsWith("line "));
        }
      }
    }
  }
}

TEST(GraphTextErrors, HostileTextsNeverDoHarm) {
  const auto repeated = [](std::string_view part, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += part;
    return text;
  };
  constexpr int kMany = 100'000;
  const std::string deep = repeated("(", kMany);
  for (const std::string& text :
       {"graph g(%x: f32[" + deep + "]) { return }",
        "graph g(%x: f32[" + deep + "s" + repeated(")", kMany) + "]) { return }",
        "graph g(%x: f32[" + repeated("-", kMany) + "1, 0]) { return %y }",
        "graph g(%x: f32[s" + repeated("*s", 2000) + "]) { return }",
        with_attribute(repeated("[", kMany)), with_attribute(repeated("<", kMany)),
        with_attribute("f32[" + repeated("1, ", kMany)), with_attribute(repeated("9", kMany)),
        with_attribute("0." + repeated("9", kMany) + "x"), repeated("graph ", kMany),
        repeated("#", kMany), repeated("\"", kMany + 1), std::string(1000, '\0'),
        "graph g(%" + repeated("x", kMany) + ") {"}) {
    const std::string message = error_of(text);
    EXPECT_THAT(message, StartsWith("line ")) << text.substr(0, 60);
  }
  EXPECT_LT(error_of("graph g(%" + repeated("x", kMany) + ": f32[1]) { return %" +
                     repeated("y", kMany) + " }")
                .size(),
            200U);
}

TEST(GraphText, ReadsTenThousandNodesAtOnce) {
  std::string text = "graph g(%0: f32[s]) {\n";
  for (int i = 1; i <= 10'000; ++i) text += fmt::format("%{}: f32[s] = neg(%{})\n", i, i - 1);
  text += "return %10000 as \"y\"\n}";
  const auto start = std::chrono::steady_clock::now();
  auto graph = parse_graph_text(text);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->num_nodes(), 10'000U);
  EXPECT_GT(to_text(*graph).size(), 100'000U);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 2.0);
}

}  // namespace
}  // namespace opweld
