#include "support/block_pool.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "support/memory_block.h"

namespace opweld {
namespace {

struct Block {
  std::size_t bytes = 0;
  std::shared_ptr<std::byte> data;
};

}  // namespace

struct BlockPool::Kept {
  explicit Kept(std::size_t most) : most_kept(most) { blocks.reserve(most + 1); }

  // An empty block when none will do.
  Block find(std::size_t bytes) {
    const std::lock_guard lock(mutex);
    const auto serves = [bytes](const Block& block) {
      // One of more than twice the size is kept for those who need it.
      return bytes <= block.bytes && block.bytes / 2 <= bytes;
    };
    const auto found = std::find_if(blocks.rbegin(), blocks.rend(), serves);
    if (found == blocks.rend()) return {};
    Block block = std::move(*found);
    blocks.erase(std::next(found).base());
    return block;
  }

  void give_back(Block block) {
    const std::lock_guard lock(mutex);
    blocks.push_back(std::move(block));
    if (blocks.size() > most_kept) blocks.erase(blocks.begin());
  }

  const std::size_t most_kept;
  std::mutex mutex;
  std::vector<Block> blocks;  // in the order in which they came back
};

BlockPool::BlockPool(std::size_t most_kept) : kept_(std::make_shared<Kept>(most_kept)) {}

std::shared_ptr<std::byte> BlockPool::take(std::size_t bytes) {
  Block block = kept_->find(bytes);
  if (block.data == nullptr) block = {bytes, allocate_block(bytes)};
  if (block.data == nullptr) return nullptr;
  std::byte* const data = block.data.get();
  return {data, [block = std::move(block), pool = std::weak_ptr(kept_)](std::byte*) mutable {
            if (const auto kept = pool.lock()) kept->give_back(std::move(block));
          }};
}

}  // namespace opweld
