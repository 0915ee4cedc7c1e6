// Which operators a model uses, and which of them cannot be imported.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "import/onnx/model_file.h"
#include "support/expected.h"

namespace opweld {

struct Survey {
  struct Unsupported {
    std::int64_t count = 0;
    std::string why;
    std::string first;  // label of the first such node
  };
  std::map<std::string, std::int64_t> operators;
  std::map<std::string, Unsupported> unsupported;
};

// Nodes of the graph and of the functions it calls, each function once. The branches of an If count
// only as operators: one that is not taken may hold anything.
Survey survey_operators(const onnx::GraphProto& graph, const FunctionTable& functions);

// One error that lists all that is unsupported, with counts.
Status require_supported(const Survey& survey);

}  // namespace opweld
