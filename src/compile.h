// The script of the compiler: a graph goes in, an executable comes out.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/plan.h"
#include "graph/graph.h"
#include "rewrite/history.h"
#include "runtime/executable.h"
#include "support/disk_cache.h"
#include "support/expected.h"
#include "target/target.h"
#include "tune/tuning.h"

namespace opweld {

struct CompileOptions {
  FusionLevel level = FusionLevel::Auto;
  int threads = 0;  // 0: one for each core of the target
  std::string target = "host";
  // Strict numerics: every intermediate is rounded as if stored and no rewrite changes a value, so
  // that a fused result is bit-identical to the unfused one.
  bool strict = false;
  RuleSet rules = RuleSet::Full;
  // Nothing is welded into kernels of these schedules.
  std::vector<KernelKind> without;
  // Weld an attention to the projection behind it: a kernel less, and its result moved nowhere, for
  // tasks that are fewer and less equal.
  bool attention_chains = false;
  // Weld chains however few rows their tasks have, whether or not that pays.
  bool chains_of_any_rows = false;
  bool verify_passes = false;  // run the verifier after every pass
  // Keep the weights in the executable's graph beside the packed ones, so that it can be evaluated.
  bool keep_constants = false;
  // Keep the object files of the kernels beside their code, for a file of the compiled model.
  bool keep_objects = false;
  // Keep a history of the rewrites, by which operators of the model are found again that became
  // parts of others.
  bool history = false;
  // What was measured on this machine, for kernels to take their block sizes from; null: these
  // follow from the target alone. Entries that a kernel does not offer count for nothing.
  std::shared_ptr<const Tuning> tuning;
  // Where plans and machine code of earlier compilations are looked for, and kept; may be null.
  std::shared_ptr<DiskCache> kept;

  // Called as each pass begins, with its name; for progress on a terminal. May be empty.
  std::function<void(std::string_view pass)> progress;
  // Called after the pass named `dump_after` with its result as text. May be empty.
  std::string dump_after;
  std::function<void(std::string_view pass, const std::string& text)> dump;
};

struct PassTime {
  std::string pass;
  double seconds;
};

// A kernel whose block sizes could be others.
struct TunableKernel {
  std::size_t version = 0;  // of the executable
  int kernel = 0;           // index into the kernels of that version
  std::string name;         // its class
  tile::BlockingChoices choices;
  TunedChoice used;  // the default, unless a better one was measured
};

struct Compiled {
  Executable executable;
  std::vector<PassTime> times;
  std::vector<TunableKernel> tunable;
  // Kernels that are calls because no schedule served them, with the reason, and caches that are
  // copied although they need not be.
  std::vector<std::string> notes;
  std::optional<History> history;  // where it was asked for
  // What `kept` had already.
  struct Found {
    bool plan = false;
    int functions = 0;  // of all_functions, which were not made anew
    int all_functions = 0;
  };
  Found found;
  std::vector<std::string> features;  // that the code may use, by LLVM's names

  [[nodiscard]] double seconds() const;
  // "Tuning: FusedKernel_3 (matmul + gelu): panels 4, 7.2 % faster than the default at s = 128",
  // for each kernel of the version that has other block sizes than the default's.
  [[nodiscard]] std::vector<std::string> tuning_log(std::size_t version) const;
};

// What is known before there is code: for what is asked of a plan alone, and for hardware that is
// not here.
struct Planned {
  Graph graph;                        // what the plans speak of
  std::vector<PlanVersion> versions;  // as Executable::create takes them, without code
  Target target;
  int threads = 1;
  std::vector<PassTime> times;
  std::vector<TunableKernel> tunable;
  std::vector<std::string> notes;
  std::optional<History> history;  // where it was asked for

  // As Executable::version_for.
  [[nodiscard]] std::size_t version_for(const Bindings& bindings) const;
};

// See Compiled::tuning_log.
std::vector<std::string> tuning_lines(const FusionPlan& plan, std::size_t version,
                                      std::span<const TunableKernel> tunable);

// All of the below but code and what is packed for it, for any target. The graph is taken apart.
Expected<Planned> plan_graph(Graph graph, const CompileOptions& options = {});

// The graph is taken apart; clone it to keep it. A target that is not here is a usage error.
Expected<Compiled> compile(Graph graph, const CompileOptions& options = {});

// The names that dump_after may take, in order.
std::vector<std::string_view> pass_names();

}  // namespace opweld
