// TensorProto -> Tensor: dtypes, typed fields, raw bytes, external files.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"
#include "support/expected.h"
#include "support/mapped_file.h"

namespace onnx {
class TensorProto;
}

namespace opweld {

// The dtype of an ONNX element type (TensorProto.DataType).
std::optional<DType> dtype_of_element_type(int element_type);
// "float8e4m3fn"; "element type 99" for a number that has no name.
std::string element_type_name(int element_type);
// The same as a result: the error names the type and what is supported.
Expected<DType> require_dtype(int element_type);

class TensorReader {
 public:
  // `payloads` are those of the split message; they live in `owner`. External files are looked for
  // in `directory`.
  TensorReader(std::vector<std::span<const std::byte>> payloads, std::shared_ptr<const void> owner,
               std::string directory)
      : payloads_(std::move(payloads)),
        owner_(std::move(owner)),
        directory_(std::move(directory)) {}

  // Borrows the bytes where it can: they are raw or external, and aligned for the dtype.
  Expected<Tensor> read(const onnx::TensorProto& proto);

 private:
  Expected<SharedBytes> raw_bytes(const onnx::TensorProto& proto) const;
  Expected<SharedBytes> external_bytes(const onnx::TensorProto& proto, std::size_t wanted);
  Expected<SharedBytes> external_file(const std::string& location);

  std::vector<std::span<const std::byte>> payloads_;
  std::shared_ptr<const void> owner_;
  std::string directory_;
  std::map<std::string, SharedBytes> external_files_;
};

}  // namespace opweld
