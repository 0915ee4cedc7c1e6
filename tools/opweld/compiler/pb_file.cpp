#include "both/pb_file.h"

#include "import/onnx/import.h"

namespace opweld::cli {

Expected<Tensor> read_pb(const std::string& path) {
  return read_tensor_pb(path);
}

}  // namespace opweld::cli
