// What to say of tensors for which there is no room: which one, of which type, whose, and the way
// out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "fusion/plan.h"
#include "support/expected.h"

namespace opweld {

// "f32[8, 4096], made by matmul '/dense/MatMul'", "i64[1, 128], input 'ids'". Sizes that have no
// value stand as they are declared.
std::string tensor_text(const Value& value, const Bindings& sizes);

// Of a tensor whose bytes are too many to address, or of which a size cannot even be represented: a
// usage error, since it is for the caller to give other sizes.
tl::unexpected<Error> too_large(const Value& value, const Bindings& sizes);

// The same of the first tensor that the kernel reads or writes for which that is so; else `error`,
// which came up in counting what the kernel takes, with the kernel's name.
tl::unexpected<Error> too_large(const Kernel& kernel, const Error& error, const Bindings& sizes);

// Of memory that the system does not give: "out of memory: the intermediate tensors of a run need
// 12 bytes; the largest is f32[3], made by exp. Smaller sizes need less (s = 3)". `most` says what
// takes most of it; may be empty.
tl::unexpected<Error> out_of_memory(std::string_view what, std::int64_t bytes,
                                    const std::string& most, const Bindings& sizes);

}  // namespace opweld
