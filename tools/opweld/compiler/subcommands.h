// The subcommands as the compiling half runs them, each in a file of its own.
#pragma once

#include "arguments.h"
#include "support/expected.h"

namespace opweld::cli {

Status run_model(const RunArguments& arguments);
Status compile_to_file(const CompileArguments& arguments);
Status explain_model(const ExplainArguments& arguments);
Status report_model(const ReportArguments& arguments);
Status verify_model(const VerifyArguments& arguments);
Status bench_model(const BenchArguments& arguments);
Status examine_machine(const DoctorArguments& arguments);
Status inspect_model(const InfoArguments& arguments);
Status list_operators(const OperatorsArguments& arguments);
Status run_list_of_cases(const RunCasesArguments& arguments);

}  // namespace opweld::cli
