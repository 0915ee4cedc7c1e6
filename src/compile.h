// The script of the compiler: a graph goes in, an executable comes out.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/plan.h"
#include "graph/graph.h"
#include "runtime/executable.h"
#include "support/expected.h"

namespace opweld {

struct CompileOptions {
  FusionLevel level = FusionLevel::Auto;
  int threads = 0;  // 0: one for each core of the target
  std::string target = "host";
  // Strict numerics: every intermediate is rounded as if stored and no rewrite changes a value, so
  // that a fused result is bit-identical to the unfused one.
  bool strict = false;
  bool verify_passes = false;  // run the verifier after every pass
  // Keep the weights in the executable's graph beside the packed ones, so that it can be evaluated.
  bool keep_constants = false;

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

struct Compiled {
  Executable executable;
  std::vector<PassTime> times;
  // Kernels that are calls because no schedule served them, with the reason.
  std::vector<std::string> notes;

  [[nodiscard]] double seconds() const;
};

// The graph is taken apart; clone it to keep it.
Expected<Compiled> compile(Graph graph, const CompileOptions& options = {});

// The names that dump_after may take, in order.
std::vector<std::string_view> pass_names();

}  // namespace opweld
