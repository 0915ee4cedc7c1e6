// Machine code in this process: compiles LLVM modules for one processor and makes them callable.
//
// This header names no LLVM type; whoever emits code includes codegen/cpu/jit_llvm.h as well.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/expected.h"

namespace opweld::cpu {

// The processor that code is made for.
struct JitTarget {
  std::string cpu;        // as LLVM spells it: "znver3", "x86-64-v4"
  std::string features;   // what to add to and take from that processor: "+fma,-avx512f"
  int vector_bits = 256;  // width of the vectors that kernels should be written in

  // This machine with everything it has.
  static JitTarget host();
  // This machine held to AVX2 with FMA and F16C, and to 256-bit vectors.
  static JitTarget host_avx2();
  // This machine with 512-bit vectors; a generic AVX-512 processor (which can then only be
  // compiled for) where the machine has none.
  static JitTarget host_avx512();

  friend bool operator==(const JitTarget&, const JitTarget&) = default;
};

enum class Foreign {
  Reject,  // code that the host cannot run is an error
  Allow,   // compile only: add_object() and lookup() will fail if the host cannot run it
};

// Of the library that this process runs with: "19.1.7".
std::string llvm_version();

// Every member may be called from several threads at once.
class Jit {
 public:
  // Fails when LLVM does not know the processor or a feature, and, unless `foreign` allows it, when
  // the host lacks a feature of the target.
  static Expected<Jit> create(const JitTarget& target, Foreign foreign = Foreign::Reject);

  Jit(Jit&&) noexcept;
  Jit& operator=(Jit&&) noexcept;
  ~Jit();  // the code goes with it

  [[nodiscard]] const JitTarget& target() const;
  [[nodiscard]] bool can_run() const;
  // What code for the target may use, of the features that LLVM looks for in a host: "avx2", "fma".
  [[nodiscard]] const std::vector<std::string>& features() const;

  // Makes a function of this process callable from compiled code by that name. The C library's
  // functions need no such introduction.
  Status define(std::string_view symbol, const void* address);

  // Makes the functions of an object file (see jit_llvm.h, or one kept from an earlier run)
  // callable. `name` is for messages. A symbol that is already there is an error.
  Status add_object(std::string_view object, const std::string& name);

  // The address of a function of an added object; an error if there is none.
  Expected<void*> lookup(const std::string& symbol) const;

  // function<void(const float*, float*)>("kernel") -> a pointer to call.
  template <typename Signature>
  Expected<Signature*> function(const std::string& symbol) const {
    OPWELD_TRY(void* const address, lookup(symbol));
    return reinterpret_cast<Signature*>(address);
  }

 private:
  friend struct JitAccess;
  struct Impl;
  explicit Jit(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opweld::cpu
