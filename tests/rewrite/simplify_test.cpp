#include "rewrite/simplify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/builder.h"
#include "ops/reference.h"
#include "rewrite/dce.h"

namespace opweld {
namespace {

// Fills an input with all kinds of numbers of its dtype.
Tensor input_of(const Value* input) {
  Tensor x = Tensor::allocate(input->dtype(), evaluate(input->shape(), {{"n", 4}}).value()).value();
  const double inf = std::numeric_limits<double>::infinity();
  const double values[] = {0.0, -0.0, inf, -inf, std::nan(""), 1.7, -3.3e-39, 3e38, -6e-8, 65504};
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    if (is_float(x.dtype())) {
      x.set_double(i, i < 10 ? values[i] : static_cast<double>(i));
    } else {
      x.set_int(i, i % 2 == 0 ? -i : 100 * i);
    }
  }
  return x;
}

// Simplifies, checks that every bit of the result stays, and returns the operators that are left.
std::string simplified_graph(const std::string& text) {
  auto parsed = parse_graph(text);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message) << text;
  if (!parsed) return {};
  Graph graph = std::move(*parsed);
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) inputs.push_back(input_of(input));
  const auto before = evaluate(graph, inputs).value();
  EXPECT_TRUE(simplify(graph));
  EXPECT_TRUE(eliminate_dead_code(graph));
  const Status sound = verify(graph);
  EXPECT_TRUE(sound) << sound.error().message;
  const auto after = evaluate(graph, inputs).value();
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(identical(before[i], after[i]));
  std::string left;
  for (const auto& node : graph.nodes()) {
    if (node->op() != "constant") left += node->op() + " ";
  }
  return left;
}

// The same of a body over x of ten elements.
std::string simplified(const std::string& body, const std::string& dtype = "f32") {
  return simplified_graph("graph g(%x: " + dtype + "[10]) {" + body + "\n return %y as \"y\" }");
}

// The same of a body over x[2, 3, 1, n].
std::string simplified_view(const std::string& body) {
  return simplified_graph("graph g(%x: f32[2, 3, 1, n]) {" + body + "\n return %y as \"y\" }");
}

TEST(Simplify, ReplacesOperatorsByCheaperOnesOfEqualValue) {
  EXPECT_EQ(simplified("%c = constant {value = f32[] {2.0}}\n %y = pow(%x, %c)"), "mul ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {8.0}}\n %y = div(%x, %c)"), "mul ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {1.0}}\n %a = mul(%x, %c)\n %y = exp(%a)"),
            "exp ");
  EXPECT_EQ(simplified("%a = transpose(%x) {permutation = [0]}\n %y = exp(%a)"), "exp ");
  EXPECT_EQ(simplified("%a = reshape(%x) {shape = <10>}\n %y = exp(%a)"), "exp ");
}

TEST(Simplify, LeavesWhatWouldChangeABit) {
  EXPECT_EQ(simplified("%c = constant {value = f32[] {3.0}}\n %y = div(%x, %c)"), "div ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {0.0}}\n %y = mul(%x, %c)"), "mul ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {0.0}}\n %y = add(%x, %c)"), "add ");
  // The constant widens the result.
  EXPECT_EQ(simplified("%c = constant {value = f32[1, 1] {1.0}}\n %y = mul(%x, %c)"), "mul ");
}

TEST(Simplify, ConstantsThatDoNothing) {
  EXPECT_EQ(simplified("%c = constant {value = f32[] {1.0}}\n %a = mul(%c, %x)\n %y = exp(%a)"),
            "exp ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {1.0}}\n %a = div(%x, %c)\n %y = exp(%a)"),
            "exp ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {-0.0}}\n %a = add(%x, %c)\n %y = exp(%a)"),
            "exp ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {0.0}}\n %a = sub(%x, %c)\n %y = exp(%a)"),
            "exp ");
  EXPECT_EQ(
      simplified("%c = constant {value = i32[] {0}}\n %a = add(%c, %x)\n %y = neg(%a)", "i32"),
      "neg ");
  // x - -0.0 and 0 - x are not x.
  EXPECT_EQ(simplified("%c = constant {value = f32[] {-0.0}}\n %y = sub(%x, %c)"), "sub ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {0.0}}\n %y = sub(%c, %x)"), "sub ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {1.0}}\n %y = div(%c, %x)"), "div ");
}

TEST(Simplify, QuotientsByPowersOfTwo) {
  EXPECT_EQ(simplified("%c = constant {value = f16[] {-4.0}}\n %y = div(%x, %c)", "f16"), "mul ");
  // The reciprocal would be a denormal, or be zero.
  EXPECT_EQ(simplified("%c = constant {value = f16[] {32768.0}}\n %y = div(%x, %c)", "f16"),
            "div ");
  EXPECT_EQ(simplified("%c = constant {value = f32[] {1.7014118346046923e38}}\n"
                       "%y = div(%x, %c)"),
            "div ");
}

TEST(Simplify, WhatUndoesItself) {
  EXPECT_EQ(simplified("%a = neg(%x)\n %b = neg(%a)\n %y = exp(%b)"), "exp ");
  EXPECT_EQ(simplified("%n = is_nan(%x)\n %o = not(%n)\n %b = not(%o)\n %y = not(%b)"),
            "is_nan not ");
  EXPECT_EQ(simplified("%n = is_nan(%x)\n %o = not(%n)\n %e = exp(%x)\n"
                       "%y = select(%o, %x, %e)"),
            "is_nan exp select ");
}

TEST(Simplify, SelectionsByConstants) {
  const std::string either = "%e = exp(%x)\n %n = neg(%x)\n";
  EXPECT_EQ(simplified(either + "%c = constant {value = bool[10] splat true}\n"
                                "%y = select(%c, %e, %n)"),
            "exp ");
  EXPECT_EQ(simplified(either + "%c = constant {value = bool[] {false}}\n"
                                "%y = select(%c, %e, %n)"),
            "neg ");
  // What is chosen is smaller than the result, or the choice varies.
  EXPECT_EQ(simplified("%c = constant {value = bool[] {true}}\n"
                       "%s = constant {value = f32[] {1.0}}\n %y = select(%c, %s, %x)"),
            "select ");
  EXPECT_EQ(simplified(either + "%c = constant {value = bool[10] {true, true, true, true, true, "
                                "true, true, true, true, false}}\n %y = select(%c, %e, %n)"),
            "exp neg select ");
}

TEST(Simplify, CastsThroughWhatHoldsAllNumbers) {
  const auto there_and_back = [](const std::string& from, const std::string& through,
                                 const std::string& to) {
    return simplified("%a = cast(%x) {to = " + through + "}\n %y = cast(%a) {to = " + to + "}",
                      from);
  };
  for (const char* half : {"f16", "bf16"}) {
    EXPECT_EQ(there_and_back(half, "f32", half), "");
    EXPECT_EQ(there_and_back(half, "f64", "f32"), "cast ");
    EXPECT_EQ(there_and_back(half, "f32", "i32"), "cast ");
    EXPECT_EQ(there_and_back("f32", half, "f32"), "cast cast ");
  }
  EXPECT_EQ(there_and_back("f32", "f64", "f32"), "");
  EXPECT_EQ(there_and_back("f64", "f32", "f64"), "cast cast ");
  EXPECT_EQ(there_and_back("f16", "bf16", "f16"), "cast cast ");
  EXPECT_EQ(there_and_back("bf16", "f16", "bf16"), "cast cast ");
  EXPECT_EQ(there_and_back("i32", "i64", "i32"), "");
  EXPECT_EQ(there_and_back("i32", "f64", "i32"), "");
  EXPECT_EQ(there_and_back("i32", "f32", "i32"), "cast cast ");
  EXPECT_EQ(there_and_back("i8", "f16", "f32"), "cast ");
  EXPECT_EQ(there_and_back("i16", "f16", "f32"), "cast cast ");
  EXPECT_EQ(there_and_back("u8", "i8", "u8"), "cast cast ");
  EXPECT_EQ(there_and_back("i8", "u8", "i8"), "cast cast ");
  EXPECT_EQ(there_and_back("bool", "i64", "bool"), "");
  EXPECT_EQ(there_and_back("i32", "bool", "i32"), "cast cast ");
}

TEST(Simplify, TransposesMeet) {
  EXPECT_EQ(simplified_view("%a = transpose(%x) {permutation = [0, 3, 1, 2]}\n"
                            "%b = transpose(%a) {permutation = [0, 2, 3, 1]}\n %y = exp(%b)"),
            "exp ");
  EXPECT_EQ(simplified_view("%a = transpose(%x) {permutation = [1, 0, 3, 2]}\n"
                            "%b = transpose(%a) {permutation = [0, 2, 1, 3]}\n %y = exp(%b)"),
            "transpose exp ");
  // Only the axis of one element moves.
  EXPECT_EQ(simplified_view("%y = transpose(%x) {permutation = [0, 2, 1, 3]}"), "reshape ");
  EXPECT_EQ(simplified_view("%y = transpose(%x) {permutation = [0, 2, 3, 1]}"), "transpose ");
}

TEST(Simplify, ProductsOfJoinedRowsKeepThemApart) {
  const auto product = [](const std::string& rest, const std::string& outputs = "%y as \"y\"") {
    return simplified_graph(
        "graph g(%x: f32[2, n, 8], %w: f32[8, 6], %c: f32[6], %d: f32[1, 6]) {\n"
        "%r = reshape(%x) {shape = <2*n, 8>}\n %p = matmul(%r, %w)\n" +
        rest + "\n return " + outputs + " }");
  };
  EXPECT_EQ(product("%y = reshape(%p) {shape = <2, n, 6>}"), "matmul ");
  EXPECT_EQ(product("%y = reshape(%p) {shape = <2, n, 2, 3>}"), "matmul reshape ");
  EXPECT_EQ(product("%q = add(%c, %p)\n %y = reshape(%q) {shape = <2, n, 6>}"), "matmul add ");
  // They come apart in another way than they were joined, and perhaps so do the columns.
  EXPECT_EQ(product("%y = reshape(%p) {shape = <n, 2, 6>}"), "reshape matmul ");
  EXPECT_EQ(simplified_graph("graph g(%x: f32[2, n, 4, 2], %w: f32[8, 6]) {\n"
                             "%r = reshape(%x) {shape = <2*n, 8>}\n %p = matmul(%r, %w)\n"
                             "%y = reshape(%p) {shape = <2, n, 6>}\n return %y as \"y\" }"),
            "reshape matmul ");
  // The rows stay joined, or are read as they are.
  EXPECT_EQ(product("%y = exp(%p)"), "reshape matmul exp ");
  EXPECT_EQ(product("%y = reshape(%p) {shape = <6, 2*n>}"), "reshape matmul reshape ");
  EXPECT_EQ(product("%y = reshape(%p) {shape = <1, 12*n>}"), "reshape matmul reshape ");
  EXPECT_EQ(product("%q = add(%d, %p)\n %y = reshape(%q) {shape = <2, n, 6>}"),
            "reshape matmul add reshape ");
  EXPECT_EQ(product("%y = reshape(%p) {shape = <2, n, 6>}", "%y as \"y\", %p as \"p\""),
            "reshape matmul reshape ");
}

TEST(Simplify, ReshapesAndExpandsMeet) {
  EXPECT_EQ(simplified_view("%a = reshape(%x) {shape = <6, n>}\n"
                            "%b = reshape(%a) {shape = <2, 3, 1, n>}\n %y = exp(%b)"),
            "exp ");
  EXPECT_EQ(simplified_view("%a = reshape(%x) {shape = <6, n>}\n %y = reshape(%a) {shape = <6*n>}"),
            "reshape ");
  EXPECT_EQ(simplified_view("%a = expand(%x) {shape = <2, 3, 4, n>}\n"
                            "%y = expand(%a) {shape = <5, 2, 3, 4, n>}"),
            "expand ");
  EXPECT_EQ(simplified_view("%y = tile(%x) {repeats = <1, 1, 1, 1>}"), "");
  EXPECT_EQ(simplified_view("%y = pad(%x) {before = <0, 0, 0, 0>, after = <0, 0, 0, 0>, "
                            "mode = \"constant\"}"),
            "");
  EXPECT_EQ(simplified_view("%y = pad(%x) {before = <0, 0, 0, 1>, after = <0, 0, 0, 0>, "
                            "mode = \"constant\"}"),
            "pad ");
}

TEST(Simplify, ReductionsKeepTheAxesThatComeBack) {
  EXPECT_EQ(simplified_view("%a = reduce_max(%x) {axes = [-1, 1], keepdims = 0}\n"
                            "%y = reshape(%a) {shape = <2, 1, 1, 1>}"),
            "reduce_max ");
  EXPECT_EQ(simplified_view("%a = reduce_max(%x) {axes = [3], keepdims = 0}\n"
                            "%y = reshape(%a) {shape = <2, 3, 1>}"),
            "reduce_max ");
  EXPECT_EQ(simplified_view("%a = reduce_max(%x) {axes = [3], keepdims = 0}\n"
                            "%y = reshape(%a) {shape = <1, 2, 3, 1>}"),
            "reduce_max reshape ");
}

TEST(Simplify, SlicesMeet) {
  const std::string first =
      "%a = slice(%x) {starts = <0, 0, 0, 0>, sizes = <2, 1, 1, n>, steps = [1, 1, 1, 1]}\n";
  const std::string rest =
      "%b = slice(%x) {starts = <0, 1, 0, 0>, sizes = <2, 2, 1, n>, steps = [1, 1, 1, 1]}\n";
  EXPECT_EQ(simplified_view(first + rest + "%y = concat(%a, %b) {axis = 1}"), "");
  EXPECT_EQ(simplified_view(first + rest + "%y = concat(%b, %a) {axis = 1}"),
            "slice slice concat ");
  EXPECT_EQ(simplified_view(first + "%y = concat(%a) {axis = 1}"), "slice ");
  EXPECT_EQ(simplified_view("%y = slice(%x) {starts = <0, 0, 0, 0>, sizes = <2, 3, 1, n>, "
                            "steps = [1, 1, 1, 1]}"),
            "");
  // A step of -1 turns the order round.
  EXPECT_EQ(simplified_view("%y = slice(%x) {starts = <0, 2, 0, 0>, sizes = <2, 3, 1, n>, "
                            "steps = [1, -1, 1, 1]}"),
            "slice ");
}

TEST(Simplify, ConcatLeavesOutWhatIsEmpty) {
  EXPECT_EQ(simplified_graph("graph g(%x: f32[2, n], %z: f32[0, n]) {\n"
                             "%a = concat(%z, %x, %z) {axis = 0}\n %y = exp(%a)\n"
                             "return %y as \"y\" }"),
            "exp ");
  EXPECT_EQ(simplified_graph("graph g(%x: f32[2, n], %z: f32[0, n]) {\n"
                             "%y = concat(%x, %z, %x) {axis = 0}\n return %y as \"y\" }"),
            "concat ");
}

}  // namespace
}  // namespace opweld
