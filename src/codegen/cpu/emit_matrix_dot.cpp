// Eight tiles of 16 rows of 64 bytes: 2 x 2 of sums, two of a, two of b, so that each operand tile
// is used twice and four sums hide the latency of the multiplication. They are configured at the
// head of the kernel, and again only where a dot fills them with other rows than the one before:
// configuring clears all tiles and is slow.
// (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.)
#include "codegen/cpu/emit_matrix_dot.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <array>

#include "codegen/cpu/operations.h"

namespace opweld::cpu {
namespace {

constexpr int kTiles = 8;
constexpr int kTileRows = 16;
constexpr int kTileColumns = 16;  // of f32
constexpr int kTileBytes = 64;    // of one row
// The numbers of the tiles: sums, then a by rows, then b by columns.
constexpr int kSideTiles = 2;
constexpr int sum_tile(int row, int column) {
  return kSideTiles * row + column;
}
constexpr int a_tile(int row) {
  return 4 + row;
}
constexpr int b_tile(int column) {
  return 6 + column;
}
static_assert(kSideTiles * kTileRows == tile::kMatrixRows);
static_assert(kSideTiles * kTileColumns == tile::kMatrixColumns);
static_assert(kTileBytes == 2 * tile::kMatrixDepth);

// The memory operand of LDTILECFG: palette 1, bytes of a row from 16 on, rows from 48 on.
constexpr std::size_t kRowsOffset = 48;
constexpr std::array<std::uint8_t, 64> whole_tiles() {
  std::array<std::uint8_t, 64> bytes = {1};
  for (std::size_t tile = 0; tile < kTiles; ++tile) {
    bytes[16 + 2 * tile] = kTileBytes;
    bytes[kRowsOffset + tile] = kTileRows;
  }
  return bytes;
}

constexpr std::uint64_t kF32Bytes = 4;
constexpr std::uint64_t kBf16Bytes = 2;

}  // namespace

// Addresses, and strides in bytes.
struct MatrixDotEmitter::Operands {
  llvm::Value* sums = nullptr;
  llvm::Value* sums_stride = nullptr;
  llvm::Value* from_zero = nullptr;
  llvm::Value* a = nullptr;
  llvm::Value* a_stride = nullptr;
  llvm::Value* b = nullptr;
  llvm::Value* depth = nullptr;
  llvm::Value* ahead = nullptr;         // null: nothing is fetched ahead
  llvm::Value* ahead_stride = nullptr;  // with a step of depth
};

void MatrixDotEmitter::configure() {
  if (!used_) return;
  auto& builder = emission_.builder;
  constexpr auto kBytes = whole_tiles();
  auto* const bytes = llvm::ConstantDataArray::get(emission_.context, kBytes);
  llvm::AllocaInst* const configuration = emission_.new_alloca(bytes->getType(), "tiles");
  configuration->setAlignment(llvm::Align(kBytes.size()));
  configuration_ = configuration;
  ragged_rows_ = emission_.new_alloca(builder.getInt64Ty(), "ragged_rows");
  builder.CreateStore(bytes, configuration_);
  builder.CreateStore(builder.getInt64(0), ragged_rows_);
  call(llvm::Intrinsic::x86_ldtilecfg, {configuration_});
}

void MatrixDotEmitter::release() {
  if (used_) call(llvm::Intrinsic::x86_tilerelease, {});
}

void MatrixDotEmitter::emit(const tile::MatrixDot& dot) {
  auto& builder = emission_.builder;
  const auto bytes = [&](Expr stride, std::uint64_t element) {
    return builder.CreateMul(exprs_.value(stride), builder.getInt64(element));
  };
  // All of it before the branches, since what is emitted once is used again.
  Operands operands;
  operands.sums = memory_.address(dot.accumulator);
  operands.sums_stride = bytes(dot.accumulator_row_stride, kF32Bytes);
  operands.from_zero = dot.from_zero == kNoExpr ? builder.getFalse() : exprs_.value(dot.from_zero);
  operands.a = memory_.address(dot.a);
  operands.a_stride = bytes(dot.a_row_stride, kBf16Bytes);
  operands.b = memory_.address(dot.b);
  operands.depth = exprs_.value(dot.depth);
  if (dot.ahead) {
    operands.ahead = memory_.address(dot.ahead->start);
    operands.ahead_stride = bytes(
        dot.ahead->stride,
        static_cast<std::uint64_t>(byte_size(memory_dtype(emission_.program, dot.ahead->start))));
  }
  llvm::Value* const rows = exprs_.value(dot.row_count);

  configure_rows(rows);
  branch(
      builder.CreateICmpSGT(rows, builder.getInt64(kTileRows)), [&] { multiply(operands, 2); },
      [&] { multiply(operands, 1); });
}

void MatrixDotEmitter::configure_rows(llvm::Value* rows) {
  auto& builder = emission_.builder;
  llvm::Value* const whole = builder.CreateICmpEQ(
      builder.CreateAnd(rows, builder.getInt64(kTileRows - 1)), builder.getInt64(0));
  llvm::Value* const wanted = builder.CreateSelect(whole, builder.getInt64(0), rows);
  llvm::Value* const now = builder.CreateLoad(builder.getInt64Ty(), ragged_rows_);
  const auto change = [&] {
    llvm::Value* const tile_rows = builder.getInt64(kTileRows);
    llvm::Value* const both = builder.CreateICmpSGT(rows, tile_rows);
    // Without a second tile of rows, what is said of it is not used.
    llvm::Value* const counts[] = {
        builder.CreateSelect(both, tile_rows, rows),
        builder.CreateSelect(both, builder.CreateSub(rows, tile_rows), rows)};
    for (int row = 0; row < kSideTiles; ++row) {
      llvm::Value* const count = builder.CreateTrunc(counts[row], builder.getInt8Ty());
      for (const int tile : {sum_tile(row, 0), sum_tile(row, 1), a_tile(row)}) {
        const auto offset = kRowsOffset + static_cast<std::uint64_t>(tile);
        builder.CreateStore(count, after(configuration_, builder.getInt64(offset)));
      }
    }
    call(llvm::Intrinsic::x86_ldtilecfg, {configuration_});
    builder.CreateStore(wanted, ragged_rows_);
  };
  branch(builder.CreateICmpNE(wanted, now), change, [] {});
}

void MatrixDotEmitter::multiply(const Operands& operands, int row_tiles) {
  auto& builder = emission_.builder;
  const auto each_sum = [&](const auto& visit) {
    llvm::Value* row_start = operands.sums;
    for (int row = 0; row < row_tiles; ++row) {
      for (int column = 0; column < kSideTiles; ++column) {
        const auto offset = static_cast<std::uint64_t>(column * kTileBytes);
        visit(sum_tile(row, column), after(row_start, builder.getInt64(offset)));
      }
      row_start =
          after(row_start, builder.CreateMul(operands.sums_stride, builder.getInt64(kTileRows)));
    }
  };
  const auto zero_sums = [&] {
    each_sum([&](int tile, llvm::Value*) {
      call(llvm::Intrinsic::x86_tilezero, {builder.getInt8(static_cast<std::uint8_t>(tile))});
    });
  };
  const auto load_sums = [&] {
    each_sum([&](int tile, llvm::Value* address) { load(tile, address, operands.sums_stride); });
  };
  branch(operands.from_zero, zero_sums, load_sums);

  emission_.loop("matrix.depth", operands.depth, tile::kMatrixDepth, [&](llvm::Value* k) {
    step(operands, row_tiles, k);
    if (operands.ahead != nullptr) fetch_ahead(operands, k);
  });

  each_sum([&](int tile, llvm::Value* address) {
    call(llvm::Intrinsic::x86_tilestored64,
         {builder.getInt8(static_cast<std::uint8_t>(tile)), address, operands.sums_stride});
  });
}

void MatrixDotEmitter::fetch_ahead(const Operands& operands, llvm::Value* k) {
  auto& builder = emission_.builder;
  llvm::Value* const step = builder.CreateUDiv(k, builder.getInt64(tile::kMatrixDepth));
  llvm::Value* const start = after(operands.ahead, builder.CreateMul(step, operands.ahead_stride));
  emission_.loop("matrix.ahead", operands.ahead_stride, kCacheLine, [&](llvm::Value* byte) {
    // To read, kept in the second-level cache and beyond, as data.
    builder.CreateIntrinsic(
        llvm::Intrinsic::prefetch, {operands.ahead->getType()},
        {after(start, byte), builder.getInt32(0), builder.getInt32(2), builder.getInt32(1)});
  });
}

// Tiles of `a` pass by, while the panel of `b` stays in the first-level cache: they are loaded with
// the hint that they will not be needed there again.
void MatrixDotEmitter::step(const Operands& operands, int row_tiles, llvm::Value* k) {
  auto& builder = emission_.builder;
  // A row of a tile of b: the pairs of two tiles side by side.
  constexpr std::uint64_t kBRow = kSideTiles * kTileBytes;
  llvm::Value* const a = after(operands.a, builder.CreateMul(k, builder.getInt64(kBf16Bytes)));
  llvm::Value* const b = after(operands.b, builder.CreateMul(k, builder.getInt64(kBRow / 2)));
  for (int row = 0; row < row_tiles; ++row) {
    llvm::Value* const rows_before = builder.CreateMul(
        operands.a_stride, builder.getInt64(static_cast<std::uint64_t>(row) * kTileRows));
    call(llvm::Intrinsic::x86_tileloaddt164,
         {builder.getInt8(static_cast<std::uint8_t>(a_tile(row))), after(a, rows_before),
          operands.a_stride});
    for (int column = 0; column < kSideTiles; ++column) {
      if (row == 0) {
        const auto offset = static_cast<std::uint64_t>(column * kTileBytes);
        load(b_tile(column), after(b, builder.getInt64(offset)), builder.getInt64(kBRow));
      }
      call(llvm::Intrinsic::x86_tdpbf16ps,
           {builder.getInt8(static_cast<std::uint8_t>(sum_tile(row, column))),
            builder.getInt8(static_cast<std::uint8_t>(a_tile(row))),
            builder.getInt8(static_cast<std::uint8_t>(b_tile(column)))});
    }
  }
}

void MatrixDotEmitter::branch(llvm::Value* condition, FunctionRef<void()> then,
                              FunctionRef<void()> otherwise) {
  const auto emit_side = [](FunctionRef<void()> side) {
    side();
    return Emission::Values{};
  };
  emission_.branch(
      condition, [&] { return emit_side(then); }, [&] { return emit_side(otherwise); });
}

void MatrixDotEmitter::load(int tile, llvm::Value* address, llvm::Value* stride) {
  call(llvm::Intrinsic::x86_tileloadd64,
       {emission_.builder.getInt8(static_cast<std::uint8_t>(tile)), address, stride});
}

llvm::Value* MatrixDotEmitter::after(llvm::Value* address, llvm::Value* bytes) {
  return emission_.builder.CreateGEP(emission_.builder.getInt8Ty(), address, bytes);
}

void MatrixDotEmitter::call(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value*> arguments) {
  emission_.builder.CreateIntrinsic(id, {}, arguments);
}

}  // namespace opweld::cpu
