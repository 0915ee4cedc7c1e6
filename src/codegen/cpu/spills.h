// What LLVM's register allocator could not keep in registers.
#pragma once

#include <string_view>

namespace opweld::cpu {

// Instructions that move a vector, 16 bytes or more, to the stack or back, or take an operand from
// there. Those of scalars and of masks are not counted, nor are constants, which are read again
// where they are wanted and were never written.
struct VectorSpills {
  int spills = 0;
  int instructions = 0;  // of all kinds, those included
};

// Counts them in assembly with the comments of LLVM's printer (AssemblyComments::Yes), which say of
// each such instruction how many bytes it spills or reloads.
VectorSpills count_vector_spills(std::string_view assembly);

}  // namespace opweld::cpu
