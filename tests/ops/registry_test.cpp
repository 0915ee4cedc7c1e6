// What must hold for the definition of every operator.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ops/op.h"

namespace opweld {
namespace {

class EveryOperator : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOperator, IsFoundByItsName) {
  const OpDef& def = *GetParam();
  EXPECT_EQ(find_op(def.name), &def);
  EXPECT_FALSE(def.summary.empty());
  EXPECT_TRUE(std::all_of(def.name.begin(), def.name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  })) << "names are snake_case";
}

TEST_P(EveryOperator, HasTheRulesThatItsTraitAsksFor) {
  const OpDef& def = *GetParam();
  EXPECT_NE(def.infer, nullptr);
  EXPECT_EQ(def.scalar != nullptr, def.trait == FusionTrait::Pointwise);
  EXPECT_EQ(def.body != nullptr, def.trait == FusionTrait::Composite);
  EXPECT_EQ(def.operands.empty(), def.trait == FusionTrait::Source);
  // The evaluator itself knows constants and expands bodies.
  EXPECT_TRUE(def.evaluate != nullptr || def.body != nullptr || def.name == "constant");
}

TEST_P(EveryOperator, HasAnUnambiguousSchema) {
  const OpDef& def = *GetParam();
  std::set<std::string_view> names;
  bool optional = false;
  for (std::size_t i = 0; i < def.operands.size(); ++i) {
    const OperandDef& operand = def.operands[i];
    EXPECT_TRUE(names.insert(operand.name).second) << operand.name;
    EXPECT_NE(operand.dtypes, 0) << operand.name << " admits nothing";
    const bool last = i + 1 == def.operands.size();
    EXPECT_TRUE(last || operand.arity != OperandDef::Arity::Variadic) << operand.name;
    EXPECT_TRUE(!optional || operand.arity == OperandDef::Arity::Optional) << operand.name;
    optional = operand.arity == OperandDef::Arity::Optional;
  }
  names.clear();
  for (const AttributeDef& attribute : def.attributes) {
    EXPECT_TRUE(names.insert(attribute.name).second) << attribute.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryOperator, ::testing::ValuesIn(all_ops()),
                         [](const auto& op) { return std::string(op.param->name); });

TEST(Registry, IsSortedByName) {
  const auto ops = all_ops();
  EXPECT_GT(ops.size(), 1U);
  EXPECT_TRUE(std::is_sorted(ops.begin(), ops.end(),
                             [](const OpDef* a, const OpDef* b) { return a->name < b->name; }));
}

TEST(Registry, KnowsNothingElse) {
  EXPECT_EQ(find_op(""), nullptr);
  EXPECT_EQ(find_op("Add"), nullptr);
  EXPECT_EQ(find_op("add "), nullptr);
}

}  // namespace
}  // namespace opweld
