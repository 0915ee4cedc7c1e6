#include "aot/cpu_features.h"

#include <algorithm>
#include <array>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace opweld::aot {

namespace {

// Registers whose contents the system has to save.
enum class Saved : std::uint8_t { Always, Avx, Avx512, Amx };
enum class Register : std::uint8_t { Eax, Ebx, Ecx, Edx };

struct Feature {
  std::string_view name;
  std::uint32_t leaf;
  std::uint32_t subleaf;
  Register place;
  int bit;
  Saved saved = Saved::Always;
};

constexpr std::uint32_t kExtended = 0x80000001;

using enum Register;
constexpr Feature kFeatures[] = {
    {"cx8", 1, 0, Edx, 8},
    {"cmov", 1, 0, Edx, 15},
    {"mmx", 1, 0, Edx, 23},
    {"sse", 1, 0, Edx, 25},
    {"sse2", 1, 0, Edx, 26},
    {"sse3", 1, 0, Ecx, 0},
    {"ssse3", 1, 0, Ecx, 9},
    {"fma", 1, 0, Ecx, 12, Saved::Avx},
    {"cx16", 1, 0, Ecx, 13},
    {"sse4.1", 1, 0, Ecx, 19},
    {"sse4.2", 1, 0, Ecx, 20},
    {"movbe", 1, 0, Ecx, 22},
    {"popcnt", 1, 0, Ecx, 23},
    {"avx", 1, 0, Ecx, 28, Saved::Avx},
    {"f16c", 1, 0, Ecx, 29, Saved::Avx},
    {"bmi", 7, 0, Ebx, 3},
    {"avx2", 7, 0, Ebx, 5, Saved::Avx},
    {"bmi2", 7, 0, Ebx, 8},
    {"avx512f", 7, 0, Ebx, 16, Saved::Avx512},
    {"evex512", 7, 0, Ebx, 16, Saved::Avx512},
    {"avx512dq", 7, 0, Ebx, 17, Saved::Avx512},
    {"adx", 7, 0, Ebx, 19},
    {"avx512ifma", 7, 0, Ebx, 21, Saved::Avx512},
    {"avx512cd", 7, 0, Ebx, 28, Saved::Avx512},
    {"avx512bw", 7, 0, Ebx, 30, Saved::Avx512},
    {"avx512vl", 7, 0, Ebx, 31, Saved::Avx512},
    {"avx512vbmi", 7, 0, Ecx, 1, Saved::Avx512},
    {"avx512vbmi2", 7, 0, Ecx, 6, Saved::Avx512},
    {"gfni", 7, 0, Ecx, 8},
    {"avx512vnni", 7, 0, Ecx, 11, Saved::Avx512},
    {"avx512bitalg", 7, 0, Ecx, 12, Saved::Avx512},
    {"avx512vpopcntdq", 7, 0, Ecx, 14, Saved::Avx512},
    {"avx512vp2intersect", 7, 0, Edx, 8, Saved::Avx512},
    {"amx-bf16", 7, 0, Edx, 22, Saved::Amx},
    {"avx512fp16", 7, 0, Edx, 23, Saved::Avx512},
    {"amx-tile", 7, 0, Edx, 24, Saved::Amx},
    {"amx-int8", 7, 0, Edx, 25, Saved::Amx},
    {"avxvnni", 7, 1, Eax, 4, Saved::Avx},
    {"avx512bf16", 7, 1, Eax, 5, Saved::Avx512},
    {"amx-fp16", 7, 1, Eax, 21, Saved::Amx},
    {"avxifma", 7, 1, Eax, 23, Saved::Avx},
    {"avxvnniint8", 7, 1, Edx, 4, Saved::Avx},
    {"avxneconvert", 7, 1, Edx, 5, Saved::Avx},
    {"amx-complex", 7, 1, Edx, 8, Saved::Amx},
    {"avxvnniint16", 7, 1, Edx, 10, Saved::Avx},
    {"lzcnt", kExtended, 0, Ecx, 5},
    {"sse4a", kExtended, 0, Ecx, 6},
    {"prfchw", kExtended, 0, Ecx, 8},
    {"xop", kExtended, 0, Ecx, 11, Saved::Avx},
    {"fma4", kExtended, 0, Ecx, 16, Saved::Avx},
    {"tbm", kExtended, 0, Ecx, 21},
};

constexpr std::string_view kIrrelevant[] = {
    "64bit",      "aes",        "avx10.1-256", "avx10.1-512", "ccmp",      "cf",      "cldemote",
    "clflushopt", "clwb",       "clzero",      "cmpccxadd",   "crc32",     "egpr",    "enqcmd",
    "fsgsbase",   "fxsr",       "hreset",      "invpcid",     "kl",        "lwp",     "movdir64b",
    "movdiri",    "mwaitx",     "ndd",         "nf",          "pclmul",    "pconfig", "pku",
    "ppx",        "prefetchi",  "ptwrite",     "push2pop2",   "raoint",    "rdpid",   "rdpru",
    "rdrnd",      "rdseed",     "rtm",         "sahf",        "serialize", "sgx",     "sha",
    "sha512",     "shstk",      "sm3",         "sm4",         "tsxldtrk",  "uintr",   "usermsr",
    "vaes",       "vpclmulqdq", "waitpkg",     "wbnoinvd",    "widekl",    "xsave",   "xsavec",
    "xsaveopt",   "xsaves",     "zu",
};

const Feature* find_feature(std::string_view name) {
  const auto* const found = std::ranges::find(kFeatures, name, &Feature::name);
  return found == std::end(kFeatures) ? nullptr : found;
}

#if defined(__x86_64__)

std::uint32_t read(const Feature& feature) {
  std::array<std::uint32_t, 4> registers = {};
  // Zero where the processor does not know the leaf. A subleaf that it does not know is zero, too.
  if (__get_cpuid_count(feature.leaf, feature.subleaf, &registers[0], &registers[1], &registers[2],
                        &registers[3]) == 0) {
    return 0;
  }
  return registers[static_cast<std::size_t>(feature.place)];
}

// The registers that the system saves (XCR0), by bits.
std::uint64_t saved_registers() {
  constexpr Feature kOsXsave = {"osxsave", 1, 0, Ecx, 27};
  if ((read(kOsXsave) >> kOsXsave.bit & 1) == 0) return 0;
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

// As target/host.cpp asks for them.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool is_saved(Saved saved) {
  constexpr std::uint64_t kAvx = 0x6;
  constexpr std::uint64_t kAvx512 = 0xe6;
  constexpr std::uint64_t kAmx = 0x60000;
  switch (saved) {
    case Saved::Always:
      return true;
    case Saved::Avx:
      return (saved_registers() & kAvx) == kAvx;
    case Saved::Avx512:
      return (saved_registers() & kAvx512) == kAvx512;
    case Saved::Amx:
      return (saved_registers() & kAmx) == kAmx && may_use_tiles();
  }
  return false;
}

bool is_here(const Feature& feature) {
  return (read(feature) >> feature.bit & 1) != 0 && is_saved(feature.saved);
}

#else

bool is_here(const Feature& /*feature*/) {
  return false;
}

#endif

}  // namespace

std::optional<bool> host_has(std::string_view feature) {
  const Feature* const known = find_feature(feature);
  if (known == nullptr) return std::nullopt;
  return is_here(*known);
}

Expected<std::vector<std::string>> needed_features(std::span<const std::string> used) {
  std::vector<std::string> needed;
  for (const std::string& feature : used) {
    if (find_feature(feature) != nullptr) {
      needed.push_back(feature);
    } else if (std::ranges::find(kIrrelevant, feature) == std::end(kIrrelevant)) {
      return fail("the code may use '{}' of the processor, which no other machine can be asked for",
                  feature);
    }
  }
  return needed;
}

}  // namespace opweld::aot
