// Models that were compiled ahead of time, where commands take them in place of a model file.
#pragma once

#include <cstdint>
#include <string>

#include "aot/model_file.h"
#include "arguments.h"
#include "report/account_record.h"
#include "support/expected.h"

namespace opweld::cli {

// The file, to be run as `options` say. What was decided when it was compiled cannot be asked for
// again: options that would are usage errors that name `opweld compile`. To be looked at alone, it
// may be for another processor.
enum class Purpose : std::uint8_t { Run, Look };
Expected<aot::LoadedModel> load_compiled_file(const ModelOptions& options,
                                              Purpose purpose = Purpose::Run);

// The account at the sizes that compiling was given, without loading the model. Fails where it was
// left out.
Expected<std::string> stored_account(const std::string& path);

// What its file says for an account, which speaks of the executable. Fails where it was left out.
Expected<AccountRecord> account_record(const aot::LoadedModel& loaded, const std::string& path);

// Whether the plan for these sizes has the fusions that are required. Nothing is read if none are.
Status check_requirements(const aot::LoadedModel& loaded, const ModelOptions& options,
                          const Bindings& sizes);

}  // namespace opweld::cli
