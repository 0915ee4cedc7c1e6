// What a caller may decide about a compilation.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "opweld/size.h"

namespace opweld {

// How much is fused; people compare the three.
enum class FusionLevel : std::uint8_t {
  None,  // every operator of the model is a kernel
  Ops,   // only the operator library: matmuls, attention and norms, with prologue and epilogue
  Auto,  // and whatever neighbours the planner finds worth it
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

  // Outputs that take over the memory of an input, as {output, input}: {"present_key", "past_key"}.
  // Program::run_into may then be given the same memory for both, and writes the new rows alone;
  // given other memory, and in run, the input is copied first. The output must be what a
  // TensorScatter writes into that input, and nobody else may read the input; else compiling is a
  // usage error that names the operator in the way. What the textual form of a model declares need
  // not be named here.
  std::map<std::string, std::string> in_place = {};

  // Whether kernels take block sizes that were measured on this machine before, from the cache
  // folder: OPWELD_CACHE_DIR, else ~/.cache/opweld. What is not known, and everything where this is
  // false or OPWELD_TUNED is 0, follows from the description of the processor.
  bool tuned = true;
  // Measure them now, for at most so many seconds (at most 86400), and keep what is found in the
  // cache folder; 0: do not. The model is run on random inputs for that, so it is a failure if it
  // cannot be.
  double tune_seconds = 0;
  // The sizes to measure at: those that the model will mostly run with. Where none is given, 1 for
  // a batch and 128 for anything else. A name that the model lacks is a usage error.
  SymbolValues tune_sizes = {};

  // Whether plans and machine code are taken from the cache folder where an earlier compilation of
  // the same build of Opweld left them, and left there for later ones: a second start is several
  // times as fast. Nothing is where this is false, and where OPWELD_COMPILED is 0.
  bool cached = true;
};

}  // namespace opweld
