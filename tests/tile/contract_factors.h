// Every choice of what stands around one matmul, for tests that go through all of them in pairs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "covering_array.h"
#include "opweld/dtype.h"

namespace opweld::testing {

enum ContractFactor : std::uint8_t {
  kLeft,     // what makes the left operand
  kRight,    // what makes the right one
  kStep,     // what is done to the product,
  kThen,     // and to what comes of that
  kForm,     // how it is stored
  kResults,  // that, what stands between the steps as well, or the product as well
  kCast,     // none, to another dtype of half the bits or twice as many, to bf16
  kOfRows,   // what is made of each row of what is stored
  kDType,
  kRows,
  kDepth,
  kColumns,
  kRank,     // of the left operand: 3, 2
  kVectors,  // of the target
  kStrict,
  kContractFactors,
};

enum LeftOperand : std::uint8_t {
  kPlain,
  kPointwise,
  kScaledRows,
  kColumnMaxima,
  kCastRows,
  kTransposedRows,
  kSlicedRows,
  kGatheredRows,
  kRmsNorm,
  kLayerNorm,
  kSoftmax,
  kLefts,
};

enum RightOperand : std::uint8_t {
  kConstant,
  kCastConstant,
  kTransposedConstant,
  kConstantBatch,
  kInput,
  kTransposedInput,
  kScaledInput,
  kInputBatch,
  kBroadcastBatch,
  kFreeInput,  // no size of it is known
  kRights,
};

enum Step : std::uint8_t {
  kNoStep,
  kBias,
  kGelu,
  kSilu,
  kRelu,
  kResidual,
  kRowFactor,
  kColumnFactor,
  kClip,
  kWhere,
  kSteps,
};

enum ResultForm : std::uint8_t {
  kWhole,
  kMergedAxes,
  kTransposedResult,
  kHeads,     // split and transposed
  kRotated,   // the same, with a rotary embedding
  kSegments,  // columns of two sizes, each split and transposed
  kGatePair,  // silu of the left columns times the right ones
  kForms,
};

enum RowStatistic : std::uint8_t {
  kNoStatistic,
  kMean,
  kInverseRms,  // with the operators that follow from the mean alone
  kAbsoluteSum,
  kGreatest,
  kLeast,
  kAnyBelow,
  kPlaceOfGreatest,
  kStatistics,
};

using ContractChoice = std::array<int, kContractFactors>;

inline constexpr std::array kDTypes = {DType::F32, DType::F16, DType::BF16, DType::F64};
inline constexpr std::array kOtherDTypes = {DType::F16, DType::F32, DType::F32, DType::F32};
// One row, few, a free number, more than a task takes.
inline constexpr std::array kRowCounts = {"m", "1", "7", "250"};
// The last is cut into blocks, and its last block is not a whole one.
inline constexpr std::array<std::int64_t, 5> kDepths = {29, 64, 1, 0, 1601};
inline constexpr std::array<std::int64_t, 5> kColumnCounts = {64, 37, 1, 0, 100};
inline constexpr std::array kVectorTargets = {"host", "host-avx512", "host-avx2"};

inline constexpr ContractChoice kContractLevels = {
    kLefts,
    kRights,
    kSteps,
    kSteps,
    kForms,
    3,
    3,
    kStatistics,
    static_cast<int>(kDTypes.size()),
    static_cast<int>(kRowCounts.size()),
    static_cast<int>(kDepths.size()),
    static_cast<int>(kColumnCounts.size()),
    2,
    static_cast<int>(kVectorTargets.size()),
    2,
};

inline bool is_norm(int left) {
  return left >= kRmsNorm;
}
inline bool is_constant(int right) {
  return right <= kConstantBatch;
}
inline bool is_half(int dtype) {
  return byte_size(kDTypes[static_cast<std::size_t>(dtype)]) == 2;
}
inline bool has_batch(int right) {
  return right == kConstantBatch || right == kInputBatch || right == kBroadcastBatch;
}
// Made of columns of one constant matrix.
inline bool is_of_columns(int form) {
  return form >= kHeads;
}

// What no model can have.
inline bool contradict(Level first, Level second) {
  const auto both = [&](int factor, int other) {
    return first.factor == factor && second.factor == other;
  };
  if (both(kRight, kForm) && is_of_columns(second.level)) {
    return !is_constant(first.level) || has_batch(first.level);
  }
  if (both(kRight, kDepth) || both(kRight, kColumns)) {
    return first.level == kFreeInput && second.level != 0;
  }
  // Heads have 64 columns.
  if (both(kForm, kColumns)) {
    return is_of_columns(first.level) && first.level != kGatePair && second.level != 0;
  }
  // A mean of nothing is none.
  if (both(kLeft, kDepth))
    return is_norm(first.level) && kDepths[static_cast<std::size_t>(second.level)] == 0;
  // Heads are stored by vectors that end where a head does.
  if (both(kForm, kOfRows)) {
    const bool heads = is_of_columns(first.level) && first.level != kGatePair;
    return heads && second.level != kNoStatistic;
  }
  // Rows of no columns have no greatest.
  if (both(kRight, kOfRows)) return first.level == kFreeInput && second.level == kPlaceOfGreatest;
  if (both(kOfRows, kColumns)) {
    return first.level == kPlaceOfGreatest &&
           kColumnCounts[static_cast<std::size_t>(second.level)] == 0;
  }
  // Rotary embeddings are of rank 4.
  if (both(kForm, kRank)) return first.level == kRotated && second.level != 0;
  return false;
}

// Where rounding may make two equal that were not, another of them is the greatest.
inline bool rounds_the_greatest(Level first, Level second) {
  const auto is_curve = [](const Level& level) {
    return (level.factor == kStep || level.factor == kThen) &&
           (level.level == kGelu || level.level == kSilu);
  };
  const auto is_place = [](const Level& level) {
    return level.factor == kOfRows && level.level == kPlaceOfGreatest;
  };
  if (is_place(first)) return second.factor == kStrict && second.level != 0;
  return is_place(second) && is_curve(first);
}

// Of what is computed from values of either.
inline DType coarser(DType a, DType b) {
  return default_tolerance(a).relative > default_tolerance(b).relative ? a : b;
}

// The plain model, and each option of each factor by itself.
inline std::vector<ContractChoice> each_alone() {
  std::vector<ContractChoice> choices = {ContractChoice{}};
  for (std::size_t factor = 0; factor < kContractFactors; ++factor) {
    for (int level = 1; level < kContractLevels[factor]; ++level) {
      choices.emplace_back();
      choices.back()[factor] = level;
    }
  }
  return choices;
}

}  // namespace opweld::testing
