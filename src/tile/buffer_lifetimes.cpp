#include "tile/buffer_lifetimes.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "support/shape.h"
#include "tile/walk.h"

namespace opweld::tile {

namespace {

// The buffers that the statement, and what is nested in it, reads and writes.
void for_each_buffer(const Statement& statement,
                     const std::function<void(std::size_t buffer)>& visit) {
  for_each_access(statement, [&visit](const Access& access) {
    if (access.memory != Access::Memory::Buffer) return;
    visit(static_cast<std::size_t>(access.target));
  });
  const Block* const nested = nested_block(statement);
  if (nested == nullptr) return;
  for (const Statement& each : *nested) for_each_buffer(each, visit);
}

}  // namespace

std::vector<BufferLifetime> buffer_lifetimes(const TileProgram& program) {
  const BufferLifetime always{0, program.body.empty() ? 0 : program.body.size() - 1};
  std::vector<std::optional<BufferLifetime>> found(program.buffers.size());
  for (std::size_t i = 0; i < program.body.size(); ++i) {
    const auto touch = [&found, i](std::size_t buffer) {
      if (!found[buffer]) found[buffer] = {i, i};
      found[buffer]->last = i;
    };
    for_each_buffer(program.body[i], touch);
  }
  if (const Keep* const keep = keep_of(program)) {
    for (const Statement& statement : keep->body) {
      for_each_buffer(statement, [&](std::size_t buffer) { found[buffer] = always; });
    }
  }
  std::vector<BufferLifetime> lifetimes;
  lifetimes.reserve(found.size());
  for (const auto& lifetime : found) lifetimes.push_back(lifetime.value_or(always));
  return lifetimes;
}

Dim buffer_bytes(const TileProgram& program, Buffer::Space space) {
  const std::vector<BufferLifetime> lifetimes = buffer_lifetimes(program);
  const auto bytes_at = [&](std::size_t statement) {
    Dim bytes = 0;
    for (std::size_t i = 0; i < program.buffers.size(); ++i) {
      const Buffer& buffer = program.buffers[i];
      if (buffer.space != space || !lifetimes[i].includes(statement)) continue;
      bytes += num_elements(buffer.shape) * byte_size(buffer.dtype);
    }
    return bytes;
  };
  // There are most where one more begins to be needed.
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    if (program.buffers[i].space == space) begins.push_back(lifetimes[i].first);
  }
  std::ranges::sort(begins);
  const auto repeated = std::ranges::unique(begins);
  begins.erase(repeated.begin(), repeated.end());
  Dim most = 0;
  for (const std::size_t statement : begins) most = max(most, bytes_at(statement));
  return most;
}

}  // namespace opweld::tile
