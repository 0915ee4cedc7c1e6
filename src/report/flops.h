// How much arithmetic a kernel does, for its place under a roofline.
//
// Operators defined by a body count as what that is made of. A matmul of [M, K] and [K, N] counts
// 2 M N K, an attention its two products over all keys, masked or not: 2 S T (D + Dv) for each head
// (the softmax between them is left out, as is usual). A pointwise operator counts as the cost
// model counts it (fusion/cost.h), a reduction an addition for each element that it reads. What
// only moves elements counts nothing, and neither does a call.
#pragma once

#include "fusion/plan.h"
#include "support/expected.h"

namespace opweld {

// Of one run of the kernel at these sizes. A double, since large models pass 2^63.
Expected<double> flops_of(const Kernel& kernel, const Bindings& bindings);

}  // namespace opweld
