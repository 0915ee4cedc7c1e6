#include "model_options.h"

#include "target/planned.h"

namespace opweld::cli {

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("model", options.model,
                  "ONNX file, or a graph in its textual form (.graph); for run, bench and "
                  "explain also what compile wrote (.opw)")
      ->required();
  add_plugin_option(command, options.plugins);
  command.add_option("--dim", options.dims,
                     "Size of a free dimension, as NAME=SIZE; may be repeated. Others: 1 for a "
                     "batch, else 128");
  command.add_option("--in-place", options.in_place,
                     "OUTPUT=INPUT: the output takes over the memory of the input, as a KV cache "
                     "does; repeatable. It must be what a TensorScatter writes into that input");
  command
      .add_option("--fusion", options.fusion,
                  "none: a kernel for each operator; ops: matmuls, attentions and norms, each "
                  "with what stands before and behind it, as an operator library has them; auto: "
                  "and whatever neighbours are worth a kernel together")
      ->check(CLI::IsMember({"none", "ops", "auto"}))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "Threads to run on; 0 for one a core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option("--target", options.target,
                  "Hardware to compile for: host, host-amx, host-avx512, host-avx2, host-generic. "
                  "For hardware that is not here, " +
                      planned_names() + ", explain plans and counts")
      ->capture_default_str();
  command
      .add_option("--numerics", options.numerics,
                  "strict: intermediates are rounded as if stored, and fused results are "
                  "bit-identical to unfused ones")
      ->check(CLI::IsMember({"default", "strict"}))
      ->capture_default_str();
  command
      .add_option("--without", options.without,
                  "Schedules that nothing is welded into, separated by commas, such as chain: to "
                  "see what they gain")
      ->delimiter(',')
      ->check(CLI::IsMember({"map", "row", "reduce", "contract", "chain", "attention"}));
  command.add_flag("--single-launch", options.single_launch,
                   "Hand all kernels to the threads at once; they wait for each other only where a "
                   "kernel reads what another wrote. For small batches; results stay the same");
  command
      .add_option_function<std::string>(
          "--rules",
          [&options](const std::string& name) { options.linear_rules = name == "linear"; },
          "Which rules decide what may share a kernel: full, or linear for the classic ones alone, "
          "which fuse a value only with its one reader")
      ->check(CLI::IsMember({"full", "linear"}))
      ->default_str("full");
  command.add_flag("--attention-chains", options.attention_chains,
                   "Weld attention to the projection behind it where queries are many enough: a "
                   "kernel less and fewer bytes, but less to share out among threads");
  command.add_flag("--chains-of-any-rows", options.chains_of_any_rows,
                   "Weld matmuls one behind the other also where each thread has too few rows for "
                   "that to pay: to see what it would cost");
  command.add_option("--dump-after", options.dump_after,
                     "Print the result of a pass to standard error: graph, plan, tile programs or "
                     "assembly");
  CLI::Option* const tune =
      command.add_flag("--tune", options.tune,
                       "First measure block sizes for the kernels that have a choice, at the sizes "
                       "of this call, and "
                       "keep what is faster for all later ones; progress on standard error");
  command
      .add_option("--tune-seconds", options.tune_seconds,
                  "With --tune: measure for so long at most; repeat to go on")
      ->needs(tune)
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command.add_flag("--no-tuned", options.no_tuned,
                   "Leave what was measured before aside: block sizes follow from the hardware's "
                   "description alone");
  command.add_flag("--no-cache", options.no_cache,
                   "Plan and generate code anew, whatever earlier runs have left of both in the "
                   "cache folder, and leave nothing there");
  command
      .add_option(
          "--require", options.require,
          "Fail, and name the rule in the way, unless a kernel fuses this: operators in "
          "their order, as the log writes them ('MatMul + Add + Gelu'), or nodes by their "
          "names. '6 x MatMul + Gelu' wants six such kernels, 'MatMul + Gelu [layers.0]' one "
          "of that layer. Repeatable")
      ->allow_extra_args(false);
  command.add_flag("--json", options.json, "Print JSON for scripts");
}

void add_input_options(CLI::App& command, InputOptions& options) {
  command.add_option("--input", options.inputs,
                     "NAME=FILE (.npy or .pb), or one .npz with all; repeatable. Inputs not given "
                     "are random");
  command.add_option("--seed", options.seed, "Seed of random inputs")->capture_default_str();
}

void add_plugin_option(CLI::App& command, std::vector<std::string>& plugins) {
  command
      .add_option("--plugin", plugins,
                  "A shared library with custom operators (opweld/custom_op.h); repeatable. Its "
                  "code is run: load none that you do not trust")
      ->allow_extra_args(false);
}

void add_trace_option(CLI::App& command, std::string& file) {
  command.add_option(
      "--trace", file,
      "Write a time line of one run to this file, launches and each thread's part of "
      "every kernel, for chrome://tracing or Perfetto");
}

}  // namespace opweld::cli
