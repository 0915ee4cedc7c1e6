#include "both/run_once.h"

#include <algorithm>
#include <string>
#include <utility>

#include "both/inputs.h"
#include "both/trace_file.h"
#include "ops/reference.h"

namespace opweld::cli {

namespace {

// "hidden: f32 [1, 128, 384], from -1.2 to 3.4, first 0.1 0.2 0.3"
std::string summary(const std::string& name, const Tensor& tensor) {
  std::string text =
      fmt::format("{}: {} {}", name, to_string(tensor.dtype()), to_string(tensor.sizes()));
  if (tensor.num_elements() == 0) return text + ", empty";
  double least = tensor.get_double(0);
  double greatest = least;
  for (std::int64_t i = 1; i < tensor.num_elements(); ++i) {
    least = std::min(least, tensor.get_double(i));
    greatest = std::max(greatest, tensor.get_double(i));
  }
  text += fmt::format(", from {:.6g} to {:.6g}, first", least, greatest);
  constexpr std::int64_t kShown = 6;
  for (std::int64_t i = 0; i < std::min(kShown, tensor.num_elements()); ++i) {
    text += fmt::format(" {:.6g}", tensor.get_double(i));
  }
  return text;
}

}  // namespace

Status run_once(Executable& executable, const std::vector<Tensor>& tensors,
                const RunArguments& arguments) {
  RunOptions options = run_options(arguments.model);
  options.trace = !arguments.trace.empty();
  RunStats stats;
  OPWELD_TRY(std::vector<Tensor> outputs, executable.run(tensors, &stats, options));
  if (options.trace) {
    OPWELD_TRY(const Bindings sizes, bind_symbols(executable.graph(), tensors));
    OPWELD_CHECK(write_trace(arguments.trace, executable, sizes, stats));
  }
  const NamedTensors named = named_outputs(executable.graph(), std::move(outputs));
  if (!arguments.output.empty()) return write_npz(arguments.output, named);
  for (const auto& [name, tensor] : named) fmt::print("{}\n", summary(name, tensor));
  return {};
}

}  // namespace opweld::cli
