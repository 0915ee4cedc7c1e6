#include "both/tensor_files.h"

#include <zip.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>

#include "both/pb_file.h"

namespace opweld::cli {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NumpyType {
  std::string_view text;
  DType dtype;
};
constexpr NumpyType kNumpyTypes[] = {
    {"<f8", DType::F64}, {"<f4", DType::F32}, {"<f2", DType::F16},
    {"<i8", DType::I64}, {"<i4", DType::I32}, {"<i2", DType::I16},
    {"|i1", DType::I8},  {"|u1", DType::U8},  {"|b1", DType::Bool}};

std::string_view numpy_type(DType dtype) {
  for (const NumpyType& type : kNumpyTypes) {
    if (type.dtype == dtype) return type.text;
  }
  return "<u2";  // bf16
}

// The text between the quotes that follow 'key': in the header's Python dictionary.
std::optional<std::string_view> quoted_after(std::string_view header, std::string_view key) {
  std::size_t at = header.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find('\'', at + key.size());
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t end = header.find('\'', at + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return header.substr(at + 1, end - at - 1);
}

std::optional<Sizes> parse_shape_tuple(std::string_view header) {
  std::size_t at = header.find("'shape'");
  if (at == std::string_view::npos) return std::nullopt;
  at = header.find('(', at);
  const std::size_t end = header.find(')', at);
  if (at == std::string_view::npos || end == std::string_view::npos) return std::nullopt;
  Sizes sizes;
  const char* position = header.data() + at + 1;
  const char* const last = header.data() + end;
  while (position < last) {
    if (*position == ' ' || *position == ',' || *position == 'L') {
      ++position;
      continue;
    }
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(position, last, size);
    if (error != std::errc() || size < 0) return std::nullopt;
    sizes.push_back(size);
    position = next;
  }
  return sizes;
}

// Column-major data into row-major order.
Expected<Tensor> from_fortran_order(const Tensor& stored) {
  const Sizes& sizes = stored.sizes();
  OPWELD_TRY(Tensor result, Tensor::allocate(stored.dtype(), sizes));
  const auto element = static_cast<std::size_t>(byte_size(stored.dtype()));
  std::vector<std::int64_t> index(sizes.size(), 0);
  for (std::int64_t from = 0; from < stored.num_elements(); ++from) {
    std::int64_t to = 0;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) to = to * sizes[axis] + index[axis];
    std::memcpy(result.mutable_data() + static_cast<std::size_t>(to) * element,
                stored.data() + static_cast<std::size_t>(from) * element, element);
    for (std::size_t axis = 0; axis < sizes.size() && ++index[axis] == sizes[axis]; ++axis) {
      index[axis] = 0;
    }
  }
  return result;
}

Expected<Tensor> parse_npy(std::string_view bytes, const std::string& where) {
  if (bytes.size() < 10 || bytes.substr(0, kMagic.size()) != kMagic) {
    return usage_error("{}: not a .npy file", where);
  }
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const bool long_header = bytes[6] >= 2;
  const std::size_t start = long_header ? 12 : 10;
  if (bytes.size() < start) return usage_error("{}: the .npy header is cut off", where);
  std::size_t length = byte(8) + (byte(9) << 8);
  if (long_header) length += (byte(10) << 16) + (byte(11) << 24);
  if (bytes.size() < start + length) return usage_error("{}: the .npy header is cut off", where);
  const std::string_view header = bytes.substr(start, length);
  const auto descr = quoted_after(header, "'descr':");
  const auto sizes = parse_shape_tuple(header);
  if (!descr || !sizes) return usage_error("{}: the .npy header makes no sense", where);
  const auto* type = std::find_if(std::begin(kNumpyTypes), std::end(kNumpyTypes),
                                  [&](const NumpyType& each) { return each.text == *descr; });
  if (type == std::end(kNumpyTypes)) {
    return usage_error("{}: elements of type '{}' are not supported", where, *descr);
  }
  auto tensor = Tensor::allocate(type->dtype, *sizes);
  const std::string_view data = bytes.substr(start + length);
  if (!tensor || data.size() < static_cast<std::size_t>(tensor->num_bytes())) {
    return usage_error("{}: the file holds {} bytes of data, its shape {} needs more", where,
                       data.size(), to_string(*sizes));
  }
  if (tensor->num_bytes() > 0) {
    std::memcpy(tensor->mutable_data(), data.data(), static_cast<std::size_t>(tensor->num_bytes()));
  }
  const bool fortran = header.find("'fortran_order': True") != std::string_view::npos;
  return fortran ? from_fortran_order(*tensor) : std::move(*tensor);
}

Expected<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return usage_error("cannot open '{}'", path);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return usage_error("cannot read '{}'", path);
  return bytes;
}

std::string npy_bytes(const Tensor& tensor) {
  std::string shape;
  for (const std::int64_t size : tensor.sizes()) shape += fmt::format("{}, ", size);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   numpy_type(tensor.dtype()), shape);
  // The data begins at a multiple of 64 bytes, and the header ends in a newline.
  constexpr std::size_t kPreamble = 10;
  while ((kPreamble + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\x00';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  if (tensor.num_bytes() > 0) {
    bytes.append(reinterpret_cast<const char*>(tensor.data()),
                 static_cast<std::size_t>(tensor.num_bytes()));
  }
  return bytes;
}

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

}  // namespace

Expected<Tensor> read_npy(const std::string& path) {
  OPWELD_TRY(const std::string bytes, read_file(path));
  return parse_npy(bytes, path);
}

Expected<NamedTensors> read_npz(const std::string& path) {
  int code = 0;
  const Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!archive) return usage_error("cannot open '{}' as an .npz archive", path);
  NamedTensors tensors;
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t entry;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &entry) != 0) {
      return usage_error("{}: the archive is damaged", path);
    }
    constexpr zip_uint64_t kLargest = zip_uint64_t{1} << 36;
    if (entry.size > kLargest) return usage_error("{}: entry '{}' is too large", path, entry.name);
    const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(i), 0), zip_fclose);
    std::string bytes(entry.size, '\0');
    if (!file ||
        zip_fread(file.get(), bytes.data(), entry.size) != static_cast<zip_int64_t>(entry.size)) {
      return usage_error("{}: entry '{}' cannot be read", path, entry.name);
    }
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    OPWELD_TRY(Tensor tensor, parse_npy(bytes, fmt::format("{}: {}", path, name)));
    tensors.emplace_back(std::move(name), std::move(tensor));
  }
  return tensors;
}

Expected<Tensor> read_tensor(const std::string& path) {
  if (path.ends_with(".pb")) return read_pb(path);
  if (path.ends_with(".npy")) return read_npy(path);
  return usage_error("'{}': a tensor file ends in .npy or .pb", path);
}

Status write_npz(const std::string& path, const NamedTensors& tensors) {
  const std::string temporary = path + ".partial";
  int code = 0;
  Archive archive(zip_open(temporary.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (!archive) return fail("cannot write '{}'", path);
  std::vector<std::string> contents;  // the archive reads them when it is closed
  contents.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    contents.push_back(npy_bytes(tensor));
    zip_source_t* const source =
        zip_source_buffer(archive.get(), contents.back().data(), contents.back().size(), 0);
    const zip_int64_t index =
        zip_file_add(archive.get(), (name + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      return fail("cannot write '{}' to '{}': {}", name, path, zip_strerror(archive.get()));
    }
    zip_set_file_compression(archive.get(), static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  if (zip_close(archive.get()) != 0) {
    return fail("cannot write '{}': {}", path, zip_strerror(archive.get()));
  }
  static_cast<void>(archive.release());  // closed: nothing is left to discard
  // An archive without entries is no file at all.
  if (tensors.empty()) std::ofstream(temporary).flush();
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    return fail("cannot write '{}'", path);
  }
  return {};
}

}  // namespace opweld::cli
