#include "target/host.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "target/target.h"

namespace opweld {

namespace {

std::int64_t cache_bytes(int name, std::int64_t otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : otherwise;
}

// Cycles per second as the kernel reports them; the maximum where it is known.
double frequency() {
  std::ifstream maximum("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  double kilohertz = 0;
  if (maximum >> kilohertz) return kilohertz * 1e3;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("cpu MHz"))
      return std::strtod(line.c_str() + line.find(':') + 1, nullptr) * 1e6;
  }
  return 2.5e9;
}

// "AMD EPYC 7B13"; processors whose caches and speed differ may share LLVM's name for them.
std::string model_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return {};
}

// Main-memory bandwidth of a current server core pair, in bytes per second. A default for planning
// only:
// ./dev bench measures the machine before it quotes a fraction of anything.
constexpr double kAssumedBandwidth = 20e9;
// Of one core to its own outer cache, in bytes per cycle. A default for planning only, between what
// machine_limits measures for copies inside that cache (28) and beyond it (9).
constexpr double kCacheBytesPerCycle = 16;
// Of an AMX unit: 16 x 16 x 32 products and their sums, which a TDPBF16PS takes 16 cycles for.
constexpr double kMatrixFlopsPerCycle = 2.0 * 16 * 16 * 32 / 16;

// Tile registers are state that Linux saves for a process only once it has asked for them (the
// kernel's Documentation/arch/x86/xstate.rst). Asked once; threads have what their process has.
bool may_use_tiles() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

}  // namespace

HostFeatures host_features() {
  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  const auto has = [&](const char* name) { return features.lookup(name); };
  HostFeatures host;
  host.avx2 = has("avx2") && has("fma") && has("f16c");
  host.avx512 =
      host.avx2 && has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  host.bf16_dot = host.avx512 && has("avx512bf16");
  host.amx_bf16 = host.avx512 && has("amx-tile") && has("amx-bf16") && may_use_tiles();
  return host;
}

Target host_target() {
  const HostFeatures features = host_features();
  Target target;
  target.name = "host";
  target.model = model_name();
  target.cpu = llvm::sys::getHostCPUName().str();
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    if (!target.features.empty()) target.features += ',';
    target.features += (feature.second ? "+" : "-") + feature.first().str();
  }
  target.vector_bits = features.avx512 ? 512 : (features.avx2 ? 256 : 128);
  target.vector_registers = features.avx512 ? 32 : 16;
  target.has_f16c = features.avx2;
  target.has_bf16_dot = features.bf16_dot;
  target.has_amx_bf16 = features.amx_bf16;
  target.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  target.l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, target.l1_bytes);
  target.l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, target.l2_bytes);
  target.l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE, target.l3_bytes);
  target.on_chip_bytes = target.l2_bytes / 2;
  const std::int64_t share = target.l3_bytes / (2 * target.cores);
  target.outer_bytes = std::max(target.on_chip_bytes, std::min(share, 4 * target.l2_bytes));
  constexpr int kFlopsPerFma = 2;
  target.peak_flops =
      frequency() * target.fma_per_cycle * kFlopsPerFma * (target.vector_bits / 32.0);
  if (target.has_amx_bf16) target.matrix_flops = frequency() * kMatrixFlopsPerCycle;
  target.bandwidth = kAssumedBandwidth;
  target.cache_bandwidth = frequency() * kCacheBytesPerCycle;
  return target;
}

}  // namespace opweld
