#include "import/onnx/wire_format.h"

#include <cstdint>
#include <cstring>

namespace opweld {
namespace {

// The messages on the way to raw_data; Other stands for all that cannot hold any.
enum class Message { Model, Graph, Node, Attribute, Tensor, Function, RawData, Other };

// What a length-delimited field of a message holds (field numbers of onnx.proto).
Message message_in(Message parent, std::uint64_t field) {
  switch (parent) {
    case Message::Model:
      return field == 7 ? Message::Graph : (field == 25 ? Message::Function : Message::Other);
    case Message::Graph:
      return field == 1 ? Message::Node : (field == 5 ? Message::Tensor : Message::Other);
    case Message::Function:
      return field == 7 ? Message::Node : (field == 11 ? Message::Attribute : Message::Other);
    case Message::Node:
      return field == 5 ? Message::Attribute : Message::Other;
    case Message::Attribute:
      if (field == 5 || field == 10) return Message::Tensor;
      return field == 6 || field == 11 ? Message::Graph : Message::Other;
    case Message::Tensor:
      return field == 9 ? Message::RawData : Message::Other;
    case Message::RawData:
    case Message::Other:
      break;
  }
  return Message::Other;
}

// protobuf's own parser refuses messages nested deeper than this.
constexpr int kMaxDepth = 100;

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

class Splitter {
 public:
  explicit Splitter(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // Copies the message in [position_, end) to `to`, its payloads replaced.
  Status copy_message(Message kind, std::size_t end, int depth, std::string& to) {
    if (depth > kMaxDepth) return fail("messages are nested more than {} deep", kMaxDepth);
    while (position_ < end) OPWELD_CHECK(copy_field(kind, end, depth, to));
    return {};
  }

  std::vector<std::span<const std::byte>> take_payloads() { return std::move(payloads_); }

 private:
  enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kFixed32 = 5 };

  Status copy_field(Message kind, std::size_t end, int depth, std::string& to) {
    const std::size_t start = position_;
    OPWELD_TRY(const std::uint64_t tag, read_varint(end));
    if (tag >> 3 == 0) return malformed(start);
    switch (tag & 7) {
      case kVarint:
        OPWELD_CHECK(read_varint(end));
        break;
      case kFixed64:
        OPWELD_CHECK(skip(8, end));
        break;
      case kFixed32:
        OPWELD_CHECK(skip(4, end));
        break;
      case kDelimited:
        return copy_delimited(message_in(kind, tag >> 3), tag, end, depth, to);
      default:
        return malformed(start);
    }
    append(to, start, position_);
    return {};
  }

  Status copy_delimited(Message kind, std::uint64_t tag, std::size_t end, int depth,
                        std::string& to) {
    const std::size_t start = position_;
    OPWELD_TRY(const std::uint64_t length, read_varint(end));
    if (length > end - position_) {
      return fail("is truncated: a field at byte {} has {} bytes, {} are left", start, length,
                  end - position_);
    }
    const std::size_t field_end = position_ + static_cast<std::size_t>(length);
    append_varint(to, tag);
    if (kind == Message::RawData) {
      append_payload(position_, field_end, to);
      position_ = field_end;
    } else if (kind == Message::Other) {
      append_varint(to, length);
      append(to, position_, field_end);
      position_ = field_end;
    } else {
      std::string inner;
      OPWELD_CHECK(copy_message(kind, field_end, depth + 1, inner));
      append_varint(to, inner.size());
      to += inner;
    }
    return {};
  }

  void append_payload(std::size_t start, std::size_t end, std::string& to) {
    const std::uint64_t number = payloads_.size();
    payloads_.push_back(bytes_.subspan(start, end - start));
    char encoded[sizeof number];
    std::memcpy(encoded, &number, sizeof number);
    append_varint(to, sizeof number);
    to.append(encoded, sizeof number);
  }

  Expected<std::uint64_t> read_varint(std::size_t end) {
    const std::size_t start = position_;
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (position_ >= end) return fail("is truncated within the number at byte {}", start);
      const auto byte = std::to_integer<std::uint64_t>(bytes_[position_++]);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return malformed(start);
  }

  Status skip(std::size_t count, std::size_t end) {
    if (count > end - position_) return fail("is truncated at byte {}", position_);
    position_ += count;
    return {};
  }

  static tl::unexpected<Error> malformed(std::size_t at) {
    return fail("is not an ONNX file or is corrupt: byte {} begins no field", at);
  }

  void append(std::string& to, std::size_t start, std::size_t end) const {
    to.append(reinterpret_cast<const char*>(bytes_.data()) + start, end - start);
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
  std::vector<std::span<const std::byte>> payloads_;
};

}  // namespace

Expected<SplitMessage> split_payloads(std::span<const std::byte> bytes, RootMessage root) {
  const Message kind = root == RootMessage::Model ? Message::Model : Message::Tensor;
  Splitter splitter(bytes);
  SplitMessage result;
  OPWELD_CHECK(splitter.copy_message(kind, bytes.size(), 0, result.message));
  result.payloads = splitter.take_payloads();
  return result;
}

}  // namespace opweld
