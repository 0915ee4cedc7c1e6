#include "both/pb_file.h"

#include "compiling_half.h"

namespace opweld::cli {

Expected<Tensor> read_pb(const std::string& path) {
  OPWELD_TRY(const CompilingHalf* const half, compiling_half());
  return half->read_tensor_pb(path);
}

}  // namespace opweld::cli
