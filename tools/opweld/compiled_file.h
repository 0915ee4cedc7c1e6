// Models that were compiled ahead of time, where commands take them in place of a model file.
#pragma once

#include <string>

#include "aot/model_file.h"
#include "compile.h"
#include "session.h"
#include "support/expected.h"

namespace opweld::cli {

// By its name: "model.opw".
bool is_compiled_file(const std::string& path);

// The file, to be run as `options` say. What was decided when it was compiled cannot be asked for
// again: options that would are usage errors that name `opweld compile`.
Expected<aot::LoadedModel> load_compiled_file(const ModelOptions& options);

// The same as what compiling gives; its one pass is loading.
Expected<Compiled> load_compiled(const ModelOptions& options);

}  // namespace opweld::cli
