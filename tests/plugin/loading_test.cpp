// Loading plugins: what becomes known, and what is refused, with which words.
#include <cstdlib>
#include <fstream>
#include <thread>

#include "plugin/plugins.h"

namespace opweld {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string load_error(const std::string& path) {
  const auto plugin = load_plugin_library(path);
  return plugin ? "loaded" : plugin.error().message;
}

std::string broken(const std::string& how) {
  setenv("OPWELD_TEST_BROKEN", how.c_str(), 1);
  std::string error = load_error(plugin_path("broken"));
  unsetenv("OPWELD_TEST_BROKEN");
  return error;
}

TEST(LoadPlugin, MakesOperatorsKnown) {
  const Plugin& plugin = sample();
  EXPECT_EQ(plugin.name, "sample");
  EXPECT_EQ(plugin.version, "2.5");
  EXPECT_EQ(plugin.path, plugin_path("sample"));
  ASSERT_EQ(plugin.operators.size(), 9U);
  const OpDef* const blend = find_op("test.sample.Blend");
  ASSERT_EQ(blend, plugin.operators[0]);
  EXPECT_EQ(blend->trait, FusionTrait::Pointwise);
  EXPECT_EQ(blend->origin->plugin, "sample");
  EXPECT_EQ(find_op("test.sample.Split")->trait, FusionTrait::Composite);
  EXPECT_EQ(find_op("test.sample.Join")->trait, FusionTrait::Opaque);
  EXPECT_EQ(find_op("Blend"), nullptr);
}

TEST(LoadPlugin, AgainGivesTheSame) {
  const Plugin& plugin = sample();
  const std::size_t known = all_ops().size();
  EXPECT_EQ(&loaded(plugin_path("../plugins/sample")), &plugin);
  EXPECT_EQ(all_ops().size(), known);
}

TEST(LoadPlugin, ByManyThreadsAtOnce) {
  std::vector<const Plugin*> found(8);
  std::vector<std::thread> threads;
  for (auto& each : found) {
    threads.emplace_back([&each] {
      each = &sample();
      for (int i = 0; i < 1000; ++i) ASSERT_NE(find_op("test.sample.Honest"), nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Plugin* each : found) EXPECT_EQ(each, found[0]);
}

TEST(LoadPlugin, WhatIsNoPlugin) {
  EXPECT_EQ(load_error(""), "plugin '': the path is none");
  EXPECT_THAT(load_error(OPWELD_TEST_PLUGINS), HasSubstr("is a directory"));
  const std::string text = ::testing::TempDir() + "opweld_no_library.so";
  std::ofstream(text) << "no library\n";
  EXPECT_THAT(load_error(text),
              AllOf(HasSubstr(text), HasSubstr("is not a shared library that can be loaded")));
  EXPECT_THAT(load_error(plugin_path("not_a_plugin")),
              AllOf(HasSubstr("not_a_plugin.so"), HasSubstr("no symbol 'opweld_plugin'"),
                    HasSubstr("OPWELD_PLUGIN_EXPORT")));
}

struct Broken {
  const char* how;
  const char* says;
};

class BrokenPlugin : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenPlugin, IsRefusedAndLeavesNothingBehind) {
  sample();
  const std::size_t known = all_ops().size();
  EXPECT_THAT(broken(GetParam().how), AllOf(HasSubstr("broken.so': "), HasSubstr(GetParam().says)));
  EXPECT_EQ(all_ops().size(), known);
  EXPECT_EQ(find_op("test.broken.Op"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BrokenPlugin,
    ::testing::Values(Broken{"null_table", "gives NULL for version 1 of the interface"},
                      Broken{"old_abi",
                             "built for version 0 of the interface, and this Opweld has version 1: "
                             "build it anew"},
                      Broken{"new_abi",
                             "built for version 2 of the interface, and this Opweld has version 1: "
                             "use a newer Opweld"},
                      Broken{"no_plugin_name", "OpweldPlugin.name is no identifier"},
                      Broken{"bad_plugin_name", "OpweldPlugin.name is no identifier"},
                      Broken{"null_ops", "it has 1 operators, and the table is NULL"},
                      Broken{"no_ops", "it has 0 operators"},
                      Broken{"too_many_ops", "it has 1000000000 operators"},
                      Broken{"null_op", "the table of operators holds NULL"},
                      Broken{"no_size", "OpweldOp.size is 0; set it to sizeof(OpweldOp)"},
                      Broken{"huge_size", "OpweldOp.size is 1099511627776"},
                      Broken{"later_member", "declares something that this Opweld does not know"}),
    [](const auto& each) { return std::string(each.param.how); });

INSTANTIATE_TEST_SUITE_P(
    Schema, BrokenPlugin,
    ::testing::Values(
        Broken{"no_name", "the name of an operator, NULL, is no identifier"},
        Broken{"bad_name", "the name of an operator, 'a-b', is no identifier"},
        Broken{"no_domain", "the domain of operator 'Op', NULL"},
        Broken{"empty_domain", "the domain of operator 'Op', ''"},
        Broken{"standard_domain", "'ai.onnx.ml.Op': the domain is that of the standard operators"},
        Broken{"built_in", "operator 'com.microsoft.FastGelu' is built in; use a domain"},
        Broken{"twice", "operator 'test.broken.Op' is defined twice"},
        Broken{"known_elsewhere", "operator 'test.sample.Honest' is defined by plugin 'sample' (/"},
        Broken{"no_operands", "operator 'test.broken.Op': has no operands"},
        Broken{"null_operands", "has 1 operands, but the table is NULL"},
        Broken{"too_many_operands", "18446744073709551615 operands; at most 256"},
        Broken{"no_operand_name", "operand 0 has no name"},
        Broken{"no_dtypes", "operand 'x' admits no element type"},
        Broken{"unknown_dtypes", "operand 'x' admits types that there are not"},
        Broken{"unknown_arity", "the arity of operand 'x' is 9"},
        Broken{"variadic_first", "operand 'x' is variadic and not the last"},
        Broken{"required_behind_optional", "operand 'z' is required and stands behind"},
        Broken{"same_names", "'x' is the name of two things"},
        Broken{"null_attributes", "has 1 attributes, but the table is NULL"},
        Broken{"unknown_kind", "the kind of attribute 'alpha' is 77"},
        Broken{"nan_default", "the default of attribute 'alpha' is NaN"},
        Broken{"null_list", "attribute 'alpha' has 3 default integers, but the table is NULL"},
        Broken{"no_results", "has no results"},
        Broken{"bad_result_dtype", "the dtype of result 'y', 'f33', is neither an operand nor"},
        Broken{"no_result_dtype", "the dtype of result 'y', NULL"},
        Broken{"unknown_flags", "has flags that this Opweld does not know"}),
    [](const auto& each) { return std::string(each.param.how); });

INSTANTIATE_TEST_SUITE_P(
    Meaning, BrokenPlugin,
    ::testing::Values(
        Broken{"bad_shape",
               "the shape of result 'y', '[x[0], ': line 1, column 8: expected a "
               "number, a name or '('"},
        Broken{"no_shape", "does not tell the shapes of its results"},
        Broken{"no_meaning", "has neither compute() nor an expression nor a body"},
        Broken{"two_meanings", "has both an expression and a body"},
        Broken{"variadic_expression", "is variadic, for which there are neither expressions"},
        Broken{"two_results_of_an_expression", "which gives one result, and 2 results"},
        Broken{"expression_syntax",
               "its expression: line 1, column 15: expected ')', found the end of the text"},
        Broken{"expression_name", "its expression: line 1, column 5: 'beta' is neither an operand"},
        Broken{"expression_function", "line 1, column 1: there is no function 'soft'"},
        Broken{"expression_count", "line 1, column 5: exp takes 1 value, not 2"},
        Broken{"expression_type", "line 1, column 3: or is not for f64"},
        Broken{"expression_result", "the expression gives bool, but the result is computed as f64"},
        Broken{"expression_empty", "its expression: line 1, column 1: expected a number"},
        Broken{"expression_list", "line 1, column 1: lists and subscripts belong to shapes"},
        Broken{"expression_shift", "line 1, column 1: shift_left is not for f64"},
        Broken{"body_blank",
               "its body: line 1, column 14: ${nothing}: line 1, column 1: 'nothing' "
               "is neither an operand nor an attribute"},
        Broken{"body_open", "its body: line 1, column 14: '${' is not closed"}),
    [](const auto& each) { return std::string(each.param.how); });

}  // namespace
}  // namespace opweld
