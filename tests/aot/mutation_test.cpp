// Damaged files are told apart, and files made to be wrong never crash the reader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "aot/container.h"
#include "aot/model_file.h"
#include "aot/written_model.h"

namespace opweld::testing {
namespace {

std::string small_model() {
  return R"(graph g(%x: f32[n, 6]) {
    %c = constant {value = f32[6, 5] random 1}
    %i = constant {value = i64[2] {1, 0}}
    %y = matmul(%x, %c)
    %v, %k = top_k(%y) {axis = 1, k = <2>}
    %s = softmax(%v) {axis = 1}
    return %s as "s", %k as "k", %i as "i" })";
}

bool loads(std::string_view bytes, aot::LoadOptions options) {
  options.threads = 1;
  options.check_processor = false;
  return aot::read_model(aligned_copy(bytes), options).has_value();
}

TEST(DamagedFiles, AreFoundByTheirDigests) {
  const std::string file = WrittenModel(small_model()).bytes();
  aot::LoadOptions options;
  options.check_weights = true;
  ASSERT_TRUE(loads(file, options));
  // Every byte but those between sections, which nobody reads.
  const auto sections = aot::read_sections(std::as_bytes(std::span(file))).value();
  std::vector<std::size_t> places;
  constexpr std::size_t kHead = 64 + 56 * aot::kSections;
  for (std::size_t at = 0; at < kHead; ++at) places.push_back(at);
  std::mt19937 random(1);
  for (std::size_t i = 0; i < aot::kSections; ++i) {
    const auto bytes = sections.bytes(static_cast<aot::Section>(i));
    const auto begin =
        static_cast<std::size_t>(bytes.data() - reinterpret_cast<const std::byte*>(file.data()));
    for (int j = 0; j < 40 && !bytes.empty(); ++j)
      places.push_back(begin + random() % bytes.size());
  }
  for (const std::size_t at : places) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    EXPECT_FALSE(loads(changed, options)) << "byte " << at;
  }
  for (std::size_t cut = 0; cut < file.size(); cut += 509) {
    EXPECT_FALSE(loads(std::string_view(file).substr(0, cut), options)) << "cut at " << cut;
  }
  EXPECT_FALSE(loads(file + "x", options));
}

// With digests left aside, so that what comes behind them is reached; of the text sections too, so
// that changes make sense more often.
TEST(HostileFiles, AreModelsOrErrors) {
  const std::string file = WrittenModel(small_model()).bytes();
  aot::LoadOptions options;
  options.check_digests = false;
  const auto sections = aot::read_sections(std::as_bytes(std::span(file))).value();
  std::mt19937 random(7);
  int loaded = 0;
  constexpr int kTries = 4000;
  constexpr std::string_view kTelling = "0123456789-,[]{}\":%nf";
  for (int i = 0; i < kTries; ++i) {
    std::string changed = file;
    const auto section = static_cast<aot::Section>(random() % 3);
    const auto bytes = sections.bytes(section);
    const auto begin =
        static_cast<std::size_t>(bytes.data() - reinterpret_cast<const std::byte*>(file.data()));
    for (int j = 0; j <= i % 3; ++j) {
      if (i % 5 == 0) {
        changed[random() % 512] = static_cast<char>(random());
      } else {
        changed[begin + random() % bytes.size()] = kTelling[random() % kTelling.size()];
      }
    }
    loaded += loads(changed, options) ? 1 : 0;
  }
  EXPECT_GT(loaded, 0);
  EXPECT_LT(loaded, kTries);
}

}  // namespace
}  // namespace opweld::testing
