#include "target/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "target/host.h"
#include "target/planned.h"

namespace opweld {

namespace {

// Narrower than the host can do, for comparison and for tests of each width.
Target restricted(Target target, std::string name, std::string cpu, std::string features, int bits,
                  int registers) {
  target.name = std::move(name);
  target.cpu = std::move(cpu);
  target.features = std::move(features);
  target.peak_flops *= static_cast<double>(bits) / target.vector_bits;
  target.vector_bits = bits;
  target.vector_registers = registers;
  target.has_amx_bf16 = false;
  target.matrix_flops = 0;
  return target;
}

constexpr std::string_view kNarrowTargets[] = {"host-avx2", "host-avx512", "host-amx"};

}  // namespace

Expected<Target> find_target(std::string_view name) {
  const Target host = host_target();
  const HostFeatures features = host_features();
  if (name == "host") return host;
  for (const Target& planned : planned_targets()) {
    if (name == planned.name) return planned;
  }
  if (name == "host-generic") {
    Target target = restricted(host, "host-generic", "generic", "", 128, 16);
    target.has_f16c = false;
    target.has_bf16_dot = false;
    return target;
  }
  if (name == "host-avx2" && features.avx2) {
    Target target = restricted(host, "host-avx2", "haswell", "+avx2,+fma,+f16c", 256, 16);
    target.has_bf16_dot = false;
    return target;
  }
  if (name == "host-avx512" && features.avx512) {
    return restricted(host, "host-avx512", host.cpu, host.features, 512, 32);
  }
  if (name == "host-amx" && features.amx_bf16) {
    Target target = host;
    target.name = "host-amx";
    return target;
  }
  const bool is_known = std::ranges::find(kNarrowTargets, name) != std::end(kNarrowTargets);
  return usage_error("target '{}' is {}; this machine offers {}, and plans for {}", name,
                     is_known ? "not available here, the processor lacks its instructions or the "
                                "system keeps them from us"
                              : "not known",
                     fmt::join(offered_targets(), ", "), planned_names());
}

std::vector<std::string> offered_targets() {
  const HostFeatures features = host_features();
  std::vector<std::string> offered = {"host", "host-generic"};
  if (features.avx2) offered.emplace_back("host-avx2");
  if (features.avx512) offered.emplace_back("host-avx512");
  if (features.amx_bf16) offered.emplace_back("host-amx");
  return offered;
}

Status check_is_here(const Target& target) {
  if (!target.planned_only) return {};
  return usage_error(
      "target '{}' is hardware that is not here: opweld explain plans and counts for it, but "
      "nothing can be compiled, run or measured",
      target.name);
}

Target on_threads(Target target, int threads) {
  target.cores = std::clamp(threads, 1, target.cores);
  return target;
}

}  // namespace opweld
