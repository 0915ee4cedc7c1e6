// opweld report: a page with what was fused, what was not and why, and what each kernel costs.
#include <memory>

#include "commands.h"
#include "model_options.h"

namespace opweld::cli {

Command add_report(CLI::App& app) {
  auto arguments = std::make_shared<ReportArguments>();
  add_model_options(app, arguments->model);
  add_input_options(app, arguments->inputs);
  app.add_option("-o,--output", arguments->output, "The page to write")->capture_default_str();
  app.add_flag("--no-measure", arguments->no_measure,
               "Run nothing: the page has no times and no roofline");
  app.add_option("--repeats", arguments->repeats, "Timed runs, of which the median is shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  return handed_over(arguments, &CompilingHalf::report);
}

}  // namespace opweld::cli
