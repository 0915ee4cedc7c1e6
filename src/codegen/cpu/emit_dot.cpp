// The shape of the loop decides whether LLVM keeps the tile in registers: one block per loop, one
// phi per accumulator beside the counter, and in each step the operand with fewer vectors held
// while the other streams. With 6 x 2 vectors that is 12 accumulators, 2 vectors of b and one
// broadcast of a, out of 16 registers.
#include "codegen/cpu/emit_dot.h"

#include <cassert>

#include "codegen/cpu/operations.h"

namespace opweld::cpu {
namespace {

// How many steps of depth a loop iteration takes.
constexpr int kDepthUnroll = 4;

// The widest vectors that rows of the tile are made of.
int dot_lanes(const tile::Dot& dot, int full_lanes) {
  const int columns = dot.b_panel_columns != 0 ? dot.b_panel_columns : dot.columns;
  int lanes = full_lanes;
  while (columns % lanes != 0) lanes /= 2;
  return lanes;
}

}  // namespace

void DotEmitter::emit(const tile::Dot& dot) {
  auto& builder = emission_.builder;
  const Operands operands = this->operands(dot);
  const auto for_each_vector = [&](const auto& visit) {
    for (int row = 0; row < dot.rows; ++row) {
      for (int vector = 0; vector < operands.vectors; ++vector) {
        visit(accumulator_address(operands, row, vector));
      }
    }
  };
  Tile tile;
  for_each_vector([&](llvm::Value* address) {
    tile.push_back(builder.CreateAlignedLoad(operands.accumulator_type, address, llvm::Align(4)));
  });
  llvm::Value* const depth = exprs_.value(dot.depth);
  llvm::Value* const whole = builder.CreateAnd(depth, builder.getInt64(-kDepthUnroll));
  tile = main_loop(operands, tile, whole,
                   dot.ahead ? std::span<const int>(dot.ahead->rates) : std::span<const int>());
  // A step by itself is the rest of a depth: not worth fetching for.
  tile = loop(operands, std::move(tile), whole, depth, 1, 0);
  std::size_t next = 0;
  for_each_vector([&](llvm::Value* address) {
    builder.CreateAlignedStore(tile[next++], address, llvm::Align(4));
  });
}

DotEmitter::Operands DotEmitter::operands(const tile::Dot& dot) {
  auto& builder = emission_.builder;
  const tile::Buffer& buffer = emission_.program.buffers[static_cast<std::size_t>(dot.accumulator)];
  Operands operands;
  operands.dot = &dot;
  operands.lanes = dot_lanes(dot, emission_.vector_bits / 8 / byte_size(buffer.dtype));
  operands.vectors = dot.columns / operands.lanes;
  operands.accumulator_type = llvm::FixedVectorType::get(emission_.scalar_type(buffer.dtype),
                                                         static_cast<unsigned>(operands.lanes));
  operands.a_dtype = tile::memory_dtype(emission_.program, dot.a);
  operands.b_dtype = tile::memory_dtype(emission_.program, dot.b);
  operands.a = memory_.address(dot.a);
  operands.b = memory_.address(dot.b);
  operands.a_row_stride = exprs_.value(dot.a_row_stride);
  operands.a_depth_stride = exprs_.value(dot.a_depth_stride);
  operands.b_depth_stride = exprs_.value(dot.b_depth_stride);
  for (int vector = 0; vector < operands.vectors; ++vector) {
    const int column = vector * operands.lanes;
    const int panel = dot.b_panel_columns == 0 ? 0 : column / dot.b_panel_columns;
    llvm::Value* offset =
        builder.getInt64(static_cast<std::uint64_t>(column - panel * dot.b_panel_columns));
    if (panel != 0) {
      llvm::Value* const panels = builder.getInt64(static_cast<std::uint64_t>(panel));
      offset =
          builder.CreateAdd(builder.CreateMul(panels, exprs_.value(dot.b_panel_stride)), offset);
    }
    operands.b_offsets.push_back(offset);
  }
  if (dot.ahead) {
    operands.ahead = memory_.address(dot.ahead->start);
    operands.ahead_stride = exprs_.value(dot.ahead->stride);
  }
  return operands;
}

DotEmitter::Tile DotEmitter::main_loop(const Operands& operands, const Tile& tile, llvm::Value* end,
                                       std::span<const int> rates) {
  auto& builder = emission_.builder;
  const int rate = rates.empty() ? 0 : rates.front();
  const auto run = [&] {
    return loop(operands, tile, builder.getInt64(0), end, kDepthUnroll, rate);
  };
  if (rates.size() <= 1) return run();

  llvm::Value* const enough = builder.CreateICmpSLE(
      operands.ahead_stride, builder.getInt64(static_cast<std::uint64_t>(rate)));
  return emission_.branch(enough, run,
                          [&] { return main_loop(operands, tile, end, rates.subspan(1)); });
}

DotEmitter::Tile DotEmitter::loop(const Operands& operands, Tile tile, llvm::Value* begin,
                                  llvm::Value* end, int steps, int ahead_rate) {
  auto& builder = emission_.builder;
  llvm::BasicBlock* const before = builder.GetInsertBlock();
  llvm::BasicBlock* const body = emission_.new_block("depth");
  llvm::BasicBlock* const after = emission_.new_block("depth.end");
  builder.CreateCondBr(builder.CreateICmpSLT(begin, end), body, after);

  builder.SetInsertPoint(body);
  auto* const k = builder.CreatePHI(builder.getInt64Ty(), 2, "k");
  k->addIncoming(begin, before);
  std::vector<llvm::PHINode*> phis;
  Tile inside;
  for (llvm::Value* const accumulator : tile) {
    phis.push_back(builder.CreatePHI(operands.accumulator_type, 2));
    phis.back()->addIncoming(accumulator, before);
    inside.push_back(phis.back());
  }
  if (ahead_rate > 0) fetch_ahead(operands, k, steps, ahead_rate);
  for (int i = 0; i < steps; ++i) {
    step(operands, inside,
         i == 0 ? k : builder.CreateNUWAdd(k, builder.getInt64(static_cast<std::uint64_t>(i))));
  }
  llvm::Value* const next =
      builder.CreateNUWAdd(k, builder.getInt64(static_cast<std::uint64_t>(steps)));
  k->addIncoming(next, body);
  for (std::size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(inside[i], body);
  builder.CreateCondBr(builder.CreateICmpSLT(next, end), body, after);

  builder.SetInsertPoint(after);
  for (std::size_t i = 0; i < tile.size(); ++i) {
    auto* const merged = builder.CreatePHI(operands.accumulator_type, 2);
    merged->addIncoming(tile[i], before);
    merged->addIncoming(inside[i], body);
    tile[i] = merged;
  }
  return tile;
}

void DotEmitter::fetch_ahead(const Operands& operands, llvm::Value* k, int steps, int rate) {
  auto& builder = emission_.builder;
  const int element = byte_size(tile::memory_dtype(emission_.program, operands.dot->ahead->start));
  const int bytes = rate * element;
  llvm::Value* const offset =
      builder.CreateMul(builder.CreateMul(k, operands.ahead_stride),
                        builder.getInt64(static_cast<std::uint64_t>(element)));
  for (int byte = 0; byte < steps * bytes; byte += kCacheLine) {
    llvm::Value* const at =
        builder.CreateAdd(offset, builder.getInt64(static_cast<std::uint64_t>(byte)));
    // To read, kept in the second-level cache and beyond, as data.
    builder.CreateIntrinsic(llvm::Intrinsic::prefetch, {operands.ahead->getType()},
                            {builder.CreateGEP(builder.getInt8Ty(), operands.ahead, at),
                             builder.getInt32(0), builder.getInt32(2), builder.getInt32(1)});
  }
}

void DotEmitter::step(const Operands& operands, Tile& tile, llvm::Value* k) {
  const int rows = operands.dot->rows;
  const int vectors = operands.vectors;
  const auto accumulate = [&](int row, int vector, llvm::Value* a, llvm::Value* b) {
    llvm::Value*& accumulator =
        tile[static_cast<std::size_t>(row) * static_cast<std::size_t>(vectors) +
             static_cast<std::size_t>(vector)];
    accumulator = multiply_add(a, b, accumulator);
  };
  std::vector<llvm::Value*> held;
  if (vectors <= rows) {
    for (int vector = 0; vector < vectors; ++vector) held.push_back(load_b(operands, vector, k));
    for (int row = 0; row < rows; ++row) {
      llvm::Value* const a = load_a(operands, row, k);
      for (int vector = 0; vector < vectors; ++vector) {
        accumulate(row, vector, a, held[static_cast<std::size_t>(vector)]);
      }
    }
    return;
  }
  for (int row = 0; row < rows; ++row) held.push_back(load_a(operands, row, k));
  for (int vector = 0; vector < vectors; ++vector) {
    llvm::Value* const b = load_b(operands, vector, k);
    for (int row = 0; row < rows; ++row) {
      accumulate(row, vector, held[static_cast<std::size_t>(row)], b);
    }
  }
}

llvm::Value* DotEmitter::load_a(const Operands& operands, int row, llvm::Value* k) {
  auto& builder = emission_.builder;
  llvm::Type* const type = emission_.storage_type(operands.a_dtype);
  llvm::Value* const row_offset =
      builder.CreateMul(builder.getInt64(static_cast<std::uint64_t>(row)), operands.a_row_stride);
  llvm::Value* const offset =
      builder.CreateAdd(row_offset, builder.CreateMul(k, operands.a_depth_stride));
  auto* const element = builder.CreateAlignedLoad(
      type, builder.CreateGEP(type, operands.a, offset),
      llvm::Align(static_cast<std::uint64_t>(byte_size(operands.a_dtype))));
  memory_.mark(element, operands.dot->a);
  return builder.CreateVectorSplat(static_cast<unsigned>(operands.lanes),
                                   emit_widen(builder, element, operands.a_dtype));
}

llvm::Value* DotEmitter::load_b(const Operands& operands, int vector, llvm::Value* k) {
  auto& builder = emission_.builder;
  llvm::Type* const type = emission_.storage_type(operands.b_dtype);
  llvm::Value* const offset =
      builder.CreateAdd(builder.CreateMul(k, operands.b_depth_stride),
                        operands.b_offsets[static_cast<std::size_t>(vector)]);
  auto* const elements = builder.CreateAlignedLoad(
      llvm::FixedVectorType::get(type, static_cast<unsigned>(operands.lanes)),
      builder.CreateGEP(type, operands.b, offset),
      llvm::Align(static_cast<std::uint64_t>(byte_size(operands.b_dtype))));
  memory_.mark(elements, operands.dot->b);
  return emit_widen(builder, elements, operands.b_dtype);
}

llvm::Value* DotEmitter::multiply_add(llvm::Value* a, llvm::Value* b, llvm::Value* c) {
  auto& builder = emission_.builder;
  if (!c->getType()->isFPOrFPVectorTy()) return builder.CreateAdd(builder.CreateMul(a, b), c);
  return builder.CreateIntrinsic(llvm::Intrinsic::fma, {c->getType()}, {a, b, c});
}

llvm::Value* DotEmitter::accumulator_address(const Operands& operands, int row, int vector) {
  const tile::Dot& dot = *operands.dot;
  const int element = row * dot.columns + vector * operands.lanes;
  return emission_.builder.CreateConstGEP1_64(
      operands.accumulator_type->getScalarType(),
      emission_.buffers[static_cast<std::size_t>(dot.accumulator)],
      static_cast<std::uint64_t>(element));
}

}  // namespace opweld::cpu
