// opweld compile: a model compiled ahead of time, as a file that runs without the compiler.
#include <memory>

#include "commands.h"
#include "model_options.h"

namespace opweld::cli {

Command add_compile(CLI::App& app) {
  auto arguments = std::make_shared<CompileArguments>();
  app.footer(
      "One file holds the code, the weights as kernels read them, the plan and the account of it.\n"
      "Who runs it needs neither the compiler nor the model:\n\n"
      "  opweld compile model.onnx -o model.opw\n"
      "  opweld run model.opw --dim sequence=128       any lengths, from the one file\n"
      "  opweld compile model.onnx -o model.opw --target host-avx2 --threads 8\n\n"
      "--dim says for which sizes the account is written; it binds nothing. Programs in C run a "
      "file\nby opweld/runtime.h. A file holds machine code: trust it as you trust a program.");
  add_model_options(app, arguments->model);
  app.add_option("-o,--output", arguments->output, "The file to write, NAME.opw")->required();
  app.add_flag("--no-account", arguments->no_account,
               "Leave out what explain tells of the file: names of the model's operators, mostly");
  return handed_over(arguments, &CompilingHalf::compile);
}

}  // namespace opweld::cli
