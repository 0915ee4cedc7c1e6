// What an .opw file says beside its graph, its plans and its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"
#include "runtime/compiled_kernel.h"
#include "support/expected.h"

namespace opweld::aot {

// What whoever made the file has to say of it.
struct Origin {
  std::string version;                // of Opweld
  std::string target;                 // as it was asked for: "host-avx2"
  std::vector<std::string> features;  // that a processor must have, by LLVM's names
  std::string fusion;                 // "none", "ops", "auto"
  bool strict = false;                // numerics
  int threads = 1;                    // that tasks were cut for; it runs on any number
};

struct Record {
  Origin origin;

  // Functions of the C library that the code calls. Their addresses follow the code in memory, each
  // in its slot of eight bytes (aot/link.h).
  std::vector<std::string> imports;

  // A constant of the graph or of kernels. Those that only kernels read are not there in the graph.
  struct StoredTensor {
    DType dtype = DType::F32;
    Sizes sizes;
    std::optional<std::uint64_t> offset;  // in section Weights; absent: its bytes are nobody's need
  };
  std::vector<StoredTensor> tensors;

  // A generated function and what a run has to know of it: `kernel` but for its address.
  struct Code {
    std::uint64_t entry = 0;  // in section Code
    CompiledKernel kernel;
  };
  std::vector<Code> codes;

  struct Use {
    std::optional<std::size_t> code;  // absent: a call
    std::vector<std::size_t> constants;
    std::string why_call;
  };
  std::vector<std::vector<Use>> versions;  // by plan, by kernel
};

std::string to_json(const Record& record);

// The inverse. Places are within their lists, sizes are not negative and have a product; offsets
// and entries are for the caller to hold against the sections.
Expected<Record> parse_record(std::string_view json);

}  // namespace opweld::aot
