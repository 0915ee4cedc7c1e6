// The side of the Jit that code emitters use: from an llvm::Module to machine code.
//
// The usual way: new_module(), emit functions, add_module(), Jit::lookup(). A context, and the
// modules in it, belong to one thread at a time; several threads may compile for one Jit when each
// has its own context.
#pragma once

#include <llvm/IR/Instructions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <memory>
#include <string>

#include "codegen/cpu/jit.h"

namespace opweld::cpu {

// An empty module with the triple and data layout of the target, and a note of has_f16c().
std::unique_ptr<llvm::Module> new_module(const Jit& jit, llvm::LLVMContext& context,
                                         const std::string& name);

// Whether the target that a module was made for converts between f16 and f32 in hardware. Without,
// LLVM would call functions that a process need not have.
bool has_f16c(const llvm::Module& module);

// Whether that target has the instructions of AVX-512F on 512-bit vectors.
bool has_avx512f(const llvm::Module& module);

// Whether it has those of AVX512_BF16.
bool has_avx512_bf16(const llvm::Module& module);

// Asks for the loop that `latch` closes to be unrolled `count` times; loops not asked for stay.
// A trip count that `count` does not divide is handled by a remainder loop. The step of the loop's
// counter must be `nuw` or `nsw`: where it might wrap, LLVM keeps the exit test of every copy.
void request_unroll(llvm::BranchInst* latch, int count);

// Marks the functions for the target and runs a short pass pipeline, far from -O3, since kernels
// arrive in the loop shape they should have: SROA, CSE, instruction combining, loop-invariant code
// motion, GVN, the unrolling asked for. No pass reassociates, and none contracts beyond the flags
// on the instructions: results depend neither on the pipeline nor on the vector width. A module
// that LLVM's verifier rejects is an error that holds its text.
Status optimize(const Jit& jit, llvm::Module& module);

// Machine code of a module, as it stands, as an object file.
Expected<std::string> emit_object(const Jit& jit, const llvm::Module& module);
// Whether the printer says of instructions what they spill, and of blocks in which loop they lie.
enum class AssemblyComments { No, Yes };
// The same code as assembly text; for golden tests and for people.
Expected<std::string> emit_assembly(const Jit& jit, const llvm::Module& module,
                                    AssemblyComments comments = AssemblyComments::No);
// The module in LLVM's own notation.
std::string ir_text(const llvm::Module& module);

// optimize, emit_object, Jit::add_object. The object is returned so that it can be kept.
Expected<std::string> add_module(Jit& jit, std::unique_ptr<llvm::Module> module);

}  // namespace opweld::cpu
