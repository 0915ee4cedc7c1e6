// Memory for the data of tensors, weights and intermediates.
#pragma once

#include <cstddef>
#include <memory>

namespace opweld {

// What every block is aligned to, so that a kernel may load whole vectors from its start.
inline constexpr std::size_t kBlockAlignment = 64;

// Zero-filled bytes, aligned to kBlockAlignment; null when they cannot be had. Nothing is touched
// before it is used. The last owner frees them.
//
// A block of a megabyte or more asks for the system's huge pages (2 MB on x86-64 Linux). On pages
// of 4 KB a matmul that streams its weights waits for walks of the page table, above all in a
// virtual machine, and their scattered addresses crowd some sets of the second cache while others
// stay empty. Where huge pages cannot be had the block is an ordinary one.
std::shared_ptr<std::byte> allocate_block(std::size_t bytes);

// The same for what does not stay: weights on their way to how a kernel reads them. It takes no
// more than it needs, and every page of it is the system's again as soon as the last owner lets go.
std::shared_ptr<std::byte> allocate_passing_block(std::size_t bytes);

}  // namespace opweld
