// What the processor and the operating system say of this machine. In the compiler only target.cpp
// asks; benchmarks of the machine do, too.
#pragma once

namespace opweld {

struct HostFeatures {
  bool avx2 = false;    // with FMA and F16C
  bool avx512 = false;  // F, BW, DQ and VL
  bool bf16_dot = false;
  // AMX tiles of bf16, and the system lets this process use them.
  bool amx_bf16 = false;
};

HostFeatures host_features();

}  // namespace opweld
