#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <map>
#include <string>

#include "codegen/cpu/jit.h"

namespace opweld::cpu {
namespace {

// Sorted, so that the feature string is the same in every process and may key a cache.
using Features = std::map<std::string, bool>;

Features host_features() {
  Features features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    features[feature.getKey().str()] = feature.getValue();
  }
  return features;
}

bool has(const Features& features, const std::string& name) {
  const auto found = features.find(name);
  return found != features.end() && found->second;
}

// The subset that 512-bit kernels are written against; every AVX-512 processor since Skylake has
// it.
bool has_avx512(const Features& features) {
  return has(features, "avx512f") && has(features, "avx512bw") && has(features, "avx512dq") &&
         has(features, "avx512vl");
}

std::string text(const Features& features) {
  std::string result;
  for (const auto& [name, present] : features) {
    if (!result.empty()) result += ',';
    result += (present ? '+' : '-') + name;
  }
  return result;
}

bool starts_with_any(const std::string& name, std::initializer_list<const char*> prefixes) {
  for (const char* prefix : prefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

JitTarget JitTarget::host() {
  const Features features = host_features();
  const int bits = has_avx512(features) ? 512 : has(features, "avx") ? 256 : 128;
  return {llvm::sys::getHostCPUName().str(), text(features), bits};
}

JitTarget JitTarget::host_avx2() {
  Features features = host_features();
  for (auto& [name, present] : features) {
    if (starts_with_any(name, {"avx512", "avx10", "evex512", "amx"})) present = false;
  }
  // Asked for even where the machine lacks them, so that Jit::create() can say so.
  for (const char* name : {"avx2", "fma", "f16c"}) features[name] = true;
  return {llvm::sys::getHostCPUName().str(), text(features), 256};
}

JitTarget JitTarget::host_avx512() {
  if (has_avx512(host_features())) return host();
  return {"x86-64-v4", "", 512};
}

}  // namespace opweld::cpu
