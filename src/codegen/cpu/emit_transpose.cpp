// A block is as many words of 32 bits as a vector has lanes, in as many vectors. Halves of words
// are joined first, those of two rows in one word, so that only words have to be moved.
#include "codegen/cpu/emit_transpose.h"

namespace opweld::cpu {
namespace {

constexpr int kWordBytes = 4;
constexpr int kWordsOfPart = 4;  // a part of a vector has 128 bits, within which shuffles are fast

// Elements of a and, from the number of lanes on, of b.
using Order = llvm::SmallVector<int, 16>;

// first, first of b, second, second of b in each part; the first two of its words, or the others.
Order interleaved_words(int lanes, bool upper) {
  Order order;
  for (int part = 0; part < lanes; part += kWordsOfPart) {
    for (int word = 0; word < 2; ++word) {
      const int at = part + word + (upper ? 2 : 0);
      order.push_back(at);
      order.push_back(lanes + at);
    }
  }
  return order;
}

// The same with pairs of words.
Order interleaved_pairs(int lanes, bool upper) {
  Order order;
  for (int part = 0; part < lanes; part += kWordsOfPart) {
    const int at = part + (upper ? 2 : 0);
    for (const int from : {at, lanes + at}) {
      order.push_back(from);
      order.push_back(from + 1);
    }
  }
  return order;
}

// Every second part of a, then of b, from the first or the second on.
Order every_second_part(int lanes, bool second) {
  Order order;
  for (int from = 0; from < 2 * lanes; from += 2 * kWordsOfPart) {
    for (int word = 0; word < kWordsOfPart; ++word) {
      order.push_back(from + word + (second ? kWordsOfPart : 0));
    }
  }
  return order;
}

}  // namespace

// Addresses, and strides in bytes; counts are of units, which are words or halves of them.
struct TransposeEmitter::Operands {
  const tile::Transpose* statement = nullptr;
  bool halves = false;
  llvm::Value* from = nullptr;
  llvm::Value* from_stride = nullptr;
  llvm::Value* to = nullptr;
  llvm::Value* to_stride = nullptr;
  llvm::Value* rows = nullptr;
  llvm::Value* columns = nullptr;

  [[nodiscard]] int unit_bytes() const { return halves ? kWordBytes / 2 : kWordBytes; }
};

void TransposeEmitter::emit(const tile::Transpose& statement) {
  auto& builder = emission_.builder;
  const int element = byte_size(tile::memory_dtype(emission_.program, statement.from));
  const auto bytes = [&](Expr stride) {
    return builder.CreateMul(exprs_.value(stride), number(element));
  };
  // All of it before the loops, since what is emitted once is used again.
  Operands operands;
  operands.statement = &statement;
  operands.halves = element < kWordBytes && !statement.pairs;
  operands.from = memory_.address(statement.from);
  operands.from_stride = bytes(statement.from_row_stride);
  operands.to = memory_.address(statement.to);
  operands.to_stride = bytes(statement.to_row_stride);
  operands.rows = exprs_.value(statement.rows);
  operands.columns = exprs_.value(statement.columns);

  const int lanes = emission_.vector_bits / 8 / kWordBytes;
  const int rows_at_once = operands.halves ? 2 * lanes : lanes;
  const auto rounded = [&](llvm::Value* count, int multiple) {
    return builder.CreateAnd(builder.CreateAdd(count, number(multiple - 1)), number(-multiple));
  };
  llvm::Value* const row_end =
      rounded(operands.rows, tile::kTransposedBytes / operands.unit_bytes());
  llvm::Value* const column_end = rounded(operands.columns, tile::kTransposedRows);
  emission_.loop("transpose.column", column_end, lanes, [&](llvm::Value* column) {
    llvm::Value* const to_row = builder.CreateGEP(builder.getInt8Ty(), operands.to,
                                                  builder.CreateMul(column, operands.to_stride));
    llvm::Value* const columns_whole =
        builder.CreateICmpSLE(builder.CreateAdd(column, number(lanes)), operands.columns);
    emission_.loop("transpose.row", row_end, rows_at_once, [&](llvm::Value* row) {
      llvm::Value* const rows_whole =
          builder.CreateICmpSLE(builder.CreateAdd(row, number(rows_at_once)), operands.rows);
      const Words words = emission_.branch(
          builder.CreateAnd(columns_whole, rows_whole),
          [&] { return load(operands, row, column, /*whole=*/true); },
          [&] { return load(operands, row, column, /*whole=*/false); });
      llvm::Value* at = builder.CreateGEP(builder.getInt8Ty(), to_row,
                                          builder.CreateMul(row, number(operands.unit_bytes())));
      for (llvm::Value* const word : transposed(words)) {
        memory_.mark(builder.CreateAlignedStore(word, at, llvm::Align(1)), statement.to);
        at = builder.CreateGEP(builder.getInt8Ty(), at, operands.to_stride);
      }
    });
  });
}

TransposeEmitter::Words TransposeEmitter::load(const Operands& operands, llvm::Value* row,
                                               llvm::Value* column, bool whole) {
  auto& builder = emission_.builder;
  const int lanes = emission_.vector_bits / 8 / kWordBytes;
  auto* const word = llvm::FixedVectorType::get(builder.getInt32Ty(), static_cast<unsigned>(lanes));
  llvm::Value* columns = nullptr;  // a mask
  if (!whole) {
    llvm::SmallVector<llvm::Constant*, 16> lane;
    for (int i = 0; i < lanes; ++i) lane.push_back(builder.getInt64(static_cast<unsigned>(i)));
    columns = builder.CreateICmpSLT(
        llvm::ConstantVector::get(lane),
        builder.CreateVectorSplat(static_cast<unsigned>(lanes),
                                  builder.CreateSub(operands.columns, column)));
  }
  const auto elements = [&](int offset) {
    llvm::Value* const at = builder.CreateAdd(row, number(offset));
    llvm::Value* mask = columns;
    if (!whole) {
      llvm::Value* const inside = builder.CreateICmpSLT(at, operands.rows);
      mask =
          builder.CreateAnd(mask, builder.CreateVectorSplat(static_cast<unsigned>(lanes), inside));
    }
    return load_row(operands, at, column, mask);
  };
  Words words;
  for (int i = 0; i < lanes; ++i) {
    if (!operands.halves) {
      words.push_back(elements(i));
      continue;
    }
    llvm::Value* const low = builder.CreateZExt(elements(2 * i), word);
    llvm::Value* const high = builder.CreateZExt(elements(2 * i + 1), word);
    words.push_back(builder.CreateOr(low, builder.CreateShl(high, 16)));
  }
  return words;
}

llvm::Value* TransposeEmitter::load_row(const Operands& operands, llvm::Value* row,
                                        llvm::Value* column, llvm::Value* mask) {
  auto& builder = emission_.builder;
  const int lanes = emission_.vector_bits / 8 / kWordBytes;
  llvm::Type* const unit = operands.halves ? builder.getInt16Ty() : builder.getInt32Ty();
  auto* const type = llvm::FixedVectorType::get(unit, static_cast<unsigned>(lanes));
  llvm::Value* const offset =
      builder.CreateAdd(builder.CreateMul(row, operands.from_stride),
                        builder.CreateMul(column, number(operands.unit_bytes())));
  llvm::Value* const at = builder.CreateGEP(builder.getInt8Ty(), operands.from, offset);
  const llvm::Align align(static_cast<std::uint64_t>(
      byte_size(tile::memory_dtype(emission_.program, operands.statement->from))));
  llvm::Instruction* row_elements = nullptr;
  if (mask == nullptr) {
    row_elements = builder.CreateAlignedLoad(type, at, align);
  } else {
    row_elements =
        builder.CreateMaskedLoad(type, at, align, mask, llvm::Constant::getNullValue(type));
  }
  return memory_.mark(row_elements, operands.statement->from);
}

// Rows in fours become columns within the parts of vectors, then the parts change places.
TransposeEmitter::Words TransposeEmitter::transposed(const Words& rows) {
  auto& builder = emission_.builder;
  const int lanes = static_cast<int>(rows.size());
  const auto shuffle = [&](llvm::Value* a, llvm::Value* b, const Order& order) {
    return builder.CreateShuffleVector(a, b, order);
  };
  const auto at = [](const Words& words, int i) { return words[static_cast<std::size_t>(i)]; };
  // columns[k]: for each four of rows, column k of every part.
  std::vector<Words> columns(kWordsOfPart);
  for (int row = 0; row < lanes; row += kWordsOfPart) {
    for (const bool upper : {false, true}) {
      const Order words = interleaved_words(lanes, upper);
      llvm::Value* const first = shuffle(at(rows, row), at(rows, row + 1), words);
      llvm::Value* const second = shuffle(at(rows, row + 2), at(rows, row + 3), words);
      for (const bool odd : {false, true}) {
        columns[(upper ? 2U : 0U) + (odd ? 1U : 0U)].push_back(
            shuffle(first, second, interleaved_pairs(lanes, odd)));
      }
    }
  }
  // Halving the distance of the parts that belong together until all of them do.
  const int parts = lanes / kWordsOfPart;
  Words result(rows.size());
  for (int column = 0; column < kWordsOfPart; ++column) {
    std::vector<Words> groups = {columns[static_cast<std::size_t>(column)]};
    // Each group holds, in order of rows, the parts of which it knows the same low bits.
    for (int known = 1; known < parts; known *= 2) {
      std::vector<Words> next(2 * groups.size());
      for (std::size_t group = 0; group < groups.size(); ++group) {
        for (std::size_t i = 0; i + 1 < groups[group].size(); i += 2) {
          for (const bool second : {false, true}) {
            next[group + (second ? groups.size() : 0)].push_back(
                shuffle(groups[group][i], groups[group][i + 1], every_second_part(lanes, second)));
          }
        }
      }
      groups = std::move(next);
    }
    for (std::size_t part = 0; part < groups.size(); ++part) {
      result[part * kWordsOfPart + static_cast<std::size_t>(column)] = groups[part].front();
    }
  }
  return result;
}

llvm::Value* TransposeEmitter::number(std::int64_t value) {
  return emission_.builder.getInt64(static_cast<std::uint64_t>(value));
}

}  // namespace opweld::cpu
