// Any bytes are a model or an error; an imported model passes the verifier.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "import/onnx/import.h"
#include "ops/builder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  // No file lies in a directory that cannot be: external data must be missed, never read.
  const auto graph = opweld::import_onnx_bytes(bytes, "fuzz.onnx", "/dev/null");
  if (graph && !opweld::verify(*graph)) std::abort();
  return 0;
}
