// opweld doctor: what Opweld runs with, and what of it is wrong.
#include "compiler/doctor.h"

#include <fmt/ranges.h>

#include <cmath>
#include <fstream>

#include "codegen/cpu/jit.h"
#include "compile.h"
#include "compiler/session.h"
#include "compiler/subcommands.h"
#include "graph/tensor.h"
#include "ops/builder.h"
#include "report/account.h"
#include "support/processors.h"
#include "target/planned.h"
#include "target/target.h"

namespace opweld::cli {

namespace {

Finding examine_processor(const Target& host) {
  std::vector<std::string> extras;
  if (host.has_f16c) extras.emplace_back("f16 conversions");
  if (host.has_bf16_dot) extras.emplace_back("bf16 dot products");
  if (host.has_amx_bf16) extras.emplace_back("AMX tiles of bf16");
  Finding finding{
      "processor",
      fmt::format("{}, vectors of {} bits{}{}", host.model.empty() ? host.cpu : host.model,
                  host.vector_bits, extras.empty() ? "" : ", ", fmt::join(extras, ", "))};
  constexpr int kNarrow = 128;
  if (host.vector_bits <= kNarrow) {
    finding.note = "neither AVX2 nor AVX-512 is there, so kernels are narrow and slow";
  }
  return finding;
}

Finding examine_targets() {
  return {"targets",
          fmt::format("{}; planned for: {}", fmt::join(offered_targets(), ", "), planned_names())};
}

Finding examine_threads(const Target& host) {
  const int allowed = Processors::allowed().count();
  Finding finding{"threads", fmt::format("{}, one for each core", host.cores)};
  if (allowed > 0 && allowed < host.cores) {
    finding.note = fmt::format("this process may run on {} of them alone; give --threads={}",
                               allowed, allowed);
  }
  return finding;
}

Finding examine_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  if (!std::getline(file, line)) return {"huge pages", "the system does not tell"};
  const std::size_t open = line.find('[');
  const std::size_t close = line.find(']');
  const bool found = open != std::string::npos && close != std::string::npos && open < close;
  Finding finding{"huge pages", found ? line.substr(open + 1, close - open - 1) : line};
  if (finding.value == "never") {
    finding.note =
        "matmuls over large weights are faster with them: echo madvise > "
        "/sys/kernel/mm/transparent_hugepage/enabled";
  }
  return finding;
}

// Compiles and runs two neighbours with the settings that a compilation has where nobody has said
// anything else, and sees whether they became one kernel.
Finding examine_fusion() {
  Finding finding{"automatic fusion", "on"};
  const auto fails = [&](std::string why) {
    finding.value = "unknown";
    finding.problem = "two operators could not be compiled and run: " + std::move(why);
    return finding;
  };
  auto graph = parse_graph(R"(graph doctor(%x: f32[n]) {
    %e = exp(%x)
    %y = neg(%e)
    return %y as "y"
  })");
  if (!graph) return fails(graph.error().message);
  auto compiled = compile(std::move(*graph));
  if (!compiled) return fails(compiled.error().message);
  constexpr std::int64_t kElements = 1000;
  auto x = Tensor::allocate(DType::F32, {kElements});
  if (!x) return fails(x.error().message);
  for (std::int64_t i = 0; i < kElements; ++i) x->set_double(i, static_cast<double>(i) / kElements);
  const std::vector<Tensor> inputs = {*x};
  const auto outputs = compiled->executable.run(inputs);
  if (!outputs) return fails(outputs.error().message);
  constexpr double kTolerance = 0x1p-10;
  for (std::int64_t i = 0; i < kElements; ++i) {
    const double expected = -std::exp(x->get_double(i));
    if (!(std::abs(outputs->front().get_double(i) - expected) <= kTolerance * -expected)) {
      return fails("the result is wrong");
    }
  }
  const FusionPlan& plan = compiled->executable.plan();
  if (plan.kernels.size() == 1) {
    finding.value = fmt::format("on: {} are one kernel", plan.kernels.front().label);
  } else {
    finding.value = "off";
    finding.problem = nothing_fused_line(plan);
  }
  return finding;
}

std::vector<Finding> examine() {
  const Target host = host_target();
  std::vector<Finding> findings = {{"version", OPWELD_VERSION},
                                   examine_processor(host),
                                   examine_targets(),
                                   {"LLVM", cpu::llvm_version()},
                                   examine_threads(host),
                                   examine_huge_pages(),
                                   examine_cache(),
                                   examine_fusion()};
  const std::vector<Finding> environment = examine_environment();
  findings.insert(findings.end(), environment.begin(), environment.end());
  return findings;
}

}  // namespace

Status examine_machine(const DoctorArguments& arguments) {
  return tell_findings(examine(), arguments.json);
}

}  // namespace opweld::cli
