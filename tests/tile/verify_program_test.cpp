// Programs that verify() must refuse, and why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tile/tile_ir.h"

namespace opweld::tile {
namespace {

using ::testing::HasSubstr;

// A program around which each test puts one mistake: x and y of 8 floats, a register buffer of two,
// the loop variables i and j, and the locals v and w.
struct VerifyProgram : ::testing::Test {
  VerifyProgram() {
    program.name = "p";
    program.params = {{"x", DType::F32, {8}, Param::Role::Input, 0, false},
                      {"y", DType::F32, {8}, Param::Role::Output, 0, false}};
    program.buffers = {{"r", DType::F32, {2}, Buffer::Space::Register}};
    program.loop_names = {"i", "j"};
    program.local_names = {"v", "w"};
    program.local_types = {DType::F32, DType::F32};
  }

  Access x(Expr index) { return {Access::Memory::Param, 0, {index}, false}; }
  Access y(Expr index) { return {Access::Memory::Param, 1, {index}, false}; }
  Access r(Expr index) { return {Access::Memory::Buffer, 0, {index}, false}; }
  Expr zero() { return program.exprs.integer(0); }
  Expr loop(int index) { return program.exprs.loop(index); }
  Expr local(int index) { return program.exprs.input(index, DType::F32); }

  Statement for_loop(int index, ForLoop::Kind kind, Block body) {
    ForLoop made;
    made.loop = index;
    made.extent = program.exprs.integer(8);
    made.kind = kind;
    made.body = std::move(body);
    return {std::move(made)};
  }

  void expect_error(const std::string& part) {
    const Status status = verify(program);
    ASSERT_FALSE(status) << to_text(program);
    EXPECT_THAT(status.error().message, HasSubstr(part));
    EXPECT_THAT(status.error().message, HasSubstr("kernel 'p'"));
  }

  TileProgram program;
};

constexpr auto kSerial = ForLoop::Kind::Serial;
constexpr auto kVector = ForLoop::Kind::Vector;

TEST_F(VerifyProgram, AcceptsACopy) {
  program.body = {for_loop(0, kVector, {{Load{0, x(loop(0))}}, {Store{y(loop(0)), local(0)}}})};
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
}

TEST_F(VerifyProgram, RefusesAPrefetchOfWhatIsOnChip) {
  program.body = {{Prefetch{x(zero())}}};
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
  program.body = {{Prefetch{r(zero())}}};
  expect_error("a prefetch from the buffer r");
}

TEST_F(VerifyProgram, RefusesALocalBeforeItsValue) {
  program.body = {{Store{y(zero()), local(0)}}};
  expect_error("local v is read where it has no value");
}

TEST_F(VerifyProgram, RefusesALocalAfterItsBlock) {
  program.body = {for_loop(0, kSerial, {{Load{0, x(loop(0))}}}), {Store{y(zero()), local(0)}}};
  expect_error("local v is read where it has no value");
}

TEST_F(VerifyProgram, RefusesASecondValue) {
  program.body = {{Load{0, x(zero())}}, {Load{0, x(zero())}}};
  expect_error("local v is assigned twice");
}

TEST_F(VerifyProgram, RefusesALoopVariableOutsideItsLoop) {
  program.body = {{Load{0, x(loop(0))}}};
  expect_error("loop variable i is read outside its loop");
}

TEST_F(VerifyProgram, RefusesAVectorLoopInAVectorLoop) {
  program.body = {for_loop(0, kVector, {for_loop(1, kVector, {})})};
  expect_error("vector loop j is inside another");
}

TEST_F(VerifyProgram, RefusesAConditionThatDiffersBetweenLanes) {
  const Expr condition = program.exprs.binary(ExprKind::Lt, loop(0), program.exprs.integer(4));
  program.body = {for_loop(0, kVector, {{If{condition, {}}}})};
  expect_error("the condition of an if differs between the lanes");
}

TEST_F(VerifyProgram, RefusesAKeyThatDiffersBetweenLanes) {
  program.body = {for_loop(0, kVector, {{Keep{loop(0), kNoExpr, {}}}})};
  expect_error("the key of a keep differs between the lanes");
}

TEST_F(VerifyProgram, RefusesAKeepInALoop) {
  program.body = {for_loop(0, kSerial, {{Keep{zero(), kNoExpr, {}}}})};
  expect_error("a keep is inside a loop");
}

TEST_F(VerifyProgram, RefusesTwoKeeps) {
  program.body = {{Keep{zero(), kNoExpr, {}}}, {Keep{zero(), kNoExpr, {}}}};
  expect_error("there are two keeps");
}

TEST_F(VerifyProgram, RefusesToWriteWhatIsKept) {
  program.buffers.push_back({"h", DType::F32, {Dim(4)}, Buffer::Space::Outer});
  const Access h = {
      Access::Memory::Buffer, static_cast<int>(program.buffers.size()) - 1, {zero()}, true};
  const Expr one = program.exprs.constant(1, DType::F32);
  program.body = {{Keep{zero(), kNoExpr, {{Store{h, one}}}}}};
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
  program.body.push_back({Store{h, one}});
  expect_error("h is kept, and written outside of the keep");
}

TEST_F(VerifyProgram, RefusesAnExtentThatDiffersBetweenLanes) {
  auto inner = for_loop(1, kSerial, {});
  std::get<ForLoop>(inner.node).extent = loop(0);
  program.body = {for_loop(0, kVector, {std::move(inner)})};
  expect_error("the extent of a loop differs between the lanes");
}

TEST_F(VerifyProgram, RefusesTooFewIndices) {
  program.body = {{Load{0, {Access::Memory::Param, 0, {}, false}}}};
  expect_error("an access to x has 0 indices for 1 dimensions");
}

TEST_F(VerifyProgram, RefusesAStoreToAnInput) {
  program.body = {{Store{x(zero()), program.exprs.constant(1, DType::F32)}}};
  expect_error("a store to the input x");
}

TEST_F(VerifyProgram, RefusesAStoreOfAnotherType) {
  program.body = {{Store{y(zero()), program.exprs.constant(1, DType::F64)}}};
  expect_error("a stored value is f64 and should be f32");
}

TEST_F(VerifyProgram, RefusesAReductionOutsideItsLoop) {
  program.body = {{Reduce{0, Combiner::Sum, program.exprs.constant(1, DType::F32), kNoExpr, 0}}};
  expect_error("reduction v is not inside the loop it runs over");
}

TEST_F(VerifyProgram, RefusesAReductionReadInsideItsLoop) {
  program.body = {for_loop(0, kVector,
                           {{Load{0, x(loop(0))}},
                            {Reduce{1, Combiner::Sum, local(0), kNoExpr, 0}},
                            {Store{y(loop(0)), local(1)}}})};
  expect_error("local w is read where it has no value");
}

TEST_F(VerifyProgram, RefusesARegisterIndexThatIsNoNumber) {
  program.body = {for_loop(0, kSerial, {{Load{0, r(loop(0))}}})};
  expect_error("the index into register buffer r is no number after unrolling");
}

TEST_F(VerifyProgram, RefusesADotIntoAnotherShape) {
  program.body = {{Dot{}}};
  std::get<Dot>(program.body[0].node).rows = 3;
  expect_error("the accumulator r of a dot is no register buffer of 3 x 0");
}

TEST_F(VerifyProgram, RefusesAFetchAheadThatIsNone) {
  program.buffers[0].shape = {1, 2};
  const auto linear = [](Access access) {
    access.linear = true;
    return access;
  };
  Dot dot;
  dot.a = linear(x(zero()));
  dot.b = linear(x(zero()));
  dot.a_row_stride = dot.a_depth_stride = dot.b_depth_stride = dot.depth = zero();
  dot.rows = 1;
  dot.columns = 2;
  const Expr four = program.exprs.integer(4);
  const auto with = [&](Dot::Ahead ahead) {
    dot.ahead = std::move(ahead);
    program.body = {{dot}};
  };
  with({.start = linear(x(zero())), .stride = four, .rates = {4, 8}});
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
  with({.start = x(zero()), .stride = four, .rates = {4}});
  expect_error("what a dot fetches ahead is no linear access");
  with({.start = linear(x(zero())), .stride = program.exprs.constant(4, DType::F32), .rates = {4}});
  expect_error("what a dot fetches ahead");
  for (const std::vector<int>& rates : {std::vector<int>{}, {0, 4}, {4, 4}, {8, 4}}) {
    with({.start = linear(x(zero())), .stride = four, .rates = rates});
    expect_error("at rates that do not ascend from above 0");
  }
}

// One that is right, but for what each test changes.
MatrixDot matrix_dot(TileProgram& program) {
  program.params[0].dtype = DType::BF16;
  program.buffers.push_back({"c", DType::F32, {32, 32}, Buffer::Space::Cache});
  const Access a = {Access::Memory::Param, 0, {program.exprs.integer(0)}, true};
  MatrixDot dot;
  dot.accumulator = {Access::Memory::Buffer, 1, {program.exprs.integer(0)}, true};
  dot.a = dot.b = a;
  dot.accumulator_row_stride = dot.a_row_stride = dot.depth = program.exprs.integer(32);
  dot.row_count = program.exprs.integer(4);
  return dot;
}

TEST_F(VerifyProgram, AcceptsADotOnAMatrixUnit) {
  program.body = {{matrix_dot(program)}};
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
}

TEST_F(VerifyProgram, RefusesADotOnAMatrixUnitIntoRegisters) {
  MatrixDot dot = matrix_dot(program);
  dot.accumulator.target = 0;
  program.body = {{dot}};
  expect_error("the accumulator r of a matrix_dot is no cache buffer of f32");
}

TEST_F(VerifyProgram, RefusesADotOnAMatrixUnitOfFloats) {
  MatrixDot dot = matrix_dot(program);
  program.params[0].dtype = DType::F32;
  program.body = {{dot}};
  expect_error("a matrix_dot reads f32");
}

TEST_F(VerifyProgram, RefusesADotOnAMatrixUnitInAVectorLoop) {
  program.body = {for_loop(0, kVector, {{matrix_dot(program)}})};
  expect_error("a matrix_dot is inside a vector loop");
}

// Ones that are right, but for what each test changes.
Transpose transpose(TileProgram& program) {
  program.buffers.push_back({"t", DType::F32, {16, 16}, Buffer::Space::Cache});
  Transpose transpose;
  transpose.to = {Access::Memory::Buffer, 1, {program.exprs.integer(0)}, true};
  transpose.from = {Access::Memory::Param, 0, {program.exprs.integer(0)}, true};
  transpose.to_row_stride = program.exprs.integer(16);
  transpose.from_row_stride = transpose.rows = program.exprs.integer(2);
  transpose.columns = program.exprs.integer(4);
  return transpose;
}

StorePair store_pair(TileProgram& program) {
  program.buffers.push_back({"t", DType::BF16, {16}, Buffer::Space::Cache});
  const Expr one = program.exprs.constant(1, DType::F32);
  return {{Access::Memory::Buffer, 1, {program.exprs.integer(7)}, true}, one, one};
}

TEST_F(VerifyProgram, AcceptsATransposeAndAPair) {
  program.body = {{transpose(program)}};
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
  program.buffers.pop_back();
  program.body = {for_loop(0, kVector, {{store_pair(program)}})};
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
}

TEST_F(VerifyProgram, RefusesATransposeIntoRegisters) {
  Transpose each = transpose(program);
  each.to.target = 0;
  program.body = {{each}};
  expect_error("a transpose into r, which is no cache buffer");
}

TEST_F(VerifyProgram, RefusesATransposeOfAnotherType) {
  program.body = {{transpose(program)}};
  program.buffers.back().dtype = DType::BF16;
  expect_error("a transpose of f32 into bf16");
  program.buffers.back().dtype = program.params[0].dtype = DType::I64;
  expect_error("a transpose of i64");
}

TEST_F(VerifyProgram, RefusesATransposeOfPairsOfWords) {
  Transpose each = transpose(program);
  each.pairs = true;
  program.body = {{each}};
  expect_error("a transpose of pairs of f32");
}

TEST_F(VerifyProgram, RefusesATransposeInAVectorLoop) {
  program.body = {for_loop(0, kVector, {{transpose(program)}})};
  expect_error("a transpose is inside a vector loop");
}

TEST_F(VerifyProgram, RefusesAPairOfAnotherType) {
  program.body = {{store_pair(program)}};
  program.buffers.back().dtype = DType::F16;
  expect_error("a store_pair into f16");
}

TEST_F(VerifyProgram, RefusesAPairOutsideOfTheChip) {
  StorePair each = store_pair(program);
  each.to = {Access::Memory::Param, 1, {zero()}, true};
  program.body = {{each}};
  expect_error("a store_pair into y, which is no cache buffer");
}

TEST_F(VerifyProgram, RefusesAPairOfIntegers) {
  StorePair each = store_pair(program);
  each.second = zero();
  program.body = {{each}};
  expect_error("a value of a pair is i64 and should be f32");
}

TEST_F(VerifyProgram, AcceptsInterleavedValues) {
  const Expr one = program.exprs.constant(1, DType::F32);
  program.body = {{StoreInterleaved{y(zero()), one, one}}};
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
}

TEST_F(VerifyProgram, RefusesInterleavedValuesElsewhereThanInMemory) {
  const Expr one = program.exprs.constant(1, DType::F32);
  program.body = {{StoreInterleaved{r(zero()), one, one}}};
  expect_error("a store_interleaved into registers");
  program.body = {{StoreInterleaved{x(zero()), one, one}}};
  expect_error("a store to the input x");
}

TEST_F(VerifyProgram, RefusesInterleavedValuesOfAnotherType) {
  const Expr one = program.exprs.constant(1, DType::F32);
  program.body = {{StoreInterleaved{y(zero()), one, zero()}}};
  expect_error("a stored value is i64 and should be f32");
}

TEST_F(VerifyProgram, RefusesAGridThatDependsOnALoop) {
  program.grid = {{0, program.exprs.integer(4), 1}, {1, loop(0), 1}};
  expect_error("a grid axis depends on more than sizes");
}

TEST_F(VerifyProgram, RefusesToShowANumberOfEachLane) {
  program.body = {for_loop(0, kVector, {{Check{program.exprs.constant(1, DType::Bool), "m", {}}}})};
  EXPECT_TRUE(verify(program)) << verify(program).error().message;
  std::get<Check>(std::get<ForLoop>(program.body[0].node).body[0].node).shown = {{"at", loop(0)}};
  expect_error("a number that a check shows differs between the lanes of a vector loop");
}

TEST_F(VerifyProgram, RefusesToShowWhatIsNoNumber) {
  program.body = {{Check{program.exprs.constant(1, DType::Bool),
                         "m",
                         {{"at", program.exprs.constant(1, DType::F32)}}}}};
  expect_error("a number that a check shows is f32 and should be i64");
}

TEST_F(VerifyProgram, RefusesTwoThingsOfOneName) {
  program.local_names = {"v", "x"};
  expect_error("the name 'x' is taken or empty");
}

TEST_F(VerifyProgram, AcceptsAnArrivalAtACounter) {
  program.params.push_back({"n", DType::I32, {2}, Param::Role::Counter, 0, false});
  program.local_types = {DType::Bool, DType::F32};
  program.body = {
      {Arrive{0, {Access::Memory::Param, 2, {zero()}, false}, program.exprs.integer(4)}}};
  EXPECT_TRUE(verify(program));
  EXPECT_THAT(to_text(program), HasSubstr("arrive v <- n[0] of 4"));
}

TEST_F(VerifyProgram, RefusesAnArrivalElsewhere) {
  program.local_types = {DType::Bool, DType::F32};
  program.body = {{Arrive{0, y(zero()), program.exprs.integer(4)}}};
  expect_error("an arrival at y, which is no counter");
}

TEST_F(VerifyProgram, RefusesAStoreToACounter) {
  program.params.push_back({"n", DType::I32, {2}, Param::Role::Counter, 0, false});
  const Access counter{Access::Memory::Param, 2, {zero()}, false};
  program.body = {{Store{counter, program.exprs.integer(1, DType::I32)}}};
  expect_error("a store to the counter n");
}

TEST_F(VerifyProgram, RefusesAnOutputBehindWhatTasksShare) {
  program.params.push_back({"n", DType::I32, {2}, Param::Role::Counter, 0, false});
  program.params.push_back({"z", DType::F32, {8}, Param::Role::Output, 0, false});
  expect_error("z comes after what tasks share");
}

}  // namespace
}  // namespace opweld::tile
