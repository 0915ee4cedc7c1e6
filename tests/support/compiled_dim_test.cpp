// Sizes as instructions, and back.
#include "support/compiled_dim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace opweld {
namespace {

using Instruction = CompiledDim::Instruction;
using Opcode = CompiledDim::Opcode;
using ::testing::HasSubstr;

TEST(CompiledDim, InstructionsGiveItBack) {
  const Dim s = Dim::symbol("s");
  const Dim t = Dim::symbol("t", {0, 1 << 20, 8});
  const std::vector<std::string> names = {"s", "t"};
  for (const Dim& dim : {Dim(0), Dim(-7), s, t, ceil_div(s, 16) * t + 3, min(s * s, 5 - t),
                         max(s, t), mod(s, 7) * 12, round_up(s * t, 64)}) {
    SCOPED_TRACE(dim.to_string());
    const CompiledDim compiled = CompiledDim::compile(dim, names).value();
    const auto again = CompiledDim::from_instructions(compiled.instructions(), names.size());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->is_constant(), compiled.is_constant());
    for (const std::int64_t size : {0, 8, 16, 1000}) {
      const std::int64_t values[] = {size + 1, size};
      EXPECT_EQ(again->evaluate(values).value(),
                dim.evaluate({{"s", size + 1}, {"t", size}}).value());
    }
  }
}

std::string message_of(const std::vector<Instruction>& instructions, std::size_t symbols = 1) {
  const auto dim = CompiledDim::from_instructions(instructions, symbols);
  return dim ? "" : dim.error().message;
}

TEST(CompiledDim, RefusesInstructionsThatLeaveNoValue) {
  const Instruction one = {Opcode::Constant, 0, 1};
  const Instruction add = {Opcode::Add, 0, 0};
  EXPECT_EQ(message_of({one}), "");
  EXPECT_THAT(message_of({}), HasSubstr("0 values"));
  EXPECT_THAT(message_of({one, one}), HasSubstr("2 values"));
  EXPECT_THAT(message_of({add}), HasSubstr("too few"));
  EXPECT_THAT(message_of({one, add}), HasSubstr("too few"));
  EXPECT_THAT(message_of({one, add, one}), HasSubstr("too few"));
  EXPECT_THAT(message_of({{Opcode::Symbol, 1, 1}}), HasSubstr("not there"));
  EXPECT_THAT(message_of({{Opcode::Symbol, 0, 0}}), HasSubstr("not there"));
  EXPECT_THAT(message_of({{static_cast<Opcode>(17), 0, 0}}), HasSubstr("unknown"));
}

TEST(CompiledDim, AnyInstructionsAreEvaluatedOrRefused) {
  std::mt19937 random(1);
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<Instruction> instructions;
    const std::size_t length = 1 + random() % 9;
    for (std::size_t j = 0; j < length; ++j) {
      instructions.push_back({static_cast<Opcode>(random() % 7),
                              static_cast<uint32_t>(random() % 3),
                              static_cast<int64_t>(random() % 5) - 1});
    }
    const auto dim = CompiledDim::from_instructions(instructions, 2);
    if (!dim) continue;
    ++taken;
    const std::int64_t values[] = {std::numeric_limits<std::int64_t>::max(), 3};
    (void)dim->evaluate(values);
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace opweld
