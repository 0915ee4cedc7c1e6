// Any bytes are a compiled model or an error. Digests are left aside, or no change would get past
// them; code is loaded and never run.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "aot/model_file.h"
#include "support/memory_block.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::shared_ptr<std::byte> block = opweld::allocate_block(size + 1);
  if (block == nullptr) return 0;
  if (size > 0) std::memcpy(block.get(), data, size);
  opweld::aot::LoadOptions options;
  options.threads = 1;
  options.check_digests = false;
  options.check_processor = false;
  const auto loaded = opweld::aot::read_model({{block.get(), size}, block}, options);
  (void)loaded;
  return 0;
}
