#include "import/onnx/tensor_reader.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>

namespace opweld {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX stores tensors little endian");

// Names of TensorProto.DataType by number, in the newest version of the format.
constexpr std::string_view kElementTypes[] = {
    "undefined",      "float",    "uint8",        "int8",           "uint16",
    "int16",          "int32",    "int64",        "string",         "bool",
    "float16",        "double",   "uint32",       "uint64",         "complex64",
    "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
    "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
    "uint2",          "int2"};

Sizes sizes_of(const onnx::TensorProto& proto) {
  return {proto.dims().begin(), proto.dims().end()};
}

// Whether the elements are where they are usually read from bytes.
bool is_external(const onnx::TensorProto& proto) {
  return proto.data_location() == onnx::TensorProto::EXTERNAL;
}

// ---- elements in typed fields ----

template <typename Storage, typename Field>
Status copy_elements(const Field& field, Tensor& tensor) {
  const std::int64_t count = tensor.num_elements();
  if (field.size() != count) {
    return fail("has {} elements, but its sizes {} need {}", field.size(),
                to_string(tensor.sizes()), count);
  }
  auto* data = reinterpret_cast<Storage*>(tensor.mutable_data());
  for (int i = 0; i < field.size(); ++i) data[i] = static_cast<Storage>(field.Get(i));
  return {};
}

Status copy_typed(const onnx::TensorProto& proto, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::F64:
      return copy_elements<double>(proto.double_data(), tensor);
    case DType::F32:
      return copy_elements<float>(proto.float_data(), tensor);
    case DType::F16:
    case DType::BF16:  // bit patterns, one in each int32
      return copy_elements<std::uint16_t>(proto.int32_data(), tensor);
    case DType::I64:
      return copy_elements<std::int64_t>(proto.int64_data(), tensor);
    case DType::I32:
      return copy_elements<std::int32_t>(proto.int32_data(), tensor);
    case DType::I16:
      return copy_elements<std::int16_t>(proto.int32_data(), tensor);
    case DType::I8:
      return copy_elements<std::int8_t>(proto.int32_data(), tensor);
    case DType::U8:
      return copy_elements<std::uint8_t>(proto.int32_data(), tensor);
    case DType::Bool:
      return copy_elements<bool>(proto.int32_data(), tensor);
  }
  return {};
}

// ---- elements as bytes ----

bool is_aligned(const std::byte* data, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::size_t>(byte_size(dtype)) == 0;
}

// Kernels rely on a bool being 0 or 1.
bool holds_only_bools(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte b) { return std::to_integer<int>(b) <= 1; });
}

Expected<Tensor> tensor_of_bytes(DType dtype, Sizes sizes, const SharedBytes& source) {
  const bool usable = dtype != DType::Bool || holds_only_bools(source.bytes);
  if (usable && is_aligned(source.bytes.data(), dtype) && !source.bytes.empty()) {
    return Tensor::borrow(dtype, std::move(sizes), source.bytes.data(), source.owner);
  }
  OPWELD_TRY(Tensor tensor, Tensor::allocate(dtype, std::move(sizes)));
  if (source.bytes.empty()) return tensor;
  std::memcpy(tensor.mutable_data(), source.bytes.data(), source.bytes.size());
  if (!usable) {
    for (std::byte& b : tensor.mutable_view<std::byte>()) b = std::byte(b != std::byte{0});
  }
  return tensor;
}

// ---- external data ----

// The entry of that key; empty if there is none.
std::string external_entry(const onnx::TensorProto& proto, std::string_view key) {
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == key) return entry.value();
  }
  return {};
}

Expected<std::size_t> external_number(const onnx::TensorProto& proto, std::string_view key,
                                      std::size_t otherwise) {
  const std::string text = external_entry(proto, key);
  if (text.empty()) return otherwise;
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail("its external data has the {} '{}', which is no byte count", key, text);
  }
  return value;
}

// A model may name files below its own folder only.
Status check_location(const std::string& location) {
  if (location.empty()) return fail("its external data names no file");
  const std::filesystem::path path(location);
  const bool climbs = std::find(path.begin(), path.end(), "..") != path.end();
  if (path.is_absolute() || climbs || location.find('\0') != std::string::npos) {
    return fail("its external data is in '{}', outside the model's folder, which is refused",
                location);
  }
  return {};
}

}  // namespace

std::optional<DType> dtype_of_element_type(int element_type) {
  switch (element_type) {
    case onnx::TensorProto::DOUBLE:
      return DType::F64;
    case onnx::TensorProto::FLOAT:
      return DType::F32;
    case onnx::TensorProto::FLOAT16:
      return DType::F16;
    case onnx::TensorProto::BFLOAT16:
      return DType::BF16;
    case onnx::TensorProto::INT64:
      return DType::I64;
    case onnx::TensorProto::INT32:
      return DType::I32;
    case onnx::TensorProto::INT16:
      return DType::I16;
    case onnx::TensorProto::INT8:
      return DType::I8;
    case onnx::TensorProto::UINT8:
      return DType::U8;
    case onnx::TensorProto::BOOL:
      return DType::Bool;
    default:
      return std::nullopt;
  }
}

std::string element_type_name(int element_type) {
  if (element_type < 0 || element_type >= static_cast<int>(std::size(kElementTypes))) {
    return fmt::format("element type {}", element_type);
  }
  return std::string(kElementTypes[element_type]);
}

Expected<DType> require_dtype(int element_type) {
  if (const auto dtype = dtype_of_element_type(element_type)) return *dtype;
  return fail(
      "{} is not supported; supported are double, float, float16, bfloat16, int64, int32, int16, "
      "int8, uint8 and bool",
      element_type_name(element_type));
}

Expected<Tensor> TensorReader::read(const onnx::TensorProto& proto) {
  OPWELD_TRY(const DType dtype, require_dtype(proto.data_type()));
  if (proto.has_segment()) return fail("is stored in segments, which is not supported");
  Sizes sizes = sizes_of(proto);
  const auto count = checked_num_elements(sizes);
  // Half of the address space bounds what can be stored anywhere.
  if (!count || *count > (std::int64_t{1} << 60) / byte_size(dtype)) {
    return fail("has the impossible sizes {}", to_string(sizes));
  }
  const auto wanted = static_cast<std::size_t>(*count * byte_size(dtype));
  if (!is_external(proto) && !proto.has_raw_data()) {
    const std::int64_t given = std::max({proto.float_data_size(), proto.int32_data_size(),
                                         proto.int64_data_size(), proto.double_data_size()});
    // Before anything is allocated: sizes are only words, elements are there.
    if (given < *count) {
      return fail("has {} elements, but its sizes {} need {}", given, to_string(sizes), *count);
    }
    OPWELD_TRY(Tensor tensor, Tensor::allocate(dtype, std::move(sizes)));
    OPWELD_CHECK(copy_typed(proto, tensor));
    return tensor;
  }
  OPWELD_TRY(const SharedBytes source,
             is_external(proto) ? external_bytes(proto, wanted) : raw_bytes(proto));
  if (source.bytes.size() != wanted) {
    return fail("has {} bytes, but {}{} need {}", source.bytes.size(), to_string(dtype),
                to_string(sizes), wanted);
  }
  return tensor_of_bytes(dtype, std::move(sizes), source);
}

Expected<SharedBytes> TensorReader::raw_bytes(const onnx::TensorProto& proto) const {
  std::uint64_t number = 0;
  if (proto.raw_data().size() != sizeof number) return fail("has unreadable data");
  std::memcpy(&number, proto.raw_data().data(), sizeof number);
  if (number >= payloads_.size()) return fail("has unreadable data");
  return SharedBytes{payloads_[static_cast<std::size_t>(number)], owner_};
}

Expected<SharedBytes> TensorReader::external_bytes(const onnx::TensorProto& proto,
                                                   std::size_t wanted) {
  const std::string location = external_entry(proto, "location");
  OPWELD_CHECK(check_location(location));
  OPWELD_TRY(const SharedBytes file, external_file(location));
  OPWELD_TRY(const std::size_t offset, external_number(proto, "offset", 0));
  OPWELD_TRY(const std::size_t length, external_number(proto, "length", wanted));
  if (offset > file.bytes.size() || length > file.bytes.size() - offset) {
    return fail("needs bytes {} to {} of '{}', which has {}; the file is incomplete", offset,
                offset + length, location, file.bytes.size());
  }
  return SharedBytes{file.bytes.subspan(offset, length), file.owner};
}

Expected<SharedBytes> TensorReader::external_file(const std::string& location) {
  const auto known = external_files_.find(location);
  if (known != external_files_.end()) return known->second;
  const std::filesystem::path path = std::filesystem::path(directory_) / location;
  auto file = map_file(path.string());
  if (!file) {
    return fail("its data is in a file that cannot be read: {}; put it beside the model",
                file.error().message);
  }
  return external_files_.emplace(location, *file).first->second;
}

}  // namespace opweld
