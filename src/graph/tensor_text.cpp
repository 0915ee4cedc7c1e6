#include "graph/tensor_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "graph/convert.h"
#include "graph/number_text.h"
#include "support/digest.h"

namespace opweld {
namespace {

constexpr std::int64_t kPrintedInFull = 64;

// ---- elements as bits ----

std::uint64_t element_bits(const Tensor& tensor, std::int64_t index) {
  const auto size = static_cast<std::size_t>(byte_size(tensor.dtype()));
  std::uint64_t bits = 0;
  std::memcpy(&bits, tensor.data() + index * static_cast<std::int64_t>(size), size);
  return bits;
}

void set_element_bits(Tensor& tensor, std::int64_t index, std::uint64_t bits) {
  const auto size = static_cast<std::size_t>(byte_size(tensor.dtype()));
  std::memcpy(tensor.mutable_data() + index * static_cast<std::int64_t>(size), &bits, size);
}

// The bits of the NaN that "nan" stands for: positive, quiet, without payload.
std::uint64_t default_nan(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return 0x7ff8000000000000;
    case DType::F32:
      return 0x7fc00000;
    case DType::F16:
      return 0x7e00;
    default:
      return 0x7fc0;
  }
}

bool is_nan_bits(DType dtype, std::uint64_t bits) {
  const std::uint64_t sign = std::uint64_t{1} << (8 * byte_size(dtype) - 1);
  // A NaN lies beyond infinity, which is the default NaN without its uppermost fraction bit.
  const std::uint64_t nan = default_nan(dtype);
  const std::uint64_t infinity = nan & (nan << 1);
  return (bits & ~sign) > infinity;
}

std::string float_text(DType dtype, double value, std::uint64_t bits) {
  if (!is_nan_bits(dtype, bits) || bits == default_nan(dtype)) return real_text(value, dtype);
  return fmt::format("nan:0x{:0{}x}", bits, 2 * byte_size(dtype));
}

std::string element_text(const Tensor& tensor, std::int64_t index) {
  if (is_float(tensor.dtype())) {
    return float_text(tensor.dtype(), tensor.get_double(index), element_bits(tensor, index));
  }
  if (tensor.dtype() == DType::Bool) return tensor.get_int(index) != 0 ? "true" : "false";
  return fmt::format("{}", tensor.get_int(index));
}

// A bool that is neither 0 nor 1 comes from foreign memory, and would read back as another.
bool reads_back(const Tensor& tensor, std::int64_t index) {
  return tensor.dtype() != DType::Bool || element_bits(tensor, index) <= 1;
}

bool is_splat(const Tensor& tensor) {
  const std::int64_t count = tensor.num_elements();
  if (count == 0 || !reads_back(tensor, 0)) return false;
  const std::uint64_t first = element_bits(tensor, 0);
  for (std::int64_t index = 1; index < count; ++index) {
    if (element_bits(tensor, index) != first) return false;
  }
  return true;
}

bool all_read_back(const Tensor& tensor) {
  for (std::int64_t index = 0; index < tensor.num_elements(); ++index) {
    if (!reads_back(tensor, index)) return false;
  }
  return true;
}

std::string hex_text(const Tensor& tensor) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  const auto bytes = static_cast<std::size_t>(tensor.num_bytes());
  text.reserve(2 * bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte = std::to_integer<unsigned>(tensor.data()[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// ---- reading ----

// The bits of a NaN written as "nan:0x..."; nothing if the text is not of that form.
std::optional<std::uint64_t> parse_nan_bits(std::string_view text, DType dtype) {
  constexpr std::string_view kPrefix = "nan:0x";
  if (!text.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = text.substr(kPrefix.size());
  std::uint64_t bits = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (code != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  if (byte_size(dtype) < 8 && (bits >> (8 * byte_size(dtype))) != 0) return std::nullopt;
  return is_nan_bits(dtype, bits) ? std::optional(bits) : std::nullopt;
}

// Reads the decimal in T, so that it is rounded once.
template <typename T>
std::optional<double> parse_decimal(std::string_view text) {
  T value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Sign, digits, "inf", "nan": one element of a float dtype.
Expected<std::uint64_t> parse_float_bits(TextCursor& cursor, DType dtype) {
  const std::size_t start = cursor.position();
  const std::string_view text = cursor.take_number_text();
  if (text == "nan") return default_nan(dtype);
  if (const auto bits = parse_nan_bits(text, dtype)) return *bits;
  const auto value = dtype == DType::F32 ? parse_decimal<float>(text) : parse_decimal<double>(text);
  if (!value || std::isnan(*value)) {
    return cursor.error_at(start,
                           fmt::format("expected a number of type {}, found {}", to_string(dtype),
                                       text.empty() ? cursor.next_text() : excerpt(text)));
  }
  auto element = Tensor::allocate(dtype, {});
  if (!element) return tl::unexpected(element.error());
  element->set_double(0, *value);
  return element_bits(*element, 0);
}

Status parse_element(TextCursor& cursor, Tensor& tensor, std::int64_t index) {
  const DType dtype = tensor.dtype();
  if (is_float(dtype)) {
    OPWELD_TRY(const std::uint64_t bits, parse_float_bits(cursor, dtype));
    set_element_bits(tensor, index, bits);
    return {};
  }
  if (dtype == DType::Bool) {
    const bool yes = cursor.take_word("true");
    if (!yes && !cursor.take_word("false")) {
      return cursor.error("expected true or false, found {}", cursor.next_text());
    }
    tensor.set_int(index, yes ? 1 : 0);
    return {};
  }
  const std::size_t start = cursor.position();
  OPWELD_TRY(const std::int64_t value, cursor.integer());
  if (wrap_integer(value, dtype) != value) {
    return cursor.error_at(start, fmt::format("{} does not fit {}", value, to_string(dtype)));
  }
  tensor.set_int(index, value);
  return {};
}

Expected<Sizes> parse_sizes(TextCursor& cursor) {
  OPWELD_CHECK(cursor.expect('['));
  Sizes sizes;
  while (!cursor.take(']')) {
    if (!sizes.empty()) OPWELD_CHECK(cursor.expect(','));
    const std::size_t start = cursor.position();
    OPWELD_TRY(const std::int64_t size, cursor.integer());
    if (size < 0) return cursor.error_at(start, "a size cannot be negative");
    sizes.push_back(size);
  }
  return sizes;
}

Status parse_elements(TextCursor& cursor, Tensor& tensor) {
  const std::int64_t count = tensor.num_elements();
  for (std::int64_t index = 0; index < count; ++index) {
    if (index > 0 && !cursor.take(',')) {
      return cursor.error("expected {} elements, found {}", count, index);
    }
    OPWELD_CHECK(parse_element(cursor, tensor, index));
  }
  if (cursor.peek() == ',') return cursor.error("expected {} elements, found more", count);
  return cursor.expect('}');
}

Status parse_splat(TextCursor& cursor, Tensor& tensor) {
  OPWELD_TRY(Tensor element, Tensor::allocate(tensor.dtype(), {}));
  OPWELD_CHECK(parse_element(cursor, element, 0));
  const std::uint64_t bits = element_bits(element, 0);
  for (std::int64_t index = 0; index < tensor.num_elements(); ++index) {
    set_element_bits(tensor, index, bits);
  }
  return {};
}

Status parse_bytes(TextCursor& cursor, Tensor& tensor) {
  const std::size_t start = cursor.position();
  OPWELD_TRY(const std::string digits, cursor.string());
  const auto bytes = static_cast<std::size_t>(tensor.num_bytes());
  if (digits.size() != 2 * bytes) {
    return cursor.error_at(
        start, fmt::format("expected {} hexadecimal digits, found {}", 2 * bytes, digits.size()));
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    unsigned byte = 0;
    const char* pair = digits.data() + 2 * i;
    const auto [end, code] = std::from_chars(pair, pair + 2, byte, 16);
    if (code != std::errc() || end != pair + 2) {
      return cursor.error_at(start, fmt::format("{} is no pair of hexadecimal digits",
                                                excerpt(std::string_view(pair, 2))));
    }
    tensor.mutable_data()[i] = static_cast<std::byte>(byte);
  }
  return {};
}

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine.
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// In [-1, 1).
double as_real(std::uint64_t random) {
  return static_cast<double>(random >> 11) * 0x1p-52 - 1;
}

Status parse_random(TextCursor& cursor, Tensor& tensor) {
  OPWELD_TRY(const std::int64_t seed, cursor.integer());
  auto state = static_cast<std::uint64_t>(seed);
  // Most are weights, and have millions of elements.
  if (tensor.dtype() == DType::F32) {
    for (float& element : tensor.mutable_view<float>()) {
      element = static_cast<float>(as_real(next_random(state)));
    }
    return {};
  }
  const std::int64_t count = tensor.num_elements();
  for (std::int64_t index = 0; index < count; ++index) {
    const std::uint64_t random = next_random(state);
    if (is_float(tensor.dtype())) {
      tensor.set_double(index, as_real(random));
    } else {
      tensor.set_int(index,
                     static_cast<std::int64_t>(random % (tensor.dtype() == DType::Bool ? 2 : 10)));
    }
  }
  return {};
}

}  // namespace

std::string tensor_text(const Tensor& tensor, bool full) {
  const std::string type =
      fmt::format("{}{}", to_string(tensor.dtype()), to_string(tensor.sizes()));
  if (tensor.num_elements() <= kPrintedInFull && all_read_back(tensor)) {
    std::string elements;
    for (std::int64_t index = 0; index < tensor.num_elements(); ++index) {
      elements += (index > 0 ? ", " : "") + element_text(tensor, index);
    }
    return fmt::format("{} {{{}}}", type, elements);
  }
  if (is_splat(tensor)) return fmt::format("{} splat {}", type, element_text(tensor, 0));
  if (full) return fmt::format("{} bytes \"{}\"", type, hex_text(tensor));
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.data()),
                               static_cast<std::size_t>(tensor.num_bytes()));
  return fmt::format("{} hash \"{}\"", type, digest(bytes));
}

Expected<Tensor> parse_tensor(TextCursor& cursor, DType dtype, std::int64_t& budget) {
  const std::size_t start = cursor.position();
  OPWELD_TRY(Sizes sizes, parse_sizes(cursor));
  const auto count = checked_num_elements(sizes);
  if (!count || *count > budget / byte_size(dtype)) {
    return cursor.error_at(start,
                           "the tensors of this text are too large; weights belong into a "
                           "model file");
  }
  budget -= *count * byte_size(dtype);
  OPWELD_TRY(Tensor tensor, Tensor::allocate(dtype, std::move(sizes)));
  Status status;
  if (cursor.take('{')) {
    status = parse_elements(cursor, tensor);
  } else if (cursor.take_word("splat")) {
    status = parse_splat(cursor, tensor);
  } else if (cursor.take_word("bytes")) {
    status = parse_bytes(cursor, tensor);
  } else if (cursor.take_word("random")) {
    status = parse_random(cursor, tensor);
  } else if (cursor.take_word("hash")) {
    status = cursor.error_at(start,
                             "a tensor cannot be read from its hash; print the graph with "
                             "full constants");
  } else {
    status = cursor.error("expected '{{', splat, bytes or random, found {}", cursor.next_text());
  }
  if (!status) return tl::unexpected(status.error());
  return tensor;
}

Expected<double> parse_real(TextCursor& cursor) {
  OPWELD_TRY(const std::uint64_t bits, parse_float_bits(cursor, DType::F64));
  return std::bit_cast<double>(bits);
}

std::string real_bits_text(double value) {
  return float_text(DType::F64, value, std::bit_cast<std::uint64_t>(value));
}

}  // namespace opweld
