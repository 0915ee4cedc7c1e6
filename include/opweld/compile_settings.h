// What a caller may decide about a compilation.
#pragma once

#include <cstdint>
#include <string>

namespace opweld {

// How much is fused; people compare the three.
enum class FusionLevel : std::uint8_t {
  None,  // every operator of the model is a kernel
  Ops,   // only the operator library: attention, norms, activations found and taken whole
  Auto,  // and neighbours welded by the planner
};

// Where intermediates are rounded; docs/numerics.md has the whole of it.
enum class Numerics : std::uint8_t {
  Default,  // a fused kernel keeps intermediates in its compute type (f32 for f16 and bf16)
  Strict,   // as if every intermediate were stored: fused results are bit-identical to unfused ones
};

struct CompileSettings {
  FusionLevel fusion = FusionLevel::Auto;
  Numerics numerics = Numerics::Default;
  int threads = 0;  // to run on, at most 1024; 0: one for each core
  // "host", or a narrower view of this machine: "host-generic", "host-avx2", "host-avx512",
  // "host-amx".
  std::string target = "host";
  // Hand all kernels to the threads at once, which go from one to the next by themselves and wait
  // for each other only where a kernel reads what another wrote. Worth it where kernels are short:
  // small batches, single tokens. Results are the same to the bit.
  bool single_launch = false;
};

}  // namespace opweld
