// Element types of tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace opweld {

enum class DType : std::uint8_t { F64, F32, F16, BF16, I64, I32, I16, I8, U8, Bool };

inline constexpr int kDTypeCount = 10;

// Bytes of one element; bool takes one.
constexpr int byte_size(DType dtype) {
  switch (dtype) {
    case DType::F64:
    case DType::I64:
      return 8;
    case DType::F32:
    case DType::I32:
      return 4;
    case DType::F16:
    case DType::BF16:
    case DType::I16:
      return 2;
    case DType::I8:
    case DType::U8:
    case DType::Bool:
      return 1;
  }
  return 0;
}

constexpr bool is_float(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

constexpr bool is_integer(DType dtype) {
  return !is_float(dtype) && dtype != DType::Bool;
}

// "f32", "i64", "bool" ...: the spelling of the textual form, reports and messages.
constexpr std::string_view to_string(DType dtype) {
  constexpr std::string_view kNames[kDTypeCount] = {"f64", "f32", "f16", "bf16", "i64",
                                                    "i32", "i16", "i8",  "u8",   "bool"};
  return kNames[static_cast<int>(dtype)];
}

constexpr std::optional<DType> parse_dtype(std::string_view text) {
  for (int index = 0; index < kDTypeCount; ++index) {
    const auto dtype = static_cast<DType>(index);
    if (to_string(dtype) == text) return dtype;
  }
  return std::nullopt;
}

}  // namespace opweld
