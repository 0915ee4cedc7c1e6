// opweld verify: fused against unfused against the reference in f64.
#include <memory>

#include "commands.h"
#include "model_options.h"

namespace opweld::cli {

Command add_verify(CLI::App& app) {
  auto arguments = std::make_shared<VerifyArguments>();
  add_model_options(app, arguments->model);
  add_input_options(app, arguments->inputs);
  return handed_over(arguments, &CompilingHalf::verify);
}

}  // namespace opweld::cli
