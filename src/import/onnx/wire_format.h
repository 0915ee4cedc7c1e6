// Separates the bytes of tensors from the rest of a serialized ONNX message.
//
// protobuf copies every field it parses. A model's weights would then exist twice: in the file and
// in the message. So the serialized form is walked first: the result is the same message in which
// each TensorProto.raw_data holds, instead of the bytes, a number (eight bytes, little endian) that
// says which of `payloads` they are. Payloads point into the bytes that were given.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "support/expected.h"

namespace opweld {

struct SplitMessage {
  std::string message;
  std::vector<std::span<const std::byte>> payloads;
};

enum class RootMessage { Model, Tensor };

// Fails where the bytes are not a well-formed message, saying at which byte.
Expected<SplitMessage> split_payloads(std::span<const std::byte> bytes, RootMessage root);

}  // namespace opweld
