// A second start: plans and code come from the cache, and nothing else is different.
#include "compile_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compile.h"
#include "ops/builder.h"
#include "report/account.h"
#include "temporary_folder.h"
#include "tile/group_runner.h"

namespace opweld::testing {
namespace {

namespace fs = std::filesystem;

// Two equal layers, so that kernels are shared; a norm, matmuls, a softmax; a size that is free.
std::string model(const char* shift = "0.5", int seed = 1) {
  std::string text = "graph g(%x: f32[n, 24]) {\n";
  std::string last = "x";
  for (const char* layer : {"a", "b"}) {
    text += fmt::format(R"(
      %w{0} = constant {{value = f32[24, 90] random {3}}}
      %v{0} = constant {{value = f32[90, 24] random 2}}
      %g{0} = constant {{value = f32[24] splat {2}}}
      %n{0} = rms_norm(%{1}, %g{0}) {{axis = -1, epsilon = 1e-05}}
      %m{0} = matmul(%n{0}, %w{0})
      %s{0} = silu(%m{0})
      %d{0} = matmul(%s{0}, %v{0})
      %r{0} = add(%d{0}, %{1})
      %p{0} = softmax(%r{0}) {{axis = -1}}
    )",
                        layer, last, shift, seed);
    last = fmt::format("p{}", layer);
  }
  return text + fmt::format("return %{} as \"y\"\n}}", last);
}

struct Outcome {
  Compiled::Found found;
  std::string account;
  std::vector<Tensor> results;
};

Outcome run(const std::string& text, const std::shared_ptr<DiskCache>& cache,
            CompileOptions options = {}) {
  options.kept = cache;
  options.threads = 2;
  auto compiled = compile(parse_graph(text).value(), options);
  EXPECT_TRUE(compiled) << compiled.error().message;
  Outcome outcome;
  if (!compiled) return outcome;
  outcome.found = compiled->found;
  Executable& executable = compiled->executable;
  for (const std::int64_t rows : {3, 300}) {
    const Bindings sizes = {{"n", rows}};
    outcome.account +=
        explain_json(executable.plan(sizes), sizes, executable.launches(sizes, false).value())
            .value();
    const std::vector<Tensor> inputs = {random_tensor({DType::F32, {}}, {rows, 24}, 7)};
    outcome.results.push_back(executable.run(inputs).value().front());
  }
  return outcome;
}

void expect_same(const Outcome& first, const Outcome& second) {
  EXPECT_EQ(first.account, second.account);
  ASSERT_EQ(first.results.size(), second.results.size());
  for (std::size_t i = 0; i < first.results.size(); ++i) {
    EXPECT_TRUE(identical(first.results[i], second.results[i]));
  }
}

TEST(CompileCache, ASecondCompilationPlansAndGeneratesNothing) {
  const TemporaryFolder folder;
  const Outcome without = run(model(), nullptr);
  const Outcome first = run(model(), std::make_shared<DiskCache>(folder.path(), "1"));
  EXPECT_FALSE(first.found.plan);
  EXPECT_EQ(first.found.functions, 0);
  EXPECT_GT(first.found.all_functions, 0);
  const Outcome second = run(model(), std::make_shared<DiskCache>(folder.path(), "1"));
  EXPECT_TRUE(second.found.plan);
  EXPECT_EQ(second.found.functions, second.found.all_functions);
  EXPECT_EQ(second.found.all_functions, first.found.all_functions);
  expect_same(without, first);
  expect_same(first, second);
}

TEST(CompileCache, WhatDiffersIsCompiledByItself) {
  const TemporaryFolder folder;
  const auto cache = std::make_shared<DiskCache>(folder.path(), "1");
  run(model(), cache);
  CompileOptions none;
  none.level = FusionLevel::None;
  EXPECT_FALSE(run(model(), cache, none).found.plan);
  CompileOptions strict;
  strict.strict = true;
  EXPECT_FALSE(run(model(), cache, strict).found.plan);
  CompileOptions generic;
  generic.target = "host-generic";
  const Outcome narrow = run(model(), cache, generic);
  EXPECT_FALSE(narrow.found.plan);
  EXPECT_EQ(narrow.found.functions, 0) << "code of another target";
  expect_same(run(model(), nullptr, generic), narrow);
  EXPECT_EQ(run(model(), std::make_shared<DiskCache>(folder.path(), "2")).found.functions, 0);
}

// Weights of the same shapes but other values, of which some are written into the code.
TEST(CompileCache, OtherWeightsGiveOtherResults) {
  const TemporaryFolder folder;
  const auto cache = std::make_shared<DiskCache>(folder.path(), "1");
  const Outcome first = run(model("0.5"), cache);
  const Outcome other = run(model("2"), cache);
  expect_same(run(model("2"), nullptr), other);
  EXPECT_FALSE(identical(first.results[0], other.results[0]));
}

// As when a user writes into them, or trains the model on.
TEST(CompileCache, APlanIsForWeightsOfAnyNumbers) {
  const TemporaryFolder folder;
  const auto cache = std::make_shared<DiskCache>(folder.path(), "1");
  const Outcome first = run(model("0.5", 1), cache);
  const Outcome other = run(model("0.5", 3), cache);
  EXPECT_TRUE(other.found.plan);
  EXPECT_EQ(other.found.functions, other.found.all_functions);
  expect_same(run(model("0.5", 3), nullptr), other);
  EXPECT_FALSE(identical(first.results[0], other.results[0]));
}

TEST(CompileCache, DamagedEntriesAreMadeAnew) {
  const TemporaryFolder folder;
  const auto cache = std::make_shared<DiskCache>(folder.path(), "1");
  const Outcome first = run(model(), cache);
  int entries = 0;
  for (const auto& each : fs::recursive_directory_iterator(folder.path())) {
    if (!each.is_regular_file()) continue;
    if (++entries % 2 == 0)
      fs::resize_file(each.path(), each.file_size() / 2);
    else
      std::ofstream(each.path()) << "not ours";
  }
  EXPECT_GT(entries, 2);
  const Outcome second = run(model(), cache);
  EXPECT_FALSE(second.found.plan);
  EXPECT_EQ(second.found.functions, 0);
  expect_same(first, second);
  EXPECT_TRUE(run(model(), cache).found.plan);
}

TEST(CompileCache, LiesInTheCacheFolderUnlessTheEnvironmentSaysNo) {
  const TemporaryFolder folder;
  setenv("OPWELD_CACHE_DIR", folder.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  setenv("OPWELD_COMPILED", "0", 1);                     // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(compile_cache(), nullptr);
  unsetenv("OPWELD_COMPILED");  // NOLINT(concurrency-mt-unsafe)
  const auto cache = compile_cache();
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(cache->folder(), folder.path() + "/compiled");
  unsetenv("OPWELD_CACHE_DIR");  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace opweld::testing
