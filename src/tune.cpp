#include "tune.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "ops/reference.h"
#include "runtime/compare.h"
#include "support/cache_folder.h"
#include "tune/kernel_trial.h"

namespace opweld {

namespace {

// Faster by less is as well noise: then the default stays.
constexpr double kMargin = 0.03;
constexpr int kTurns = 7;
constexpr int kTurnsToConfirm = 15;

struct KernelClass {
  const TunableKernel* first = nullptr;
  KernelTrial::Subject subject;
  double seconds = 0;  // of all its kernels in a run of the model
};

// "batch = 1, sequence = 128"
std::string text_of(const Bindings& sizes) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : sizes) parts.push_back(fmt::format("{} = {}", name, size));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::int64_t bytes_of_constants(const Kernel& kernel) {
  std::int64_t bytes = 0;
  for (const Value* constant : kernel.constants) {
    bytes += constant->type().num_bytes().constant().value_or(0);
  }
  return bytes;
}

bool same_results(std::span<const Tensor> actual, std::span<const Tensor> expected,
                  bool may_round) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const Tolerance tolerance = default_tolerance(actual[i].dtype());
    const auto bytes = static_cast<std::size_t>(actual[i].num_bytes());
    const bool same =
        may_round ? compare_strictly(actual[i], expected[i], tolerance).equal
                  : bytes == 0 || std::memcmp(actual[i].data(), expected[i].data(), bytes) == 0;
    if (!same) return false;
  }
  return true;
}

class Tuner {
 public:
  Tuner(const CompileOptions& options, const TuneOptions& tuning, Target target)
      : options_(options), tuning_(tuning), target_(std::move(target)) {
    if (options.tuning != nullptr) known_ = *options.tuning;
  }

  Expected<Tuning> run(const Graph& graph, std::span<const Tensor> inputs) {
    CompileOptions plain = options_;
    plain.tuning = nullptr;
    plain.keep_constants = true;
    plain.dump_after.clear();
    OPWELD_TRY(Compiled compiled, compile(graph.clone(), plain));
    scheduled_ = on_threads(target_, compiled.executable.threads());
    OPWELD_TRY(sizes_, bind_symbols(compiled.executable.graph(), inputs));
    OPWELD_CHECK(find_classes(compiled, inputs));
    deadline_ = now() + tuning_.seconds;
    std::size_t number = 0;
    for (const KernelClass& each : classes_) {
      const std::string name =
          fmt::format("tuning {} of {}, {:.0f} % of a run: {}", ++number, classes_.size(),
                      100 * each.seconds / total_seconds_, each.first->name);
      OPWELD_TRY(const std::string outcome, measure(each, compiled.executable.threads()));
      say(name + ": " + outcome);
    }
    return std::move(known_);
  }

 private:
  // The classes, what their kernels read in a run, and how long they take.
  Status find_classes(Compiled& compiled, std::span<const Tensor> inputs) {
    // Only what runs at these sizes can be measured.
    const std::size_t version = compiled.executable.version_for(sizes_);
    std::erase_if(compiled.tunable, [&](const auto& each) { return each.version != version; });
    const FusionPlan& plan = compiled.executable.versions()[version].plan;
    std::map<std::string, std::size_t> found;
    std::map<const Kernel*, std::size_t> seen_by;  // first kernels
    for (const TunableKernel& tunable : compiled.tunable) {
      const Kernel& kernel = plan.kernels[static_cast<std::size_t>(tunable.kernel)];
      const auto [at, is_new] = found.emplace(tunable.name, classes_.size());
      if (is_new) {
        seen_by.emplace(&kernel, classes_.size());
        classes_.push_back({&tunable, {{}, {}, compiled.executable.graph().symbols(), sizes_}, 0});
      }
      if (equal_programs(compiled, *classes_[at->second].first, tunable)) {
        classes_[at->second].subject.kernels.push_back(&kernel);
      }
    }
    RunOptions observing;
    observing.observer = [&](const Kernel& kernel, std::span<const Tensor> read,
                             std::span<const Tensor>) -> Status {
      const auto at = seen_by.find(&kernel);
      if (at != seen_by.end()) {
        classes_[at->second].subject.inputs.assign(read.begin(), read.end());
      }
      return {};
    };
    OPWELD_CHECK(compiled.executable.run(inputs, nullptr, observing));
    RunOptions profiling;
    profiling.profile = true;
    RunStats stats;
    OPWELD_CHECK(compiled.executable.run(inputs, &stats, profiling));
    for (const KernelStats& kernel : stats.by_kernel) total_seconds_ += kernel.seconds;
    for (const TunableKernel& tunable : compiled.tunable) {
      classes_[found.at(tunable.name)].seconds +=
          stats.by_kernel[static_cast<std::size_t>(tunable.kernel)].seconds;
    }
    std::ranges::stable_sort(classes_, std::ranges::greater(), &KernelClass::seconds);
    return {};
  }

  static bool equal_programs(const Compiled& compiled, const TunableKernel& a,
                             const TunableKernel& b) {
    const auto text = [&](const TunableKernel& tunable) {
      const auto index = static_cast<std::size_t>(tunable.kernel);
      const PlanVersion& version = compiled.executable.versions()[tunable.version];
      return to_text(*version.kernels[index].program);
    };
    return a.kernel == b.kernel || text(a) == text(b);
  }

  // As many kernels as it takes for none to find its weights in the last cache, if there are so
  // many, and no more than a run of the trial should take.
  KernelTrial::Subject chosen(const KernelClass& each) const {
    constexpr double kMostSeconds = 20e-3;
    KernelTrial::Subject subject = each.subject;
    const auto count = static_cast<double>(subject.kernels.size());
    const auto weights = static_cast<double>(bytes_of_constants(*subject.kernels.front()));
    const double filling = weights > 0 ? static_cast<double>(target_.l3_bytes) / weights + 1 : 1;
    const double fitting = kMostSeconds * count / std::max(each.seconds, 1e-9);
    const double most = std::clamp(std::min(filling, fitting), 1.0, count);
    subject.kernels.resize(static_cast<std::size_t>(most));
    return subject;
  }

  // What became of the class, in words.
  Expected<std::string> measure(const KernelClass& each, int threads) {
    const std::string sizes = text_of(sizes_);
    const auto known = known_.find(each.first->name);
    if (known != known_.end() && known->second.sizes == sizes) {
      return fmt::format("{}, as measured before", to_text(known->second.blocking));
    }
    const KernelTrial::Subject subject = chosen(each);
    OPWELD_TRY(KernelTrial usual, KernelTrial::create(subject, lowering({}), threads));
    OPWELD_CHECK(usual.run());
    std::vector<std::string> programs = {usual.program()};
    tile::Blocking best;
    double best_ratio = 1;
    for (const tile::Blocking& blocking : each.first->choices.candidates) {
      if (now() > deadline_) return out_of_time();
      OPWELD_TRY(KernelTrial other, KernelTrial::create(subject, lowering(blocking), threads));
      std::string program = other.program();
      if (std::ranges::find(programs, program) != programs.end()) continue;
      programs.push_back(std::move(program));
      OPWELD_CHECK(other.run());
      if (!same_results(other.outputs(), usual.outputs(), blocking.reorders())) {
        say(fmt::format("  {}: results differ from the default's, left out", to_text(blocking)));
        continue;
      }
      OPWELD_TRY(const auto ratio, race(usual, other, {kTurns, deadline_}));
      if (!ratio) return out_of_time();
      if (*ratio >= best_ratio) continue;
      best_ratio = *ratio;
      best = blocking;
    }
    TunedChoice choice{{}, 0, sizes};
    if (best_ratio <= 1 - kMargin) {
      OPWELD_TRY(KernelTrial other, KernelTrial::create(subject, lowering(best), threads));
      OPWELD_TRY(const auto ratio, race(usual, other, {kTurnsToConfirm, deadline_}));
      if (!ratio) return out_of_time();
      if (*ratio <= 1 - kMargin) choice = {best, 1 - *ratio, sizes};
    }
    known_[each.first->name] = choice;
    if (!tuning_.folder.empty()) {
      OPWELD_CHECK(
          store_tuning(tuning_.folder, machine_key(target_), {{each.first->name, choice}}));
    }
    if (choice.blocking.is_default()) {
      return fmt::format("the default is best of {}", programs.size());
    }
    return fmt::format("{}, {:.1f} % faster than the default", to_text(choice.blocking),
                       choice.gain * 100);
  }

  void say(const std::string& line) const {
    if (tuning_.progress) tuning_.progress(line);
  }

  static std::string out_of_time() { return "the default for now, since time is up"; }

  tile::LowerOptions lowering(const tile::Blocking& blocking) const {
    return {&scheduled_, options_.strict, blocking};
  }

  const CompileOptions& options_;
  const TuneOptions& tuning_;
  Target target_;
  Target scheduled_;  // what kernels are lowered for
  Bindings sizes_;
  Tuning known_;
  std::vector<KernelClass> classes_;
  double total_seconds_ = 0;
  double deadline_ = 0;
};

}  // namespace

std::shared_ptr<const Tuning> stored_tuning(std::string_view target_name) {
  const char* const use = std::getenv("OPWELD_TUNED");  // NOLINT(concurrency-mt-unsafe)
  if (use != nullptr && std::string_view(use) == "0") return nullptr;
  const auto target = find_target(target_name);
  if (!target) return nullptr;
  return std::make_shared<const Tuning>(load_tuning(cache_folder(), machine_key(*target)));
}

Expected<Tuning> tune(const Graph& graph, const CompileOptions& options,
                      std::span<const Tensor> inputs, const TuneOptions& tuning) {
  OPWELD_TRY(Target target, find_target(options.target));
  return Tuner(options, tuning, std::move(target)).run(graph, inputs);
}

}  // namespace opweld
