// Models written as text, compiled, written to a file and read again.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "aot/model_file.h"
#include "compile.h"
#include "runtime/compiled.h"
#include "support/memory_block.h"
#include "temporary_folder.h"

namespace opweld::testing {

// Three kinds of kernel over a size that is free, two equal layers.
inline std::string layers_text() {
  std::string text = "graph g(%x: f32[n, 24]) {\n";
  std::string last = "x";
  for (const char* layer : {"a", "b"}) {
    text += fmt::format(R"(
      %w{0} = constant {{value = f32[24, 90] random 1}}
      %v{0} = constant {{value = f32[90, 24] random 2}}
      %g{0} = constant {{value = f32[24] random 3}}
      %n{0} = rms_norm(%{1}, %g{0}) {{axis = -1, epsilon = 1e-05}}
      %m{0} = matmul(%n{0}, %w{0})
      %s{0} = silu(%m{0})
      %d{0} = matmul(%s{0}, %v{0})
      %r{0} = add(%d{0}, %{1})
      %p{0} = softmax(%r{0}) {{axis = -1}}
    )",
                        layer, last);
    last = fmt::format("p{}", layer);
  }
  return text + fmt::format("return %{} as \"y\", %na as \"norm\"\n}}", last);
}

class WrittenModel {
 public:
  explicit WrittenModel(const std::string& text, CompileOptions options = {},
                        const std::string& account = "{}")
      : path_(folder_.path() + "/model.opw") {
    options.keep_objects = true;
    if (options.threads == 0) options.threads = 2;
    auto made = compile(parse_graph(text).value(), options);
    EXPECT_TRUE(made) << made.error().message;
    compiled_ = std::make_unique<Compiled>(std::move(*made));
    const aot::Origin origin{"test", options.target, compiled_->features,
                             "auto", options.strict, 2};
    const Status written = aot::write_model(path_, compiled_->executable, origin, account, "[]");
    EXPECT_TRUE(written) << written.error().message;
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Executable& original() { return compiled_->executable; }

  [[nodiscard]] aot::LoadedModel load(int threads = 2) const {
    aot::LoadOptions options;
    options.threads = threads;
    options.check_weights = true;
    auto loaded = aot::load_model_file(path_, options);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return std::move(*loaded);
  }

  [[nodiscard]] std::string bytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
  std::unique_ptr<Compiled> compiled_;
};

// In memory as a mapping would be.
inline SharedBytes aligned_copy(std::string_view bytes) {
  const std::shared_ptr<std::byte> block = allocate_block(bytes.size() + 1);
  if (!bytes.empty()) std::memcpy(block.get(), bytes.data(), bytes.size());
  return {{block.get(), bytes.size()}, block};
}

}  // namespace opweld::testing
