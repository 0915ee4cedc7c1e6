// A whole tile program as one LLVM function. Private to this folder.
#pragma once

#include <string>
#include <vector>

#include "codegen/cpu/jit_llvm.h"
#include "tile/tile_ir.h"

namespace opweld::cpu {

// Adds the function `name` with the signature CompiledKernel::Function.
void emit_program(const tile::TileProgram& program, int vector_bits, llvm::Module& module,
                  const std::string& name);

// The program's checks, in the order of their codes.
std::vector<const tile::Check*> checks_of(const tile::TileProgram& program);

// Bytes of scratch memory that a task of the function takes.
Dim scratch_bytes(const tile::TileProgram& program);

}  // namespace opweld::cpu
