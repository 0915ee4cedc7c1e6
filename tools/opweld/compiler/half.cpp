// What the shared object gives out.
#include "compiler/subcommands.h"
#include "compiling_half.h"
#include "import/onnx/import.h"

namespace {

using namespace opweld::cli;

constexpr CompilingHalf kHalf = {
    .version = OPWELD_VERSION,
    .run = run_model,
    .compile = compile_to_file,
    .explain = explain_model,
    .report = report_model,
    .verify = verify_model,
    .bench = bench_model,
    .doctor = examine_machine,
    .info = inspect_model,
    .operators = list_operators,
    .run_cases = run_list_of_cases,
    .read_tensor_pb = opweld::read_tensor_pb,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const CompilingHalf* opweld_compiling_half() {
  return &kHalf;
}
