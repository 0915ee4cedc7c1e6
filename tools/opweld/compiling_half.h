// The half of the command that compiles.
//
// It is a shared object of its own, and all that takes LLVM, ONNX or Protocol Buffers is in it. The
// command loads it when a subcommand needs it, so that what was compiled runs, is timed and
// explained on machines that have none of these, and help is given there, too.
#pragma once

#include <string>

#include "arguments.h"
#include "graph/tensor.h"
#include "support/expected.h"

namespace opweld::cli {

// What the shared object gives out.
struct CompilingHalf {
  const char* version;  // of Opweld: that of the command, or it is another's

  // The subcommands, of models that are not compiled yet.
  Status (*run)(const RunArguments& arguments);
  Status (*compile)(const CompileArguments& arguments);
  Status (*explain)(const ExplainArguments& arguments);
  Status (*report)(const ReportArguments& arguments);
  Status (*verify)(const VerifyArguments& arguments);
  Status (*bench)(const BenchArguments& arguments);
  Status (*doctor)(const DoctorArguments& arguments);
  Status (*info)(const InfoArguments& arguments);
  Status (*operators)(const OperatorsArguments& arguments);
  Status (*run_cases)(const RunCasesArguments& arguments);

  // A tensor as ONNX keeps test data.
  Expected<Tensor> (*read_tensor_pb)(const std::string& path);
};

// Its one function, of type CompilingHalfEntry.
inline constexpr const char* kCompilingHalfEntry = "opweld_compiling_half";
using CompilingHalfEntry = const CompilingHalf* (*)();

// Loaded on first use, and kept. Fails where it is not beside the command, or lacks a library; the
// message says where it was looked for and what can be done without it.
Expected<const CompilingHalf*> compiling_half();

}  // namespace opweld::cli
